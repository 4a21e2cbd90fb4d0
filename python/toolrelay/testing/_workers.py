"""That a worker that lost its lease writes nothing more, that clocks that differ lose nothing, and that an answer at
the instant of its expiry is either taken or too late.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from toolrelay.errors import AlreadyAnswered, AnswerInProgress, ConversationBusy, LeaseLost, ResumeError
from toolrelay.relay import Answer
from toolrelay.stores import Store
from toolrelay.testing._case import Place, StoreCase, known, refused, same, sure
from toolrelay.testing._stage import CLICK, PAY, Ahead, Model, clicked, gathered, late, toolkit

_HOUR = 3_600_000


async def _overtake(place: Place, second: Store) -> None:
    """A worker claims a conversation and sleeps; the second takes it over; the first awakes."""
    model = Model("from the first", "from the second")
    asleep = model.client(await place.store())
    model.may_reply.clear()
    sleeping = asyncio.create_task(asleep.ask("are you there?", toolkit(), id="c"))
    await model.called.wait()

    awake = Model("from the second", "from the third").client(second)
    done = await awake.ask("hello?", toolkit(), id="c")
    same(done.text, "from the second", "the run that took the conversation over")
    model.may_reply.set()
    await refused(sleeping, LeaseLost, "the run that lost its lease")
    said = [message["content"] for message in (await awake.get("c")).messages]
    same(said, ["are you there?", "hello?", "from the second"], "the transcript")
    stored = await known(await place.store(), "c", "load")
    same((stored.state, stored.lease, len(stored.messages)), ("idle", None, 3), "what is stored")


async def a_worker_that_lost_its_lease_writes_nothing_more(place: Place) -> None:
    """The claim that took its place fences it out, however late it awakes."""
    await _overtake(place, late(await place.store()))


async def a_clock_that_is_ahead_takes_over_too_early_and_loses_nothing(place: Place) -> None:
    """A worker whose clock is an hour ahead believes that the lease of another is over."""
    await _overtake(place, Ahead(await place.store(), _HOUR))


async def a_clock_that_is_behind_waits_too_long_and_is_told_so(place: Place) -> None:
    """A worker whose clock is an hour behind takes a conversation for busy, whose lease is over for the others."""
    model = Model("from the first")
    model.may_reply.clear()
    dying = asyncio.create_task(model.client(await place.store()).ask("go", toolkit(), id="c"))
    await model.called.wait()
    behind = Model("never").client(Ahead(late(await place.store()), -25 * _HOUR))
    await refused(behind.ask("hello?", toolkit(), id="c"), ConversationBusy, "a prompt of a worker behind")
    model.may_reply.set()
    same((await dying).text, "from the first", "the run of the worker that had the lease")


async def an_answer_of_a_worker_that_is_gone_is_gone_on_with(place: Place) -> None:
    """The same answer, sent to another worker when the lease is over, goes on where the first one stood."""
    model = Model([CLICK], "the end")
    gone, store = model.client(await place.store()), await place.store()
    pending = (await gone.ask("go", toolkit(), id="c")).suspensions[0]
    model.called.clear()
    model.may_reply.clear()
    dying = asyncio.create_task(gone.ask_with_answer(toolkit(), "c", pending, clicked(pending)))
    await model.called.wait()

    heir = Model([CLICK], "the end").client(late(store))
    other = heir.ask_with_answer(toolkit(), "c", pending, clicked(pending, "something else"))
    await refused(other, AlreadyAnswered, "another answer")
    done = await heir.ask_with_answer(toolkit(), "c", pending, clicked(pending))
    same(done.text, "the end", "the run that went on")
    model.may_reply.set()
    await refused(dying, LeaseLost, "the run that was thought dead")
    same(len((await known(store, "c", "load")).messages), 4, "number of messages")


async def an_answer_at_the_instant_of_its_expiry_is_taken_or_too_late(place: Place) -> None:
    """Two workers answer around the instant at which the request expires. Whatever comes of it stands from then on."""
    stores = [await place.store(), await place.store()]
    for n in range(12):
        ran: list[str] = []
        expires = datetime.now(UTC) + timedelta(milliseconds=60)
        tools = toolkit(ran.append, expires)
        clients = [Model([PAY], "the end").client(store) for store in stores]
        pending = (await clients[0].ask("go", tools, id=f"c-{n}")).suspensions[0]
        same(pending.expires_at, expires, "expiry")
        await asyncio.sleep(max(0.0, (expires - datetime.now(UTC)).total_seconds() + (n - 6) * 0.001))
        yes = Answer(pending.id, ok=True)
        ended = await gathered(*(client.ask_with_answer(tools, f"c-{n}", pending, yes) for client in clients))
        taken = [end for end in ended if getattr(end, "text", None) == "the end"]
        for end in ended:
            losers = AnswerInProgress | ConversationBusy | AlreadyAnswered | ResumeError
            sure(end in taken or isinstance(end, losers), f"a worker ended with {end!r}")
        # The same answer again is told what came of it, and nothing of it changes.
        (again,) = await gathered(clients[1].ask_with_answer(tools, f"c-{n}", pending, yes))
        if taken:
            same(getattr(again, "text", again), "the end", "the same answer again, after it was taken")
        else:
            sure(isinstance(again, AlreadyAnswered | ResumeError), f"after it was too late it ended with {again!r}")
        same(ran, ["pay k3"] if taken else [], "what ran")


CASES = [
    StoreCase(check)
    for check in (
        a_worker_that_lost_its_lease_writes_nothing_more,
        a_clock_that_is_ahead_takes_over_too_early_and_loses_nothing,
        a_clock_that_is_behind_waits_too_long_and_is_told_so,
        an_answer_of_a_worker_that_is_gone_is_gone_on_with,
        an_answer_at_the_instant_of_its_expiry_is_taken_or_too_late,
    )
]
