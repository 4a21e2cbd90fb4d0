"""One call of any provider in the shapes of Chat Completions (contract 8.1, 8.2, 8.4 to 8.6)."""

import asyncio
import json
from typing import Any

import pytest
from official import Package, Said, SaidCall, scripted
from official_anthropic import Anthropic
from official_gemini import Gemini
from official_openai import OpenAi
from official_responses import Responses
from openai.types.chat import ChatCompletion
from scripted_server import Reply, ScriptedServer, anthropic_reply, client_of, openai_reply
from toolrelay import (
    GenerateError,
    InProcessResponse,
    InProcessToolCall,
    PayloadError,
    ProviderTimeoutError,
    RateLimitError,
    ToolkitError,
    TranscriptError,
    create_in_process_client,
)

PACKAGES = [OpenAi(), Responses(), Anthropic(), Gemini()]
TALLY = {
    "type": "function",
    "function": {
        "name": "dock/tally",
        "description": "Counts.",
        "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}},
        "strict": True,
    },
}
PROMPT = {"role": "user", "content": "count"}


@pytest.fixture(params=PACKAGES, ids=lambda package: package.style)
def package(request: pytest.FixtureRequest) -> Package:
    return request.param


def wire_name(server: ScriptedServer) -> str:
    """The only tool's name as it was sent."""
    (tool,) = server.bodies[0]["tools"]
    if "functionDeclarations" in tool:
        (tool,) = tool["functionDeclarations"]
    name: str = (tool.get("function") or tool)["name"]
    return name


async def test_a_round_of_calls_with_any_provider(server: ScriptedServer, package: Package) -> None:
    """The official types take what is sent and what comes out; a reply's own blocks go back with the messages."""
    client = client_of(server, package.style, system_prompt="not for this")
    server.script(scripted(package, Said("hm"), "plain"))
    await client.translate(messages=[PROMPT], tools=[TALLY])
    name = wire_name(server)
    said = Said("both", (SaidCall("call_1", name, '{"n":1}'), SaidCall("call_2", name, '{"n":2}')), "one, then two")
    server.script(scripted(package, said, "plain"), scripted(package, Said("3"), "plain"))

    first = await client.translate(messages=[PROMPT], tools=[TALLY], tool_choice="required", max_completion_tokens=500)
    response = ChatCompletion.model_validate(first, strict=True)
    (choice,) = response.choices
    assert (choice.message.content, choice.finish_reason) == ("both", "tool_calls")
    calls = choice.message.tool_calls or []
    assert [json.loads(call.function.arguments) for call in calls if call.type == "function"] == [{"n": 1}, {"n": 2}]
    assert {call.function.name for call in calls if call.type == "function"} == {"dock/tally"}
    assert len({call.id for call in calls}) == 2
    assert first["choices"][0]["message"]["reasoning_content"] == "one, then two"
    assert response.usage is not None
    assert response.usage.total_tokens == response.usage.prompt_tokens + response.usage.completion_tokens > 0

    results = [{"role": "tool", "tool_call_id": call.id, "content": str(at)} for at, call in enumerate(calls)]
    messages = [PROMPT, first["choices"][0]["message"], *results]
    second = await client.translate(messages=json.loads(json.dumps(messages)), tools=[TALLY])
    assert second["choices"][0]["message"]["content"] == "3"
    assert [problem for body in server.bodies for problem in package.problems(body)] == []
    assert all(b"not for this" not in request.body and b"toolrelay" not in request.body for request in server.requests)
    assert b"one, then two" in server.requests[-1].body


@pytest.mark.parametrize("extras", [True, False])
async def test_a_signature_goes_back_byte_for_byte_where_the_message_has_extras(
    server: ScriptedServer, extras: bool
) -> None:
    thinking = '{"type":"thinking","thinking":"h\\u00e4","signature":"c2ln\\/bmVk"}'
    content = f'[{thinking}, {{"type":"tool_use","id":"toolu_1","name":"tally","input":{{"n": 1}}}}]'
    server.script(anthropic_reply(content, "tool_use"), anthropic_reply('[{"type":"text","text":"7"}]'))
    client = client_of(server, "anthropic")
    first = await client.translate(messages=[PROMPT], extras=extras)
    message = first["choices"][0]["message"]
    assert ("toolrelay" in message) is extras
    await client.translate(messages=[PROMPT, message, {"role": "tool", "tool_call_id": "toolu_1", "content": "7"}])
    assert (content.strip("[]").encode() in server.requests[1].body) is extras
    assert server.bodies[1]["messages"][1]["content"][-1]["input"] == {"n": 1}


