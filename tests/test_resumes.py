"""Resumes: from a halted transcript and an answer (contract 6)."""

import json

import pytest
from harbour import HARBOUR, MOOR, RAN
from scripted_model import ScriptedModel, call, client_for, halted_on, says
from toolrelay import (
    Answer,
    GenerateError,
    RelayResult,
    Request,
    Toolkit,
    Transcript,
    answer_declined,
    answer_output,
    create_in_process_client,
    relay_answer,
    relay_calls_of,
)


async def test_each_call_gets_one_result_and_what_stood_before_keeps_its_bytes():
    """A14; contract 6.1."""
    halted = await halted_on(HARBOUR, call("tide", '{ "port" : "Ames" }'), call("save"))
    client, model = client_for("done")

    resumed = await client.run_with_answer(
        HARBOUR, halted.messages, halted.pending, answer_output(halted.pending.id, "4.2 m")
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
    assert RAN == ["save"]


async def test_the_records_of_a_resumed_run_begin_with_the_halted_turn():
    halted = await halted_on(HARBOUR, call("tide"), call("save"))
    client, _ = client_for(says(call("save", call_id="k3")), "done")
    resumed = await client.run_with_answer(
        HARBOUR, halted.messages, halted.pending, answer_output(halted.pending.id, "4.2 m")
    )
    assert [(record.id, record.output) for record in resumed.tool_calls] == [
        ("k1", "4.2 m"),
        ("k2", "saved"),
        ("k3", "saved"),
    ]


@pytest.mark.parametrize(
    ("reason", "begins"),
    [("", "declined"), ("declined", "declined"), ("cancelled", "cancelled"), ("expired", "expired")],
)
async def test_a_refusal_settles_every_call_of_the_request_with_its_reason(reason, begins):
    """Contract 6.5."""
    halted = await halted_on(HARBOUR, call("tide"), call("save"), call("moor"))
    client, model = client_for("done")
    resumed = await client.run_with_answer(
        HARBOUR, halted.messages, halted.pending, answer_declined(halted.pending.id, reason)
    )
    assert [record.is_error for record in resumed.tool_calls] == [True, False, True]
    first, saved, third = model.results
    assert first.startswith(begins)
    assert (saved, third) == ("saved", first)


async def test_a_call_without_a_result_is_told_so():
    """Contract 6.6."""
    halted = await halted_on(HARBOUR, call("tide"), call("moor"))
    client, model = client_for("done")
    resumed = await client.run_with_answer(
        HARBOUR, halted.messages, halted.pending, relay_answer(halted.pending.id, [RelayResult("k2", "moored")])
    )
    assert model.results == ["no result supplied on resume for tide", "moored"]
    assert [record.is_error for record in resumed.tool_calls] == [True, False]


async def test_with_missing_wait_the_rest_stays_parked_and_no_model_is_asked():
    """H7; contract 6.6."""
    halted = await halted_on(HARBOUR, call("tide"), call("moor"), call("tide"))
    client, model = client_for("done")

    part = await client.run_with_answer(
        HARBOUR,
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
    resumed = await client.run_with_answer(HARBOUR, saved, part.pending, last, missing="wait")
    assert (resumed.text, model.results) == ("done", ["4 m", "moored", "5 m"])


async def test_the_request_of_the_first_halt_settles_the_rest_too():
    halted = await halted_on(HARBOUR, call("tide"), call("moor"))
    client, model = client_for("done")
    answer = relay_answer(halted.pending.id, [RelayResult("k1", "4 m")])
    part = await client.run_with_answer(HARBOUR, halted.messages, halted.pending, answer, missing="wait")
    resumed = await client.run_with_answer(
        HARBOUR, part.messages, halted.pending, answer_output(halted.pending.id, "moored")
    )
    assert (resumed.text, model.results) == ("done", ["4 m", "moored"])


async def test_other_requests_of_the_turn_are_answered_one_by_one():
    """Contract 6.7, 6.8, 5.2: in any order, and no tool runs twice."""
    halted = await halted_on(HARBOUR, call("pay", {"amount": 30}), call("tide"), call("save"))
    approval, relayed = halted.suspensions
    client, model = client_for("done")

    part = await client.run_with_answer(HARBOUR, halted.messages, relayed, answer_output(relayed.id, "4 m"))

    assert (part.status, part.suspensions, model.requests) == ("pending", (approval,), [])
    resumed = await client.run_with_answer(
        HARBOUR, part.messages, approval, Answer(approval.id, ok=True, data={"by": "Ann"})
    )
    assert (resumed.text, model.results) == ("done", ["paid 30, said Ann", "4 m", "saved"])
    assert RAN == ["pay", "save", "pay after True"]


async def test_a_declined_approval_runs_nothing():
    halted = await halted_on(HARBOUR, call("pay", {"amount": 30}))
    client, model = client_for("done")
    await client.run_with_answer(HARBOUR, halted.messages, halted.pending, answer_declined(halted.pending.id))
    assert RAN == ["pay"]
    assert model.results[0].startswith("declined")


@pytest.mark.parametrize(
    ("output", "text"),
    [(False, "false"), (0, "0"), ("", ""), ([], "[]"), ({}, "{}"), (None, "null"), (10**400, str(10**400))],
    ids=repr,
)
async def test_false_zero_and_empty_are_answers(output, text):
    """Contract 6.9, 1.3."""
    halted = await halted_on(HARBOUR, call("tide"), call("moor"))
    client, model = client_for("done")
    results = [RelayResult("k1", output), RelayResult("k2", output, is_error=True)]
    resumed = await client.run_with_answer(
        HARBOUR, halted.messages, halted.pending, relay_answer(halted.pending.id, results)
    )
    assert [(record.output, record.is_error) for record in resumed.tool_calls] == [(text, False), (text, True)]
    assert model.results == [text or "(no output)"] * 2


async def test_parts_ride_beside_an_output_and_are_never_guessed():
    """Contract 1.3."""
    image = {"type": "image_url", "image_url": {"url": "https://example.org/map.png"}}
    halted = await halted_on(HARBOUR, call("tide"), call("moor"))
    client, model = client_for("done")
    results = [RelayResult("k1", "a map", parts=[image]), RelayResult("k2", {"type": "image_url", "url": "x"})]
    resumed = await client.run_with_answer(
        HARBOUR, halted.messages, halted.pending, relay_answer(halted.pending.id, results)
    )
    assert resumed.tool_calls[0].output == "a map"
    assert model.results[1] == '{"type":"image_url","url":"x"}'
    assert "map.png" in json.dumps(model.requests[0].messages)


@pytest.mark.parametrize(("text", "kept"), [("ok \ud83d", "ok \ufffd"), ("a\0b", "a\ufffdb")])
async def test_odd_text_of_a_host_never_poisons_a_transcript(text, kept):
    """C6, C7."""
    halted = await halted_on(HARBOUR, call("tide"))
    client, model = client_for("done")
    resumed = await client.run_with_answer(
        HARBOUR, halted.messages, halted.pending, answer_output(halted.pending.id, text)
    )
    assert model.results == [kept]
    assert Transcript.from_json(resumed.messages.to_json()) == resumed.messages


async def test_a_failed_model_call_after_an_answer_loses_nothing():
    """Contract 6.10."""
    halted = await halted_on(HARBOUR, call("pay", {"amount": 30}), call("tide"))
    approval, relayed = halted.suspensions
    client, _ = client_for(OSError("down"))
    part = await client.run_with_answer(HARBOUR, halted.messages, relayed, answer_output(relayed.id, "4 m"))
    with pytest.raises(GenerateError) as caught:
        await client.run_with_answer(HARBOUR, part.messages, approval, Answer(approval.id, ok=True))

    later, model = client_for("done")
    assert caught.value.transcript is not None
    resumed = await later.run(None, HARBOUR, history=caught.value.transcript)
    assert (resumed.text, model.results) == ("done", ["paid 30, said None", "4 m"])
    assert RAN == ["pay", "pay after True"]


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
    resumed = await client.run_with_answer(HARBOUR, history, request, answer_output("mine-1", "moored"))
    assert (resumed.text, model.results) == ("done", ["4 m", "moored"])
    assert json.dumps(history) == before


async def test_the_answer_for_a_relay_tool_that_is_gone_is_taken_and_a_local_tool_that_is_gone_is_an_error_result():
    """H11."""
    halted = await halted_on(HARBOUR, call("tide"), call("pay", {"amount": 30}))
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
    halted = await client.run("go", HARBOUR)
    second = await limited.run_with_answer(
        HARBOUR, halted.messages, halted.pending, answer_output(halted.pending.id, "4 m")
    )
    assert (second.status, second.turns) == ("pending", 2)
    ended = await limited.run_with_answer(
        HARBOUR, second.messages, second.pending, answer_output(second.pending.id, "5 m")
    )
    assert (ended.status, ended.limit) == ("incomplete", "max_turns")


async def test_data_in_an_answer_never_comes_to_life():
    """H12."""
    alive = {"lc": 1, "type": "constructor", "id": ["os", "system"], "kwargs": {"a": "echo hi"}}
    halted = await halted_on(HARBOUR, call("tide"))
    client, model = client_for("done")
    resumed = await client.run_with_answer(
        HARBOUR, halted.messages, halted.pending, answer_output(halted.pending.id, alive)
    )
    assert json.loads(model.results[0]) == alive
    assert json.loads(Transcript.from_json(resumed.messages.to_json())[2]["content"]) == alive


def test_a_resume_works_without_a_loop():
    client, _ = client_for(says(call("tide")), "done")
    halted = client.run_sync("go", HARBOUR)
    resumed = client.run_with_answer_sync(
        HARBOUR, halted.messages, halted.pending, answer_output(halted.pending.id, "4 m")
    )
    assert resumed.text == "done"
