"""Inline answers: the host gives `wait_for` (contract 4)."""

import asyncio
import contextvars
import threading
from datetime import UTC, datetime, timedelta

import pytest
from scripted_model import ScriptedModel, call, says
from toolrelay import (
    Answer,
    RelayResult,
    ResumeError,
    ToolContext,
    Toolkit,
    WaitForError,
    answer_declined,
    answer_output,
    create_in_process_client,
    define_tool,
    pending,
    relay_answer,
    relay_calls_of,
    relay_tool,
)

TIDE = relay_tool("tide", "high water", {"type": "object", "properties": {"port": {"type": "string"}}})
MOOR = relay_tool("moor", "moors a boat")
RELAYS = Toolkit([TIDE, MOOR])


@define_tool
async def tally() -> int:
    """Counts."""
    return 7


@define_tool
async def pay(amount: int, context: ToolContext) -> object:
    """Pays when somebody agrees."""
    if context.answer is None:
        return pending("approval", f"Pay {amount} EUR?", {"amount": amount})
    return {"paid": amount, "by": (context.answer.data or {}).get("by")}


def client_for(model, wait_for, **settings):
    return create_in_process_client(generate=model, wait_for=wait_for, **settings)


async def test_the_host_is_asked_once_per_call_and_for_all_at_once():
    """Contract 4.1."""
    asked, all_asked = [], asyncio.Barrier(3)

    async def wait_for(request):
        asked.append(request)
        await all_asked.wait()
        (made,) = relay_calls_of(request)
        return answer_output(request.id, f"{made.input['port']} at noon")

    ports = ["Ames", "Bree", "Brill"]
    model = ScriptedModel(says(*[call("tide", {"port": port}) for port in ports]), "done")
    result = await client_for(model, wait_for).run("tides?", RELAYS)

    assert [relay_calls_of(request)[0].input["port"] for request in asked] == ports
    assert len({request.id for request in asked}) == 3
    assert model.results == ["Ames at noon", "Bree at noon", "Brill at noon"]
    assert (result.status, result.suspensions) == ("done", ())


@pytest.mark.parametrize(
    "make",
    [
        lambda request: answer_output(request.id, "4.2 m"),
        lambda request: relay_answer(request.id, [RelayResult("k1", "4.2 m")]),
    ],
    ids=["answer_output", "relay_answer"],
)
async def test_the_output_of_the_host_becomes_the_result(make):
    """Contract 4.2."""
    model = ScriptedModel(says(call("tide")), "done")
    result = await client_for(model, make).run("tide?", RELAYS)
    assert model.results == ["4.2 m"]
    (record,) = result.tool_calls
    assert (record.output, record.is_error, record.pending) == ("4.2 m", False, False)


async def test_a_failed_call_of_the_host_is_an_error_result():
    """Contract 4.2."""

    def wait_for(request):
        return relay_answer(request.id, [RelayResult("k1", "no such port", is_error=True)])

    model = ScriptedModel(says(call("tide")), "done")
    result = await client_for(model, wait_for).run("tide?", RELAYS)
    assert (result.status, model.results) == ("done", ["no such port"])
    assert result.tool_calls[0].is_error


@pytest.mark.parametrize(
    ("reason", "begins"),
    [("", "declined"), ("declined", "declined"), ("cancelled", "cancelled"), ("expired", "expired")],
)
async def test_a_refusal_is_an_error_result_that_says_why(reason, begins):
    """Contract 3.4, 4.3."""
    model = ScriptedModel(says(call("tide")), "done")
    result = await client_for(model, lambda request: answer_declined(request.id, reason)).run("tide?", RELAYS)
    assert result.status == "done"
    assert result.tool_calls[0].is_error
    assert model.results[0].startswith(begins)


