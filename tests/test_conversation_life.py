"""Stored conversations are looked at, called off, deleted, copied, put elsewhere and listed (contract 7.8)."""

import asyncio
import copy
import json
import pickle
from datetime import UTC, datetime, timedelta

import pytest
from harbour import HARBOUR, RAN
from scripted_model import call, client_for, says
from toolrelay import (
    AlreadyAnswered,
    ConversationBusy,
    ConversationExists,
    ConversationNotFound,
    LeaseLost,
    MemoryStore,
    PayloadError,
    RelayResult,
    ResumeError,
    StoreError,
    ToolContext,
    Toolkit,
    Transcript,
    answer_output,
    define_tool,
    pending,
    relay_answer,
    relay_calls_of,
)


def outputs(messages):
    return [message["content"] for message in messages if message["role"] == "tool"]


class Gate:
    """A model that is asked and answers when it may."""

    def __init__(self):
        self.asked = asyncio.Event()
        self.may = asyncio.Event()

    async def __call__(self, request):
        self.asked.set()
        await self.may.wait()
        return "at last"


async def test_what_is_looked_up_says_who_works_on_it_and_since_when(shared):
    gate = Gate()
    client, _ = shared.client(gate, lease=60.0)
    asking = asyncio.create_task(client.ask("go", HARBOUR, id="c-1"))
    await gate.asked.wait()
    running = await client.get("c-1")
    now = datetime.now(UTC)
    assert (running.state, running.suspensions) == ("running", ())
    assert running.worker
    assert timedelta(0) <= now - running.written_at < timedelta(seconds=30)
    assert running.lease_until is not None
    assert timedelta(seconds=30) < running.lease_until - now <= timedelta(seconds=60)
    gate.may.set()
    await asking
    idle = await client.get("c-1")
    assert (idle.state, idle.worker, idle.lease_until, idle.version) == ("idle", None, None, running.version + 1)
    for twin in [pickle.loads(pickle.dumps(running)), copy.deepcopy(running)]:
        assert twin == running
        assert (twin.worker, twin.lease_until, twin.written_at) == (
            running.worker,
            running.lease_until,
            running.written_at,
        )
    assert idle != running


async def test_a_halted_conversation_that_is_called_off_takes_a_prompt_again(shared):
    halted = await shared.halt(call("tide"), call("pay"), call("tally"))
    client, model = shared.client("something else")
    conversation = await client.cancel("c-1")
    assert (conversation.state, conversation.suspensions) == ("idle", ())
    cancelled = "cancelled: the host gave up on the call before it had a result"
    assert outputs(conversation.messages) == [cancelled, cancelled, "7"]
    assert await client.cancel("c-1") == conversation
    with pytest.raises(AlreadyAnswered) as caught:
        await client.ask_with_answer(HARBOUR, "c-1", halted.pending, answer_output(halted.pending.id, "4 m"))
    assert (caught.value.conversation, caught.value.request_id) == ("c-1", halted.pending.id)
    assert (await client.ask("and now?", HARBOUR, id="c-1")).text == "something else"
    assert model.results == [cancelled, cancelled, "7"]


async def test_a_running_conversation_that_is_called_off_is_lost_to_its_worker(shared):
    gate = Gate()
    worker, _ = shared.client(gate)
    client, _ = shared.client("hello")
    asking = asyncio.create_task(worker.ask("go", HARBOUR, id="c-1"))
    await gate.asked.wait()
    assert (await client.cancel("c-1")).state == "idle"
    gate.may.set()
    with pytest.raises(LeaseLost):
        await asking
    assert [message["content"] for message in (await client.get("c-1")).messages] == ["go"]
    assert (await client.ask("again", HARBOUR, id="c-1")).text == "hello"


async def test_a_deleted_conversation_is_gone_and_its_id_begins_anew(shared):
    gate = Gate()
    worker, _ = shared.client(gate)
    client, model = shared.client("hello")
    asking = asyncio.create_task(worker.ask("go", HARBOUR, id="c-1"))
    await gate.asked.wait()
    assert await client.delete("c-1") is True
    assert await client.delete("c-1") is False
    with pytest.raises(ConversationNotFound) as caught:
        await client.cancel("c-1")
    assert caught.value.conversation == "c-1"
    assert (await client.ask("new", HARBOUR, id="c-1")).text == "hello"
    gate.may.set()
    with pytest.raises(LeaseLost):
        await asking
    assert [message["content"] for message in (await client.get("c-1")).messages] == ["new", "hello"]
    assert len(model.requests) == 1


