"""Models that are functions: what they are asked, what they may return, how they fail (contract 6.10)."""

import asyncio
import contextvars
import threading

import pytest
from scripted_model import ScriptedModel, call, says
from toolrelay import (
    GenerateError,
    InProcessResponse,
    InProcessToolCall,
    PayloadError,
    Toolkit,
    create_in_process_client,
    define_tool,
)

NO_TOOLS = Toolkit()


@define_tool
async def tally(n: int = 1) -> int:
    """Counts."""
    return n + 6


async def test_the_model_is_asked_in_the_shape_of_chat_completions():
    model = ScriptedModel(says(call("tally", '{"n": 2}')), "8")
    client = create_in_process_client(generate=model, system_prompt="be brief")

    await client.run("count", Toolkit([tally]))

    schema = {"additionalProperties": False, "properties": {"n": {"default": 1, "type": "integer"}}, "type": "object"}
    function = {"name": "tally", "description": "Counts.", "parameters": schema}
    assert [request.tools for request in model.requests] == [[{"type": "function", "function": function}]] * 2
    assert model.requests[1].messages == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "count"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "k1", "type": "function", "function": {"name": "tally", "arguments": '{"n": 2}'}}],
        },
        {"role": "tool", "tool_call_id": "k1", "content": "8"},
    ]


async def test_a_failed_model_call_keeps_the_transcript_and_the_exception():
    """G7; contract 6.10: nothing that was done is done again."""
    counted = []

    @define_tool
    async def save() -> str:
        """Saves."""
        counted.append(1)
        return "saved"

    broken = OSError("no route")
    model = ScriptedModel(says(call("save")), broken, "done")
    client = create_in_process_client(generate=model)

    with pytest.raises(GenerateError, match="no route") as caught:
        await client.run("save", Toolkit([save]))

    assert caught.value.__cause__ is broken
    assert caught.value.transcript is not None
    result = await client.run(None, Toolkit([save]), history=caught.value.transcript)
    assert (result.text, counted, model.results) == ("done", [1], ["saved"])


NO_REPLIES = [
    (None, "generate must return a str, a dict or an InProcessResponse, not NoneType"),
    (["a"], "not list"),
    ({}, "expected content or tool_calls, found no keys"),
    ({"text": "hi"}, "expected content or tool_calls, found text"),
    ({"choices": []}, "choices: expected a list with a choice"),
    ({"content": 7}, "content: expected a string, got int"),
    ({"tool_calls": [{}]}, "tool_calls[0].name: expected a string, got NoneType"),
    ({"tool_calls": [{"function": "tally"}]}, "tool_calls[0].function: expected an object, got str"),
    ({"tool_calls": ["tally"]}, "tool_calls[0]: expected an InProcessToolCall or a dict, got str"),
    (InProcessResponse(None), "content: expected a string, got NoneType"),
    (InProcessResponse("hi", finish_reason="boo"), "finish_reason: expected one of stop, tool_calls"),
    (InProcessResponse("hi", usage={"input_tokens": "9"}), "usage.input_tokens: expected a whole number from 0 on"),
    (InProcessResponse("hi", usage={"input_tokens": 2**70}), "the model's reply cannot be read"),
    (InProcessResponse("hi", usage=7), "usage: expected an object, got int"),
    (InProcessResponse("hi", model=7), "model: expected a string, got int"),
    (says(InProcessToolCall("tally", [1], "k1")), "tool_calls[0].arguments: expected an object or its text, got list"),
    (says(InProcessToolCall("tally", {"n": {1}}, "k1")), "tool_calls[0].arguments.n: set is not a JSON value"),
    (says(InProcessToolCall("tally", {}, 7)), "tool_calls[0].id: expected a string, got int"),
]


@pytest.mark.parametrize(("made", "told"), NO_REPLIES, ids=[told for _, told in NO_REPLIES])
async def test_what_is_no_reply_is_an_error_that_names_the_place(made, told):
    with pytest.raises(GenerateError) as caught:
        await create_in_process_client(generate=lambda request: made).run("hi", NO_TOOLS)
    assert told in str(caught.value)
    assert isinstance(caught.value.__cause__, PayloadError)
    assert caught.value.kind == "generate"


@pytest.mark.parametrize(
    ("broken", "told"),
    [(KeyError("name"), "KeyError: 'name'"), (ValueError(), "ValueError"), (RuntimeError("a\0b"), "a\ufffdb")],
)
async def test_an_exception_of_the_model_is_told_with_its_type(broken, told):
    with pytest.raises(GenerateError) as caught:
        await create_in_process_client(generate=ScriptedModel(broken)).run("hi", NO_TOOLS)
    assert str(caught.value).endswith(told)
    assert caught.value.__cause__ is broken


FUNCTION = {"name": "tally", "arguments": '{"n":  2}'}
CALLS = {"role": "assistant", "content": None, "tool_calls": [{"id": "k1", "type": "function", "function": FUNCTION}]}


@pytest.mark.parametrize("made", [CALLS, {"choices": [{"message": CALLS, "finish_reason": "tool_calls"}]}])
async def test_a_dict_in_the_shape_of_chat_completions_is_a_reply(made):
    model = ScriptedModel(made, {"role": "assistant", "content": [{"type": "text", "text": "8"}]})
    result = await create_in_process_client(generate=model).run("count", Toolkit([tally]))
    assert (result.text, result.tool_calls[0].arguments) == ("8", '{"n":  2}')


async def test_a_whole_response_of_chat_completions_counts_its_tokens():
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 4,
        "prompt_tokens_details": {"cached_tokens": 5},
        "completion_tokens_details": {"reasoning_tokens": 1},
    }
    choice = {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}
    response = {"id": "x", "model": "parrot-1", "choices": [choice], "usage": usage}
    result = await create_in_process_client(generate=ScriptedModel(response)).run("hi", NO_TOOLS)
    used = result.usage
    assert (used.input_tokens, used.output_tokens, used.cached_tokens, used.reasoning_tokens) == (9, 4, 5, 1)
    assert (result.model, result.finish_reason) == ("parrot-1", "stop")


async def test_a_refusal_of_an_in_process_model_ends_the_run_with_its_text():
    """E5."""
    message = {"role": "assistant", "content": None, "refusal": "cannot do that"}
    result = await create_in_process_client(generate=ScriptedModel(message)).run("hi", NO_TOOLS)
    assert (result.status, result.text, result.finish_reason) == ("done", "cannot do that", "refusal")


async def test_a_plain_function_may_be_the_model_and_runs_in_a_thread_with_the_context_of_the_caller():
    request_id = contextvars.ContextVar("request_id", default="none")
    seen = []

    def generate(request):
        seen.append((request_id.get(), threading.current_thread() is threading.main_thread()))
        return "ok"

    client = create_in_process_client(generate=generate)

    async def run(name):
        request_id.set(name)
        await client.run("hi", NO_TOOLS)

    await asyncio.gather(run("r1"), run("r2"))
    assert sorted(seen) == [("r1", False), ("r2", False)]
