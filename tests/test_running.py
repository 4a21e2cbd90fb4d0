"""Who works on which conversation is listed (contract 7.2)."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from dict_store import DictStore
from harbour import HARBOUR
from scripted_model import call, client_for, says
from toolrelay import ConversationBusy, PayloadError, SealKeys, StoreUnavailable, answer_output
from toolrelay.conversations import RunningConversation, RunningPage
from toolrelay.stores import Lease


async def test_submitted_runs_are_listed_by_the_end_of_their_leases_and_page_by_page(shared):
    ends = {"c-1": 90.0, "c-2": 30.0, "c-3": 60.0}
    for id, lease in ends.items():
        await shared.client(lease=lease)[0].submit("go", HARBOUR, id=id)
    client, _ = shared.client("hello")
    known = [await client.get(id) for id in ("c-2", "c-3", "c-1")]
    listed = tuple(RunningConversation(one.id, None, one.lease_until) for one in known if one.lease_until)
    assert await client.running() == RunningPage(listed, None)

    first = await client.running(limit=2)
    assert first.conversations == listed[:2]
    assert await client.running(limit=2, after=first.next) == RunningPage(listed[2:], None)

    await client.ask(None, HARBOUR, id="c-3")
    assert [one.conversation for one in (await client.running()).conversations] == ["c-2", "c-1"]


async def test_a_worker_that_is_at_work_is_named_and_a_halt_is_not_listed(shared):
    asked, may = asyncio.Event(), asyncio.Event()

    async def gate(request):
        asked.set()
        await may.wait()
        return "at last"

    await shared.halt(call("tide"), conversation="c-2")
    client, _ = shared.client(gate)
    asking = asyncio.create_task(client.ask("go", HARBOUR, id="c-1"))
    await asked.wait()
    found = await client.get("c-1")
    (running,) = (await client.running()).conversations
    assert (running.conversation, running.worker) == ("c-1", found.worker)
    assert running.worker is not None
    with pytest.raises(ConversationBusy, match="is being worked on by") as busy:
        await client.ask("and?", HARBOUR, id="c-1")
    assert (busy.value.worker, busy.value.lease_until) == (running.worker, running.lease_until)
    assert all(text in str(busy.value) for text in (running.worker, f"{running.lease_until:%Y-%m-%dT%H:%M:%S}"))
    assert datetime.now(UTC) - timedelta(seconds=60) < running.lease_until
    may.set()
    await asking
    assert await client.running() == RunningPage((), None)


async def test_the_marks_of_sealed_halts_are_no_runs(shared):
    keys = SealKeys(bytes(range(32)))
    client, _ = shared.client(says(call("tide")), "hello")
    halted = await client.run("go", HARBOUR)
    token = halted.seal(keys, expires_in=60)
    await client.run_with_sealed(HARBOUR, token, answer_output(halted.pending.id, "x"), keys=keys, once=True)
    assert len(await shared.store().leases(None, 10)) == 1
    marks = await client.running(limit=1)
    assert (marks.conversations, await client.running(after=marks.next)) == ((), RunningPage((), None))


def test_a_program_without_a_loop_lists_them_too():
    client, _ = client_for()
    client.submit_sync("go", HARBOUR, id="c-1")
    assert [one.conversation for one in client.running_sync(limit=5).conversations] == ["c-1"]


async def test_a_page_of_another_listing_and_a_limit_that_is_none_are_refused():
    client, _ = client_for()
    for wrong in ({"after": "nonsense"}, {"limit": 0}):
        with pytest.raises(PayloadError):
            await client.running(**wrong)


async def test_a_store_of_ones_own_that_fails_is_unavailable_with_its_cause():
    class Away(DictStore):
        async def leases(self, after, limit) -> list[tuple[str, Lease]]:
            raise OSError("away")

    client, _ = client_for(store=Away())
    with pytest.raises(StoreUnavailable, match="Away is unavailable: its leases raised OSError") as told:
        await client.running()
    assert isinstance(told.value.__cause__, OSError)
