"""What the bridge does around a process: its start, its forks, its end, and interpreters beside it."""

import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from typing import NamedTuple

import pytest

FORKS_ARE_MEANT = "ignore:This process:DeprecationWarning"
"""Since 3.12 Python warns of every fork beside a thread."""

SOON = 10.0
"""Seconds for a whole process on a busy machine. What hangs takes longer."""

HEAD = """
import asyncio, atexit, os, signal, sys, threading, time
from toolrelay._core import _bridge_probe, _bridge_probes_alive

async def probe(kind, seconds=0.0):
    return await _bridge_probe(kind, seconds)

async def many(kind="never", number=100):
    return await asyncio.gather(*(probe(kind) for _ in range(number)))

def exit_of(child):
    pid, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)
"""


class Ended(NamedTuple):
    code: int
    out: str
    err: str


Script = Callable[[str], Ended]


@pytest.fixture
def script() -> Script:
    """Runs a program on top of `HEAD`; it has to end soon."""

    def run(program: str) -> Ended:
        start = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-W", FORKS_ARE_MEANT, "-X", "faulthandler", "-c", HEAD + textwrap.dedent(program)],
            capture_output=True,
            text=True,
            timeout=20,
        )
        assert time.monotonic() - start < SOON, done
        return Ended(done.returncode, done.stdout, done.stderr)

    return run


def test_import_starts_no_thread_and_the_first_use_does(script: Script) -> None:
    program = """
    def threads(): return len(os.listdir("/proc/self/task"))
    print(threads())
    asyncio.run(probe("ready"))
    print(threads() > 1)
    """
    assert script(program) == Ended(0, "1\nTrue\n", "")


ENDS = {
    "falls off the end": ("loop.run_until_complete(start())", 0),
    "exits": ("loop.run_until_complete(start()); sys.exit(3)", 3),
    "exits in a coroutine": ("loop.run_until_complete(start(end=lambda: sys.exit(4)))", 4),
    "closes the loop first": ("loop.run_until_complete(start()); loop.close()", 0),
    "leaves at once": ("loop.run_until_complete(start()); os._exit(5)", 5),
    "exits beside a loop in a daemon thread": ("in_thread(start(seconds=60)); time.sleep(0.2); sys.exit(6)", 6),
    "works at exit, after the end of the runtime": ("atexit.register(work); asyncio.run(start())", 0),
    "works at exit, before the end of the runtime": ("asyncio.run(start()); atexit.register(work)", 0),
}


@pytest.mark.parametrize(("program", "code"), ENDS.values(), ids=ENDS)
def test_a_process_that_ends_with_work_in_flight_keeps_its_code_and_says_nothing(
    script: Script, program: str, code: int
) -> None:
    start = """
    import logging
    logging.disable()  # asyncio itself complains of tasks that are dropped while they are pending
    loop = asyncio.new_event_loop()
    async def start(seconds=0.02, end=lambda: None):
        global tasks
        tasks = [asyncio.create_task(many(kind)) for kind in ("never", "yield", "ready")]
        await asyncio.sleep(seconds)
        end()
    def in_thread(main):
        threading.Thread(target=asyncio.run, args=(main,), daemon=True).start()
    def work():
        assert asyncio.run(probe("sleep", 0.01)) == 0.01
    """
    assert script(textwrap.dedent(start) + program) == Ended(code, "", "")


def test_an_exception_ends_the_process_as_it_always_does(script: Script) -> None:
    ended = script("async def main(): asyncio.create_task(many()); await probe('fail')\nasyncio.run(main())")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.endswith("ValueError: the probe failed\n")
    assert "panicked" not in ended.err
    assert "never retrieved" not in ended.err


def test_a_panic_whose_waiter_is_gone_is_no_end_of_the_process(script: Script) -> None:
    program = """
    async def main():
        for _ in range(100):
            _bridge_probe("panic").cancel()
        print(await probe("ready", 1.0))
    asyncio.run(main())
    """
    assert script(program) == Ended(0, "1.0\n", "")


def test_control_c_interrupts_an_await(script: Script) -> None:
    program = """
    threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        asyncio.run(many())
    except KeyboardInterrupt:
        time.sleep(0.1)
        print("interrupted", _bridge_probes_alive())
    print(asyncio.run(probe("ready", 1.0)))
    """
    assert script(program) == Ended(0, "interrupted 0\n1.0\n", "")


def test_control_c_that_nobody_handles_ends_the_process(script: Script) -> None:
    ended = script("threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start(); asyncio.run(many())")
    assert ended.code == -signal.SIGINT
    assert ended.err.endswith("KeyboardInterrupt\n")
    assert "panicked" not in ended.err


@pytest.mark.parametrize("before", ["", "asyncio.run(probe('yield'))"], ids=["before use", "after use"])
def test_parent_and_child_of_a_fork_both_work(script: Script, before: str) -> None:
    program = """
    children = []
    for number in range(5):
        child = os.fork()
        if not child:
            asyncio.run(many("yield"))
            grandchild = os.fork()
            if not grandchild:
                asyncio.run(many("ready"))
                sys.exit(20)
            sys.exit(exit_of(grandchild) + number)
        children.append(child)
    asyncio.run(many("yield"))
    print([exit_of(child) for child in children])
    """
    assert script(before + textwrap.dedent(program)) == Ended(0, "[20, 21, 22, 23, 24]\n", "")


def test_a_fork_inside_a_running_loop_takes_nothing_from_the_parent(script: Script) -> None:
    program = """
    import gc
    async def main():
        waiting = asyncio.gather(*(probe("sleep", 0.3) for _ in range(100)), *(probe("ready") for _ in range(100)))
        await asyncio.sleep(0)
        child = os.fork()
        if not child:
            asyncio.set_event_loop(None)
            outcome = []
            def work():
                outcome.append(asyncio.run(probe("ready", 1.0)))
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            gc.collect()
            os._exit(7 if outcome == [1.0] else 1)
        await waiting
        print(exit_of(child))
    asyncio.run(main())
    """
    assert script(program) == Ended(0, "7\n", "")


def test_worker_processes_made_by_fork_work(script: Script) -> None:
    program = """
    import multiprocessing
    def work(number):
        return asyncio.run(probe("yield", number))
    if __name__ == "__main__":
        asyncio.run(many("yield"))
        with multiprocessing.get_context("fork").Pool(3) as pool:
            print(pool.map(work, range(6)))
        asyncio.run(many("yield"))
    """
    assert script(program) == Ended(0, "[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]\n", "")


def test_a_second_interpreter_gets_an_import_error(script: Script) -> None:
    program = """
    import _xxsubinterpreters as interpreters
    second = interpreters.create()
    interpreters.run_string(second, '''if True:
        try:
            import toolrelay._core
        except ImportError as error:
            print("subinterpreters" in str(error), flush=True)
    ''')
    print(asyncio.run(probe("ready", 1.0)))
    """
    pytest.importorskip("_xxsubinterpreters", reason="the module has another name in later versions")
    assert script(program) == Ended(0, "True\n1.0\n", "")


def test_ends_with_work_in_flight_again_and_again(script: Script) -> None:
    program = """
    for number in range(20):
        child = os.fork()
        if not child:
            async def main():
                asyncio.create_task(many()); asyncio.create_task(many("yield")); asyncio.create_task(many("ready"))
                await asyncio.sleep(0.001)
            asyncio.run(main())
            sys.exit(number)
        assert exit_of(child) == number
    """
    assert script(program) == Ended(0, "", "")
