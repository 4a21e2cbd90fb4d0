"""Stored conversations in memory and in SQLite (contract 6 and 7)."""

import asyncio

import pytest
from scripted_model import ScriptedModel, call, says
from toolrelay import (
    AlreadyAnswered,
    Answer,
    AnswerInProgress,
    ConversationBusy,
    ConversationNotFound,
    GenerateError,
    MemoryStore,
    PendingError,
    RelayResult,
    Request,
    ResumeError,
    SqliteStore,
    StoreError,
    StoreSchemaError,
    StoreUnavailable,
    ToolContext,
    Toolkit,
    answer_declined,
    answer_output,
    create_in_process_client,
    define_tool,
    pending,
    relay_answer,
    relay_calls_of,
    relay_tool,
)

TIDE = relay_tool("tide", "high water")
MOOR = relay_tool("moor", "moors a boat")


@define_tool
async def tally() -> int:
    """Counts."""
    return 7


@define_tool
async def pay(context: ToolContext) -> object:
    """Pays when somebody agrees."""
    return pending("approval", "Pay 30 EUR?") if context.answer is None else "paid"


TOOLKIT = Toolkit([TIDE, MOOR, tally, pay])


class Stage:
    """A store, and clients on it as they would be in other processes."""

    def __init__(self, kind, folder):
        self.kind, self.folder = kind, folder
        self.memory = MemoryStore()
        self.opened = []

    def store(self):
        if self.kind == "memory":
            return self.memory
        self.opened.append(SqliteStore(self.folder / "conversations.db"))
        return self.opened[-1]

    def client(self, *replies, **settings):
        model = ScriptedModel(*replies)
        return create_in_process_client(generate=model, store=self.store(), **settings), model


@pytest.fixture(params=["memory", "sqlite"])
async def stage(request, tmp_path):
    stage = Stage(request.param, tmp_path)
    yield stage
    for store in stage.opened:
        await store.close()


async def halt(stage, *calls, conversation="c-1"):
    client, _ = stage.client(says(*calls))
    halted = await client.ask("go", TOOLKIT, id=conversation)
    assert halted.status == "pending"
    return halted


async def test_a_conversation_goes_on_where_it_stood(stage):
    """Contract 7.1."""
    first, _ = stage.client(says(call("tally")), "seven")
    second, model = stage.client("fine", "another")

    await first.ask("count", TOOLKIT, id="c-1")
    result = await second.ask("and?", TOOLKIT, id="c-1")

    assert result.text == "fine"
    roles = ["user", "assistant", "tool", "assistant", "user", "assistant"]
    assert [message["role"] for message in result.messages] == roles
    assert model.requests[0].messages == result.messages[:-1]
    assert result.tool_calls == ()
    other = await second.ask("hi", TOOLKIT, id="c-2")
    assert len(other.messages) == 2


async def test_without_a_store_a_client_keeps_conversations_in_memory():
    client = create_in_process_client(generate=ScriptedModel("one", "two"))
    await client.ask("a", TOOLKIT, id="c-1")
    assert len((await client.ask("b", TOOLKIT, id="c-1")).messages) == 4


async def test_a_stored_halt_resumes_in_another_client(stage):
    """Contract 7.1, 5.3: results beside the halt are kept."""
    halted = await halt(stage, call("tide"), call("tally"), call("moor"))
    client, model = stage.client("done")
    answer = relay_answer(halted.pending.id, [RelayResult("k1", "4 m"), RelayResult("k3", "moored")])

    resumed = await client.ask_with_answer(TOOLKIT, "c-1", Request.from_json(halted.pending.to_json()), answer)

    assert (resumed.text, model.results) == ("done", ["4 m", "7", "moored"])
    assert [record.output for record in resumed.tool_calls] == ["4 m", "7", "moored"]