async def test_unbalanced_messages_are_a_typed_error_and_nothing_is_sent(server: ScriptedServer) -> None:
    call = {"id": "k1", "type": "function", "function": {"name": "tally", "arguments": "{}"}}
    called = {"role": "assistant", "content": None, "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": "k1", "content": "7"}
    client = client_of(server)
    for messages in (
        [PROMPT, called],
        [PROMPT, called, PROMPT],
        [PROMPT, result],
        [PROMPT, {**called, "tool_calls": []}],
    ):
        with pytest.raises(TranscriptError, match="the messages cannot be sent"):
            await client.translate(messages=messages)
    with pytest.raises(TranscriptError, match="two different results"):
        await client.translate(messages=[PROMPT, called, result, {**result, "content": "8"}])
    assert server.requests == []


async def test_errors_and_retries_are_those_of_a_run(server: ScriptedServer) -> None:
    server.script(Reply(status=503, headers={"retry-after": "0"}), openai_reply("ok"))
    assert (await client_of(server).translate(messages=[PROMPT]))["choices"][0]["message"]["content"] == "ok"
    server.script(Reply({"error": {"message": "slow down"}}, status=429))
    with pytest.raises(RateLimitError, match="slow down") as caught:
        await client_of(server, retries=0).translate(messages=[PROMPT])
    assert (caught.value.status, caught.value.transcript) == (429, None)
    server.script(Reply(hangs=True))
    with pytest.raises(ProviderTimeoutError):
        await client_of(server, timeout=0.05).translate(messages=[PROMPT])


async def test_a_cancelled_call_leaves_the_server(server: ScriptedServer) -> None:
    server.script(Reply(hangs=True))
    task = asyncio.create_task(client_of(server).translate(messages=[PROMPT]))
    await asyncio.to_thread(server.arrived.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(server.left_by_client.wait, 10)


async def test_parameters_are_said_in_the_styles_words_beside_the_clients_own(server: ScriptedServer) -> None:
    server.script(anthropic_reply('[{"type":"text","text":"ok"}]'), openai_reply("ok"))
    asked: dict[str, Any] = {"temperature": 0, "stop": ["end"], "max_tokens": 5, "user": "u-1", "top_p": None}
    client = client_of(server, "anthropic", request_params={"metadata": {"x": "y"}, "top_k": 3})
    await client.translate(messages=[PROMPT], **asked)
    body = server.bodies[0]
    assert (body["temperature"], body["stop_sequences"], body["max_tokens"], body["top_k"]) == (0, ["end"], 5, 3)
    assert body["metadata"] == {"x": "y", "user_id": "u-1"}
    response = await client_of(server, request_params={"seed": 1}).translate(messages=[PROMPT], model="m-2", seed=2)
    assert (server.bodies[1]["model"], server.bodies[1]["seed"]) == ("m-2", 2)
    assert response["model"] == "gpt-test-1"


async def test_tool_choice_holds_for_the_call_whatever_came_before(server: ScriptedServer) -> None:
    server.script(openai_reply("ok"))
    call = {"id": "k1", "type": "function", "function": {"name": "dock/tally", "arguments": "{}"}}
    messages = [
        PROMPT,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "k1", "content": "7"},
    ]
    choice = {"type": "function", "function": {"name": "dock/tally"}}
    await client_of(server, tool_choice="none").translate(
        messages=messages, tools=[TALLY], tool_choice=choice, parallel_tool_calls=False
    )
    (body,) = server.bodies
    assert body["tool_choice"] == {"type": "function", "function": {"name": wire_name(server)}}
    assert body["parallel_tool_calls"] is False


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}


