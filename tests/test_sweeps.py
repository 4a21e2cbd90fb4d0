"""Looking after the store: what dead workers left, and what nobody answered in time (contract 7.6, 7.8; H2, H3)."""

import asyncio
import contextlib
import logging
from datetime import UTC, datetime, timedelta

import pytest
from dict_store import DictStore
from harbour import HARBOUR, RAN
from scripted_model import call, client_for, says
from toolrelay import (
    ConfigurationError,
    ConversationBusy,
    ConversationNotFound,
    NothingToRecover,
    PayloadError,
    ResumeError,
    StoreUnavailable,
    ToolContext,
    Toolkit,
    answer_output,
    define_tool,
    pending,
)
from toolrelay.stores import Lease, Write

PAST = datetime(2020, 1, 1, tzinfo=UTC)


@define_tool
async def late(context: ToolContext) -> object:
    """Asks somebody who has no time left."""
    return "agreed" if context.answer is not None else pending("approval", "Agree?", expires_at=PAST)


@define_tool(retry_safe=True)
async def count() -> str:
    """May run again."""
    RAN.append("count")
    return "counted"


TOOLKIT = Toolkit([*HARBOUR, late, count])


def reply_with(*names: str) -> bytes:
    calls = ",".join(
        f'{{"id":"k{at}","type":"function","function":{{"name":"{name}","arguments":"{{}}"}}}}'
        for at, name in enumerate(names, 1)
    )
    return f'{{"role":"assistant","content":null,"tool_calls":[{calls}]}}'.encode()


async def leave(store, id, *names, until_ms=0):
    """What a worker leaves that died while these tools ran."""
    messages = ((0, b'{"role":"user","content":"go"}'), (1, reply_with(*names)))
    await store.commit(id, Write(0, 1, 0, "running", 1, Lease("dead", 1, until_ms), messages, ()))


async def test_what_a_dead_worker_left_is_recovered(shared):
    store = shared.store()
    await leave(store, "c-1", "count", "save", "tide")
    client, model = shared.client("picked up")
    result = await client.recover(TOOLKIT, "c-1")
    assert (result.status, RAN) == ("pending", ["count"])
    interrupted = "interrupted: the call had started and may have run; its result is not known"
    done = await client.ask_with_answer(TOOLKIT, "c-1", result.pending, answer_output(result.pending.id, "4 m"))
    assert (done.text, model.results) == ("picked up", ["counted", interrupted, "4 m"])


async def test_only_what_a_dead_worker_left_is_recovered(shared):
    store = shared.store()
    client, _ = shared.client("hello")
    await client.ask("hi", TOOLKIT, id="idle")
    await shared.halt(call("tide"), conversation="waits")
    await leave(store, "alive", "save", until_ms=2**42)
    for id, error in [
        ("idle", NothingToRecover),
        ("waits", NothingToRecover),
        ("alive", ConversationBusy),
        ("nobody", ConversationNotFound),
    ]:
        with pytest.raises(error) as caught:
            await client.recover(TOOLKIT, id)
        assert caught.value.conversation == id
    assert (await client.sweep(TOOLKIT)).recovered == {}


