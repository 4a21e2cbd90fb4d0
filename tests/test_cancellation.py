"""Cancelled runs: what is settled and saved before the cancellation goes on, whoever cancels (contract 9.1)."""

import asyncio
import gc
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import anyio
import pytest
from scripted_model import ScriptedModel, call, says
from scripted_server import Reply, ScriptedServer
from toolrelay import (
    Client,
    SqliteStore,
    ToolContext,
    Toolkit,
    create_client,
    create_in_process_client,
    define_tool,
    relay_tool,
)


@define_tool
async def tally() -> int:
    """Counts."""
    return 7


@pytest.fixture
def started():
    return asyncio.Event()


@pytest.fixture
def toolkit(started):
    @define_tool
    async def sleeps() -> str:
        """Never ends."""
        started.set()
        await asyncio.Event().wait()
        return "never"

    return Toolkit([tally, sleeps])


@pytest.fixture
async def client(tmp_path):
    store = SqliteStore(tmp_path / "c.db")
    yield create_in_process_client(generate=ScriptedModel(says(call("tally"), call("sleeps")), "again"), store=store)
    await store.close()


ENOUGH = 1.5
"""Seconds in which a run begins its tools on a busy machine."""


async def keep(client, toolkit, kept):
    try:
        await client.ask("go", toolkit, id="c-1")
    except asyncio.CancelledError as cancelled:
        kept.append(cancelled.transcript)
        raise


async def by_wait_for(client, toolkit, started, kept):
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(keep(client, toolkit, kept), ENOUGH)


async def by_scope(client, toolkit, started, kept):
    async with anyio.create_task_group() as group:
        group.start_soon(keep, client, toolkit, kept)
        await started.wait()
        group.cancel_scope.cancel()


async def by_deadline(client, toolkit, started, kept):
    with anyio.move_on_after(ENOUGH) as scope:
        await keep(client, toolkit, kept)
    assert scope.cancelled_caught


async def by_timeout(client, toolkit, started, kept):
    with pytest.raises(TimeoutError) as caught:
        async with asyncio.timeout(ENOUGH):
            await client.ask("go", toolkit, id="c-1")
    kept.append(caught.value.__cause__.transcript)


async def again_and_again(client, toolkit, started, kept):
    running = asyncio.create_task(keep(client, toolkit, kept))
    await started.wait()
    while not running.done():
        running.cancel()
        await asyncio.sleep(0)
    assert running.cancelled()


WAYS = [by_scope, by_deadline, by_timeout, by_wait_for, again_and_again]


@pytest.mark.parametrize("cancel", WAYS, ids=lambda way: way.__name__)
async def test_a_cancelled_run_is_settled_and_saved_when_its_caller_goes_on(client, toolkit, started, cancel):
    kept = []
    await cancel(client, toolkit, started, kept)

    conversation = await client.get("c-1")
    assert (conversation.state, kept) == ("idle", [conversation.messages])
    assert [message["content"].split(":")[0] for message in kept[0] if message["role"] == "tool"] == [
        "7",
        "interrupted",
    ]
    assert (await client.ask(None, toolkit, id="c-1")).text == "again"


class State(NamedTuple):
    """A run that somebody is in the middle of: what brings it there, and how it is known to be there."""

    client: Client
    toolkit: Toolkit
    is_there: Callable[[], bool]
    outcomes: list[str]
    """How the results begin that the transcript must have."""


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():  # noqa: ASYNC110 - it may come about in a thread
        await asyncio.sleep(0)


async def hang(request: Any) -> Any:
    await asyncio.Event().wait()


def in_a_model_call(ended):
    asked = []

    async def generate(request):
        asked.append(request)
        await asyncio.Event().wait()

    return State(create_in_process_client(generate=generate), Toolkit(), lambda: bool(asked), [])


def in_a_model_call_in_a_thread(ended):
    asked = []

    def generate(request):
        asked.append(request)
        ended.wait(5)
        return "late"

    return State(create_in_process_client(generate=generate), Toolkit(), lambda: bool(asked), [])