async def test_a_copy_is_answered_on_its_own(shared):
    halted = await shared.halt(call("tide"), call("pay"))
    client, model = shared.client("in the copy", "in the original")
    twin = await client.fork("c-1", "c-2")
    assert (twin.id, twin.state) == ("c-2", "pending")
    assert {request.id for request in twin.suspensions}.isdisjoint({request.id for request in halted.suspensions})
    with pytest.raises(ResumeError, match="does not wait for request"):
        await client.ask_with_answer(HARBOUR, "c-2", halted.pending, answer_output(halted.pending.id, "4 m"))
    for request in twin.suspensions:
        answer = answer_output(request.id, "5 m") if request.kind == "tool_call" else answer_output(request.id, "")
        copied = await client.ask_with_answer(HARBOUR, "c-2", request, answer)
    assert (copied.text, model.results[0]) == ("in the copy", "5 m")
    assert (await client.get("c-1")).suspensions == halted.suspensions
    with pytest.raises(ConversationExists) as caught:
        await client.fork("c-1", "c-2")
    assert caught.value.conversation == "c-2"
    with pytest.raises(ConversationNotFound):
        await client.fork("nobody", "c-3")


async def test_what_is_exported_is_a_history_and_can_be_put_into_another_store(shared):
    halted = await shared.halt(call("tide"), call("tally"))
    client, _ = shared.client()
    exported = await client.export("c-1")

    facts = json.loads(exported)["conversation"]
    assert {key: facts[key] for key in ("id", "state")} == {"id": "c-1", "state": "pending"}
    assert datetime.fromisoformat(facts["writtenAt"]) <= datetime.now(UTC)
    assert Transcript.from_json(exported) == halted.messages
    answer = answer_output(halted.pending.id, "4 m")
    stateless, _ = client_for("done")
    assert (await stateless.run_with_answer(HARBOUR, exported, halted.pending, answer)).text == "done"

    elsewhere, model = client_for("done there", store=MemoryStore())
    back = await elsewhere.restore("c-1", exported)
    assert (back.state, back.suspensions, back.messages) == ("pending", halted.suspensions, halted.messages)
    resumed = await elsewhere.ask_with_answer(HARBOUR, "c-1", halted.pending, answer)
    assert (resumed.text, model.results) == ("done there", ["4 m", "7"])
    with pytest.raises(ConversationExists):
        await elsewhere.restore("c-1", exported)
    assert (await elsewhere.restore("c-2", [{"role": "user", "content": "hi"}])).state == "idle"
    with pytest.raises(PayloadError, match="messages: expected a history"):
        await elsewhere.restore("c-3", None)
    with pytest.raises(PayloadError, match="messages: expected a Transcript") as told:
        await elsewhere.restore("c-3", 5)
    assert told.value.key == "messages"


@define_tool
async def agree(context: ToolContext, minutes: int = 1) -> object:
    """Asks somebody."""
    if context.answer is not None:
        return "agreed"
    return pending("approval", "Agree?", expires_at=datetime.now(UTC) + timedelta(minutes=minutes))


async def test_requests_that_wait_are_listed_over_all_conversations(shared):
    toolkit = Toolkit([*HARBOUR, agree])
    client, _ = shared.client(
        says(call("tide"), call("moor")), says(call("agree", {"minutes": 9})), says(call("agree", {"minutes": 3}))
    )
    for name in ["first", "second", "third"]:
        await client.ask("go", toolkit, id=name)
        await asyncio.sleep(0.002)  # so that their ages differ
    by_age = await client.pending()
    assert [waiting.conversation for waiting in by_age.requests] == ["first", "second", "third"]
    assert by_age.next is None
    assert all(timedelta(0) <= waiting.age < timedelta(seconds=30) for waiting in by_age.requests)
    assert by_age.requests[0].made_at < by_age.requests[2].made_at <= datetime.now(UTC)
    by_expiry = await client.pending("expiry")
    assert [waiting.conversation for waiting in by_expiry.requests] == ["third", "second"]

    listed, after = [], None
    while True:
        page = await client.pending(limit=1, after=after)
        listed += page.requests
        after = page.next
        if after is None:
            break
    assert tuple(listed) == by_age.requests
    relayed = by_age.requests[0].request
    assert [made.name for made in relay_calls_of(relayed)] == ["tide", "moor"]
    await client.ask_with_answer(toolkit, "first", relayed, answer_of(relayed, "k1"), missing="wait")
    (left,) = [waiting for waiting in (await client.pending()).requests if waiting.conversation == "first"]
    assert [made.id for made in relay_calls_of(left.request)] == ["k2"]
    assert left.made_at == by_age.requests[0].made_at

    for wrong in ["next", "", await page_token(client)]:
        with pytest.raises(PayloadError, match="after: expected the `next` of a page by expiry"):
            await client.pending("expiry", after=wrong)
    with pytest.raises(PayloadError, match="limit"):
        await client.pending(limit=0)
    with pytest.raises(PayloadError, match="order"):
        await client.pending("size")


