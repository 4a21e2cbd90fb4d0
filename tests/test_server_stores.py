"""Stores on servers, from Python: what they are made of, how they end, and what goes wrong on the way."""

import asyncio
import subprocess
import sys

import pytest
from harbour import HARBOUR
from places import new_place, open_store, server
from scripted_model import ScriptedModel, call, says
from toolrelay import (
    ConfigurationError,
    PostgresStore,
    RedisStore,
    StoreUnavailable,
    Toolkit,
    answer_output,
    create_in_process_client,
)

KINDS = ["postgres", "redis"]


@pytest.fixture(params=KINDS)
def place(request, tmp_path):
    return new_place(request.param, tmp_path)


def hello(store, **settings):
    return create_in_process_client(generate=lambda request: f"{len(request.messages)} so far", store=store, **settings)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: PostgresStore("mysql://me:s3cret@db/app"), "it begins otherwise"),
        (lambda: PostgresStore("postgresql://me:s3cret@db/app?sslmode=perhaps"), "sslmode is disable, prefer"),
        (lambda: PostgresStore("postgresql://me:s3cret@db/app", schema=""), "schema"),
        (lambda: PostgresStore("postgresql://me:s3cret@db/app", connections=0), "connections must be from 1"),
        (lambda: RedisStore("http://me:s3cret@db"), "cannot be read"),
        (lambda: RedisStore("redis://me:s3cret@db", prefix="{"), "prefix without braces"),
        (lambda: RedisStore("redis://me:s3cret@db", connections=-1), "connections must be from 1"),
    ],
)
def test_what_cannot_work_is_a_mistake_of_the_settings(make, told):
    with pytest.raises(ConfigurationError, match=told) as caught:
        make()
    assert "s3cret" not in str(caught.value)


async def test_nothing_is_connected_before_the_first_use_and_nobody_there_is_told_at_once():
    listening = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    listening.close()
    await listening.wait_closed()
    for store, name in [
        (PostgresStore(f"postgresql://me:s3cret@127.0.0.1:{port}/app"), f"PostgreSQL at 127.0.0.1:{port}/app"),
        (RedisStore(f"redis://me:s3cret@127.0.0.1:{port}/3"), f"Redis at 127.0.0.1:{port}/3"),
    ]:
        assert repr(store).startswith(f"<{type(store).__name__}: {name}, ")
        with pytest.raises(StoreUnavailable, match="refused") as caught:
            await hello(store).ask("hi", Toolkit(), id="c-1")
        assert str(caught.value).startswith(f"{name}, ")
        assert caught.value.conversation == "c-1"
        assert "s3cret" not in f"{caught.value} {store!r}"


def test_conversations_work_without_a_loop(place):
    store = open_store(place)
    client = create_in_process_client(generate=ScriptedModel(says(call("tide")), "done"), store=store)
    halted = client.ask_sync("go", HARBOUR, id="c-1")
    answer = answer_output(halted.pending.id, "4 m")
    assert client.ask_with_answer_sync(HARBOUR, "c-1", halted.pending, answer).text == "done"
    store.close_sync()
    with pytest.raises(StoreUnavailable, match="is closed"):
        client.ask_sync("more", HARBOUR, id="c-1")


@pytest.mark.parametrize("kind", ["sqlite", *KINDS])
async def test_closing_finishes_what_is_under_way(kind, tmp_path):
    place = new_place(kind, tmp_path)
    store = open_store(place)
    asked = [asyncio.create_task(hello(store).ask("hi", Toolkit(), id=f"c-{n}")) for n in range(20)]
    await asyncio.sleep(0)
    await store.close()
    ended = await asyncio.gather(*asked, return_exceptions=True)
    assert {type(end) for end in ended if isinstance(end, BaseException)} <= {StoreUnavailable}
    with pytest.raises(StoreUnavailable, match="is closed"):
        await store.load("c-1")
    await store.close()
    store.close_sync()
    again = open_store(place)
    assert await again.load("nobody") is None
    await again.close()


def test_one_store_serves_many_loops_and_threads(place):
    store = open_store(place)

    async def talk(name):
        return [(await hello(store).ask("hi", Toolkit(), id=name)).text for _ in range(3)]

    async def at_once():
        return await asyncio.gather(*(asyncio.to_thread(asyncio.run, talk(f"c-{n}")) for n in range(6)))

    for first in (1, 7):
        expected = [f"{first + 2 * n} so far" for n in range(3)]
        assert asyncio.run(at_once()) == [expected] * 6
    store.close_sync()


def test_a_process_that_ends_with_connections_open_is_quiet(place):
    program = """
import asyncio, sys
from places import open_store
store = open_store(sys.argv[1])
async def main():
    await store.load("c")
    for n in range(50):
        store.load(f"c-{n}")
asyncio.run(main())
"""
    support = str(server.__code__.co_filename).rsplit("/", 1)[0]
    ended = subprocess.run(
        [sys.executable, "-c", program, place], env={"PYTHONPATH": support}, capture_output=True, text=True, timeout=30
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


@pytest.mark.parametrize("name", ["postgres.python", "redis.python"])
async def test_a_run_outlives_its_server(name, tmp_path):
    """The server is killed while the model thinks, and is back a moment later."""
    from places import again, stop

    url = server(name)
    store = PostgresStore(url) if url.startswith("postgresql") else RedisStore(url)

    async def think(request):
        await asyncio.to_thread(stop, name)
        await asyncio.to_thread(again, name)
        return "after all"

    client = create_in_process_client(generate=think, store=store)
    assert (await client.ask("are you there?", Toolkit(), id="c-1")).text == "after all"
    kept = await store.load("c-1")
    assert (kept.state, kept.lease, len(kept.messages)) == ("idle", None, 2)
    await store.close()