async def test_a_host_that_is_not_here_halts_the_run_with_what_is_left():
    """Contract 4.4, 5.3."""

    async def wait_for(request):
        (made,) = relay_calls_of(request)
        return answer_output(request.id, "4.2 m") if made.name == "tide" else None

    model = ScriptedModel(says(call("moor"), call("tide"), call("moor"), call("tally")), "done")
    client = client_for(model, wait_for)
    toolkit = Toolkit([TIDE, MOOR, tally])

    halted = await client.run("all", toolkit)

    assert halted.status == "pending"
    assert halted.pending is not None
    assert [made.id for made in relay_calls_of(halted.pending)] == ["k1", "k3"]
    assert [record.output for record in halted.tool_calls] == ["", "4.2 m", "", "7"]
    answer = relay_answer(halted.pending.id, [RelayResult("k1", "first"), RelayResult("k3", "second")])
    resumed = await client.run_with_answer(toolkit, halted.messages, halted.pending, answer)
    assert (resumed.text, model.results) == ("done", ["first", "4.2 m", "second", "7"])


BAD_ANSWERS = {
    "another request": lambda request: answer_output("req_0", "4.2 m"),
    "another call": lambda request: relay_answer(request.id, [RelayResult("k9", "4.2 m")]),
    "no readable key": lambda request: Answer(request.id, ok=True, data={"value": "4.2 m"}),
}


@pytest.mark.parametrize("wait_for", BAD_ANSWERS.values(), ids=BAD_ANSWERS)
async def test_an_answer_that_does_not_fit_is_raised_with_the_halt(wait_for):
    """Contract 4.5."""
    model = ScriptedModel(says(call("tally"), call("tide")), "done")
    toolkit = Toolkit([TIDE, tally])

    with pytest.raises(WaitForError, match="cannot resume: ") as caught:
        await client_for(model, wait_for).run("both", toolkit)

    error = caught.value
    assert isinstance(error.cause, ResumeError)
    assert "4.2 m" not in str(error)
    (request,) = error.suspensions
    assert error.transcript is not None
    resumed = await create_in_process_client(generate=model).run_with_answer(
        toolkit, error.transcript, request, answer_output(request.id, "4.2 m")
    )
    assert (resumed.text, model.results) == ("done", ["7", "4.2 m"])


async def test_an_exception_of_the_host_is_the_cause_and_loses_nothing():
    """Contract 4.5."""

    class HostError(Exception):
        pass

    broken = HostError("the tab is closed")

    async def wait_for(request):
        raise broken

    model = ScriptedModel(says(call("tally"), call("tide")), "done")
    toolkit = Toolkit([TIDE, tally])

    with pytest.raises(WaitForError) as caught:
        await client_for(model, wait_for).run("both", toolkit)

    error = caught.value
    assert error.cause is broken
    assert "wait_for" in str(error)
    assert broken.__traceback__ is not None
    (request,) = error.suspensions
    assert error.transcript is not None
    resumed = await create_in_process_client(generate=model).run_with_answer(
        toolkit, error.transcript, request, answer_output(request.id, "4.2 m")
    )
    assert (resumed.text, model.results) == ("done", ["7", "4.2 m"])


async def test_what_is_no_answer_is_an_error_that_says_so():
    model = ScriptedModel(says(call("tide")))
    with pytest.raises(WaitForError) as caught:
        await client_for(model, lambda request: "4.2 m").run("tide?", RELAYS)
    assert "must return an Answer or None, not str" in str(caught.value.__cause__)


async def test_an_approved_tool_runs_once_more_with_the_answer():
    """Contract 4.6."""

    async def wait_for(request):
        assert (request.kind, request.prompt, request.data) == ("approval", "Pay 30 EUR?", {"amount": 30})
        return Answer(request.id, ok=True, data={"by": "Ann"})

    model = ScriptedModel(says(call("pay", {"amount": 30})), "done")
    await client_for(model, wait_for).run("pay", Toolkit([pay]))
    assert model.results == ['{"paid":30,"by":"Ann"}']


async def test_a_declined_approval_runs_nothing():
    """Contract 4.3, 4.6."""
    model = ScriptedModel(says(call("pay", {"amount": 30})), "done")
    result = await client_for(model, lambda request: answer_declined(request.id)).run("pay", Toolkit([pay]))
    assert result.tool_calls[0].is_error
    assert model.results[0].startswith("declined")


