"""The client around a process: its import, its forks, Control-C and its end (contract 9.4)."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from scripted_server import Reply, ScriptedServer, openai_reply

SOON = 20.0
"""Seconds for a whole process on a busy machine. What hangs takes longer."""

HEAD = """
import asyncio, os, signal, sys, threading, time
from scripted_model import ScriptedModel, call, says
from toolrelay import (
    MemoryStore, SqliteStore, ToolRelayError, Toolkit, create_client, create_in_process_client, define_tool, relay_tool,
    answer_output,
)

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

NONE, TOOLS = Toolkit(), Toolkit([waits, tally, relay_tool("tide", "high water")])

async def replies(request):
    said = request.messages[-1]
    return said["content"] if said["role"] == "tool" else says(call("tally"))

client = create_in_process_client(generate=replies)

def busy():
    '''A run in each state that takes time.'''
    waiting = create_in_process_client(generate=ScriptedModel(says(call("waits"), call("tally"))))
    asking = create_in_process_client(generate=ScriptedModel(says(call("tide"))), wait_for=never)
    reaching = create_client(model="m-1", base_url=sys.argv[1], api_key="")
    silent = create_in_process_client(generate=never)
    return [one.run("go", TOOLS) for one in (waiting, asking, reaching, silent, client)]

def fork(work):
    child = os.fork()
    if not child:
        code = 1
        try:
            signal.alarm(10)
            work()
            code = 0
        finally:
            os._exit(code)
    return child

def exit_of(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def interrupt_after(seconds):
    threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)).start()
"""


class Ended(NamedTuple):
    code: int
    out: str
    err: str


Script = Callable[..., Ended]


@pytest.fixture
def server():
    with ScriptedServer(*[Reply(hangs=True)] * 200) as server:
        yield server


@pytest.fixture
def script(server: ScriptedServer) -> Script:
    """Runs a program below `HEAD`; it has to end soon. Its arguments follow the address of a server that hangs."""

    def run(program: str, *arguments: object, head: str = HEAD) -> Ended:
        support = str(Path(__file__).parent / "support")
        began = time.monotonic()
        done = subprocess.run(
            [
                sys.executable,
                "-X",
                "faulthandler",
                "-c",
                head + textwrap.dedent(program),
                server.url,
                *map(str, arguments),
            ],
            capture_output=True,
            text=True,
            timeout=30,
            env={**os.environ, "PYTHONPATH": support},
        )
        assert time.monotonic() - began < SOON, done
        return Ended(done.returncode, done.stdout, done.stderr)

    return run


def test_import_starts_nothing_and_loads_neither_pydantic_nor_other_frameworks(script):
    """Contract 9.4."""
    program = """
    import asyncio, logging, os, sys, threading
    before = set(sys.modules)
    import toolrelay
    client = toolrelay.create_in_process_client(generate=lambda request: "", store=toolrelay.MemoryStore())
    toolkit = toolrelay.Toolkit([toolrelay.relay_tool("tide", "high water")])
    new = {name.partition(".")[0] for name in set(sys.modules) - before}
    heavy = {"pydantic", "pydantic_core", "griffe", "typing_extensions", "uvloop", "anyio", "trio", "httpx"}
    print(sorted(new & heavy))
    print(threading.enumerate() == [threading.main_thread()], len(os.listdir("/proc/self/task")))
    print(logging.getLogger().handlers, logging.getLogger("toolrelay").handlers, logging.getLogger("toolrelay").level)
    """
    assert script(program, head="") == Ended(0, "[]\nTrue 1\n[] [] 0\n", "")


def test_i9_a_second_interpreter_gets_an_import_error(script):
    program = """
    try:
        import _xxsubinterpreters as interpreters
    except ImportError:
        import _interpreters as interpreters
    second = interpreters.create()
    interpreters.run_string(second, '''if True:
        try:
            import toolrelay
        except ImportError as error:
            print("interpreter" in str(error), flush=True)
    ''')
    print(client.run_sync("go", TOOLS).text)
    """
    assert script(program) == Ended(0, "True\n7\n", "")


PLACES = {
    "in process": "async def work(who): return (await client.run('go', TOOLS)).text",
    "http": """
http = create_client(model="m-1", base_url=sys.argv[2], api_key="")
async def work(who): return (await http.run("go", NONE)).text
""",
    "sqlite": """
stored = create_in_process_client(generate=replies, store=SqliteStore(sys.argv[3]))
async def work(who): return (await stored.ask("go", TOOLS, id=who)).text
""",
    "memory": """
