"""Stored conversations in memory and in SQLite (contract 6 and 7)."""

import asyncio

import pytest
from harbour import HARBOUR, tally
from scripted_model import ScriptedModel, call, client_for, says
from toolrelay import (
    AlreadyAnswered,
    Answer,
    ConversationNotFound,
    GenerateError,
    PayloadError,
    PendingError,
    RelayResult,
    Request,
    ResumeError,
    StoreError,
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
)


async def test_a_conversation_goes_on_where_it_stood(shared):
    """Contract 7.1."""
    first, _ = shared.client(says(call("tally")), "seven")
    second, model = shared.client("fine", "another")

    await first.ask("count", HARBOUR, id="c-1")
    result = await second.ask("and?", HARBOUR, id="c-1")

    assert result.text == "fine"
    roles = ["user", "assistant", "tool", "assistant", "user", "assistant"]
    assert [message["role"] for message in result.messages] == roles
    assert model.requests[0].messages == result.messages[:-1]
    assert result.tool_calls == ()
    other = await second.ask("hi", HARBOUR, id="c-2")
    assert len(other.messages) == 2


async def test_without_a_store_a_client_keeps_conversations_in_memory():
    client = create_in_process_client(generate=ScriptedModel("one", "two"))
    await client.ask("a", HARBOUR, id="c-1")
    assert len((await client.ask("b", HARBOUR, id="c-1")).messages) == 4


async def test_a_stored_halt_resumes_in_another_client(shared):
    """Contract 7.1, 5.3: results beside the halt are kept."""
    halted = await shared.halt(call("tide"), call("tally"), call("moor"))
    client, model = shared.client("done")
    answer = relay_answer(halted.pending.id, [RelayResult("k1", "4 m"), RelayResult("k3", "moored")])

    resumed = await client.ask_with_answer(HARBOUR, "c-1", Request.from_json(halted.pending.to_json()), answer)

    assert (resumed.text, model.results) == ("done", ["4 m", "7", "moored"])
    assert [record.output for record in resumed.tool_calls] == ["4 m", "7", "moored"]


async def test_a_prompt_on_a_stored_halt_is_refused_or_supersedes(shared):
    """A13; contract 6.14, 7.9."""
    halted = await shared.halt(call("tide"), call("tally"))
    client, model = shared.client("sunny")

    with pytest.raises(PendingError) as caught:
        await client.ask("never mind", HARBOUR, id="c-1")
    assert (caught.value.calls, caught.value.suspensions) == (("k1",), halted.suspensions)

    result = await client.ask("never mind", HARBOUR, id="c-1", on_pending="supersede")
    assert result.text == "sunny"
    assert model.results[0].startswith("superseded")
    assert model.results[1] == "7"
    with pytest.raises(AlreadyAnswered):
        await client.ask_with_answer(HARBOUR, "c-1", halted.pending, answer_output(halted.pending.id, "4 m"))


async def test_an_unknown_conversation_is_told_so(shared):
    halted = await shared.halt(call("tide"))
    client, _ = shared.client()
    with pytest.raises(ConversationNotFound) as caught:
        await client.ask_with_answer(HARBOUR, "c-9", halted.pending, answer_output(halted.pending.id, "4 m"))
    assert caught.value.conversation == "c-9"


@pytest.mark.parametrize("name", ["", "x" * 5000, "a\0b", "a\ud83d"], ids=ascii)
async def test_what_is_no_id_of_a_conversation_is_an_error_of_the_store(shared, name):
    client, _ = shared.client()
    halted = await shared.halt(call("tide"))
    kept = answer_output(halted.pending.id, "4 m")
    for used in (
        client.ask("hi", HARBOUR, id=name),
        client.ask_with_answer(HARBOUR, name, halted.pending, kept),
        client.submit("hi", HARBOUR, id=name),
        client.submit_answer(HARBOUR, name, halted.pending, kept),
        client.get(name),
        client.recover(HARBOUR, name),
        client.cancel(name),
        client.delete(name),
        client.fork("c-1", name),
        client.restore(name, halted.messages),
    ):
        with pytest.raises(StoreError):
            await used
    with pytest.raises(StoreError):
        await anext(client.stream("hi", HARBOUR, id=name))


async def test_a_conversation_without_an_id_is_not_a_run_without_a_store():
    client, model = client_for("hi")
    for used in (
        client.ask("hi", HARBOUR, id=None),
        client.ask_with_answer(HARBOUR, None, "req_1", answer_output("req_1", "4 m")),
    ):
        with pytest.raises(PayloadError, match="id: expected text, got NoneType"):
            await used
    assert model.requests == []