async def test_a_tool_that_parks_again_after_its_answer_is_unresolved():
    """Contract 4.6."""

    @define_tool
    async def insist() -> object:
        """Never satisfied."""
        return pending("question", "Really?")

    model = ScriptedModel(says(call("insist")), "done")
    result = await client_for(model, lambda request: Answer(request.id, ok=True)).run("go", Toolkit([insist]))
    assert model.results == ["unresolved: Really?"]
    assert result.tool_calls[0].is_error


async def test_the_time_limit_of_the_run_ends_a_waiting_host():
    """Contract 4.7."""
    ended = []

    async def wait_for(request):
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(request.id)

    model = ScriptedModel(says(call("tide")), "done")
    result = await client_for(model, wait_for, timeout=0.2).run("tide?", RELAYS)

    assert (result.status, result.limit) == ("incomplete", "timeout")
    assert result.pending is not None
    await asyncio.sleep(0.05)
    assert ended == [result.pending.id]
    resumed = await create_in_process_client(generate=model).run_with_answer(
        RELAYS, result.messages, result.pending, answer_output(result.pending.id, "4.2 m")
    )
    assert resumed.status == "done"


async def test_cancelling_the_run_ends_a_waiting_host_and_keeps_the_call_parked():
    """Contract 4.7."""
    asked = asyncio.Event()
    ended = []

    async def wait_for(request):
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(request)

    client = client_for(ScriptedModel(says(call("tide"))), wait_for)
    running = asyncio.create_task(client.run("tide?", RELAYS))
    await asked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await running

    (request,) = ended
    assert caught.value.transcript.halted
    resumed = await create_in_process_client(generate=ScriptedModel("done")).run_with_answer(
        RELAYS, caught.value.transcript, request, answer_output(request.id, "4.2 m")
    )
    assert resumed.status == "done"


async def test_a_request_that_expires_ends_a_waiting_host_and_the_model_reads_it():
    """Contract 4.7; H3."""

    @define_tool
    async def ask(context: ToolContext) -> object:
        """Asks."""
        soon = datetime.now(UTC) + timedelta(seconds=0.2)
        return pending("question", "Which?", expires_at=soon)

    async def wait_for(request):
        await asyncio.Event().wait()

    model = ScriptedModel(says(call("ask")), "done")
    result = await client_for(model, wait_for).run("go", Toolkit([ask]))
    assert result.status == "done"
    assert model.results[0].startswith("expired")


async def test_a_plain_function_may_be_the_host_and_runs_in_a_thread_with_the_context_of_the_caller():
    name = contextvars.ContextVar("name", default="none")
    name.set("caller")
    seen = []

    def wait_for(request):
        seen.append((name.get(), threading.current_thread() is threading.main_thread()))
        return answer_output(request.id, "4.2 m")

    await client_for(ScriptedModel(says(call("tide")), "done"), wait_for).run("tide?", RELAYS)
    assert seen == [("caller", False)]


async def test_an_object_with_an_async_call_may_be_the_host():
    class Host:
        async def __call__(self, request):
            assert threading.current_thread() is threading.main_thread()
            return answer_output(request.id, "4.2 m")

    model = ScriptedModel(says(call("tide")), "done")
    await client_for(model, Host()).run("tide?", RELAYS)
    assert model.results == ["4.2 m"]


async def test_a_resume_may_go_on_inline():
    """Contract 4 and 6 in one run: a resumed run asks the host for its further calls."""

    async def wait_for(request):
        return answer_output(request.id, "inline")

    halted = await create_in_process_client(generate=ScriptedModel(says(call("tide")))).run("tide?", RELAYS)
    model = ScriptedModel(says(call("moor", call_id="m1")), "done")
    result = await client_for(model, wait_for).run_with_answer(
        RELAYS, halted.messages, halted.pending, answer_output(halted.pending.id, "durable")
    )
    assert (result.text, model.results) == ("done", ["durable", "inline"])
