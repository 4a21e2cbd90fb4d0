"""The bridge between tokio and asyncio, through the probe that its benchmark uses too."""

import asyncio
import contextvars
import gc
import random
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop
from toolrelay._core import _bridge_probe, _bridge_probes_alive

AT_ONCE = 2.0
"""Seconds. What is done at once takes a small part of it."""

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


class LoopWithoutReaders(asyncio.SelectorEventLoop):
    """A loop that watches no descriptors of others, as on Windows."""

    def add_reader(self, fd: Any, callback: Any, *args: Any) -> None:
        raise NotImplementedError


@pytest.fixture(
    params=[asyncio.SelectorEventLoop, uvloop.new_event_loop, LoopWithoutReaders],
    ids=["asyncio", "uvloop", "without-readers"],
)
def loop_factory(request: pytest.FixtureRequest) -> LoopFactory:
    return request.param


@pytest.fixture(autouse=True)
def nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test leaves a Rust future behind or has an exception end up where nobody handles it."""
    lost: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lost.append)
    yield
    await_dropped()
    assert lost == []


def await_dropped(left: int = 0) -> None:
    limit = time.monotonic() + AT_ONCE
    while _bridge_probes_alive() != left and time.monotonic() < limit:
        time.sleep(0.001)
    assert _bridge_probes_alive() == left


def run_in(loop_factory: LoopFactory, main: Coroutine[Any, Any, Any]) -> Any:
    with asyncio.Runner(loop_factory=loop_factory, debug=False) as runner:
        return runner.run(main)


def await_descriptors(most: int) -> None:
    """The last one to let go of a closed loop's descriptor may be a Rust thread."""
    limit = time.monotonic() + AT_ONCE
    while open_descriptors() > most and time.monotonic() < limit:
        time.sleep(0.001)
    assert open_descriptors() <= most


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("kind", ["ready", "yield", "sleep"])
def test_the_outcome_of_a_rust_future_arrives(loop_factory: LoopFactory, kind: Any) -> None:
    async def main() -> list[float]:
        futures = [_bridge_probe(kind, number / 1e5) for number in range(1_000)]
        assert all(asyncio.isfuture(future) for future in futures)
        return await asyncio.gather(*futures)

    assert run_in(loop_factory, main()) == [number / 1e5 for number in range(1_000)]


def test_an_error_and_a_panic_are_ordinary_exceptions_and_the_process_goes_on(loop_factory: LoopFactory) -> None:
    async def main() -> float:
        with pytest.raises(ValueError, match="the probe failed"):
            await _bridge_probe("fail")
        with pytest.raises(RuntimeError, match=r"panicked.*the probe panicked"):
            await _bridge_probe("panic")
        return await _bridge_probe("ready", 2.0)

    assert run_in(loop_factory, main()) == 2.0


def test_without_a_running_loop_there_is_a_clear_error() -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        _bridge_probe("never")


def test_one_loop_after_another_works_and_leaves_no_descriptor(loop_factory: LoopFactory) -> None:
    async def main() -> float:
        return await _bridge_probe("yield", 1.0)

    assert run_in(loop_factory, main()) == 1.0
    before = open_descriptors()
    assert [run_in(loop_factory, main()) for _ in range(50)] == [1.0] * 50
    await_descriptors(before)


def test_a_loop_of_its_own_in_each_of_several_threads(loop_factory: LoopFactory) -> None:
    async def main(number: float) -> list[float]:
        return [await _bridge_probe(random.choice(["ready", "yield", "sleep"]), number / 1e4) for _ in range(200)]

    outcomes: dict[float, list[float]] = {}

    def thread(number: float) -> None:
        outcomes[number] = run_in(loop_factory, main(number))

    threads = [threading.Thread(target=thread, args=(number,)) for number in range(8)]
    for started in threads:
        started.start()
    for started in threads:
        started.join(30)
    assert outcomes == {number: [number / 1e4] * 200 for number in range(8)}


def test_a_loop_that_moves_between_threads_keeps_its_port() -> None:
    loop = asyncio.SelectorEventLoop()

    async def main() -> float:
        return await _bridge_probe("yield", 1.0)

    assert loop.run_until_complete(main()) == 1.0
    before = open_descriptors()
    outcomes: list[float] = []
    thread = threading.Thread(target=lambda: outcomes.append(loop.run_until_complete(main())))
    thread.start()
    thread.join()
    assert outcomes == [1.0]
    await_descriptors(before)
    loop.close()


def test_cancelling_the_task_drops_the_rust_future_at_once(loop_factory: LoopFactory) -> None:
    async def await_it() -> None:
        await _bridge_probe("never")

    async def main() -> None:
        task = asyncio.create_task(await_it())
        await asyncio.sleep(0.01)
        assert _bridge_probes_alive() == 1
        task.cancel("enough")
        with pytest.raises(asyncio.CancelledError):
            await task
        await_dropped()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await _bridge_probe("never")
        await_dropped()

    run_in(loop_factory, main())


def test_a_future_that_somebody_else_settles_drops_the_rust_future(loop_factory: LoopFactory) -> None:
    async def main() -> float:
        future = _bridge_probe("never")
        future.set_result(5.0)
        outcome = await future
        await asyncio.sleep(0)
        await_dropped()
        return outcome

    assert run_in(loop_factory, main()) == 5.0


