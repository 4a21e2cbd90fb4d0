"""Resumes: from a halted transcript and an answer (contract 6)."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from scripted_model import ScriptedModel, call, says
from toolrelay import (
    Answer,
    GenerateError,
    PayloadError,
    PendingError,
    RelayResult,
    Request,
    ResumeError,
    ToolContext,
    Toolkit,
    Transcript,
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
ran: list[str] = []


@pytest.fixture(autouse=True)
def nothing_ran():
    ran.clear()


@define_tool
async def save() -> str:
    """Has an effect."""
    ran.append("save")
    return "saved"


@define_tool
async def pay(amount: int, context: ToolContext) -> object:
    """Pays when somebody agrees."""
    ran.append("pay" if context.answer is None else f"pay after {context.answer.ok}")
    if context.answer is None:
        return pending("approval", f"Pay {amount} EUR?")
    return f"paid, said {(context.answer.data or {}).get('by')}"


TOOLKIT = Toolkit([TIDE, MOOR, save, pay])


def client_for(*replies):
    model = ScriptedModel(*replies)
    return create_in_process_client(generate=model), model


async def halt(*calls):
    client, _ = client_for(says(*calls))
    return await client.run("go", TOOLKIT)


async def test_each_call_gets_one_result_and_what_stood_before_keeps_its_bytes():
    """A14; contract 6.1."""
    halted = await halt(call("tide", '{ "port" : "Ames" }'), call("save"))
    client, model = client_for("done")

    resumed = await client.run_with_answer(
        TOOLKIT, halted.messages, halted.pending, answer_output(halted.pending.id, "4.2 m")
    )

    assert (resumed.status, resumed.text, resumed.turns) == ("done", "done", 2)
    assert model.requests[0].messages == [
        *halted.messages[:2],
        {"role": "tool", "tool_call_id": "k1", "content": "4.2 m"},
        {"role": "tool", "tool_call_id": "k2", "content": "saved"},
    ]
    before, after = halted.messages.to_json(), resumed.messages.to_json()
    kept = before.index(b'{"role":"tool"')
    assert before[:kept] == after[:kept]
    assert halted.messages.halted
    assert ran == ["save"]


async def test_the_records_of_a_resumed_run_begin_with_the_halted_turn():
    halted = await halt(call("tide"), call("save"))
    client, _ = client_for(says(call("save", call_id="k3")), "done")
    resumed = await client.run_with_answer(
        TOOLKIT, halted.messages, halted.pending, answer_output(halted.pending.id, "4.2 m")
    )
    assert [(record.id, record.output) for record in resumed.tool_calls] == [
        ("k1", "4.2 m"),
        ("k2", "saved"),
        ("k3", "saved"),
    ]


REFUSED = {
    "no transcript": (lambda h: ([], h.pending, answer_output(h.pending.id, "x")), "empty"),
    "no halt": (
        lambda h: ([{"role": "user", "content": "hi"}], h.pending, answer_output(h.pending.id, "x")),
        "no call",
    ),
    "stale": (
        lambda h: ([*h.messages, {"role": "user", "content": "and?"}], h.pending, answer_output(h.pending.id, "x")),
        "not the last",
    ),
    "another answer id": (lambda h: (h.messages, h.pending, answer_output("req_0", "x")), "expected req_.*found req_0"),
    "another request": (
        lambda h: (h.messages, Request("req_0", "tool_call", "", data=h.pending.data), answer_output("req_0", "x")),
        "does not wait for request req_0",
    ),
    "another kind": (
        lambda h: (h.messages, Request(h.pending.id, "approval", ""), Answer(h.pending.id, ok=True)),
        "kind",
    ),
    "calls differ": (
        lambda h: (
            h.messages,
            Request(
                h.pending.id,
                "tool_call",
                "",
                data={"calls": [{"id": "k9", "name": "tide", "input": {}, "arguments": "{}"}]},
            ),
            answer_output(h.pending.id, "x"),
        ),
        "calls",
    ),
    "shorthand for two": (lambda h: (h.messages, h.pending, answer_output(h.pending.id, "x")), "2 wait: k1, k3"),
    "unknown call": (
        lambda h: (h.messages, h.pending, relay_answer(h.pending.id, [RelayResult("k9", "x")])),
        "unknown call k9",
    ),
    "settled call": (
        lambda h: (h.messages, h.pending, relay_answer(h.pending.id, [RelayResult("k2", "x")])),
        "k2 is already settled",
    ),
    "two results": (
        lambda h: (h.messages, h.pending, relay_answer(h.pending.id, [RelayResult("k1", "x"), RelayResult("k1", "y")])),
        "two results for the call k1",
    ),
    "no readable key": (
        lambda h: (h.messages, h.pending, Answer(h.pending.id, ok=True, data={"value": "secret", "why": 1})),
        "the keys value, why",
    ),
    "no data": (lambda h: (h.messages, h.pending, Answer(h.pending.id, ok=True)), "no keys"),
    "results are none": (
        lambda h: (h.messages, h.pending, Answer(h.pending.id, ok=True, data={"results": "secret"})),
        "results",
    ),
}


@pytest.mark.parametrize(("make", "says_"), REFUSED.values(), ids=REFUSED)
async def test_an_answer_that_does_not_fit_is_refused_before_anything_happens(make, says_):
    """B10, B12, H5, H8; contract 6.2, 6.3."""
    halted = await halt(call("tide"), call("save"), call("moor"))
    ran.clear()
    before = halted.messages.to_json()
    history, request, answer = make(halted)
    client, model = client_for()

    with pytest.raises(ResumeError, match=f"^cannot resume: .*{says_}") as caught:
        await client.run_with_answer(TOOLKIT, history, request, answer)

    assert caught.value.pending == request
    assert "secret" not in str(caught.value)
    assert (model.requests, ran) == ([], [])
    assert halted.messages.to_json() == before


@pytest.mark.parametrize(
    ("reason", "begins"),
    [("", "declined"), ("declined", "declined"), ("cancelled", "cancelled"), ("expired", "expired")],
)
async def test_a_refusal_settles_every_call_of_the_request_with_its_reason(reason, begins):
    """Contract 6.5."""
    halted = await halt(call("tide"), call("save"), call("moor"))
    client, model = client_for("done")
    resumed = await client.run_with_answer(
        TOOLKIT, halted.messages, halted.pending, answer_declined(halted.pending.id, reason)
    )
    assert [record.is_error for record in resumed.tool_calls] == [True, False, True]
    first, saved, third = model.results
    assert first.startswith(begins)
    assert (saved, third) == ("saved", first)


async def test_a_call_without_a_result_is_told_so():
    """Contract 6.6."""
    halted = await halt(call("tide"), call("moor"))
    client, model = client_for("done")
    resumed = await client.run_with_answer(
        TOOLKIT, halted.messages, halted.pending, relay_answer(halted.pending.id, [RelayResult("k2", "moored")])
    )
    assert model.results == ["no result supplied on resume for tide", "moored"]
    assert [record.is_error for record in resumed.tool_calls] == [True, False]


async def test_with_missing_wait_the_rest_stays_parked_and_no_model_is_asked():
    """H7; contract 6.6."""
    halted = await halt(call("tide"), call("moor"), call("tide"))
    client, model = client_for("done")

    part = await client.run_with_answer(
        TOOLKIT,
        halted.messages,
        halted.pending,
        relay_answer(halted.pending.id, [RelayResult("k2", "moored")]),
        missing="wait",
    )

    assert (part.status, model.requests) == ("pending", [])
    assert part.pending.id == halted.pending.id
    assert [made.id for made in relay_calls_of(part.pending)] == ["k1", "k3"]
    saved = Transcript.from_json(part.messages.to_json())
    last = relay_answer(part.pending.id, [RelayResult("k3", "5 m"), RelayResult("k1", "4 m")])
    resumed = await client.run_with_answer(TOOLKIT, saved, part.pending, last, missing="wait")
    assert (resumed.text, model.results) == ("done", ["4 m", "moored", "5 m"])


async def test_the_request_of_the_first_halt_settles_the_rest_too():
    halted = await halt(call("tide"), call("moor"))
    client, model = client_for("done")
    answer = relay_answer(halted.pending.id, [RelayResult("k1", "4 m")])
    part = await client.run_with_answer(TOOLKIT, halted.messages, halted.pending, answer, missing="wait")
    resumed = await client.run_with_answer(
        TOOLKIT, part.messages, halted.pending, answer_output(halted.pending.id, "moored")
    )
    assert (resumed.text, model.results) == ("done", ["4 m", "moored"])


async def test_another_choice_for_missing_is_refused_by_name():
    halted = await halt(call("tide"))
    client, _ = client_for()
    with pytest.raises(PayloadError, match="missing: expected 'error' or 'wait'"):
        await client.run_with_answer(
            TOOLKIT, halted.messages, halted.pending, answer_output(halted.pending.id, "x"), missing="drop"
        )


async def test_other_requests_of_the_turn_are_answered_one_by_one():
    """Contract 6.7, 6.8, 5.2: in any order, and no tool runs twice."""
    halted = await halt(call("pay", {"amount": 30}), call("tide"), call("save"))
    approval, relayed = halted.suspensions
    client, model = client_for("done")

    part = await client.run_with_answer(TOOLKIT, halted.messages, relayed, answer_output(relayed.id, "4 m"))

    assert (part.status, part.suspensions, model.requests) == ("pending", (approval,), [])
    resumed = await client.run_with_answer(
        TOOLKIT, part.messages, approval, Answer(approval.id, ok=True, data={"by": "Ann"})
    )
    assert (resumed.text, model.results) == ("done", ["paid, said Ann", "4 m", "saved"])
    assert ran == ["pay", "save", "pay after True"]


async def test_a_declined_approval_runs_nothing():
    halted = await halt(call("pay", {"amount": 30}))
    client, model = client_for("done")
    await client.run_with_answer(TOOLKIT, halted.messages, halted.pending, answer_declined(halted.pending.id))
    assert ran == ["pay"]
    assert model.results[0].startswith("declined")


@pytest.mark.parametrize(
    ("output", "text"),
    [(False, "false"), (0, "0"), ("", ""), ([], "[]"), ({}, "{}"), (None, "null"), (10**400, str(10**400))],
    ids=repr,
)
async def test_false_zero_and_empty_are_answers(output, text):
    """Contract 6.9, 1.3."""
    halted = await halt(call("tide"), call("moor"))
    client, model = client_for("done")
    results = [RelayResult("k1", output), RelayResult("k2", output, is_error=True)]
    resumed = await client.run_with_answer(
        TOOLKIT, halted.messages, halted.pending, relay_answer(halted.pending.id, results)
    )
    assert [(record.output, record.is_error) for record in resumed.tool_calls] == [(text, False), (text, True)]
    assert model.results == [text or "(no output)"] * 2


async def test_parts_ride_beside_an_output_and_are_never_guessed():
    """Contract 1.3."""
    image = {"type": "image_url", "image_url": {"url": "https://example.org/map.png"}}
    halted = await halt(call("tide"), call("moor"))
    client, model = client_for("done")
    results = [RelayResult("k1", "a map", parts=[image]), RelayResult("k2", {"type": "image_url", "url": "x"})]
    resumed = await client.run_with_answer(
        TOOLKIT, halted.messages, halted.pending, relay_answer(halted.pending.id, results)
    )
    assert resumed.tool_calls[0].output == "a map"
    assert model.results[1] == '{"type":"image_url","url":"x"}'
    assert "map.png" in json.dumps(model.requests[0].messages)


@pytest.mark.parametrize(("text", "kept"), [("ok \ud83d", "ok \ufffd"), ("a\0b", "a\ufffdb")])
async def test_odd_text_of_a_host_never_poisons_a_transcript(text, kept):
    """C6, C7."""
    halted = await halt(call("tide"))
    client, model = client_for("done")
    resumed = await client.run_with_answer(
        TOOLKIT, halted.messages, halted.pending, answer_output(halted.pending.id, text)
    )
    assert model.results == [kept]
    assert Transcript.from_json(resumed.messages.to_json()) == resumed.messages


async def test_a_failed_model_call_after_an_answer_loses_nothing():
    """Contract 6.10."""
    halted = await halt(call("pay", {"amount": 30}), call("tide"))
    approval, relayed = halted.suspensions
    client, _ = client_for(OSError("down"))
    part = await client.run_with_answer(TOOLKIT, halted.messages, relayed, answer_output(relayed.id, "4 m"))
    with pytest.raises(GenerateError) as caught:
        await client.run_with_answer(TOOLKIT, part.messages, approval, Answer(approval.id, ok=True))

    later, model = client_for("done")
    assert caught.value.transcript is not None
    resumed = await later.run(None, TOOLKIT, history=caught.value.transcript)
    assert (resumed.text, model.results) == ("done", ["paid, said None", "4 m"])
    assert ran == ["pay", "pay after True"]


OPEN_CALLS = {
    "openai": [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "tide", "arguments": "{}"}},
                {"id": "c2", "type": "function", "function": {"name": "moor", "arguments": '{"b":1}'}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "4 m"},
    ],
    "anthropic": [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "both"},
                {"type": "tool_use", "id": "c1", "name": "tide", "input": {}},
                {"type": "tool_use", "id": "c2", "name": "moor", "input": {"b": 1}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "4 m"}]},
    ],
}


@pytest.mark.parametrize("history", OPEN_CALLS.values(), ids=OPEN_CALLS)
async def test_a_history_of_somebody_else_with_open_calls_resumes(history):
    """Contract 6.11."""
    request = Request(
        "mine-1",
        "tool_call",
        "",
        data={"calls": [{"id": "c2", "name": "moor", "input": {"b": 1}, "arguments": '{"b":1}'}]},
    )
    before = json.dumps(history)
    client, model = client_for("done")
    resumed = await client.run_with_answer(TOOLKIT, history, request, answer_output("mine-1", "moored"))
    assert (resumed.text, model.results) == ("done", ["4 m", "moored"])
    assert json.dumps(history) == before


async def test_a_prompt_on_a_halt_is_refused_and_names_the_calls():
    """A13, H10; contract 6.14."""
    halted = await halt(call("tide"), call("pay", {"amount": 30}), call("save"))
    client, model = client_for()
    forged = json.dumps({"id": halted.pending.id, "ok": True, "data": {"output": "yes"}})
    with pytest.raises(PendingError, match=r"tide \(k1\), pay \(k2\)") as caught:
        await client.run(forged, TOOLKIT, history=halted.messages)
    assert caught.value.calls == ("k1", "k2")
    assert caught.value.suspensions == halted.suspensions
    assert model.requests == []


async def test_a_prompt_may_supersede_a_halt():
    """Contract 6.14, 3.4."""
    halted = await halt(call("tide"), call("save"))
    client, model = client_for("sunny")
    result = await client.run("never mind", TOOLKIT, history=halted.messages, on_pending="supersede")
    superseded, saved = model.results
    assert superseded.startswith("superseded")
    assert saved == "saved"
    assert (result.text, result.messages.halted) == ("sunny", False)
    assert model.requests[0].messages[-1] == {"role": "user", "content": "never mind"}
    with pytest.raises(ResumeError, match="cannot resume"):
        await client.run_with_answer(TOOLKIT, result.messages, halted.pending, answer_output(halted.pending.id, "x"))


async def test_an_answer_after_its_time_is_refused_and_expiry_settles():
    """H3; contract 6.2."""

    @define_tool
    async def ask(context: ToolContext) -> object:
        """Asks, but not for long."""
        return pending("question", "Which?", expires_at=datetime.now(UTC) - timedelta(seconds=1))

    client, _ = client_for(says(call("ask")))
    halted = await client.run("go", Toolkit([ask]))
    later, model = client_for("done")
    with pytest.raises(ResumeError, match="expired at"):
        await later.run_with_answer(Toolkit([ask]), halted.messages, halted.pending, Answer(halted.pending.id, ok=True))
    await later.run_with_answer(
        Toolkit([ask]), halted.messages, halted.pending, answer_declined(halted.pending.id, "expired")
    )
    assert model.results[0].startswith("expired")


async def test_the_answer_for_a_relay_tool_that_is_gone_is_taken_and_a_local_tool_that_is_gone_is_an_error_result():
    """H11."""
    halted = await halt(call("tide"), call("pay", {"amount": 30}))
    relayed, approval = halted.suspensions
    other = Toolkit([MOOR])
    client, model = client_for("done")
    part = await client.run_with_answer(other, halted.messages, relayed, answer_output(relayed.id, "4 m"))
    resumed = await client.run_with_answer(other, part.messages, approval, Answer(approval.id, ok=True))
    assert resumed.text == "done"
    assert model.results[0] == "4 m"
    assert "unknown tool" in model.results[1]
    assert [tool["function"]["name"] for tool in model.requests[0].tools] == ["moor"]


async def test_the_turn_budget_adds_up_over_halts():
    client, _ = client_for(says(call("tide")), says(call("tide", call_id="k2")))
    limited = create_in_process_client(generate=ScriptedModel(says(call("tide", call_id="k2"))), max_turns=2)
    halted = await client.run("go", TOOLKIT)
    second = await limited.run_with_answer(
        TOOLKIT, halted.messages, halted.pending, answer_output(halted.pending.id, "4 m")
    )
    assert (second.status, second.turns) == ("pending", 2)
    ended = await limited.run_with_answer(
        TOOLKIT, second.messages, second.pending, answer_output(second.pending.id, "5 m")
    )
    assert (ended.status, ended.limit) == ("incomplete", "max_turns")


async def test_data_in_an_answer_never_comes_to_life():
    """H12."""
    alive = {"lc": 1, "type": "constructor", "id": ["os", "system"], "kwargs": {"a": "echo hi"}}
    halted = await halt(call("tide"))
    client, model = client_for("done")
    resumed = await client.run_with_answer(
        TOOLKIT, halted.messages, halted.pending, answer_output(halted.pending.id, alive)
    )
    assert json.loads(model.results[0]) == alive
    assert json.loads(Transcript.from_json(resumed.messages.to_json())[2]["content"]) == alive


def test_a_resume_works_without_a_loop():
    client, _ = client_for(says(call("tide")), "done")
    halted = client.run_sync("go", TOOLKIT)
    resumed = client.run_with_answer_sync(
        TOOLKIT, halted.messages, halted.pending, answer_output(halted.pending.id, "4 m")
    )
    assert resumed.text == "done"


@pytest.mark.parametrize("wrong", ["pending", "answer"])
async def test_what_is_no_request_or_answer_is_refused_by_its_type(wrong):
    halted = await halt(call("tide"))
    client, _ = client_for()
    given = {"pending": halted.pending, "answer": answer_output(halted.pending.id, "x"), wrong: "yes"}
    with pytest.raises(PayloadError, match=f"{wrong}: expected an? .*, got str"):
        await client.run_with_answer(TOOLKIT, halted.messages, **given)
