"""Conversations in stores around a process: loops that close, ends, forks and Control-C while runs are under way and a
sweeper works beside them (I1, I4, I6, I8; contract 9.4)."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from places import DURABLE, new_place

HEAD = """
import asyncio, gc, logging, os, signal, sys, threading, time
from places import open_store
from scripted_model import ScriptedModel, call, says
from toolrelay import Toolkit, create_in_process_client, define_tool, relay_tool

async def never(*_):
    await asyncio.Event().wait()

@define_tool
async def waits() -> str:
    '''Never ends.'''
    await never()
    return "never"

@define_tool
def tally() -> int:
    '''Counts.'''
    return 7

async def replies(request):
    said = request.messages[-1]
    return said["content"] if said["role"] == "tool" else says(call("tally"))

async def speaks(request):
    yield "Hel"
    await never()

TOOLS = Toolkit([waits, tally, relay_tool("tide", "high water")])
store = open_store(sys.argv[1])
client = create_in_process_client(generate=replies, store=store)

def made(generate, **settings):
    return create_in_process_client(generate=generate, store=store, **settings)

def busy(number=0):
    '''A conversation in each state that takes time, one that ends, and a sweep.'''
    waiting = made(ScriptedModel(says(call("waits"), call("tally"))))
    asking = made(ScriptedModel(says(call("tide"))), wait_for=never)
    return [
        *(
            one.ask("go", TOOLS, id=f"{name}-{number}")
            for name, one in [("waiting", waiting), ("asking", asking), ("silent", made(never)), ("ending", client)]
        ),
        queue(f"silent-{number}"),
        stream(f"stream-{number}"),
        client.sweep(TOOLS),
    ]

async def queue(id):
    while not await kept(id):
        await asyncio.sleep(0)
    return await client.ask("go", TOOLS, id=id, wait=True)

async def kept(id):
    return await store.load(id)

async def stream(id):
    async for _ in made(speaks).stream("go", TOOLS, id=id):
        pass

async def begun(number=0):
    '''All of these, with a sweeper that nobody ends.'''
    global sweeping
    sweeping = client.sweeping(TOOLS, every=0.001)
    await sweeping.__aenter__()
    tasks = [asyncio.create_task(one) for one in busy(number)]
    while not await kept(f"waiting-{number}"):
        await asyncio.sleep(0)
    return tasks