async def test_the_same_answer_again_has_the_same_outcome_and_no_model_is_asked(stage):
    """H4; contract 7.4."""
    halted = await halt(stage, call("tide"))
    answer = answer_output(halted.pending.id, {"metres": 4, "port": "Ames"})
    client, _ = stage.client(says(call("tally")), "done")
    first = await client.ask_with_answer(TOOLKIT, "c-1", halted.pending, answer)
    await client.ask_with_answer(TOOLKIT, "c-1", halted.pending, answer)

    elsewhere, model = stage.client("later")
    shuffled = answer_output(halted.pending.id, {"port": "Ames", "metres": 4})
    again = await elsewhere.ask_with_answer(TOOLKIT, "c-1", halted.pending, shuffled)

    assert model.requests == []
    assert (again.status, again.text, again.turns, again.limit) == (first.status, first.text, first.turns, first.limit)
    assert again.messages == first.messages
    assert again.usage == first.usage
    assert [repr(record) for record in again.tool_calls] == [repr(record) for record in first.tool_calls]
    await elsewhere.ask("more", TOOLKIT, id="c-1")
    later = await elsewhere.ask_with_answer(TOOLKIT, "c-1", halted.pending, answer)
    assert later.messages == first.messages


async def test_the_same_answer_again_shows_the_halt_that_it_led_to(stage):
    """Contract 7.4."""
    halted = await halt(stage, call("tide"))
    answer = answer_output(halted.pending.id, "4 m")
    client, _ = stage.client(says(call("moor", call_id="m1"), call("pay", call_id="p1")))
    second = await client.ask_with_answer(TOOLKIT, "c-1", halted.pending, answer)
    again = await client.ask_with_answer(TOOLKIT, "c-1", halted.pending, answer)
    assert (again.status, again.suspensions) == ("pending", second.suspensions)
    assert again.messages == second.messages


@pytest.mark.parametrize(
    "make", [lambda request_id: answer_output(request_id, "5 m"), answer_declined], ids=["output", "declined"]
)
async def test_another_answer_for_a_settled_request_is_refused(stage, make):
    """H4, H5; contract 7.4."""
    halted = await halt(stage, call("tide"))
    client, model = stage.client("done")
    await client.ask_with_answer(TOOLKIT, "c-1", halted.pending, answer_output(halted.pending.id, "4 m"))

    with pytest.raises(AlreadyAnswered) as caught:
        await client.ask_with_answer(TOOLKIT, "c-1", halted.pending, make(halted.pending.id))

    assert (caught.value.conversation, caught.value.request_id) == ("c-1", halted.pending.id)
    assert len(model.requests) == 1


async def test_an_answer_that_is_being_worked_on_is_told_apart_and_is_durable_before_its_use(stage):
    """Contract 7.3, 7.4, 7.9."""
    halted = await halt(stage, call("tide"))
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def slow(request):
        asked.set()
        await go_on.wait()
        return "done"

    worker, _ = stage.client(slow)
    other, model = stage.client("never")
    answer = answer_output(halted.pending.id, "4 m")
    working = asyncio.create_task(worker.ask_with_answer(TOOLKIT, "c-1", halted.pending, answer))
    await asked.wait()

    with pytest.raises(AnswerInProgress) as same:
        await other.ask_with_answer(TOOLKIT, "c-1", halted.pending, answer)
    with pytest.raises(AlreadyAnswered):
        await other.ask_with_answer(TOOLKIT, "c-1", halted.pending, answer_output(halted.pending.id, "5 m"))
    with pytest.raises(ConversationBusy) as busy:
        await other.ask("hello?", TOOLKIT, id="c-1")

    assert (same.value.conversation, same.value.request_id) == ("c-1", halted.pending.id)
    assert busy.value.conversation == "c-1"
    go_on.set()
    assert (await working).text == "done"
    assert (await other.ask_with_answer(TOOLKIT, "c-1", halted.pending, answer)).text == "done"
    assert model.requests == []