async def test_a_sweep_settles_what_expired_and_goes_on_with_what_was_left(shared):
    store = shared.store()
    await shared.halt(call("tide"), conversation="waits")
    asker, _ = shared.client(says(call("late"), call("tide")), says(call("late")))
    halted = await asker.ask("go", TOOLKIT, id="late-1")
    await asker.ask("go", TOOLKIT, id="late-2")
    await leave(store, "left", "count")
    await leave(store, "alive", "count", until_ms=2**42)
    client, model = shared.client("picked up")

    swept = await client.sweep()
    assert (sorted(swept.expired), swept.recovered, swept.failed) == (["late-1", "late-2"], {}, {})
    assert model.requests == []
    first, second = await client.get("late-1"), await client.get("late-2")
    assert (first.state, [request.kind for request in first.suspensions]) == ("pending", ["tool_call"])
    assert (second.state, second.suspensions) == ("idle", ())
    assert second.messages[-1]["content"] == "expired: nobody answered in time; the call was not executed"
    approval = halted.suspensions[0]
    with pytest.raises(ResumeError, match="expired at 2020-01-01"):
        await client.ask_with_answer(TOOLKIT, "late-1", approval, answer_output(approval.id, "yes"))

    swept = await client.sweep(TOOLKIT)
    assert (swept.expired, list(swept.recovered), swept.failed) == ([], ["left"], {})
    assert (swept.recovered["left"].text, RAN) == ("picked up", ["count"])
    swept = await client.sweep(TOOLKIT)
    assert (swept.expired, swept.recovered, swept.failed) == ([], {}, {})
    assert (await client.get("waits")).state == "pending"


async def test_a_prompt_behind_an_expired_request_needs_no_leave(shared):
    """7.8; H3: the model reads that it expired, not that it was declined or is pending."""
    client, model = shared.client(says(call("late")), "never mind")
    await client.ask("go", TOOLKIT, id="c-1")
    result = await client.ask("are you there?", TOOLKIT, id="c-1")
    assert (result.text, model.results) == (
        "never mind",
        ["expired: nobody answered in time; the call was not executed"],
    )


async def test_many_sweepers_at_once_do_each_thing_once(shared):
    store = shared.store()
    for at in range(6):
        await leave(store, f"left-{at}", "count")
        client, _ = shared.client(says(call("late")))
        await client.ask("go", TOOLKIT, id=f"late-{at}")
    swept = await asyncio.gather(*(shared.client(*["on"] * 6)[0].sweep(TOOLKIT) for _ in range(4)))
    assert sorted(id for one in swept for id in one.recovered) == [f"left-{at}" for at in range(6)]
    assert sorted(id for one in swept for id in one.expired) == [f"late-{at}" for at in range(6)]
    assert [one.failed for one in swept] == [{}] * 4
    assert RAN == ["count"] * 6


async def test_a_broken_conversation_holds_up_no_other_one(shared):
    store = shared.store()
    broken = Write(0, 1, 0, "running", 1, Lease("dead", 1, -1), ((0, b"no JSON"),), ())
    await store.commit("broken", broken)
    for at in range(4):
        await leave(store, f"left-{at}", "count", until_ms=at)
    client, _ = shared.client(*["picked up"] * 4)
    swept = await client.sweep(TOOLKIT, limit=3, at_once=2)
    assert list(swept.failed) == ["broken"]
    assert sorted(swept.recovered) == ["left-0", "left-1", "left-2"]
    swept = await client.sweep(TOOLKIT, limit=3)
    assert (list(swept.failed), list(swept.recovered)) == (["broken"], ["left-3"])
    await client.delete("broken")
    assert (await client.sweep(TOOLKIT)).failed == {}


async def test_a_sweep_that_is_cancelled_frees_what_it_goes_on_with(shared):
    """9.1; what was done before the cancellation is kept."""
    await leave(shared.store(), "c-1", "count")
    asked = asyncio.Event()

    async def silent(request):
        asked.set()
        await asyncio.Event().wait()

    client, _ = shared.client(silent)
    sweeping = asyncio.create_task(client.sweep(TOOLKIT))
    await asked.wait()
    sweeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sweeping
    kept = await client.get("c-1")
    assert (kept.state, kept.worker, kept.messages[-1]["content"]) == ("idle", None, "counted")
    other, _ = shared.client("on we go")
    assert ((await other.ask(None, TOOLKIT, id="c-1")).text, RAN) == ("on we go", ["count"])


async def test_a_model_that_fails_is_told_and_the_conversation_is_free(shared):
    await leave(shared.store(), "left", "count")
    client, _ = shared.client(OSError("away"), "back")
    swept = await client.sweep(TOOLKIT)
    assert (list(swept.failed), swept.recovered) == (["left"], {})
    assert (await client.get("left")).state == "idle"
    assert (await client.ask(None, TOOLKIT, id="left")).text == "back"