def test_a_waiter_that_is_gone_is_skipped(loop_factory: LoopFactory) -> None:
    async def main() -> list[Any]:
        handled: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: handled.append(context))
        gone = [_bridge_probe("ready") for _ in range(100)]
        time.sleep(0.02)  # noqa: ASYNC251 - they have come back, and the loop has not seen it yet
        for future in gone:
            future.cancel()
        assert await _bridge_probe("ready", 3.0) == 3.0
        assert all(future.cancelled() for future in gone)
        return handled

    assert run_in(loop_factory, main()) == []


def test_closing_a_loop_drops_the_rust_futures_it_waited_for(loop_factory: LoopFactory) -> None:
    loop = loop_factory()
    descriptors = open_descriptors()

    async def main() -> list[asyncio.Future[float]]:
        futures = [_bridge_probe("never"), _bridge_probe("sleep", 0.02), _bridge_probe("ready")]
        await asyncio.sleep(0)
        return futures

    futures = loop.run_until_complete(main())
    loop.close()
    if loop_factory is LoopWithoutReaders:
        # It cannot say that it was closed: the next loop to open a port finds out.
        run_in(LoopWithoutReaders, asyncio.wait_for(probe_of(1.0), 1))
    await_dropped()
    await_descriptors(descriptors)
    del futures


async def probe_of(seconds: float) -> float:
    return await _bridge_probe("ready", seconds)


def test_a_loop_that_is_abandoned_with_work_in_flight_is_collected() -> None:
    loop = asyncio.SelectorEventLoop()

    async def main() -> None:
        asyncio.create_task(await_for_ever())  # noqa: RUF006 - abandoned on purpose
        await asyncio.sleep(0.01)

    async def await_for_ever() -> None:
        await _bridge_probe("never")

    loop.run_until_complete(main())
    loop.set_exception_handler(lambda *_: None)
    reference = weakref.ref(loop)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        del loop
        gc.collect()
    await_dropped()
    assert reference() is None


def test_nothing_holds_a_future_that_is_done(loop_factory: LoopFactory) -> None:
    async def main() -> None:
        references = []
        for kind in ("ready", "fail", "panic", "never"):
            future = _bridge_probe(kind)  # type: ignore[arg-type]
            references.append(weakref.ref(future))
            if kind == "never":
                future.cancel()
            await asyncio.wait([future])
            future.exception() if not future.cancelled() else None
            del future
        # The number of a cancelled one is free when its task has come back.
        await asyncio.sleep(0.05)
        gc.collect()
        assert [reference() for reference in references] == [None] * 4

    run_in(loop_factory, main())


def test_the_loop_does_not_keep_the_context_of_its_first_user(loop_factory: LoopFactory) -> None:
    class Request:
        pass

    variable: contextvars.ContextVar[Request] = contextvars.ContextVar("request")

    async def first() -> weakref.ref[Request]:
        variable.set(request := Request())
        await _bridge_probe("yield")
        assert variable.get() is request
        return weakref.ref(request)

    async def main() -> None:
        reference = await asyncio.create_task(first())
        await asyncio.sleep(0)
        gc.collect()
        assert reference() is None

    run_in(loop_factory, main())


def test_a_flood_does_not_starve_the_loop() -> None:
    turns = 0

    async def main() -> int:
        def turn() -> None:
            nonlocal turns
            turns += 1
            asyncio.get_running_loop().call_soon(turn)

        futures = [_bridge_probe("ready") for _ in range(20_000)]
        time.sleep(0.2)  # noqa: ASYNC251 - a flood: all have come back at once
        turn()
        await asyncio.gather(*futures)
        return turns

    assert run_in(asyncio.SelectorEventLoop, main()) > 20_000 // 256


def test_an_interrupt_between_two_outcomes_loses_neither() -> None:
    class Interrupted(asyncio.SelectorEventLoop):
        watched: asyncio.Future[float] | None = None

        def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Any:
            handle = super().call_soon(callback, *args, context=context)
            if self.watched is not None and self.watched in args:
                self.watched = None
                raise KeyboardInterrupt
            return handle

    async def start() -> asyncio.Future[float]:
        await _bridge_probe("ready")
        futures = [_bridge_probe("ready", number) for number in range(1_000)]
        for future in futures:
            future.add_done_callback(lambda future: outcomes.append(future.result()))
        return futures[900]

    async def wait() -> None:
        async with asyncio.timeout(AT_ONCE):
            while len(outcomes) < 1_000:  # noqa: ASYNC110 - an event would be one more callback to interrupt
                await asyncio.sleep(0.001)

    loop = Interrupted()
    outcomes: list[float] = []
    loop.watched = loop.run_until_complete(start())
    interrupted = loop.create_task(wait())
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(interrupted)
    loop.run_until_complete(interrupted)
    assert sorted(outcomes) == list(range(1_000))
    loop.close()


def test_cancellations_and_outcomes_at_random(loop_factory: LoopFactory) -> None:
    async def one(number: int) -> None:
        kind: Any = random.choice(["ready", "yield", "sleep", "never", "fail", "panic"])
        try:
            async with asyncio.timeout(random.choice([0, 0.001, 0.01])):
                assert await _bridge_probe(kind, number / 1e6) == number / 1e6
        except (TimeoutError, ValueError, RuntimeError):
            pass

    async def main() -> None:
        for _ in range(20):
            await asyncio.gather(*(one(number) for number in range(200)))

    run_in(loop_factory, main())
