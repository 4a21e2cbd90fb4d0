"""How long an answer is waited for, where the host says so for a client or a tool (contract 1.1, 4.7, 7.8)."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from scripted_model import call, client_for, says
from toolrelay import (
    ConfigurationError,
    RelayResult,
    ResumeError,
    ToolContext,
    Toolkit,
    ToolkitError,
    answer_output,
    create_client,
    create_in_process_client,
    define_tool,
    pending,
    relay_answer,
    relay_tool,
)

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@define_tool
async def pay(context: ToolContext) -> object:
    """Waits for as long as its client says."""
    return "paid" if context.answer is not None else pending("approval", "Pay?")


@define_tool
async def sign(context: ToolContext) -> object:
    """Waits for two days."""
    return (
        "signed"
        if context.answer is not None
        else pending("approval", "Sign?", expires_at=datetime.now(UTC) + timedelta(days=2))
    )


CLICK = relay_tool("click", "has no time of its own")
BRIEF = relay_tool("brief", "has little time", expires_after=60)
LONG = relay_tool("long", "has a day", expires_after=86400.0)
TOOLKIT = Toolkit([CLICK, BRIEF, LONG, pay, sign])


async def left(toolkit, *names, **settings):
    """The times that the requests for these calls have left, where they have any."""
    client, _ = client_for(says(*map(call, names)), **settings)
    halted = await client.run("go", toolkit)
    now = datetime.now(UTC)
    return [request.expires_at and request.expires_at - now for request in halted.suspensions]


def about(times):
    return [time and min((HOUR, DAY, 2 * DAY), key=lambda known: abs(known - time)) for time in times]


async def until_over(request):
    await asyncio.sleep((request.expires_at - datetime.now(UTC)).total_seconds() + 0.01)


async def test_a_request_expires_when_its_own_words_its_tool_or_its_client_say():
    assert await left(TOOLKIT, "click", "pay") == [None, None]
    assert about(await left(TOOLKIT, "click", "pay", "sign", requests_expire_after=3600)) == [HOUR, HOUR, 2 * DAY]
    assert about(await left(TOOLKIT, "long", requests_expire_after=3600)) == [DAY], "the tool's own word wins"
    assert about(await left(TOOLKIT, "long", "pay")) == [DAY, None]


async def test_several_calls_on_one_request_have_the_shortest_of_their_times():
    assert about(await left(TOOLKIT, "long", "click")) == [DAY]
    assert about(await left(TOOLKIT, "long", "click", requests_expire_after=3600)) == [HOUR]
    (soonest,) = await left(TOOLKIT, "long", "brief", "click", requests_expire_after=3600)
    assert timedelta(0) < soonest <= timedelta(minutes=1)


async def test_calls_asked_inline_have_times_of_their_own_until_they_ride_one_request():
    asked = []

    async def wait_for(request):
        asked.append(request.expires_at)

    client, _ = client_for(says(call("long"), call("brief"), call("click")), wait_for=wait_for)
    halted = await client.run("go", TOOLKIT)
    assert (halted.pending.expires_at, asked[2]) == (asked[1], None)
    assert asked[0] > asked[1]


async def test_nobody_is_waited_for_inline_longer_than_the_client_says():
    async def wait_for(request):
        await asyncio.Event().wait()

    client, model = client_for(says(call("click")), "done", wait_for=wait_for, requests_expire_after=0.05)
    assert (await client.run("go", TOOLKIT)).text == "done"
    assert model.results == ["expired: nobody answered in time; the call may or may not have been executed"]


async def test_what_expired_is_settled_in_the_store_and_the_rest_waits_on(shared):
    client, model = shared.client(says(call("brief"), call("pay")), "both", requests_expire_after=0.05)
    halted = await client.ask("go", Toolkit([relay_tool("brief", "", expires_after=9999), pay]), id="c-1")
    other, _ = shared.client()
    await until_over(halted.suspensions[1])
    assert (await other.sweep()).expired == ["c-1"]
    kept = await other.get("c-1")
    assert (kept.state, kept.suspensions) == ("pending", halted.suspensions[:1])
    assert kept.suspensions[0].expires_at == halted.pending.expires_at
    late = halted.suspensions[1]
    with pytest.raises(ResumeError, match="expired at"):
        await client.ask_with_answer(TOOLKIT, "c-1", late, answer_output(late.id, True))
    done = await client.ask_with_answer(TOOLKIT, "c-1", halted.pending, answer_output(halted.pending.id, "4 m"))
    assert (done.text, model.results[0]) == ("both", "4 m")
    assert model.results[1].startswith("expired: ")


async def test_a_resume_in_parts_does_not_begin_the_time_anew(shared):
    client, _ = shared.client(says(call("click"), call("click")), requests_expire_after=3600)
    halted = await client.ask("go", TOOLKIT, id="c-1")
    part = relay_answer(halted.pending.id, [RelayResult("k1", "one")])
    later, _ = shared.client(requests_expire_after=9999)
    rest = await later.ask_with_answer(TOOLKIT, "c-1", halted.pending, part, missing="wait")
    assert rest.pending.expires_at == halted.pending.expires_at is not None
    assert (await later.get("c-1")).suspensions == (rest.pending,)
    (waiting,) = (await later.pending("expiry")).requests
    assert waiting.request == rest.pending


async def test_without_a_store_a_late_answer_is_refused_and_the_transcript_goes_on():
    client, model = client_for(says(call("click")), "on we go", requests_expire_after=0.001)
    halted = await client.run("go", TOOLKIT)
    await until_over(halted.pending)
    answer = answer_output(halted.pending.id, "4 m")
    with pytest.raises(ResumeError, match=r"cannot resume: request .* expired at"):
        await client.run_with_answer(TOOLKIT, halted.messages, halted.pending, answer)
    done = await client.run("never mind", TOOLKIT, history=halted.messages, on_pending="supersede")
    assert (done.text, len(model.results)) == ("on we go", 1)


BAD = [0, -1, float("inf"), float("nan"), True, "1", 3e11, 1e20, 10**400]


@pytest.mark.parametrize("bad", BAD)
def test_a_time_that_is_none_is_refused_where_it_is_given(bad):
    with pytest.raises(ToolkitError, match="tide: expires_after must be a positive number of seconds") as caught:
        relay_tool("tide", "high water", expires_after=bad)
    assert caught.value.tool == "tide"
    with pytest.raises(ConfigurationError, match="requests_expire_after"):
        create_in_process_client(generate=lambda request: "", requests_expire_after=bad)
    with pytest.raises(ConfigurationError, match="requests_expire_after"):
        create_client(style="openai", model="m-1", base_url="http://localhost", api_key="", requests_expire_after=bad)