async def page_token(client):
    return (await client.pending(limit=1)).next


def answer_of(request, *calls):
    return relay_answer(request.id, [RelayResult(made, "done") for made in calls])


async def test_the_id_of_a_request_is_enough_over_a_store(shared):
    halted = await shared.halt(call("tide"), call("moor"))
    client, model = shared.client("done")
    id = halted.pending.id
    waiting = await client.ask_with_answer(HARBOUR, "c-1", id, answer_of(halted.pending, "k2"), missing="wait")
    assert [made.id for made in relay_calls_of(waiting.pending)] == ["k1"]
    done = await client.ask_with_answer(HARBOUR, "c-1", id, answer_of(halted.pending, "k1"))
    assert (done.text, model.results) == ("done", ["done", "done"])
    assert await client.ask_with_answer(HARBOUR, "c-1", id, answer_of(halted.pending, "k1")) == done
    with pytest.raises(ResumeError, match="must echo"):
        await client.ask_with_answer(HARBOUR, "c-1", "req_other", answer_of(halted.pending, "k1"))
    with pytest.raises(ResumeError, match="does not wait"):
        await client.ask_with_answer(HARBOUR, "c-1", "req_other", answer_output("req_other", "x"))
    with pytest.raises(PayloadError, match="pending"):
        await client.ask_with_answer(HARBOUR, "c-1", None, answer_output(id, "x"))


async def test_a_prompt_waits_behind_the_run_that_has_the_conversation(shared):
    gate = Gate()
    first, _ = shared.client(gate)
    second, model = shared.client("second")
    asking = asyncio.create_task(first.ask("a", HARBOUR, id="c-1"))
    await gate.asked.wait()
    waiting = asyncio.create_task(second.ask("b", HARBOUR, id="c-1", wait=True))
    with pytest.raises(ConversationBusy):
        await second.ask("b", HARBOUR, id="c-1")
    gate.may.set()
    assert (await asking).text == "at last"
    assert (await waiting).text == "second"
    assert [message["content"] for message in model.requests[0].messages] == ["a", "at last", "b"]


async def test_who_waits_gives_up_at_the_timeout_and_when_it_is_cancelled(shared):
    gate = Gate()
    first, _ = shared.client(gate)
    asking = asyncio.create_task(first.ask("a", HARBOUR, id="c-1"))
    await gate.asked.wait()
    hurried, model = shared.client(timeout=0.05)
    with pytest.raises(ConversationBusy):
        await hurried.ask("b", HARBOUR, id="c-1", wait=True)
    patient, _ = shared.client()
    waiting = asyncio.create_task(patient.ask("b", HARBOUR, id="c-1", wait=True))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(waiting, 0.05)
    assert model.requests == []
    gate.may.set()
    await asking
    assert [message["role"] for message in (await first.get("c-1")).messages] == ["user", "assistant"]


async def test_what_the_store_raises_reaches_whoever_looks_after_conversations(shared):
    client, _ = shared.client()
    for work in [client.get(""), client.cancel(""), client.delete(""), client.export(""), client.restore("", [])]:
        with pytest.raises(StoreError, match="empty"):
            await work


def test_all_of_it_works_without_an_event_loop():
    client, _ = client_for(says(call("tide")), "done")
    halted = client.ask_sync("go", HARBOUR, id="c-1")
    assert client.get_sync("c-1").suspensions == halted.suspensions
    assert [waiting.conversation for waiting in client.pending_sync().requests] == ["c-1"]
    assert client.fork_sync("c-1", "c-2").state == "pending"
    assert client.cancel_sync("c-2").state == "idle"
    assert client.restore_sync("c-3", client.export_sync("c-1")).suspensions == halted.suspensions
    assert client.delete_sync("c-2")
    assert client.sweep_sync().failed == {}
    answer = answer_output(halted.pending.id, "4 m")
    assert client.ask_with_answer_sync(HARBOUR, "c-1", halted.pending.id, answer).text == "done"
    assert client.ask_sync
    assert RAN == []
