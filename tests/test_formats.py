"""The JSON forms of docs/formats.md: their schema holds for real transcripts, their examples are what they say."""

import copy
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from scripted_model import ScriptedModel, call, says
from toolrelay import (
    Answer,
    Image,
    RelayResult,
    Request,
    ToolContext,
    Toolkit,
    Transcript,
    answer_declined,
    answer_output,
    create_in_process_client,
    define_tool,
    pending,
    relay_answer,
    relay_tool,
)

DOCS = Path(__file__).parents[1] / "docs"
SCHEMA = json.loads((DOCS / "transcript.schema.json").read_text(encoding="utf-8"))
FORMATS = (DOCS / "formats.md").read_text(encoding="utf-8")
EXAMPLES = [json.loads(block) for block in re.findall(r"(?ms)^```json\n(.*?)^```$", FORMATS)]
TRANSCRIPTS = [example for example in EXAMPLES if "format" in example]
REQUESTS = [example for example in EXAMPLES if "kind" in example]
ANSWERS = [example for example in EXAMPLES if "ok" in example]


def validator(definition=None):
    schema = SCHEMA if definition is None else {**SCHEMA, "$ref": f"#/$defs/{definition}"}
    if definition is not None:
        schema = {key: schema[key] for key in ("$schema", "$defs", "$ref")}
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@define_tool
async def pay(context: ToolContext) -> object:
    """Pays when somebody agrees."""
    if context.answer is None:
        return pending("approval", "Pay?", {"sum": 30}, "https://example.org", datetime.now(UTC) + timedelta(hours=1))
    return "paid"


@define_tool
async def fail() -> str:
    """Fails."""
    raise ValueError("no")


@define_tool
async def draw() -> object:
    """Draws."""
    return ["a map", Image(url="https://example.org/map.png")]


TOOLKIT = Toolkit([relay_tool("tide", "high water"), relay_tool("moor", "moors"), pay, fail, draw])


def client_for(*replies, **settings):
    return create_in_process_client(generate=ScriptedModel(*replies), **settings)


async def halts():
    """Halts with each kind of request, whole, answered in part, and settled in each way."""
    everything = says(call("tide"), call("pay"), call("fail"), call("draw"), call("moor"), call("nothing"))
    halted = await client_for(everything, system_prompt="be brief").run(
        [Image(url="https://example.org/a.png")], TOOLKIT
    )
    yield halted.messages
    relayed, approval = halted.suspensions
    part = relay_answer(relayed.id, [RelayResult("k1", {"m": 4}, parts=[Image(b"\x89", "image/png")])])
    left = await client_for().run_with_answer(TOOLKIT, halted.messages, relayed, part, missing="wait")
    yield left.messages
    for reason in ("declined", "cancelled", "expired"):
        settled = await client_for().run_with_answer(
            TOOLKIT, halted.messages, relayed, answer_declined(relayed.id, reason)
        )
        yield settled.messages
    rest = await client_for().run_with_answer(TOOLKIT, halted.messages, relayed, part)
    done = await client_for("done").run_with_answer(TOOLKIT, rest.messages, approval, Answer(approval.id, ok=True))
    yield done.messages
    yield (await client_for("ok").run("stop", TOOLKIT, halted.messages, on_pending="supersede")).messages
    yield (await client_for(says(call("tide"), stop="length"), "ok").run("go", TOOLKIT)).messages


async def foreign():
    """Histories of other programs, mended and gone on with."""
    openai = [
        {"role": "developer", "content": "be brief", "name": "Ann"},
        {"role": "assistant", "tool_calls": [{"function": {"name": "tide", "arguments": {"a": 1}}}], "reasoning": "x"},
        {"role": "tool", "tool_call_id": "", "content": None},
        {"role": "assistant", "refusal": "no"},
        {"role": "user", "content": "and?"},
    ]
    anthropic = [
        {"role": "user", "content": [{"type": "text", "text": "go"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "x", "signature": "y"},
                {"type": "tool_use", "id": "t1", "name": "tide", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "4 m", "is_error": True},
                {"type": "text", "text": "and?"},
            ],
        },
    ]
    for history in (openai, anthropic):
        yield (await client_for("ok").run(None, TOOLKIT, history)).messages


