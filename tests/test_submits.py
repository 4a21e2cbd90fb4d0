"""Prompts and answers that one worker makes durable and another goes on with (contract 7.2, 7.3)."""

import asyncio

import pytest
from harbour import HARBOUR, RAN
from scripted_model import call, client_for, says
from toolrelay import (
    AlreadyAnswered,
    AnswerInProgress,
    ConversationBusy,
    ConversationNotFound,
    NothingToRecover,
    PayloadError,
    PendingError,
    ResumeError,
    answer_output,
    relay_answer,
)


async def test_a_submitted_prompt_is_durable_and_another_worker_goes_on(shared):
    client, unasked = shared.client()
    assert await client.submit("go", HARBOUR, id="c-1") is True
    left = await client.get("c-1")
    assert (left.state, left.worker, [dict(message) for message in left.messages]) == (
        "running",
        None,
        [{"role": "user", "content": "go"}],
    )
    assert left.lease_until is not None
    with pytest.raises(ConversationBusy):
        await client.submit("and?", HARBOUR, id="c-1")
    with pytest.raises(ConversationBusy, match="was submitted and nobody has taken its run up yet") as busy:
        await client.ask("and?", HARBOUR, id="c-1")
    assert (busy.value.worker, busy.value.lease_until) == (None, left.lease_until)

    worker, model = shared.client("hello")
    taken = await asyncio.gather(*(worker.recover(HARBOUR, "c-1") for _ in range(4)), return_exceptions=True)
    assert [one.text for one in taken if not isinstance(one, BaseException)] == ["hello"]
    assert {type(one) for one in taken if isinstance(one, BaseException)} <= {ConversationBusy, NothingToRecover}
    assert (unasked.requests, len(model.requests)) == ([], 1)
    assert (await client.get("c-1")).state == "idle"


async def test_a_submitted_answer_is_settled_and_its_tool_runs_once_in_the_worker_that_takes_it_up(shared):
    halted = await shared.halt(call("pay"), call("tide"))
    relay, approval = sorted(halted.suspensions, key=lambda request: request.kind, reverse=True)
    client, unasked = shared.client()
    RAN.clear()

    assert await client.submit_answer(HARBOUR, "c-1", relay, answer_output(relay.id, "4 m")) is False
    waiting = await client.get("c-1")
    assert (waiting.state, waiting.suspensions) == ("pending", (approval,))
    answer = answer_output(approval.id, "yes")
    assert await client.submit_answer(HARBOUR, "c-1", approval.id, answer) is True
    assert ((await client.get("c-1")).state, RAN, unasked.requests) == ("running", [], [])
    with pytest.raises(AnswerInProgress) as twice:
        await client.submit_answer(HARBOUR, "c-1", approval.id, answer)
    assert (twice.value.conversation, twice.value.request_id) == ("c-1", approval.id)
    assert (twice.value.worker, twice.value.lease_until) == (None, (await client.get("c-1")).lease_until)
    assert "nobody has taken its run up yet" in str(twice.value)
    with pytest.raises(AlreadyAnswered):
        await client.submit_answer(HARBOUR, "c-1", approval.id, answer_output(approval.id, "no"))

    worker, model = shared.client("picked up")
    done = await worker.ask(None, HARBOUR, id="c-1")
    assert (done.text, RAN, model.results[1]) == ("picked up", ["pay after True"], "4 m")
    assert await client.submit_answer(HARBOUR, "c-1", approval.id, answer) is False
    again = await client.ask_with_answer(HARBOUR, "c-1", approval.id, answer)
    assert (again.text, len(model.requests), unasked.requests) == ("picked up", 1, [])


async def test_what_does_not_fit_is_refused_as_it_is_when_it_is_run(shared):
    halted = await shared.halt(call("tide"), call("moor"))
    client, _ = shared.client()
    pending = halted.pending
    with pytest.raises(PendingError) as waits:
        await client.submit("and?", HARBOUR, id="c-1")
    assert waits.value.suspensions == (pending,)
    with pytest.raises(ResumeError, match="cannot resume") as refused:
        await client.submit_answer(HARBOUR, "c-1", pending, answer_output(pending.id, "which?"))
    assert refused.value.pending == pending
    with pytest.raises(ConversationNotFound) as missing:
        await client.submit_answer(HARBOUR, "c-2", pending, relay_answer(pending.id, []))
    assert missing.value.conversation == "c-2"
    with pytest.raises(ConversationNotFound):
        await client.submit(None, HARBOUR, id="c-2")
    with pytest.raises(PayloadError):
        await client.submit("go", HARBOUR, id="c-2", on_pending="wait")
    assert (await client.get("c-1")).suspensions == (pending,)

    await client.submit("never mind", HARBOUR, id="c-1", on_pending="supersede")
    worker, model = shared.client("all right")
    assert (await worker.recover(HARBOUR, "c-1")).text == "all right"
    assert [text.split(":")[0] for text in model.results] == ["superseded", "superseded"]


async def test_what_nobody_takes_up_is_swept_when_its_lease_is_over(shared):
    client, _ = shared.client(lease=0.001)
    await client.submit("go", HARBOUR, id="c-1")
    worker, _ = shared.client("hello")
    while not (swept := await worker.sweep(HARBOUR)).recovered:
        assert swept.failed == {}
        await asyncio.sleep(0)  # until the clock has moved on by a millisecond
    assert swept.recovered["c-1"].text == "hello"


def test_programs_without_a_loop_submit_too():
    client, model = client_for(says(call("tide")), "picked up")
    client.submit_sync("go", HARBOUR, id="c-1")
    halted = client.recover_sync(HARBOUR, "c-1")
    client.submit_answer_sync(HARBOUR, "c-1", halted.pending, answer_output(halted.pending.id, "4 m"))
    assert client.recover_sync(HARBOUR, "c-1").text == "picked up"
    assert len(model.requests) == 2
