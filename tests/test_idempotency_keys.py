"""The key with which a host's own services act once for a relay call (contract 7.7)."""

import asyncio

import pytest
from harbour import HARBOUR
from scripted_model import call, client_for, says
from toolrelay import (
    RelayResult,
    Request,
    relay_answer,
    relay_calls_of,
)
from toolrelay.stores import Lease, Write


def keys(*requests):
    return {made.id: request.idempotency_key(made) for request in requests for made in relay_calls_of(request)}


async def test_a_key_is_the_two_ids_and_no_two_runs_share_one():
    seen = []
    for _ in range(2):
        client, _ = client_for(says(call("tide"), call("moor")))
        halted = await client.run("go", HARBOUR)
        seen += keys(halted.pending).values()
        assert seen[-2:] == [f"{halted.pending.id}:k1", f"{halted.pending.id}:k2"]
        assert halted.pending.idempotency_key("k1") == seen[-2]
    assert len(set(seen)) == 4


async def test_a_key_is_the_same_in_every_delivery(shared):
    halted = await shared.halt(call("tide"), call("moor"), call("tide"))
    known = keys(halted.pending)
    client, _ = shared.client()
    assert keys(*(await client.get("c-1")).suspensions) == known
    assert keys(*[waiting.request for waiting in (await client.pending()).requests]) == known
    assert keys(Request.from_json(halted.pending.to_json())) == known
    part = relay_answer(halted.pending.id, [RelayResult("k1", "4 m")])
    rest = await client.ask_with_answer(HARBOUR, "c-1", halted.pending, part, missing="wait")
    assert keys(rest.pending) == {id: key for id, key in known.items() if id != "k1"}
    restored = await client.restore("c-2", await client.export("c-1"))
    assert keys(*restored.suspensions) == keys(rest.pending)
    copy = await client.fork("c-1", "c-3")
    assert set(keys(*copy.suspensions).values()).isdisjoint(known.values()), "a copy's calls are acts of their own"


@pytest.mark.parametrize("begun", ["not here", "cancelled", "gone"])
async def test_a_call_that_was_asked_for_inline_keeps_its_key_when_it_halts(shared, begun):
    """The host may have acted before it said that the answer comes later, or before its process died."""
    asked, all_asked = [], asyncio.Event()

    async def wait_for(request):
        asked.append(request)
        if len(asked) == 3:
            all_asked.set()
        if begun == "not here":
            return None
        return await asyncio.Event().wait()

    inline, _ = shared.client(says(call("tide"), call("moor"), call("tide")), wait_for=wait_for, lease=60.0)
    asking = asyncio.create_task(inline.ask("go", HARBOUR, id="c-1"))
    await all_asked.wait()
    client, model = shared.client("done")
    if begun == "gone":
        await forget_worker(shared.store(), "c-1")
        halted = await client.recover(HARBOUR, "c-1")
    if begun == "cancelled":
        asking.cancel()
    result = await asyncio.gather(asking, return_exceptions=True)
    if begun == "not here":
        (halted,) = result
    if begun == "cancelled":
        halted = await client.get("c-1")
    known = keys(*asked)
    assert len(set(known.values())) == 3
    (joined,) = halted.suspensions
    assert keys(joined) == known
    assert keys(*(await client.get("c-1")).suspensions) == known
    part = relay_answer(joined.id, [RelayResult("k1", "a")])
    rest = await client.ask_with_answer(HARBOUR, "c-1", joined, part, missing="wait")
    assert keys(rest.pending) == {id: key for id, key in known.items() if id != "k1"}
    results = [RelayResult("k2", "b"), RelayResult("k3", "c")]
    done = await client.ask_with_answer(HARBOUR, "c-1", rest.pending, relay_answer(joined.id, results))
    assert (done.text, model.results) == ("done", ["a", "b", "c"])


async def forget_worker(store, id):
    """As if the worker of a conversation had died and its lease were over."""
    found = await store.load(id)
    lease = Lease("dead", found.epoch + 1, 0)
    version = found.version + 1
    await store.commit(id, Write(found.version, version, 0, "running", found.epoch + 1, lease, (), ()))


async def test_an_answer_to_a_joined_request_is_durable_by_its_id():
    client, model = client_for(says(call("tide"), call("moor")), "done", wait_for=lambda request: None)
    halted = await client.ask("go", HARBOUR, id="c-1")
    both = [RelayResult("k1", "a"), RelayResult("k2", "b")]
    done = await client.ask_with_answer(HARBOUR, "c-1", halted.pending.id, relay_answer(halted.pending.id, both))
    assert (done.text, model.results) == ("done", ["a", "b"])


def test_a_request_of_another_kind_has_keys_too():
    approval = Request("req_1", "approval", "Pay?", data={"keys": {"k1": "x"}})
    assert approval.idempotency_key("k1") == "req_1:k1"
    assert Request("req_1", "tool_call", "", data={"keys": {"k1": 7}}).idempotency_key("k1") == "req_1:k1"
