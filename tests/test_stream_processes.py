"""Streams around a process: loops that close with one open, ends, forks, Control-C (contract 9.4)."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from scripted_server import ScriptedServer, stream
from streamed import delta

HEAD = """
import asyncio, gc, logging, os, signal, sys, threading, time
from scripted_model import ScriptedModel, call, says
from toolrelay import ToolRelayError, Toolkit, create_client, create_in_process_client, define_tool
from toolrelay.events import TextDelta, ToolStarted

# asyncio warns of steps that take long, which a busy machine's do.
logging.getLogger("asyncio").addFilter(lambda record: " took " not in record.msg)

async def speaks(request):
    try:
        yield "Hel"
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0)

async def floods(request):
    for _ in range(1_000):
        yield "x" * 10_000

@define_tool
async def waits() -> str:
    '''Never ends.'''
    await asyncio.Event().wait()
    return "never"

NONE, TOOLS = Toolkit(), Toolkit([waits])
http = create_client(model="m-1", base_url=sys.argv[1], api_key="")

def streams():
    '''A stream in each state.'''
    return [
        http.stream("go", NONE),
        create_in_process_client(generate=speaks).stream("go", NONE),
        create_in_process_client(generate=floods).stream("go", NONE),
        create_in_process_client(generate=ScriptedModel(says(call("waits"), text="Hel"))).stream("go", TOOLS),
        http.stream("never read", NONE),
    ]

async def begun():
    made = streams()
    for one in made[:-1]:
        assert isinstance(await anext(one), TextDelta)
    return made
"""


class Ended(NamedTuple):
    code: int
    out: str
    err: str


Script = Callable[..., Ended]


@pytest.fixture
def server():
    with ScriptedServer(*[stream(delta(content="Hel"), hangs=True)] * 300) as server:
        yield server


@pytest.fixture
def script(server: ScriptedServer) -> Script:
    """Runs a program below `HEAD`, with every warning told."""

    def run(program: str) -> Ended:
        done = subprocess.run(
            [sys.executable, "-X", "dev", "-W", "error", "-c", HEAD + textwrap.dedent(program), server.url],
            capture_output=True,
            text=True,
            timeout=50,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parent / "support")},
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    return run


def test_i6_a_program_that_ends_with_streams_open_ends_quietly(script):
    """Whoever holds them, in a module or nowhere."""
    assert script("kept = asyncio.run(begun())") == Ended(0, "", "")
    assert script("asyncio.run(begun())\nsys.exit(3)") == Ended(3, "", "")


def test_i1_loops_that_are_closed_with_streams_open_leave_nothing_behind(script):
    program = """
    before = None
    for number in range(40):
        kept = asyncio.run(begun())
        if number % 2:
            loop = asyncio.new_event_loop()
            kept += loop.run_until_complete(begun())
            loop.close()
        del kept
        gc.collect()
        if number == 5:
            before = len(os.listdir("/proc/self/fd"))
    print(len(os.listdir("/proc/self/fd")) - before < 20, len(threading.enumerate()))
    """
    assert script(program) == Ended(0, "True 1\n", "")


def test_i1_a_stream_that_outlives_its_loop_is_a_typed_error_and_nothing_hangs(script):
    program = """
    kept = asyncio.run(begun())

    async def main():
        for one in kept[:-1]:
            try:
                async with asyncio.timeout(5):
                    while True:
                        await anext(one)
            except (RuntimeError, StopAsyncIteration, ToolRelayError):
                pass
            except TimeoutError:
                print("hangs", one)
            await one.aclose()
        return "over"

    print(asyncio.run(main()))
    """
    assert script(program) == Ended(0, "over\n", "")


def test_i4_a_fork_leaves_a_stream_to_its_parent(script):
    program = """
    async def main():
        events = http.stream("go", NONE)
        assert isinstance(await anext(events), TextDelta)
        child = os.fork()
        if not child:
            signal.alarm(10)
            del events
            gc.collect()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        await events.aclose()
        print([message["role"] for message in events.transcript])

    asyncio.run(main())
    """
    assert script(program) == Ended(0, "['user']\n", "")


def test_i8_control_c_ends_a_plain_iterator(script):
    program = """
    events = http.stream_sync("go", NONE)
    print(next(events).text)
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        next(events)
    except KeyboardInterrupt:
        print("interrupted", [message["role"] for message in events.transcript])
    """
    assert script(program) == Ended(0, "Hel\ninterrupted ['user']\n", "")
