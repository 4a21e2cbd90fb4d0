"""Stores of the host's own, and the native ones through the same methods (contract 7.10)."""

import asyncio
import pickle
from contextvars import ContextVar

import pytest
from dict_store import DictStore
from places import DURABLE, new_place, open_store
from scripted_model import ScriptedModel, call, says
from toolrelay import (
    AlreadyAnswered,
    AnswerInProgress,
    ConfigurationError,
    ConversationBusy,
    ConversationNotFound,
    LeaseLost,
    MemoryStore,
    StoreConflict,
    StoreCorrupt,
    StoreError,
    StoreUnavailable,
    Toolkit,
    answer_output,
    create_in_process_client,
    define_tool,
    relay_tool,
)
from toolrelay.stores import Cursor, Lease, Slot, StoredConversation, StoredRequest, Write

TIDE = relay_tool("tide", "high water")


@define_tool
async def tally() -> int:
    """Counts."""
    return 7


TOOLKIT = Toolkit([TIDE, tally])


def client_of(store, *replies, **settings):
    model = ScriptedModel(*replies)
    return create_in_process_client(generate=model, store=store, **settings), model


async def halt(store):
    client, _ = client_of(store, says(call("tide"), call("tally")))
    return (await client.ask("go", TOOLKIT, id="c-1")).pending


async def test_of_many_answers_at_once_one_asks_the_model():
    """Contract 7.2: the claim is the store's compare-and-set."""
    store = DictStore()
    pending = await halt(store)
    client, model = client_of(store, "done")
    answer = answer_output(pending.id, "4 m")

    racers = [client.ask_with_answer(TOOLKIT, "c-1", pending, answer) for _ in range(12)]
    ended = await asyncio.gather(*racers, return_exceptions=True)

    assert len(model.requests) == 1
    assert {type(end) for end in ended if isinstance(end, BaseException)} <= {AnswerInProgress, ConversationBusy}
    assert [end.text for end in ended if not isinstance(end, BaseException)].count("done") >= 1
    assert (await client.ask_with_answer(TOOLKIT, "c-1", pending, answer)).text == "done"
    with pytest.raises(AlreadyAnswered):
        await client.ask_with_answer(TOOLKIT, "c-1", pending, answer_output(pending.id, "5 m"))
    assert len(model.requests) == 1


async def test_a_halt_and_its_resume_are_two_reads_and_four_writes():
    """What goes to a server costs a round trip each."""
    store, asked = DictStore(), []
    store.before = lambda method, id: asked.append(method)
    client, _ = client_of(store, says(call("tide")), "done")
    halted = await client.ask("go", Toolkit([TIDE]), id="c-1")
    answer = answer_output(halted.pending.id, "4 m")
    done = await client.ask_with_answer(Toolkit([TIDE]), "c-1", halted.pending.id, answer)
    assert done.text == "done"
    assert asked == ["load", "commit", "commit"] * 2


async def test_what_is_written_is_plain():
    store = DictStore()
    pending = await halt(store)
    claim, turn, halted = store.commits
    assert (claim.expect, claim.state, [place for place, _ in claim.append]) == (0, "running", [0])
    assert claim.append[0][1] == b'{"role":"user","content":"go"}'
    assert isinstance(claim.lease, Lease)
    assert [place for place, _ in turn.append] == [1]
    (row,) = turn.requests  # before the host is asked, and before the other tool has ended
    assert (halted.state, halted.lease, [place for place, _ in halted.append]) == ("pending", None, [3])
    assert halted.requests == ()
    assert (row.id, row.slots, row.settled, row.answers, row.outcome) == (pending.id, (Slot(2, "k1"),), False, (), None)
    assert pickle.loads(pickle.dumps(halted)) == halted