async def test_an_answer_that_does_not_fit_changes_nothing(shared):
    """Contract 6.2 over stores."""
    halted = await shared.halt(call("tide"), call("tally"))
    client, model = shared.client("done")
    bad = [
        (halted.pending, Answer(halted.pending.id, ok=True, data={"value": "secret"})),
        (halted.pending, answer_output("req_0", "4 m")),
        (halted.pending, relay_answer(halted.pending.id, [RelayResult("k2", "8")])),
        (Request("req_0", "tool_call", "", data=halted.pending.data), answer_output("req_0", "4 m")),
    ]
    for request, answer in bad:
        with pytest.raises(ResumeError, match="cannot resume: ") as caught:
            await client.ask_with_answer(HARBOUR, "c-1", request, answer)
        assert caught.value.pending == request
        assert "secret" not in str(caught.value)

    resumed = await client.ask_with_answer(HARBOUR, "c-1", halted.pending, answer_output(halted.pending.id, "4 m"))
    assert (resumed.text, model.results) == ("done", ["4 m", "7"])


async def test_partial_answers_are_each_durable_and_one_model_call_follows_the_last(shared):
    """H7; contract 6.6, 6.7 over stores."""
    halted = await shared.halt(call("tide"), call("pay"), call("moor"))
    relayed, approval = halted.suspensions
    first, _ = shared.client()
    part = relay_answer(relayed.id, [RelayResult("k3", "moored")])

    left = await first.ask_with_answer(HARBOUR, "c-1", relayed, part, missing="wait")
    assert [request.id for request in left.suspensions] == [relayed.id, approval.id]
    assert [made.id for made in relay_calls_of(left.suspensions[0])] == ["k1"]

    second, _ = shared.client()
    left = await second.ask_with_answer(HARBOUR, "c-1", approval, Answer(approval.id, ok=True))
    assert left.pending.id == relayed.id

    third, model = shared.client("done")
    done = await third.ask_with_answer(HARBOUR, "c-1", left.pending, answer_output(relayed.id, "4 m"), missing="wait")
    assert (done.text, model.results) == ("done", ["4 m", "paid 30, said None", "moored"])


async def test_a_failed_model_call_after_an_answer_loses_nothing(shared):
    """Contract 6.10, 7.3: the same answer goes on from where the conversation stood."""
    halted = await shared.halt(call("tide"))
    answer = answer_output(halted.pending.id, "4 m")
    failing, _ = shared.client(OSError("down"))
    with pytest.raises(GenerateError) as caught:
        await failing.ask_with_answer(HARBOUR, "c-1", halted.pending, answer)
    assert caught.value.transcript is not None
    assert caught.value.transcript[-1]["content"] == "4 m"

    client, model = shared.client("done", "never")
    with pytest.raises(AlreadyAnswered):
        await client.ask_with_answer(HARBOUR, "c-1", halted.pending, answer_output(halted.pending.id, "5 m"))
    resumed = await client.ask_with_answer(HARBOUR, "c-1", halted.pending, answer)
    assert (resumed.text, model.results) == ("done", ["4 m"])
    again = await client.ask_with_answer(HARBOUR, "c-1", halted.pending, answer)
    assert (again.text, len(model.requests)) == ("done", 1)


async def test_a_failed_prompt_can_go_on_without_a_new_one(shared):
    client, model = shared.client(says(call("tally")), OSError("down"), "seven")
    with pytest.raises(GenerateError):
        await client.ask("count", HARBOUR, id="c-1")
    result = await client.ask(None, HARBOUR, id="c-1")
    assert (result.text, model.results) == ("seven", ["7"])
    assert [message["role"] for message in result.messages] == ["user", "assistant", "tool", "assistant"]


async def test_a_cancelled_run_frees_its_conversation_at_once(shared):
    """A17, G5 over stores: the other tool's result is kept, the interrupted one says so."""
    started = asyncio.Event()

    @define_tool
    async def sleeps() -> str:
        """Never ends."""
        started.set()
        await asyncio.Event().wait()
        return "never"

    toolkit = Toolkit([tally, sleeps])
    client, _ = shared.client(says(call("tally"), call("sleeps")))
    running = asyncio.create_task(client.ask("go", toolkit, id="c-1"))
    await started.wait()
    await asyncio.sleep(0.05)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    other, model = shared.client("again")
    result = await other.ask("again", toolkit, id="c-1")
    counted, interrupted = model.results
    assert (result.text, counted) == ("again", "7")
    assert interrupted.startswith("interrupted")


async def test_a_limit_ends_a_stored_run_that_can_go_on(shared):
    client, _ = shared.client(says(call("tally")), max_turns=1)
    ended = await client.ask("count", HARBOUR, id="c-1")
    assert (ended.status, ended.limit) == ("incomplete", "max_turns")
    other, model = shared.client("seven")
    assert (await other.ask(None, HARBOUR, id="c-1")).text == "seven"
    assert model.results == ["7"]


