"""Stores in processes that fork: gunicorn with preload, `multiprocessing` with its fork start method."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from places import DURABLE, new_place

PROGRAM = """
import asyncio, os, sys, threading
import toolrelay
from places import open_store
from toolrelay import create_in_process_client, create_toolkit

async def say(store, id):
    client = create_in_process_client(generate=lambda request: f"{len(request.messages)} so far", store=store)
    return (await client.ask("hello", await create_toolkit(), id=id)).text

def exit_of(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def fork(work):
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as error:
            print(type(error), error, flush=True)
            os._exit(1)
        os._exit(0)
    return child

store = open_store(sys.argv[1])
"""


@pytest.fixture(params=DURABLE)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return new_place(request.param, tmp_path)


def run(program: str, place: str) -> str:
    done = subprocess.run(
        # Since 3.12 Python warns of every fork beside a thread.
        [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", PROGRAM + program, place],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent / "support")},
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def test_parent_and_children_go_on_with_one_store(place: str) -> None:
    program = """
asyncio.run(say(store, "family"))
stop = threading.Event()

def keep_busy():
    while not stop.is_set():
        asyncio.run(say(store, "busy"))

busy = threading.Thread(target=keep_busy)
busy.start()
for _ in range(10):
    children = [fork(lambda: asyncio.run(say(store, f"child-{n}"))) for n in range(2)]
    assert [exit_of(child) for child in children] == [0, 0]
    asyncio.run(say(store, "family"))
stop.set()
busy.join()
print(asyncio.run(say(store, "family")), asyncio.run(say(store, "child-1")))
"""
    assert run(program, place) == "23 so far 21 so far\n"


def test_a_store_that_was_made_before_the_fork_is_used_after_it_only(place: str) -> None:
    program = """
children = [fork(lambda: asyncio.run(say(store, f"child-{n}"))) for n in range(4)]
print([exit_of(child) for child in children], asyncio.run(say(store, "child-0")))
"""
    assert run(program, place) == "[0, 0, 0, 0] 3 so far\n"