def in_an_async_tool(ended):
    running = []

    @define_tool
    async def sleeps() -> str:
        """Never ends."""
        running.append(True)
        await asyncio.Event().wait()
        return "never"

    client = create_in_process_client(generate=ScriptedModel(says(call("tally"), call("sleeps"))))
    return State(client, Toolkit([tally, sleeps]), lambda: bool(running), ["7", "interrupted"])


def in_a_tool_in_a_thread(ended):
    running = []

    @define_tool
    def works(context: ToolContext) -> str:
        """Ends when it is told to."""
        running.append(True)
        while not context.cancelled:
            time.sleep(0.001)
        ended.set()
        return "late"

    client = create_in_process_client(generate=ScriptedModel(says(call("tally"), call("works"))))
    return State(client, Toolkit([tally, works]), lambda: bool(running), ["7", "interrupted"])


def in_wait_for(ended):
    asked = []

    async def wait_for(request):
        asked.append(request)
        await asyncio.Event().wait()

    client = create_in_process_client(generate=ScriptedModel(says(call("tally"), call("tide"))), wait_for=wait_for)
    return State(client, Toolkit([tally, relay_tool("tide", "high water")]), lambda: bool(asked), ["7", ""])


STATES = [in_a_model_call, in_a_model_call_in_a_thread, in_an_async_tool, in_a_tool_in_a_thread, in_wait_for]


def results_of(transcript):
    """The texts of the results, of a transcript in which every call has one, in call order, right behind its turn."""
    texts, open_calls = [], []
    for message in transcript:
        if message["role"] == "tool":
            assert message["tool_call_id"] == open_calls.pop(0)
            texts.append(message["content"])
        else:
            assert open_calls == []
            open_calls = [made["id"] for made in message.get("tool_calls", ())]
    assert open_calls == []
    return texts


@pytest.mark.parametrize("reach", STATES, ids=lambda state: state.__name__)
async def test_a_run_is_cancelled_once_in_every_state_and_goes_on_with_its_transcript(reach):
    """A2, A3, A17, G5, I3."""
    ended = threading.Event()
    state = reach(ended)
    running = asyncio.create_task(state.client.run("go", state.toolkit))
    await until(state.is_there)
    await asyncio.sleep(0.02)  # its sibling has ended too
    began = time.monotonic()
    running.cancel("enough")
    with pytest.raises(asyncio.CancelledError) as caught:
        await running

    assert (running.cancelled(), running.cancelling(), caught.value.args) == (True, 1, ("enough",))
    assert time.monotonic() - began < 1
    transcript = caught.value.transcript
    found = results_of(transcript)
    assert [text.startswith(begin) for text, begin in zip(found, state.outcomes, strict=True)] == [True] * len(found)
    model = ScriptedModel("again")
    result = await create_in_process_client(generate=model).run(
        "again", state.toolkit, history=transcript, on_pending="supersede"
    )
    assert result.text == "again"
    assert len(results_of(result.messages)) == len(found)
    ended.set()


async def test_the_server_sees_the_connection_closed_within_a_second():
    """I3: with a reply outstanding, and within a wait between attempts nothing more is sent."""
    with ScriptedServer(Reply(hangs=True), Reply(status=503, headers={"retry-after": "0.3"})) as server:
        client = create_client(model="m-1", base_url=server.url, api_key="")
        for requests in (1, 2):
            running = asyncio.create_task(client.run("go", Toolkit()))
            await until(lambda: len(server.requests) == requests)  # noqa: B023 - it is called at once
            await asyncio.sleep(0.05)
            running.cancel()
            with pytest.raises(asyncio.CancelledError) as caught:
                await running
            assert caught.value.transcript == [{"role": "user", "content": "go"}]
            assert await asyncio.to_thread(server.left_by_client.wait, 1)
        await asyncio.sleep(0.4)
        assert len(server.requests) == 2