async def test_real_transcripts_have_the_written_form():
    schema = validator()
    seen = set()
    for source in (halts, foreign):
        async for transcript in source():
            form = json.loads(transcript.to_json())
            schema.validate(form)
            assert list(Transcript.from_json(json.dumps(form))) == form["messages"]
            for message in form["messages"]:
                extras = message.get("toolrelay", {})
                seen |= set(extras) | {extras.get("outcome")}
    outcomes = SCHEMA["$defs"]["result"]["properties"]["toolrelay"]["properties"]["outcome"]["enum"]
    assert seen == {None, "provider", "outcome", "parts", "pending", *outcomes} - {"interrupted"}


async def test_requests_and_answers_have_the_written_form():
    halted = await client_for(says(call("tide"), call("pay"))).run("go", TOOLKIT)
    requests = [*halted.suspensions, Request("r", "question", "Which?")]
    for request in requests:
        validator("request").validate(request.to_dict())
    answers = [
        relay_answer("r", [RelayResult("k1", None), RelayResult("k2", "x", is_error=True, parts=[Image(b"x", "a/b")])]),
        answer_output("r", False),
    ]
    for answer in answers:
        validator("answer").validate(answer.to_dict())
        validator("relayData").validate(answer.to_dict()["data"])
    validator("answer").validate(answer_declined("r", "expired").to_dict())


def broken(change):
    form = copy.deepcopy(TRANSCRIPTS[0])
    change(form, form["messages"])
    return form


BROKEN = {
    "a newer format": lambda form, messages: form.update(format=2),
    "an unknown role": lambda form, messages: messages[0].update(role="robot"),
    "a prompt without content": lambda form, messages: messages[0].pop("content"),
    "arguments as an object": lambda form, messages: messages[1]["tool_calls"][0]["function"].update(arguments={}),
    "a reply of nothing": lambda form, messages: messages[1].pop("tool_calls"),
    "an unknown key in a reply": lambda form, messages: messages[1].update(reasoning="x"),
    "a call without an id": lambda form, messages: messages[1]["tool_calls"][0].pop("id"),
    "a result of no call": lambda form, messages: messages[2].pop("tool_call_id"),
    "an unknown outcome": lambda form, messages: messages[3]["toolrelay"].update(outcome="lost"),
    "a placeholder with an outcome": lambda form, messages: messages[2]["toolrelay"].update(outcome="error"),
    "a placeholder without a request id": lambda form, messages: messages[2]["toolrelay"]["pending"].pop("id"),
    "a relay request without calls": lambda form, messages: messages[2]["toolrelay"]["pending"]["request"].pop("data"),
}


@pytest.mark.parametrize("change", BROKEN.values(), ids=BROKEN)
def test_the_schema_refuses(change):
    assert validator().is_valid(TRANSCRIPTS[0])
    assert not validator().is_valid(broken(change))


@pytest.mark.parametrize(
    "data",
    [{}, {"value": 1}, {"results": [], "output": 1}, {"results": [{"id": "k1"}]}, {"results": [{"output": 1}]}],
    ids=json.dumps,
)
def test_the_schema_refuses_data_that_the_engine_cannot_read(data):
    assert not validator("relayData").is_valid(data)


def test_the_examples_are_what_they_say():
    assert (len(TRANSCRIPTS), len(REQUESTS), len(ANSWERS)) == (1, 2, 3)
    for example in REQUESTS:
        validator("request").validate(example)
        assert Request.from_dict(example).to_dict() == example
    for example in ANSWERS:
        validator("answer").validate(example)
        assert Answer.from_dict(example).to_dict() == example
    for example in ANSWERS[:2]:
        validator("relayData").validate(example["data"])


async def test_the_example_of_a_transcript_resumes():
    halted = Transcript.from_json(json.dumps(TRANSCRIPTS[0]))
    request = Request.from_dict(halted[2]["toolrelay"]["pending"]["request"])
    assert halted.halted
    done = await client_for("done").run_with_answer(TOOLKIT, halted, request, answer_output(request.id, "hello"))
    assert [message["content"] for message in done.messages if message["role"] == "tool"] == [
        "hello",
        "declined: the call was refused and was not executed",
        "2026-03-01",
    ]
