"""Answers that come twice, differently, or at once: one works, the others are told (contract 7.2 to 7.4, 7.9)."""

import asyncio

import pytest
from harbour import HARBOUR
from scripted_model import call, says
from toolrelay import (
    AlreadyAnswered,
    AnswerInProgress,
    ConversationBusy,
    answer_declined,
    answer_output,
    create_in_process_client,
)


async def test_the_same_answer_again_has_the_same_outcome_and_no_model_is_asked(shared):
    """H4; contract 7.4."""
    halted = await shared.halt(call("tide"))
    answer = answer_output(halted.pending.id, {"metres": 4, "port": "Ames"})
    client, _ = shared.client(says(call("tally")), "done")
    first = await client.ask_with_answer(HARBOUR, "c-1", halted.pending, answer)
    await client.ask_with_answer(HARBOUR, "c-1", halted.pending, answer)

    elsewhere, model = shared.client("later")
    shuffled = answer_output(halted.pending.id, {"port": "Ames", "metres": 4})
    again = await elsewhere.ask_with_answer(HARBOUR, "c-1", halted.pending, shuffled)

    assert model.requests == []
    assert (again.status, again.text, again.turns, again.limit) == (first.status, first.text, first.turns, first.limit)
    assert again.messages == first.messages
    assert again.usage == first.usage
    assert [repr(record) for record in again.tool_calls] == [repr(record) for record in first.tool_calls]
    await elsewhere.ask("more", HARBOUR, id="c-1")
    later = await elsewhere.ask_with_answer(HARBOUR, "c-1", halted.pending, answer)
    assert later.messages == first.messages


async def test_the_same_answer_again_shows_the_halt_that_it_led_to(shared):
    """Contract 7.4."""
    halted = await shared.halt(call("tide"))
    answer = answer_output(halted.pending.id, "4 m")
    client, _ = shared.client(says(call("moor", call_id="m1"), call("pay", call_id="p1")))
    second = await client.ask_with_answer(HARBOUR, "c-1", halted.pending, answer)
    again = await client.ask_with_answer(HARBOUR, "c-1", halted.pending, answer)
    assert (again.status, again.suspensions) == ("pending", second.suspensions)
    assert again.messages == second.messages


@pytest.mark.parametrize(
    "make", [lambda request_id: answer_output(request_id, "5 m"), answer_declined], ids=["output", "declined"]
)
async def test_another_answer_for_a_settled_request_is_refused(shared, make):
    """H4, H5; contract 7.4."""
    halted = await shared.halt(call("tide"))
    client, model = shared.client("done")
    await client.ask_with_answer(HARBOUR, "c-1", halted.pending, answer_output(halted.pending.id, "4 m"))

    with pytest.raises(AlreadyAnswered) as caught:
        await client.ask_with_answer(HARBOUR, "c-1", halted.pending, make(halted.pending.id))

    assert (caught.value.conversation, caught.value.request_id) == ("c-1", halted.pending.id)
    assert len(model.requests) == 1


async def test_an_answer_that_is_being_worked_on_is_told_apart_and_is_durable_before_its_use(shared):
    """Contract 7.3, 7.4, 7.9."""
    halted = await shared.halt(call("tide"))
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def slow(request):
        asked.set()
        await go_on.wait()
        return "done"

    worker, _ = shared.client(slow)
    other, model = shared.client("never")
    answer = answer_output(halted.pending.id, "4 m")
    working = asyncio.create_task(worker.ask_with_answer(HARBOUR, "c-1", halted.pending, answer))
    await asked.wait()

    with pytest.raises(AnswerInProgress) as same:
        await other.ask_with_answer(HARBOUR, "c-1", halted.pending, answer)
    with pytest.raises(AlreadyAnswered):
        await other.ask_with_answer(HARBOUR, "c-1", halted.pending, answer_output(halted.pending.id, "5 m"))
    with pytest.raises(ConversationBusy) as busy:
        await other.ask("hello?", HARBOUR, id="c-1")

    assert (same.value.conversation, same.value.request_id) == ("c-1", halted.pending.id)
    assert busy.value.conversation == "c-1"
    go_on.set()
    assert (await working).text == "done"
    assert (await other.ask_with_answer(HARBOUR, "c-1", halted.pending, answer)).text == "done"
    assert model.requests == []


@pytest.mark.parametrize(
    "outputs", [["4 m"] * 16, [f"{at} m" for at in range(16)]], ids=["same answer", "other answers"]
)
async def test_of_many_answers_at_once_one_works_and_one_model_call_is_made(shared, outputs):
    """H1; contract 7.2."""
    halted = await shared.halt(call("tide"))
    calls = []

    async def generate(request):
        calls.append(request.messages[-1]["content"])
        await asyncio.sleep(0.1)
        return f"tide is {request.messages[-1]['content']}"

    async def resume(output):
        client = create_in_process_client(generate=generate, store=shared.store())
        return await client.ask_with_answer(HARBOUR, "c-1", halted.pending, answer_output(halted.pending.id, output))

    ended = await asyncio.gather(*map(resume, outputs), return_exceptions=True)

    assert len(calls) == 1
    told = [end for end in ended if not isinstance(end, BaseException)]
    losers = [end for end in ended if isinstance(end, BaseException)]
    assert told
    assert {result.text for result in told} == {f"tide is {calls[0]}"}
    assert {type(error) for error in losers} <= {AnswerInProgress, AlreadyAnswered, ConversationBusy}


async def test_of_many_prompts_at_once_one_works(shared):
    """Contract 7.2, 7.9."""

    async def generate(request):
        await asyncio.sleep(0.1)
        return "done"

    clients = [create_in_process_client(generate=generate, store=shared.store()) for _ in range(8)]
    asked = [client.ask(f"prompt {at}", HARBOUR, id="c-1") for at, client in enumerate(clients)]
    ended = await asyncio.gather(*asked, return_exceptions=True)
    (winner,) = [end for end in ended if not isinstance(end, BaseException)]
    assert len(winner.messages) == 2
    assert {type(end) for end in ended if end is not winner} == {ConversationBusy}