@pytest.mark.parametrize(
    "outputs", [["4 m"] * 16, [f"{at} m" for at in range(16)]], ids=["same answer", "other answers"]
)
async def test_of_many_answers_at_once_one_works_and_one_model_call_is_made(stage, outputs):
    """H1; contract 7.2."""
    halted = await halt(stage, call("tide"))
    calls = []

    async def generate(request):
        calls.append(request.messages[-1]["content"])
        await asyncio.sleep(0.1)
        return f"tide is {request.messages[-1]['content']}"

    async def resume(output):
        client = create_in_process_client(generate=generate, store=stage.store())
        return await client.ask_with_answer(TOOLKIT, "c-1", halted.pending, answer_output(halted.pending.id, output))

    ended = await asyncio.gather(*map(resume, outputs), return_exceptions=True)

    assert len(calls) == 1
    told = [end for end in ended if not isinstance(end, BaseException)]
    losers = [end for end in ended if isinstance(end, BaseException)]
    assert told
    assert {result.text for result in told} == {f"tide is {calls[0]}"}
    assert {type(error) for error in losers} <= {AnswerInProgress, AlreadyAnswered, ConversationBusy}


async def test_of_many_prompts_at_once_one_works(stage):
    """Contract 7.2, 7.9."""

    async def generate(request):
        await asyncio.sleep(0.1)
        return "done"

    clients = [create_in_process_client(generate=generate, store=stage.store()) for _ in range(8)]
    asked = [client.ask(f"prompt {at}", TOOLKIT, id="c-1") for at, client in enumerate(clients)]
    ended = await asyncio.gather(*asked, return_exceptions=True)
    (winner,) = [end for end in ended if not isinstance(end, BaseException)]
    assert len(winner.messages) == 2
    assert {type(end) for end in ended if end is not winner} == {ConversationBusy}


async def test_a_prompt_on_a_stored_halt_is_refused_or_supersedes(stage):
    """A13; contract 6.14, 7.9."""
    halted = await halt(stage, call("tide"), call("tally"))
    client, model = stage.client("sunny")

    with pytest.raises(PendingError) as caught:
        await client.ask("never mind", TOOLKIT, id="c-1")
    assert (caught.value.calls, caught.value.suspensions) == (("k1",), halted.suspensions)

    result = await client.ask("never mind", TOOLKIT, id="c-1", on_pending="supersede")
    assert result.text == "sunny"
    assert model.results[0].startswith("superseded")
    assert model.results[1] == "7"
    with pytest.raises(AlreadyAnswered):
        await client.ask_with_answer(TOOLKIT, "c-1", halted.pending, answer_output(halted.pending.id, "4 m"))


async def test_an_unknown_conversation_is_told_so(stage):
    halted = await halt(stage, call("tide"))
    client, _ = stage.client()
    with pytest.raises(ConversationNotFound) as caught:
        await client.ask_with_answer(TOOLKIT, "c-9", halted.pending, answer_output(halted.pending.id, "4 m"))
    assert caught.value.conversation == "c-9"


@pytest.mark.parametrize("name", ["", "x" * 5000, "a\0b"])
async def test_what_is_no_id_of_a_conversation_is_an_error_of_the_store(stage, name):
    client, _ = stage.client()
    with pytest.raises(StoreError):
        await client.ask("hi", TOOLKIT, id=name)


async def test_an_answer_that_does_not_fit_changes_nothing(stage):
    """Contract 6.2 over stores."""
    halted = await halt(stage, call("tide"), call("tally"))
    client, model = stage.client("done")
    bad = [
        (halted.pending, Answer(halted.pending.id, ok=True, data={"value": "secret"})),
        (halted.pending, answer_output("req_0", "4 m")),
        (halted.pending, relay_answer(halted.pending.id, [RelayResult("k2", "8")])),
        (Request("req_0", "tool_call", "", data=halted.pending.data), answer_output("req_0", "4 m")),
    ]
    for request, answer in bad:
        with pytest.raises(ResumeError, match="cannot resume: ") as caught:
            await client.ask_with_answer(TOOLKIT, "c-1", request, answer)
        assert caught.value.pending == request
        assert "secret" not in str(caught.value)

    resumed = await client.ask_with_answer(TOOLKIT, "c-1", halted.pending, answer_output(halted.pending.id, "4 m"))
    assert (resumed.text, model.results) == ("done", ["4 m", "7"])