async def test_conversations_have_their_own_idempotency_keys(shared):
    """Contract 7.7: equal call ids in two conversations are two acts, also where one had the other's id before."""
    keys = []

    @define_tool
    async def act(context: ToolContext) -> object:
        """Parks first."""
        keys.append(context.idempotency_key)
        return pending("approval", "Act?") if context.answer is None else "acted"

    toolkit = Toolkit([act])
    for name in ("c-1", "c-2", "c-1"):
        await shared.client()[0].delete(name)
        client, _ = shared.client(says(call("act")), "done")
        halted = await client.ask("act", toolkit, id=name)
        await client.ask_with_answer(toolkit, name, halted.pending, Answer(halted.pending.id, ok=True))
    assert keys[::2] == keys[1::2]
    assert len(set(keys)) == 3


async def test_a_stored_conversation_may_go_on_inline(shared):
    def wait_for(request):
        return answer_output(request.id, "inline")

    client, model = shared.client(says(call("tide")), "done", wait_for=wait_for)
    result = await client.ask("tide?", HARBOUR, id="c-1")
    assert (result.text, model.results) == ("done", ["inline"])


async def test_a_host_that_fails_or_is_not_here_leaves_a_stored_halt(shared):
    """Contract 4.4, 4.5 over stores."""

    def fails(request):
        raise OSError("the tab is closed")

    for name, wait_for in (("c-1", fails), ("c-2", lambda request: None)):
        client, _ = shared.client(says(call("tide"), call("tally"), call("pay")), wait_for=wait_for)
        try:
            waiting = (await client.ask("go", HARBOUR, id=name)).suspensions
        except WaitForError as error:
            waiting = error.suspensions
        other, model = shared.client("done")
        assert (await other.get(name)).suspensions == waiting
        relayed, approval = waiting
        await other.ask_with_answer(HARBOUR, name, relayed, answer_output(relayed.id, "4 m"))
        done = await other.ask_with_answer(HARBOUR, name, approval, Answer(approval.id, ok=True))
        assert (done.text, model.results) == ("done", ["4 m", "7", "paid 30, said None"])


@pytest.mark.parametrize("how", ["cancelled", "out of time"])
async def test_a_run_that_ends_while_the_host_is_asked_leaves_a_stored_halt(shared, how):
    """Contract 4.7 over stores."""
    asked = asyncio.Event()

    async def wait_for(request):
        asked.set()
        await asyncio.Event().wait()

    client, _ = shared.client(says(call("tide")), wait_for=wait_for, timeout=0.3 if how == "out of time" else None)
    running = asyncio.create_task(client.ask("go", HARBOUR, id="c-1"))
    await asked.wait()
    if how == "cancelled":
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    else:
        assert (await running).limit == "timeout"

    other, model = shared.client("done")
    conversation = await other.get("c-1")
    assert conversation.state == "pending"
    (request,) = conversation.suspensions
    answer = answer_output(request.id, "4 m")
    assert (await other.ask_with_answer(HARBOUR, "c-1", request, answer)).text == "done"
    assert model.results == ["4 m"]


async def test_an_answer_whose_run_was_cancelled_goes_on_with_the_same_answer(shared):
    """Contract 7.3, 7.4."""
    halted = await shared.halt(call("tide"))
    answer = answer_output(halted.pending.id, "4 m")
    asked = asyncio.Event()

    async def slow(request):
        asked.set()
        await asyncio.Event().wait()

    client, _ = shared.client(slow)
    running = asyncio.create_task(client.ask_with_answer(HARBOUR, "c-1", halted.pending, answer))
    await asked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    other, model = shared.client("done")
    resumed = await other.ask_with_answer(HARBOUR, "c-1", halted.pending, answer)
    assert (resumed.text, model.results) == ("done", ["4 m"])


async def test_the_same_answer_shows_the_run_that_a_limit_ended(shared):
    """Contract 3.6, 7.4."""
    halted = await shared.halt(call("tide"))
    answer = answer_output(halted.pending.id, "4 m")
    client, _ = shared.client(says(call("tally", call_id="k9")), max_turns=2)
    ended = await client.ask_with_answer(HARBOUR, "c-1", halted.pending, answer)
    again = await client.ask_with_answer(HARBOUR, "c-1", halted.pending, answer)
    assert (ended.status, ended.limit, ended.turns) == ("incomplete", "max_turns", 2)
    assert again == ended


async def test_supersede_settles_every_open_request(shared):
    halted = await shared.halt(call("tide"), call("pay"), call("moor"))
    client, model = shared.client("fine", "again")
    await client.ask("never mind", HARBOUR, id="c-1", on_pending="supersede")
    assert [text.split(":")[0] for text in model.results] == ["superseded"] * 3
    assert (await client.get("c-1")).suspensions == ()
    assert (await client.ask("and?", HARBOUR, id="c-1", on_pending="supersede")).text == "again"
    for request in halted.suspensions:
        with pytest.raises(AlreadyAnswered):
            await client.ask_with_answer(HARBOUR, "c-1", request, answer_declined(request.id))