"""


class Ended(NamedTuple):
    code: int
    out: str
    err: str


Script = Callable[[str], Ended]


@pytest.fixture(params=DURABLE)
def script(request: pytest.FixtureRequest, tmp_path: Path) -> Script:
    """Runs a program below `HEAD`, with a place for conversations."""
    place = new_place(request.param, tmp_path)

    def run(program: str) -> Ended:
        done = subprocess.run(
            [sys.executable, "-X", "faulthandler", "-c", HEAD + textwrap.dedent(program), place],
            capture_output=True,
            text=True,
            timeout=50,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parent / "support")},
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    return run


def test_i1_loops_that_close_with_conversations_in_flight_leave_nothing_behind(script):
    program = """
    async def some(number):
        tasks = await begun(number)
        await asyncio.sleep(0.001 * (number % 7))
        return tasks

    for number in range(40):
        loop = asyncio.new_event_loop()
        running = loop.run_until_complete(some(number))
        for task in asyncio.all_tasks(loop):
            task._log_destroy_pending = False  # the program drops them, and asyncio would complain of that
        loop.close()
        del running, task, loop, sweeping
        gc.collect()
        if number == 10:
            before = len(os.listdir("/proc/self/fd"))
    for number in range(40, 50):
        asyncio.run(some(number))
    print(len(os.listdir("/proc/self/fd")) - before < 20, len(threading.enumerate()))
    print(client.ask_sync("go", TOOLS, id="last").text)
    """
    assert script(program) == Ended(0, "True 1\n7\n", "")


@pytest.mark.parametrize("state", ["speaks", "calls a tool", "asks the host"])
def test_i1_a_loop_that_closes_frees_conversations_whoever_still_holds_them(script, state):
    """Nobody goes on with a stream of a closed loop, so its lease is not renewed for ever."""
    program = f"""
    calls = {{"calls a tool": "waits", "asks the host": "tide"}}
    name = calls.get({state!r})
    held = made(speaks if name is None else ScriptedModel(says(call(name)), "never"), wait_for=never)

    async def begin():
        stream = held.stream("go", TOOLS, id="c-1")
        await anext(stream)
        while name and len((await client.get("c-1")).messages) < 2:
            await asyncio.sleep(0)
        return stream

    stream = asyncio.run(begin())
    while (kept := client.get_sync("c-1")).state == "running":
        time.sleep(0.01)
    print(kept.state if name != "tide" else bool(kept.suspensions), kept.worker)
    """
    told = "True" if state == "asks the host" else "idle"
    assert script(program) == Ended(0, f"{told} None\n", "")


ENDS = {
    "a main coroutine falls off its end": ("asyncio.run(begun())", 0, ""),
    "a main coroutine exits": ("asyncio.run(main())", 3, ""),
    "a loop is left": ("loop = asyncio.new_event_loop(); loop.run_until_complete(begun())", 0, ""),
    "a thread is left": ("thread(); time.sleep(0.5)", 0, ""),
    "the program exits beside a thread": ("thread(); time.sleep(0.5); sys.exit(3)", 3, ""),
    "it raises": ("asyncio.run(begun()); raise ValueError('the end')", 1, "ValueError: the end\n"),
}


@pytest.mark.parametrize(("end", "code", "says"), ENDS.values(), ids=ENDS)
def test_i6_a_process_that_ends_with_conversations_in_flight_keeps_its_code_and_says_nothing(script, end, code, says):
    program = f"""
logging.getLogger("asyncio").disabled = True  # it complains itself of tasks that the program drops
async def main():
    await begun()
    sys.exit(3)
async def lasting():
    tasks = await begun()
    await asyncio.gather(*tasks)
def thread():
    threading.Thread(target=asyncio.run, args=(lasting(),), daemon=True).start()
{end}
"""
    ended = script(program)
    assert (ended.code, ended.out) == (code, "")
    assert ended.err.endswith(says) if says else ended.err == ""


def test_i4_a_child_that_is_forked_beside_a_sweeper_leaves_the_conversations_to_its_parent(script):
    """What the child cancels as its loop ends are copies: the store is not told, and the parent's runs go on."""
    program = """
    async def main():
        tasks = await begun()
        child = os.fork()
        if not child:
            thread = threading.Thread(target=lambda: print(client.ask_sync("go", TOOLS, id="child").text, flush=True))
            thread.start()
            thread.join()
            sys.exit(5)
        while not (ended := os.waitpid(child, os.WNOHANG))[0]:
            await asyncio.sleep(0.01)
        states = [(await client.get(f"{name}-0")).state for name in ("waiting", "asking", "silent")]
        print(os.waitstatus_to_exitcode(ended[1]), states, [task.done() for task in tasks[:3]])
        print((await client.get("child")).state, flush=True)
        os._exit(0)  # asyncio itself is not whole any more: the child took its pipe out of the selector they share

    asyncio.run(main())
    """
    assert script(program) == Ended(0, "7\n5 ['running', 'running', 'running'] [False, False, False]\nidle\n", "")


def test_i8_control_c_frees_the_conversation_and_ends_the_sweeper(script):
    program = """
    silent = made(never)

    async def main():
        async with silent.sweeping(TOOLS, every=0.01):
            await silent.ask("go", TOOLS, id="c-1")

    for work in (lambda: asyncio.run(main()), lambda: silent.ask_sync("go", TOOLS, id="c-2")):
        threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            work()
        except KeyboardInterrupt:
            print("interrupted")
    for id in ("c-1", "c-2"):
        stored = client.get_sync(id)
        print(stored.state, [message["content"] for message in stored.messages])
    """
    assert script(program) == Ended(0, "interrupted\ninterrupted\nidle ['go']\nidle ['go']\n", "")