async def test_partial_answers_are_each_durable_and_one_model_call_follows_the_last(stage):
    """H7; contract 6.6, 6.7 over stores."""
    halted = await halt(stage, call("tide"), call("pay"), call("moor"))
    relayed, approval = halted.suspensions
    first, _ = stage.client()
    part = relay_answer(relayed.id, [RelayResult("k3", "moored")])

    left = await first.ask_with_answer(TOOLKIT, "c-1", relayed, part, missing="wait")
    assert [request.id for request in left.suspensions] == [relayed.id, approval.id]
    assert [made.id for made in relay_calls_of(left.suspensions[0])] == ["k1"]

    second, _ = stage.client()
    left = await second.ask_with_answer(TOOLKIT, "c-1", approval, Answer(approval.id, ok=True))
    assert left.pending.id == relayed.id

    third, model = stage.client("done")
    done = await third.ask_with_answer(TOOLKIT, "c-1", left.pending, answer_output(relayed.id, "4 m"), missing="wait")
    assert (done.text, model.results) == ("done", ["4 m", "paid", "moored"])


async def test_a_failed_model_call_after_an_answer_loses_nothing(stage):
    """Contract 6.10, 7.3: the same answer goes on from where the conversation stood."""
    halted = await halt(stage, call("tide"))
    answer = answer_output(halted.pending.id, "4 m")
    failing, _ = stage.client(OSError("down"))
    with pytest.raises(GenerateError) as caught:
        await failing.ask_with_answer(TOOLKIT, "c-1", halted.pending, answer)
    assert caught.value.transcript is not None
    assert caught.value.transcript[-1]["content"] == "4 m"

    client, model = stage.client("done", "never")
    with pytest.raises(AlreadyAnswered):
        await client.ask_with_answer(TOOLKIT, "c-1", halted.pending, answer_output(halted.pending.id, "5 m"))
    resumed = await client.ask_with_answer(TOOLKIT, "c-1", halted.pending, answer)
    assert (resumed.text, model.results) == ("done", ["4 m"])
    again = await client.ask_with_answer(TOOLKIT, "c-1", halted.pending, answer)
    assert (again.text, len(model.requests)) == ("done", 1)


async def test_a_failed_prompt_can_go_on_without_a_new_one(stage):
    client, model = stage.client(says(call("tally")), OSError("down"), "seven")
    with pytest.raises(GenerateError):
        await client.ask("count", TOOLKIT, id="c-1")
    result = await client.ask(None, TOOLKIT, id="c-1")
    assert (result.text, model.results) == ("seven", ["7"])
    assert [message["role"] for message in result.messages] == ["user", "assistant", "tool", "assistant"]


async def test_a_cancelled_run_frees_its_conversation_at_once(stage):
    """A17, G5 over stores: the other tool's result is kept, the interrupted one says so."""
    started = asyncio.Event()

    @define_tool
    async def sleeps() -> str:
        """Never ends."""
        started.set()
        await asyncio.Event().wait()
        return "never"

    toolkit = Toolkit([tally, sleeps])
    client, _ = stage.client(says(call("tally"), call("sleeps")))
    running = asyncio.create_task(client.ask("go", toolkit, id="c-1"))
    await started.wait()
    await asyncio.sleep(0.05)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    other, model = stage.client("again")
    result = await other.ask("again", toolkit, id="c-1")
    counted, interrupted = model.results
    assert (result.text, counted) == ("again", "7")
    assert interrupted.startswith("interrupted")


async def test_a_limit_ends_a_stored_run_that_can_go_on(stage):
    client, _ = stage.client(says(call("tally")), max_turns=1)
    ended = await client.ask("count", TOOLKIT, id="c-1")
    assert (ended.status, ended.limit) == ("incomplete", "max_turns")
    other, model = stage.client("seven")
    assert (await other.ask(None, TOOLKIT, id="c-1")).text == "seven"
    assert model.results == ["7"]