async def test_what_the_store_raises_is_the_cause_and_nothing_is_lost():
    """An exception that is none of ours; its text, which may hold messages, stays with it."""
    store = DictStore()
    pending = await halt(store)
    client, model = client_of(store, "done")

    def away(method, id):
        raise OSError(f"no route to {method} of {id}")

    store.before = away
    with pytest.raises(StoreUnavailable, match="DictStore is unavailable: its load raised OSError") as caught:
        await client.ask_with_answer(TOOLKIT, "c-1", pending, answer_output(pending.id, "4 m"))
    assert "no route" not in str(caught.value)
    assert caught.value.conversation == "c-1"
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.__traceback__ is not None
    with pytest.raises(StoreUnavailable) as caught:
        await client.get("c-1")
    assert isinstance(caught.value.__cause__, OSError)

    store.before = lambda method, id: None
    result = await client.ask_with_answer(TOOLKIT, "c-1", pending, answer_output(pending.id, "4 m"))
    assert (result.text, len(model.requests)) == ("done", 1)


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_commit_that_broke_is_looked_up_and_made_again(when):
    """The outcome of a failed commit is not known; the model is not asked again."""
    for broken in range(4):
        store = DictStore()
        commits = iter(range(100))

        def fail(method, id, broken=broken, commits=commits):
            if method == "commit" and next(commits) == broken:
                raise ConnectionResetError

        setattr(store, when, fail)
        client, model = client_of(store, says(call("tally")), "seven")
        result = await client.ask("count", TOOLKIT, id="c-1")
        assert (result.text, len(model.requests)) == ("seven", 2)
        assert [place for place, _ in store.conversations["c-1"].messages] == [0, 1, 2, 3]


async def test_an_error_of_ours_reaches_the_caller_as_it_is():
    store = DictStore()
    damaged = StoreCorrupt("page 7 is torn")

    def torn(method, id):
        raise damaged

    store.before = torn
    client, model = client_of(store)
    with pytest.raises(StoreCorrupt) as caught:
        await client.ask("go", TOOLKIT, id="c-1")
    assert caught.value is damaged
    assert damaged.conversation == "c-1"
    assert model.requests == []


async def test_a_store_that_fails_for_good_under_way_leaves_the_transcript_in_the_error():
    store = DictStore()
    commits = iter(range(100))

    def full(method, id):
        if method == "commit" and next(commits) > 0:
            raise OSError("disk")

    store.before = full
    client, _ = client_of(store, says(call("tally")), "seven")
    with pytest.raises(StoreUnavailable) as caught:
        await client.ask("count", TOOLKIT, id="c-1")
    prompt, reply, result = caught.value.transcript
    assert (prompt["content"], reply["tool_calls"][0]["id"], result["tool_call_id"]) == ("count", "k1", "k1")
    assert isinstance(caught.value.__cause__, OSError)


async def test_a_worker_that_lost_its_lease_is_told():
    """Contract 7.2: the loser writes nothing more, and a conflict is no cause to show."""
    store = DictStore()

    def usurp(request):
        found = store.conversations["c-1"]
        store.conversations["c-1"] = StoredConversation(
            found.version + 1, 0, found.epoch + 1, "idle", None, found.messages, found.requests
        )
        return "too late"

    client, _ = client_of(store, usurp)
    with pytest.raises(LeaseLost) as caught:
        await client.ask("go", TOOLKIT, id="c-1")
    assert caught.value.__cause__ is None
    assert len(store.conversations["c-1"].messages) == 1


@pytest.mark.parametrize("given", [{"version": 1}, StoredConversation(1, 0, 1, "asleep", None, (), ()), 3])
async def test_what_cannot_be_read_is_said(given):
    store = DictStore()
    store.conversations["c-1"] = given
    client, model = client_of(store)
    with pytest.raises(StoreUnavailable) as caught:
        await client.ask("go", TOOLKIT, id="c-1")
    assert isinstance(caught.value.__cause__, AttributeError | TypeError | ValueError)
    assert model.requests == []


async def test_the_methods_run_as_tasks_with_the_callers_context():
    tenant = ContextVar("tenant")
    seen = set()
    store = DictStore()
    store.before = lambda method, id: seen.add((method, tenant.get(), asyncio.current_task() is not asked))
    client, _ = client_of(store, "hello")
    asked = asyncio.current_task()
    tenant.set("north")
    await client.ask("hi", TOOLKIT, id="c-1")
    await client.get("c-1")
    assert seen == {("load", "north", True), ("commit", "north", True)}


async def test_cancelling_the_caller_still_saves():
    """I3: the run settles what was under way and saves it before the cancellation goes on."""
    store = DictStore()
    begun = asyncio.Event()

    async def never(request):
        begun.set()
        await asyncio.Event().wait()

    client = create_in_process_client(generate=never, store=store)
    asking = asyncio.create_task(client.ask("hi", TOOLKIT, id="c-1"))
    await begun.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    kept = store.conversations["c-1"]
    assert (kept.state, kept.lease, len(kept.messages)) == ("idle", None, 1)


async def test_a_store_method_that_is_cancelled_leaves_no_hang():
    class Impatient(DictStore):
        async def load(self, id):
            raise asyncio.CancelledError

    client, _ = client_of(Impatient())
    with pytest.raises(StoreUnavailable, match="given up"):
        await client.ask("hi", TOOLKIT, id="c-1")