stored = create_in_process_client(generate=replies, store=MemoryStore())
async def work(who): return (await stored.ask("go", TOOLS, id=who)).text
""",
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_i4_parent_and_children_of_a_fork_go_on_with_one_client(script, place, tmp_path):
    program = """
    assert asyncio.run(work("parent")) == "7"
    def child(who):
        assert asyncio.run(work(who)) == "7"
        assert exit_of(fork(lambda: asyncio.run(work(who + "-grandchild")))) == 0
        assert asyncio.run(work(who)) == "7"
    children = [fork(lambda: child(f"child-{number}")) for number in range(3)]
    assert asyncio.run(work("parent")) == "7"
    print([exit_of(child) for child in children])
    """
    with ScriptedServer(*[openai_reply("7")] * 30) as answering:
        ended = script(place + textwrap.dedent(program), answering.url, tmp_path / "c.db")
        assert ended == Ended(0, "[0, 0, 0]\n", "")
        if "http" in place:
            # Every process has connections of its own: three children, three grandchildren and the parent.
            assert len({request.connection for request in answering.requests}) >= 7


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_i4_forks_while_another_thread_works(script, place, tmp_path):
    program = """
    over = threading.Event()
    def keep_busy():
        while not over.is_set():
            asyncio.run(work("busy"))
    busy = threading.Thread(target=keep_busy)
    busy.start()
    codes = []
    for number in range(8):
        codes += [exit_of(child) for child in [fork(lambda: asyncio.run(work(f"{number}-{n}"))) for n in range(2)]]
    over.set()
    busy.join()
    print(set(codes))
    """
    with ScriptedServer(*[openai_reply("7")] * 20_000) as answering:
        ended = script(place + textwrap.dedent(program), answering.url, tmp_path / "c.db")
    assert ended == Ended(0, "{0}\n", "")


def test_i4_worker_processes_made_by_fork_work(script):
    program = """
    import multiprocessing
    def work(number):
        return client.run_sync(str(number), TOOLS)
    client.run_sync("warm", TOOLS)
    with multiprocessing.get_context("fork").Pool(3) as pool:
        print([result.messages[0]["content"] for result in pool.map(work, range(6))])
    print(client.run_sync("go", TOOLS).text)
    """
    assert script(program) == Ended(0, "['0', '1', '2', '3', '4', '5']\n7\n", "")


def test_i4_a_server_that_loads_its_program_before_it_forks(script):
    """As gunicorn does with `preload`: each worker has a loop that serves many runs until it is told to end."""
    program = """
    client.run_sync("warm", TOOLS)
    def worker():
        async def serve():
            over = asyncio.Event()
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
            results = await asyncio.gather(*(client.run("go", TOOLS) for _ in range(50)))
            assert {result.text for result in results} == {"7"}
            waiting = [asyncio.create_task(run) for run in busy()]
            os.write(ready, b"x")
            await over.wait()
        asyncio.run(serve())
    heard, ready = os.pipe()
    workers = [fork(worker) for _ in range(3)]
    for _ in workers:
        os.read(heard, 1)
    for worker in workers:
        os.kill(worker, signal.SIGTERM)
    print([exit_of(worker) for worker in workers])
    """
    assert script(program) == Ended(0, "[0, 0, 0]\n", "")


def test_i4_a_child_that_is_forked_inside_a_loop_ends_at_once_and_leaves_the_runs_to_its_parent(script):
    program = """
    async def main():
        running = [asyncio.create_task(run) for run in busy()]
        await asyncio.sleep(0.1)
        child = os.fork()
        if not child:
            thread = threading.Thread(target=lambda: print(client.run_sync("go", TOOLS).text, flush=True))
            thread.start()
            thread.join()
            sys.exit(5)  # through the loop, which cancels its parent's tasks
        while not (ended := os.waitpid(child, os.WNOHANG))[0]:
            await asyncio.sleep(0.01)
        print(os.waitstatus_to_exitcode(ended[1]), [task.done() for task in running], flush=True)
        os._exit(0)  # asyncio itself is not whole any more: the child took its pipe out of the selector they share
    asyncio.run(main())
    """
    assert script(program) == Ended(0, "7\n5 [False, False, False, False, True]\n", "")


ENDS = {
    "falls off the end": ("", 0, ""),
    "exits": ("sys.exit(3)", 3, ""),
    "raises": ("raise ValueError('the end')", 1, "ValueError: the end\n"),
    "is killed at once": ("os._exit(4)", 4, ""),
}
MAINS = {
    "a main coroutine": "asyncio.run(main())",
    "a loop of its own": "loop = asyncio.new_event_loop(); loop.run_until_complete(main())",
    "a thread": "threading.Thread(target=asyncio.run, args=(main(60),), daemon=True).start(); time.sleep(0.3); end()",
}


ENDINGS = [
    *(("a main coroutine", end) for end in ENDS),
    *((main, end) for main in ("a loop of its own", "a thread") for end in ("falls off the end", "exits")),
]


@pytest.mark.parametrize(("main", "end"), ENDINGS)
def test_i6_a_process_that_ends_with_runs_in_flight_keeps_its_code_and_says_nothing(script, main, end):
    end, code, says = ENDS[end]
    program = f"""