async def test_conversations_have_their_own_idempotency_keys(stage):
    """Contract 7.7: equal call ids in two conversations are two acts."""
    keys = []

    @define_tool
    async def act(context: ToolContext) -> object:
        """Parks first."""
        keys.append(context.idempotency_key)
        return pending("approval", "Act?") if context.answer is None else "acted"

    toolkit = Toolkit([act])
    for name in ("c-1", "c-2"):
        client, _ = stage.client(says(call("act")), "done")
        halted = await client.ask("act", toolkit, id=name)
        await client.ask_with_answer(toolkit, name, halted.pending, Answer(halted.pending.id, ok=True))
    assert keys[0] == keys[1] != keys[2] == keys[3]


async def test_a_stored_conversation_may_go_on_inline(stage):
    def wait_for(request):
        return answer_output(request.id, "inline")

    client, model = stage.client(says(call("tide")), "done", wait_for=wait_for)
    result = await client.ask("tide?", TOOLKIT, id="c-1")
    assert (result.text, model.results) == ("done", ["inline"])


def test_conversations_work_without_a_loop(tmp_path):
    client = create_in_process_client(
        generate=ScriptedModel(says(call("tide")), "done"), store=SqliteStore(tmp_path / "c.db")
    )
    halted = client.ask_sync("go", TOOLKIT, id="c-1")
    answer = answer_output(halted.pending.id, "4 m")
    assert client.ask_with_answer_sync(TOOLKIT, "c-1", halted.pending, answer).text == "done"


async def test_a_conversation_on_disk_is_at_most_twice_its_own_size(tmp_path):
    """Contract 7.5: turns append, nothing is rewritten."""
    store = SqliteStore(tmp_path / "c.db")
    client = create_in_process_client(generate=lambda request: "y" * 500, store=store)
    for at in range(150):
        result = await client.ask(f"{at} " + "x" * 500, Toolkit(), id="c-1")
    await store.close()
    size = sum(file.stat().st_size for file in tmp_path.iterdir())
    assert len(result.messages) == 300
    assert size <= 2 * len(result.messages.to_json())


async def test_a_closed_store_leaves_one_file(tmp_path):
    for at in range(8):
        store = SqliteStore(tmp_path / f"{at}.db")
        client = create_in_process_client(generate=lambda request: "hi", store=store)
        await asyncio.gather(*(client.ask("hi", Toolkit(), id=f"c-{name}") for name in range(8)))
        await store.close()
    assert sorted(file.name for file in tmp_path.iterdir()) == [f"{at}.db" for at in range(8)]


async def test_a_closed_store_says_so_and_names_itself(tmp_path):
    store = SqliteStore(tmp_path / "c.db")
    assert (store.path, repr(store)) == (tmp_path / "c.db", f"<SqliteStore {tmp_path / 'c.db'}>")
    client = create_in_process_client(generate=ScriptedModel("hi"), store=store)
    await client.ask("hi", Toolkit(), id="c-1")
    await store.close()
    for use in (client.ask("hi", Toolkit(), id="c-1"), client.get("c-1")):
        with pytest.raises(StoreUnavailable) as caught:
            await use
        assert caught.value.conversation == "c-1"


def spoiled(folder):
    (folder / "c.db").write_bytes(b"no database, but long enough to look like one " * 100)
    return folder / "c.db"


@pytest.mark.parametrize(
    ("place", "error"),
    [
        (spoiled, StoreSchemaError),
        (lambda folder: folder, StoreUnavailable),
        (lambda folder: folder / "no" / "c.db", StoreUnavailable),
    ],
    ids=["another file", "a folder", "in no folder"],
)
async def test_a_path_that_cannot_hold_a_store_is_refused_at_first_use(tmp_path, place, error):
    store = SqliteStore(place(tmp_path))
    client = create_in_process_client(generate=ScriptedModel(), store=store)
    with pytest.raises(StoreError) as caught:
        await client.ask("hi", Toolkit(), id="c-1")
    assert type(caught.value) is error
    assert str(store.path) in str(caught.value)
