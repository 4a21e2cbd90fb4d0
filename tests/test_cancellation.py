"""Cancelled runs: what is settled and saved before the cancellation goes on, whoever cancels (contract 9.1)."""

import asyncio
import time

import anyio
import pytest
from scripted_model import ScriptedModel, call, says
from toolrelay import SqliteStore, Toolkit, create_in_process_client, define_tool


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


async def keep(client, toolkit, kept):
    try:
        await client.ask("go", toolkit, id="c-1")
    except asyncio.CancelledError as cancelled:
        kept.append(cancelled.transcript)
        raise


async def by_scope(client, toolkit, started, kept):
    async with anyio.create_task_group() as group:
        group.start_soon(keep, client, toolkit, kept)
        await started.wait()
        group.cancel_scope.cancel()


async def by_deadline(client, toolkit, started, kept):
    with anyio.move_on_after(0.2) as scope:
        await keep(client, toolkit, kept)
    assert scope.cancelled_caught


async def by_timeout(client, toolkit, started, kept):
    with pytest.raises(TimeoutError) as caught:
        async with asyncio.timeout(0.2):
            await client.ask("go", toolkit, id="c-1")
    kept.append(caught.value.__cause__.transcript)


async def again_and_again(client, toolkit, started, kept):
    running = asyncio.create_task(keep(client, toolkit, kept))
    await started.wait()
    while not running.done():
        running.cancel()
        await asyncio.sleep(0)
    assert running.cancelled()


WAYS = [by_scope, by_deadline, by_timeout, again_and_again]


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


async def test_who_cancels_again_later_does_not_wait_for_a_run_that_does_not_settle(monkeypatch):
    never = asyncio.get_running_loop().create_future()
    monkeypatch.setattr("toolrelay.client._PATIENCE", 0.1)
    from toolrelay.client import _settled

    waiting = asyncio.create_task(_settled(never))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.sleep(0)
    assert not waiting.done()
    time.sleep(0.15)  # noqa: ASYNC251 - the patience is over
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