async def test_a_run_that_is_cancelled_before_it_began_calls_nothing():
    model = ScriptedModel("never")
    unbegun = asyncio.create_task(create_in_process_client(generate=model).run("go", Toolkit()))
    unbegun.cancel()
    with pytest.raises(asyncio.CancelledError):
        await unbegun
    await asyncio.sleep(0.02)
    assert model.requests == []

    async def cancels_itself():
        asyncio.current_task().cancel()
        await create_in_process_client(generate=hang).run("go", Toolkit())

    with pytest.raises(asyncio.CancelledError) as caught:
        await asyncio.create_task(cancels_itself())
    assert caught.value.transcript == [{"role": "user", "content": "go"}]


async def test_a_result_that_is_there_when_the_run_is_cancelled_is_kept():
    """G5: the tool ended and the run was cancelled in one turn of the loop."""
    gate = asyncio.Event()
    waiting = []

    @define_tool
    async def ends() -> str:
        """Ends at the gate."""
        waiting.append(True)
        await gate.wait()
        return "ended"

    for _ in range(20):
        gate.clear()
        waiting.clear()
        model = ScriptedModel(says(call("ends"), call("ends")))
        running = asyncio.create_task(create_in_process_client(generate=model).run("go", Toolkit([ends])))
        await until(lambda: len(waiting) == 2)
        gate.set()
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await running
        assert results_of(caught.value.transcript) == ["ended", "ended"]
        assert len(model.requests) == 1


async def test_a_tool_has_cleaned_up_when_its_cancelled_run_ends():
    cleaned = []

    @define_tool
    async def opens() -> str:
        """Has something to clean up."""
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.05)
            cleaned.append(True)
        return "never"

    def client(**settings):
        return create_in_process_client(generate=ScriptedModel(says(call("opens"))), **settings)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await client().run("go", Toolkit([opens]))
    assert cleaned == [True]
    with anyio.move_on_after(0.05):
        await client().run("go", Toolkit([opens]))
    assert cleaned == [True] * 2
    result = await client(timeout=0.05).run("go", Toolkit([opens]))
    assert (result.status, result.limit, cleaned) == ("incomplete", "timeout", [True] * 3)


async def test_a_tool_that_does_not_let_itself_be_cancelled_is_left_to_itself(monkeypatch):
    monkeypatch.setattr("toolrelay._end._PATIENCE", 0.05)
    freed = asyncio.Event()

    @define_tool
    async def stays() -> str:
        """Goes on."""
        while not freed.is_set():
            with suppress(asyncio.CancelledError):
                await freed.wait()
        return "late"

    model = ScriptedModel(says(call("stays")))
    with pytest.raises(TimeoutError) as caught:
        async with asyncio.timeout(0.05):
            await create_in_process_client(generate=model).run("go", Toolkit([stays]))
    assert results_of(caught.value.__cause__.transcript)[0].startswith("interrupted")
    freed.set()
    await asyncio.sleep(0)


async def test_an_error_in_a_task_group_cancels_the_run_beside_it():
    seen = []

    async def run():
        try:
            await create_in_process_client(generate=hang).run("go", Toolkit())
        except asyncio.CancelledError as cancelled:
            seen.append(cancelled.transcript)
            raise

    async def fails():
        async with asyncio.TaskGroup() as group:
            group.create_task(run())
            await asyncio.sleep(0.02)
            raise ValueError("the other one failed")

    with pytest.raises(ExceptionGroup) as caught:
        await fails()
    assert [str(error) for error in caught.value.exceptions] == ["the other one failed"]
    assert seen == [[{"role": "user", "content": "go"}]]


@pytest.mark.parametrize("let_go", ["close", "collect"])
async def test_a_coroutine_that_is_closed_or_collected_stops_its_run(let_go):
    """G6: nobody cancels it, and no further tool starts."""
    stopped = asyncio.Event()
    calls = []

    async def generate(request):
        try:
            await asyncio.sleep(0.1)
        finally:
            stopped.set()
        calls.append(request)
        return says(call("tally"))

    coroutine = create_in_process_client(generate=generate).run("go", Toolkit([tally]))
    coroutine.send(None)
    await asyncio.sleep(0.02)
    if let_go == "close":
        coroutine.close()
    del coroutine
    gc.collect()
    async with asyncio.timeout(1):
        await stopped.wait()
    assert calls == []