def test_a_store_serves_one_loop_after_another():
    store = DictStore()
    client, _ = client_of(store, "one", "two")
    assert client.ask_sync("a", TOOLKIT, id="c-1").text == "one"
    assert client.ask_sync("b", TOOLKIT, id="c-1").text == "two"
    assert len(store.conversations["c-1"].messages) == 4


def test_what_has_not_the_methods_is_no_store():
    class Half:
        async def load(self, id):
            return None

    for store in [Half(), {}, "conversations.db"]:
        with pytest.raises(ConfigurationError, match=r"toolrelay\.stores\.Store"):
            create_in_process_client(generate=str, store=store)


@pytest.fixture(params=["memory", *DURABLE])
async def native(request, tmp_path):
    if request.param == "memory":
        yield MemoryStore()
        return
    store = open_store(new_place(request.param, tmp_path))
    yield store
    await store.close()


async def test_native_stores_have_the_methods(native):
    row = StoredRequest("req_1", (Slot(2, "k1"),), b'{"id":"req_1"}', 500, 1_000, False, (b"{}",), b"[null]")
    write = Write(0, 7, 600, "running", 3, Lease("worker", 3, 2_000), ((0, b'{"role":"user"}'), (1, b"{ }")), (row,))

    assert await native.load("c-1") is None
    assert await native.request("c-1", "req_1") is None
    assert await native.commit("c-1", write) is None
    assert await native.load("c-1") == StoredConversation(7, 600, 3, "running", write.lease, write.append, (row,))
    assert await native.request("c-1", "req_1") == row

    with pytest.raises(StoreConflict, match="at version 7, not at 0") as caught:
        await native.commit("c-1", write)
    assert caught.value.conversation == "c-1"
    taken = Write(7, 8, 0, "idle", 3, None, ((2, b"{}"), (1, b"{}"), (0, b"{}")), ())
    with pytest.raises(StoreConflict, match="message 1 exists already, messages are only ever added"):
        await native.commit("c-1", taken)
    for id, told in [("", "empty"), ("a\0b", "NUL"), ("é" * 513, "1026 bytes")]:
        with pytest.raises(StoreError, match=told):
            await native.load(id)

    assert await native.leases(None, 9) == (("c-1", write.lease),)
    assert await native.leases(Cursor(2_000, "c-1", ""), 9) == ()
    for order, at in [("age", 500), ("expiry", 1_000)]:
        assert await native.open_requests(order, None, 9) == (("c-1", row),)
        assert await native.open_requests(order, Cursor(at, "c-1", "req_1"), 9) == ()
    with pytest.raises(ValueError, match="age or expiry"):
        await native.open_requests("size", None, 9)
    with pytest.raises(StoreConflict):
        await native.delete("c-1", 8)
    assert await native.delete("c-1", 7) is None
    assert await native.load("c-1") is None


async def test_native_stores_keep_any_bytes_and_any_text(native):
    """JSON is a convention of the caller."""
    raw, large = b" \x00\xff\xfe{", bytes(range(256)) * (40 << 10)
    row = StoredRequest("req\0\n", (Slot(2, "k\0"),), raw, 0, None, False, (raw, b"", large), raw)
    messages = ((0, raw), (1, b""), (2, large))
    await native.commit("c-1", Write(0, 1, 0, "pending", 0, None, messages, (row,)))
    found = await native.load("c-1")
    assert found.messages == messages
    assert found.requests == (row,)
    assert await native.request("c-1", row.id) == row


async def test_a_native_store_can_be_wrapped(native):
    class Wrapped:
        written = 0

        async def load(self, id):
            return await native.load(f"north/{id}")

        async def request(self, id, request_id):
            return await native.request(f"north/{id}", request_id)

        async def commit(self, id, write):
            Wrapped.written += 1
            return await native.commit(f"north/{id}", write)

        async def delete(self, id, expect):
            return await native.delete(f"north/{id}", expect)

        async def leases(self, after, limit):
            raise NotImplementedError

        async def open_requests(self, order, after, limit):
            raise NotImplementedError

    store = Wrapped()
    pending = await halt(store)
    client, model = client_of(store, "done")
    result = await client.ask_with_answer(TOOLKIT, "c-1", pending, answer_output(pending.id, "4 m"))
    assert (result.text, model.results, Wrapped.written) == ("done", ["4 m", "7"], 5)
    assert await native.load("c-1") is None
    with pytest.raises(ConversationNotFound):
        await client.get("c-2")
