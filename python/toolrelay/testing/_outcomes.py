"""That workers on one store are told apart: who works, who waits, who is too late, each by an error of its own."""

from __future__ import annotations

import asyncio

from toolrelay.errors import (
    AlreadyAnswered,
    AnswerInProgress,
    ConversationBusy,
    ConversationNotFound,
    PendingError,
    ResumeError,
)
from toolrelay.relay import Answer, Request
from toolrelay.testing._case import Place, StoreCase, refused, same, sure
from toolrelay.testing._stage import CLICK, TALLY, Model, clicked, gathered, toolkit


async def a_halt_in_one_worker_is_resumed_in_another(place: Place) -> None:
    """The second worker knows the conversation from the store alone."""
    model = Model([CLICK, TALLY], "the end")
    halted = await model.client(await place.store()).ask("go", toolkit(), id="c")
    same(halted.status, "pending", "status of the halt")
    other = model.client(await place.store())
    looked = await other.get("c")
    same((looked.state, looked.suspensions), ("pending", halted.suspensions), "the conversation as another sees it")
    same(looked.messages, halted.messages, "the transcript as another sees it")
    pending = halted.suspensions[0]
    done = await other.ask_with_answer(toolkit(), "c", pending, clicked(pending))
    same((done.status, done.text), ("done", "the end"), "the resumed run")
    results = [message["content"] for message in done.messages if message["role"] == "tool"]
    same(results, ["clicked", "counted"], "results, in call order")


async def of_many_answers_at_once_one_asks_the_model(place: Place) -> None:
    """Twelve answers over two stores: one works, the others are told so, and no model call is paid for them."""
    model = Model([CLICK], "the end")
    clients = [model.client(await place.store()), model.client(await place.store())]
    pending = (await clients[0].ask("go", toolkit(), id="c")).suspensions[0]
    model.calls = 0
    racers = [clients[n % 2].ask_with_answer(toolkit(), "c", pending, clicked(pending)) for n in range(12)]
    ended = await gathered(*racers)
    same(model.calls, 1, "number of model calls")
    for end in ended:
        told = isinstance(end, AnswerInProgress | ConversationBusy) or getattr(end, "text", None) == "the end"
        sure(told, f"a racer ended with {end!r}")
    sure(any(getattr(end, "text", None) == "the end" for end in ended), f"nobody worked: {ended}")


async def an_answer_is_told_from_the_same_one_again_and_from_another(place: Place) -> None:
    """The same answer again gives the same outcome, a different one is refused; on every store of the place."""
    model = Model([CLICK], "the end")
    first, second = model.client(await place.store()), model.client(await place.store())
    pending = (await first.ask("go", toolkit(), id="c")).suspensions[0]
    done = await first.ask_with_answer(toolkit(), "c", pending, clicked(pending))
    for client in (first, second):
        again = await client.ask_with_answer(toolkit(), "c", pending, clicked(pending))
        same((again.text, again.messages), (done.text, done.messages), "the same answer again")
        other = client.ask_with_answer(toolkit(), "c", pending, clicked(pending, "something else"))
        await refused(other, AlreadyAnswered, "another answer")
    same(model.calls, 2, "number of model calls")


async def who_comes_while_another_works_is_told_so(place: Place) -> None:
    """A prompt is busy; the same answer is in progress; another one comes too late."""
    model = Model([CLICK], "the end")
    worker, other = model.client(await place.store()), model.client(await place.store())
    pending = (await worker.ask("go", toolkit(), id="c")).suspensions[0]
    model.called.clear()
    model.may_reply.clear()
    working = asyncio.create_task(worker.ask_with_answer(toolkit(), "c", pending, clicked(pending)))
    await model.called.wait()
    await refused(other.ask("hello?", toolkit(), id="c"), ConversationBusy, "a prompt")
    again = other.ask_with_answer(toolkit(), "c", pending, clicked(pending))
    await refused(again, AnswerInProgress, "the same answer")
    different = other.ask_with_answer(toolkit(), "c", pending, clicked(pending, "something else"))
    await refused(different, AlreadyAnswered, "another answer")
    same((await other.get("c")).state, "running", "state")
    model.may_reply.set()
    same((await working).text, "the end", "the run of the worker")
    same(model.calls, 2, "number of model calls")


async def what_does_not_fit_is_refused_and_changes_nothing(place: Place) -> None:
    """A prompt to a halt, an answer to another request, a conversation that is not there."""
    model = Model([CLICK], "the end")
    client = model.client(await place.store())
    pending = (await client.ask("go", toolkit(), id="c")).suspensions[0]
    before = await (await place.store()).load("c")
    await refused(client.ask("hello?", toolkit(), id="c"), PendingError, "a prompt to a halt")
    unknown = Request("req_of_somebody_else", pending.kind, pending.prompt, data=pending.data)
    wrong = client.ask_with_answer(toolkit(), "c", unknown, clicked(unknown))
    await refused(wrong, ResumeError, "an answer to a request of another")
    empty = client.ask_with_answer(toolkit(), "c", pending, Answer(pending.id, ok=True, data={"what": 1}))
    await refused(empty, ResumeError, "an answer without a result")
    nobody = client.ask_with_answer(toolkit(), "nobody", pending, clicked(pending))
    await refused(nobody, ConversationNotFound, "an answer to a conversation that is not there")
    await refused(client.ask(None, toolkit(), id="nobody"), ConversationNotFound, "going on with nothing")
    await refused(client.get("nobody"), ConversationNotFound, "a look at nothing")
    same(await (await place.store()).load("c"), before, "what is stored")
    done = await client.ask("never mind", toolkit(), id="c", on_pending="supersede")
    same(done.text, "the end", "the run of a prompt that supersedes the halt")
    late = client.ask_with_answer(toolkit(), "c", pending, clicked(pending))
    await refused(late, AlreadyAnswered, "an answer to what was superseded")


CASES = [
    StoreCase(check)
    for check in (
        a_halt_in_one_worker_is_resumed_in_another,
        of_many_answers_at_once_one_asks_the_model,
        an_answer_is_told_from_the_same_one_again_and_from_another,
        who_comes_while_another_works_is_told_so,
        what_does_not_fit_is_refused_and_changes_nothing,
    )
]