import logging
logging.getLogger("asyncio").disabled = True  # it complains itself of tasks that the program drops
def end():
    {end or "pass"}
async def main(seconds=0):
    global running
    running = [asyncio.create_task(run) for run in busy()]
    await asyncio.sleep(seconds or 0.15)
    end()
{MAINS[main]}
"""
    ended = script(program)
    assert (ended.code, ended.out) == (code, "")
    assert "panicked" not in ended.err
    assert ended.err.endswith(says) if says else ended.err == ""


def test_i6_two_hundred_loops_that_close_with_runs_in_flight(script):
    program = """
    for number in range(200):
        loop = asyncio.new_event_loop()
        running = [loop.create_task(run) for run in busy()]
        for task in running:
            task._log_destroy_pending = False  # the program drops them, and asyncio would complain of that
        loop.run_until_complete(asyncio.sleep(0.001 * (number % 7)))
        loop.close()
        del running
    async def cancelled():
        return [asyncio.create_task(run) for run in busy()]
    for _ in range(20):
        asyncio.run(cancelled())
    print(client.run_sync("go", TOOLS).text)
    """
    assert script(program) == Ended(0, "7\n", "")


@pytest.mark.parametrize("how", ["async def", "def"])
def test_i6_a_tool_that_exits_ends_the_process_with_its_code(script, how):
    program = f"""
@define_tool
{how} exits() -> str:
    '''Ends everything.'''
    sys.exit(3)
model = ScriptedModel(says(call("exits"), call("waits")))
create_in_process_client(generate=model).run_sync("go", Toolkit([exits, waits]))
"""
    assert script(program) == Ended(3, "", "")


def test_i8_control_c_ends_a_run_that_waits_for_its_server(script, server, tmp_path):
    program = """
    client = create_client(model="m-1", base_url=sys.argv[1], api_key="", store=SqliteStore(sys.argv[2]))
    interrupt_after(0.4)
    began = time.monotonic()
    try:
        client.ask_sync("go", NONE, id="c-1")
    except KeyboardInterrupt:
        print("interrupted", time.monotonic() - began < 1.4)
    stored = asyncio.run(client.get("c-1"))
    print(stored.state, [message["content"] for message in stored.messages])
    """
    assert script(program, tmp_path / "c.db") == Ended(0, "interrupted True\nidle ['go']\n", "")
    assert server.left_by_client.wait(1)


@pytest.mark.parametrize("loop", ["notebook", "asyncio.run"])
def test_i8_control_c_ends_a_run_beside_a_running_loop(script, loop):
    program = """
    silent = create_in_process_client(generate=never)
    async def main():
        began = time.monotonic()
        try:
            silent.run_sync("go", NONE)
        finally:
            print("over", time.monotonic() - began < 1.4)
    """
    runs = {
        "notebook": "loop = asyncio.new_event_loop(); run = loop.run_until_complete",
        "asyncio.run": "run = asyncio.run",
    }
    last = "\ninterrupt_after(0.4)\ntry: run(main())\nexcept KeyboardInterrupt: print('interrupted')"
    ended = script(runs[loop] + textwrap.dedent(program) + last)
    assert ended == Ended(0, "over True\ninterrupted\n", "")


def test_i8_control_c_that_nobody_handles_ends_the_process_as_always(script):
    ended = script("interrupt_after(0.4)\ncreate_in_process_client(generate=never).run_sync('go', NONE)")
    assert (ended.code, ended.out) == (-signal.SIGINT, "")
    assert ended.err.endswith("KeyboardInterrupt\n")
    assert "panicked" not in ended.err