@pytest.mark.parametrize("style", ["openai", "openai-responses", "anthropic", "gemini"])
@pytest.mark.parametrize(
    ("asked", "key"),
    [
        ({"messages": 7}, "messages"),
        ({"messages": [{1: 2}]}, "messages[0][1]"),
        ({"n": 2}, "n"),
        ({"max_tokens": 5, "max_completion_tokens": 6}, "max_tokens"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": {"type": "function", "function": {"name": "tally"}}}, "tool_choice"),
        ({"tools": [], "tool_choice": "required"}, "tool_choice"),
        ({"tools": [TALLY], "tool_choice": {"type": "function", "function": {"name": "x"}}}, "tool_choice"),
        ({"parallel_tool_calls": False}, "parallel_tool_calls"),
        ({"tools": [{"type": "function", "function": {"name": "t", "parameters": json.dumps(SCHEMA)}}]}, "parameters"),
        ({"tools": [{"type": "function", "function": {"name": "t", "input_schema": SCHEMA}}]}, "input_schema"),
    ],
)
async def test_what_would_be_lost_is_refused_by_its_place(
    server: ScriptedServer, style: str, asked: dict[str, Any], key: str
) -> None:
    with pytest.raises(PayloadError) as caught:
        await client_of(server, style).translate(**{"messages": [PROMPT], **asked})
    assert (caught.value.key or "").removeprefix("tools[0].function.") == key
    assert server.requests == []


async def test_what_says_nothing_of_tools_needs_none(server: ScriptedServer) -> None:
    server.script(openai_reply("ok"), openai_reply("ok"))
    await client_of(server).translate(messages=[PROMPT], tool_choice="none", parallel_tool_calls=None)
    own = {"tools": [{"type": "web_search"}]}
    await client_of(server, request_params=own).translate(messages=[PROMPT], tool_choice="required")
    assert ["tool_choice" in body for body in server.bodies] == [False, True]


async def test_a_call_without_messages_says_so() -> None:
    with pytest.raises(PayloadError, match="messages: expected a list of messages") as caught:
        await create_in_process_client(generate=lambda request: "").translate()  # type: ignore[call-overload]
    assert caught.value.key == "messages"


@pytest.mark.parametrize(
    ("asked", "error", "says"),
    [
        ({"messages": None}, PayloadError, "messages: expected a list of messages, got None"),
        ({"messages": 7}, PayloadError, "messages: expected a Transcript, a list of messages or JSON, got int"),
        ({"messages": [{"role": "nobody", "content": "x"}]}, TranscriptError, "unknown role"),
        ({"messages": []}, TranscriptError, "the messages cannot be sent"),
        ({"tools": {}}, PayloadError, "tools: expected a list of dicts, got dict"),
        ({"tools": [{"type": "custom"}]}, PayloadError, "tools[0].type: expected"),
        ({"tools": [{"name": "tally", "input_schema": {}}]}, PayloadError, "tools[0].function: missing"),
        ({"tools": [TALLY, TALLY]}, ToolkitError, "there are two tools named"),
        ({"tools": [TALLY], "tool_choice": "moor"}, PayloadError, "tool_choice must be"),
        ({"tools": [TALLY], "tool_choice": {"type": "function", "function": {"name": "x"}}}, PayloadError, '"x"'),
        ({"parallel_tool_calls": 1}, PayloadError, "parallel_tool_calls: expected True, False or None, got int"),
        ({"logit_bias": {}}, PayloadError, "has no form in style anthropic"),
        ({"n": 2}, PayloadError, '"n" must be 1'),
        ({"temperature": float("nan")}, PayloadError, "temperature: nan is not a JSON number"),
    ],
)
async def test_what_cannot_be_asked_is_told_before_anything_is_sent(
    server: ScriptedServer, asked: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error) as caught:
        await client_of(server, "anthropic").translate(**{"messages": [PROMPT], **asked})
    assert says in str(caught.value)
    assert server.requests == []


async def test_too_many_tools_are_told_before_anything_is_sent(server: ScriptedServer) -> None:
    many = [{"type": "function", "function": {"name": f"t{at}"}} for at in range(129)]
    with pytest.raises(ToolkitError, match="at most 128"):
        await client_of(server, profile="openai").translate(messages=[PROMPT], tools=many)
    assert server.requests == []


async def test_a_model_in_this_process_answers_too() -> None:
    def generate(request: Any) -> InProcessResponse:
        assert [tool["function"]["description"] for tool in request.tools] == ["Counts."]
        return InProcessResponse("so", tool_calls=[InProcessToolCall("dock/tally", '{"n":1}')])

    client = create_in_process_client(generate=generate)
    response = ChatCompletion.model_validate(await client.translate(messages=[PROMPT], tools=[TALLY]), strict=True)
    (call,) = response.choices[0].message.tool_calls or []
    assert call.type == "function"
    assert (call.function.name, call.function.arguments, call.id[:5]) == ("dock/tally", '{"n":1}', "call_")

    def fails(request: Any) -> str:
        raise KeyError("tide")

    with pytest.raises(GenerateError) as caught:
        await create_in_process_client(generate=fails).translate(messages=[PROMPT])
    assert isinstance(caught.value.__cause__, KeyError)


def test_it_works_without_an_event_loop() -> None:
    client = create_in_process_client(generate=lambda request: request.messages[-1]["content"])
    assert client.translate_sync(messages=[PROMPT])["choices"][0]["message"]["content"] == "count"