async def test_a_store_that_is_away_ends_a_sweep():
    store = DictStore()
    client, _ = client_for(store=store)

    def away(method, id):
        raise OSError("no route")

    store.before = away
    with pytest.raises(StoreUnavailable, match="open_requests raised OSError") as caught:
        await client.sweep()
    assert isinstance(caught.value.__cause__, OSError)


async def test_a_sweeper_beside_the_program_sweeps_until_it_ends(shared, caplog):
    store = shared.store()
    await leave(store, "left-1", "count")
    client, _ = shared.client("picked up", "picked up", says(call("late")))
    with caplog.at_level(logging.INFO, "toolrelay.sweep"):
        async with client.sweeping(TOOLKIT, every=0.01):
            await until(client, "left-1", "idle")
            await leave(store, "left-2", "count")
            await until(client, "left-2", "idle")
            await client.ask("go", TOOLKIT, id="late")
            await until(client, "late", "idle")
            while len(caplog.records) < 3:  # noqa: ASYNC110 - what is written is told right after
                await asyncio.sleep(0.001)
    told = [record.getMessage() for record in caplog.records]
    assert told == ["recovered left-1: done", "recovered left-2: done", "settled what expired in late"]
    await leave(store, "left-3", "count")
    assert (await client.get("left-3")).state == "running"


async def until(client, id, state):
    while (await client.get(id)).state != state:  # noqa: ASYNC110 - it happens in a store
        await asyncio.sleep(0.001)


async def test_a_run_that_lasts_holds_up_no_sweep_and_is_saved_at_the_end(shared):
    store = shared.store()
    begun = asyncio.Event()

    async def never(request):
        begun.set()
        await asyncio.Event().wait()

    await leave(store, "left-1", "count")
    client, _ = shared.client(never, says(call("late")))
    async with client.sweeping(TOOLKIT, every=0.01, at_once=1):
        await begun.wait()
        await client.ask("go", TOOLKIT, id="late")
        await until(client, "late", "idle")
        assert (await client.get("left-1")).state == "running"
    left = await client.get("left-1")
    assert (left.state, left.messages[-1]["content"], RAN) == ("idle", "counted", ["count"])


async def test_a_sweeper_outlives_a_store_that_is_away(caplog):
    store = DictStore()
    await leave(store, "left", "count")
    client, _ = client_for("picked up", store=store)
    away = asyncio.Event()

    def fail(method, id):
        if not away.is_set():
            away.set()
            raise OSError("no route")

    store.before = fail
    with caplog.at_level(logging.WARNING, "toolrelay.sweep"):
        sweeper = asyncio.create_task(client.sweeping(TOOLKIT, every=0.01).run())
        await away.wait()
        await until(client, "left", "idle")
        sweeper.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await sweeper
    (record,) = caplog.records
    assert "the sweep failed: DictStore is unavailable" in record.getMessage()


async def test_settings_that_make_no_sweep_are_refused():
    client, _ = client_for()
    with pytest.raises(ConfigurationError, match="every"):
        client.sweeping(every=0)
    with pytest.raises(PayloadError, match="limit"):
        await client.sweep(limit=0)
    with pytest.raises(PayloadError, match="at_once"):
        await client.sweep(at_once=True)


async def test_two_times_that_are_not_over_are_left_alone(shared):
    @define_tool
    async def soon(context: ToolContext) -> object:
        """Asks somebody who has time."""
        return pending("approval", "Agree?", expires_at=datetime.now(UTC) + timedelta(hours=1))

    client, _ = shared.client(says(call("soon")))
    await client.ask("go", Toolkit([soon]), id="c-1")
    assert (await client.sweep()).expired == []
    assert (await client.get("c-1")).state == "pending"
