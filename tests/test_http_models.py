"""Models behind HTTP, all styles, against a server that follows a script (contract 6.10, 8, 9.3)."""

import asyncio
import json
import traceback

import pytest
from harbour import NO_TOOLS, TIDE, tally
from scripted_server import (
    KEY,
    Reply,
    anthropic_reply,
    client_of,
    gemini_reply,
    openai_reply,
    responses_reply,
    responses_text,
)
from toolrelay import (
    BadRequestError,
    ConfigurationError,
    ContentFilterError,
    ModelNotFoundError,
    Toolkit,
    TranscriptError,
    answer_output,
    create_client,
)

THINKING = '{"type":"thinking","thinking":"h\\u00e4","signature":"c2ln\\/bmVk"}'


async def test_a_tool_loop_over_chat_completions(server):
    server.script(openai_reply("let me see", [("call_1", "tally", '{ "n":2 }')]), openai_reply("8"))
    client = client_of(server, system_prompt="be brief")

    result = await client.run("count", Toolkit([tally]))

    assert (result.status, result.text, result.turns, result.model) == ("done", "8", 2, "gpt-test-1")
    assert (result.usage.input_tokens, result.usage.output_tokens) == (18, 8)
    first, second = server.requests
    assert (first.path, first.headers["authorization"]) == ("/v1/chat/completions", f"Bearer {KEY}")
    assert first.headers["content-type"] == "application/json"
    assert first.json()["model"] == "m-1"
    assert [tool["function"]["name"] for tool in first.json()["tools"]] == ["tally"]
    assert second.json()["messages"] == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "count"},
        {
            "role": "assistant",
            "content": "let me see",
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "tally", "arguments": '{ "n":2 }'}}
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "8"},
    ]


async def test_a_tool_loop_over_messages_keeps_signed_thinking_byte_for_byte(server):
    """Contract 8.2, 8.5: results in call order in one user message, the assistant's content as it came."""
    content = (
        f"[ {THINKING},"
        '{"type":"redacted_thinking","data":""}, {"type":"text","text":"both"},'
        '{"type":"tool_use","id":"toolu_1","name":"tally","input":{"n": 2}},'
        '{"type":"tool_use","id":"toolu_2","name":"tally","input":{"n":3},"cache":1.0} ]'
    )
    server.script(anthropic_reply(content, "tool_use"), anthropic_reply('[{"type":"text","text":"8 and 9"}]'))
    client = client_of(server, "anthropic", system_prompt="be brief")

    result = await client.run("count both", Toolkit([tally]))

    assert (result.text, result.model) == ("8 and 9", "claude-test-1")
    first, second = server.requests
    assert (first.path, first.headers["x-api-key"]) == ("/v1/messages", KEY)
    assert "anthropic-version" in first.headers
    assert first.json()["max_tokens"] > 0
    sent = second.json()
    assert sent["system"] == [{"type": "text", "text": "be brief"}]
    assert [message["role"] for message in sent["messages"]] == ["user", "assistant", "user"]
    assert content.removeprefix("[ ").removesuffix(" ]").encode() in second.body
    assert sent["messages"][2]["content"] == [
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": "8"},
        {"type": "tool_result", "tool_use_id": "toolu_2", "content": "9"},
    ]


async def test_a_tool_loop_over_responses_keeps_items_byte_for_byte(server):
    """Contract 8.2, 8.5: the provider's items as they came, then the results in call order."""
    output = (
        '{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"q\\/0="}, '
        '{"type":"function_call","id":"fc_1","call_id":"call_1","name":"tally","arguments":"{\\"n\\": 2}"},'
        '{"type":"function_call","id":"fc_2","call_id":"call_2","name":"tally","arguments":"{\\"n\\":3}","extra":1.0}'
    )
    server.script(responses_reply(f"[ {output} ]"), responses_reply(responses_text("8 and 9")))
    client = client_of(server, "openai-responses", system_prompt="be brief")

    result = await client.run("count both", Toolkit([tally]))

    assert (result.text, result.model, result.usage.reasoning_tokens) == ("8 and 9", "gpt-test-1", 6)
    first, second = server.requests
    assert (first.path, first.headers["authorization"]) == ("/v1/responses", f"Bearer {KEY}")
    sent = first.json()
    assert (sent["store"], sent["include"]) == (False, ["reasoning.encrypted_content"])
    assert sent["instructions"] == "be brief"
    assert [(tool["type"], tool["name"], tool["strict"]) for tool in sent["tools"]] == [("function", "tally", False)]
    assert output.encode() in second.body
    assert second.json()["input"][-2:] == [
        {"type": "function_call_output", "call_id": "call_1", "output": "8"},
        {"type": "function_call_output", "call_id": "call_2", "output": "9"},
    ]


async def test_a_reply_that_failed_is_an_error_of_its_kind(server):
    """Fault D20, plain: the reason stands inside of a reply with a good status."""
    failed = '"status":"failed","error":{"code":"invalid_prompt","message":"no"}'
    server.script(responses_reply("[]", failed))
    with pytest.raises(BadRequestError, match="invalid_prompt"):
        await client_of(server, "openai-responses").run("hi", NO_TOOLS)
    assert len(server.requests) == 1


async def test_a_tool_loop_over_generate_content_keeps_thought_signatures_byte_for_byte(server):
    """Contract 8.2, 8.5; A8, F6: results in call order in one content, the model's parts as they came."""
    parts = (
        '[ {"text":"h\\u00e4","thought":true,"thoughtSignature":"c2ln\\/bmVk"},{"text":"both"},'
        '{"functionCall":{"name":"tally","args":{"n": 2}},"thoughtSignature":"Zmlyc3Q="}, '
        '{"functionCall":{"id":"fc-2","name":"tally","args":{"n":3.0}},"cache":1.0} ]'
    )
    server.script(gemini_reply(parts), gemini_reply('[{"text":"8 and 9"},{"text":"","thoughtSignature":"ZW5k"}]'))
    client = client_of(server, "gemini", model="models/gemini-test", system_prompt="be brief")

    result = await client.run("count both", Toolkit([tally]))

    assert (result.text, result.model, result.finish_reason) == ("8 and 9", "gemini-test-1", "stop")
    assert (result.usage.input_tokens, result.usage.output_tokens) == (18, 8)
    first, second = server.requests
    assert (first.path, first.headers["x-goog-api-key"]) == ("/v1beta/models/gemini-test:generateContent", KEY)
    (declared,) = first.json()["tools"][0]["functionDeclarations"]
    assert (declared["name"], list(declared["parametersJsonSchema"]["properties"])) == ("tally", ["n"])
    sent = second.json()
    assert sent["systemInstruction"] == {"parts": [{"text": "be brief"}]}
    assert [content["role"] for content in sent["contents"]] == ["user", "model", "user"]
    assert parts.removeprefix("[ ").removesuffix(" ]").encode() in second.body
    assert sent["contents"][2]["parts"] == [
        {"functionResponse": {"name": "tally", "response": {"output": "8"}}},
        {"functionResponse": {"id": "fc-2", "name": "tally", "response": {"output": "9"}}},
    ]


async def test_a_blocked_prompt_is_a_typed_error(server):
    """E6: the provider's reason is on the error, and it is not asked again."""
    server.script(Reply({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}))
    with pytest.raises(ContentFilterError, match="PROHIBITED_CONTENT") as caught:
        await client_of(server, "gemini").run("hi", NO_TOOLS)
    assert (caught.value.error_type, len(server.requests)) == ("PROHIBITED_CONTENT", 1)


@pytest.mark.parametrize("style", ["openai", "openai-responses", "anthropic", "gemini"])
async def test_a_halt_resumes_over_http(server, style):
    use = '[{"type":"tool_use","id":"call_1","name":"tide","input":{}}]'
    said = '[{"type":"text","text":"it is 4 m"}]'
    if style == "openai":
        server.script(openai_reply(None, [("call_1", "tide", "{}")]), openai_reply("it is 4 m"))
    elif style == "openai-responses":
        call = '[{"type":"function_call","id":"fc_1","call_id":"call_1","name":"tide","arguments":"{}"}]'
        server.script(responses_reply(call), responses_reply(responses_text("it is 4 m")))
    elif style == "anthropic":
        server.script(anthropic_reply(use, "tool_use"), anthropic_reply(said))
    else:
        server.script(gemini_reply('[{"functionCall":{"name":"tide"}}]'), gemini_reply('[{"text":"it is 4 m"}]'))
    client = client_of(server, style)

    halted = await client.run("tide?", Toolkit([TIDE]))
    assert (halted.status, len(server.requests)) == ("pending", 1)
    resumed = await client.run_with_answer(
        Toolkit([TIDE]), halted.messages.to_json(), halted.pending, answer_output(halted.pending.id, "4 m")
    )

    assert resumed.text == "it is 4 m"
    assert b"toolrelay" not in server.requests[-1].body
    prefix = server.requests[0].body.rindex(b'"tide?"')
    assert server.requests[1].body.startswith(server.requests[0].body[:prefix])


async def test_one_connection_serves_the_turns_and_runs_of_a_client(server):
    server.script(openai_reply(None, [("call_1", "tally", "{}")]), openai_reply("7"), openai_reply("again"))
    client = client_of(server)
    await client.run("count", Toolkit([tally]))
    await client.run("again", NO_TOOLS)
    assert [request.connection for request in server.requests] == [0, 0, 0]


async def test_a_connection_that_the_server_closed_is_not_used_again(server):
    server.script(Reply(**{**vars(openai_reply("one")), "closes": True}), openai_reply("two"))
    client = client_of(server, retries=0)
    await client.run("a", NO_TOOLS)
    await asyncio.sleep(0.05)
    assert (await client.run("b", NO_TOOLS)).text == "two"
    assert [request.connection for request in server.requests] == [0, 1]


async def test_request_parameters_win_and_none_leaves_a_key_out(server):
    server.script(openai_reply("ok"), anthropic_reply('[{"type":"text","text":"ok"}]'))
    params = {"temperature": 0.5, "metadata": {"b": 1, "a": 10**30}, "top_p": None}
    await client_of(server, request_params=params).run("hi", NO_TOOLS)
    more = {"max_tokens": 5, "thinking": {"type": "enabled", "budget_tokens": 1}}
    await client_of(server, "anthropic", request_params=more).run("hi", NO_TOOLS)

    first, second = server.bodies
    assert (first["temperature"], first["metadata"]) == (0.5, {"b": 1, "a": 10**30})
    assert "top_p" not in first
    assert "tools" not in first
    assert (second["max_tokens"], second["thinking"]) == (5, more["thinking"])


@pytest.mark.parametrize("key", ["messages", "stream"])
def test_a_parameter_that_the_library_sets_itself_is_refused_at_once(key):
    with pytest.raises(ConfigurationError, match=key):
        create_client(model="m", api_key="", request_params={key: []})


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("required", "required"),
        ({"type": "function", "function": {"name": "tally"}}, {"type": "function", "function": {"name": "tally"}}),
    ],
)
async def test_a_choice_that_forces_a_call_holds_for_the_reply_to_a_prompt(server, choice, sent):
    server.script(openai_reply(None, [("call_1", "tally", "{}")]), openai_reply("7"))
    client = client_of(server, tool_choice=choice, parallel_tool_calls=False)
    result = await client.run("count", Toolkit([tally]))
    assert result.text == "7"
    assert [body.get("tool_choice") for body in server.bodies] == [sent, None]
    assert [body["parallel_tool_calls"] for body in server.bodies] == [False, False]


async def test_a_choice_of_a_tool_that_is_not_there_is_refused_before_anything_is_sent(server):
    client = client_of(server, tool_choice={"type": "function", "function": {"name": "moor"}})
    with pytest.raises(ConfigurationError, match='names "moor", which is no tool'):
        await client.run("count", Toolkit([tally]))
    assert server.requests == []


async def test_headers_are_sent_and_may_replace_the_librarys_own(server):
    server.script(openai_reply("ok"))
    client = client_of(server, headers={"X-Trace": "t-1", "Authorization": "Bearer other-secret-1"})
    await client.run("hi", NO_TOOLS)
    headers = server.requests[0].headers
    assert (headers["x-trace"], headers["authorization"]) == ("t-1", "Bearer other-secret-1")


@pytest.mark.parametrize(
    ("style", "variable", "header", "value"),
    [
        ("openai", "OPENAI_API_KEY", "authorization", "Bearer from-the-environment"),
        ("openai-responses", "OPENAI_API_KEY", "authorization", "Bearer from-the-environment"),
        ("anthropic", "ANTHROPIC_API_KEY", "x-api-key", "from-the-environment"),
        ("gemini", "GEMINI_API_KEY", "x-goog-api-key", "from-the-environment"),
    ],
)
async def test_the_key_comes_from_the_environment_or_its_absence_names_the_variable(
    server, monkeypatch, style, variable, header, value
):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigurationError, match=variable) as caught:
        client_of(server, style, api_key=None)
    assert caught.value.variable == variable

    server.script(Reply(status=404))
    monkeypatch.setenv(variable, "from-the-environment")
    with pytest.raises(ModelNotFoundError):
        await client_of(server, style, api_key=None).run("hi", NO_TOOLS)
    assert server.requests[0].headers[header] == value


async def test_the_key_of_google_has_an_older_variable(server, monkeypatch):
    server.script(gemini_reply('[{"text":"ok"}]'), gemini_reply('[{"text":"ok"}]'))
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    monkeypatch.setenv("GOOGLE_API_KEY", "the-older")
    await client_of(server, "gemini", api_key=None).run("hi", NO_TOOLS)
    monkeypatch.setenv("GEMINI_API_KEY", "the-newer")
    await client_of(server, "gemini", api_key=None).run("hi", NO_TOOLS)
    assert [request.headers["x-goog-api-key"] for request in server.requests] == ["the-older", "the-newer"]


async def test_an_empty_key_sends_none(server):
    server.script(openai_reply("ok"), Reply(status=404), Reply(status=404))
    await client_of(server, api_key="").run("hi", NO_TOOLS)
    with pytest.raises(ModelNotFoundError):
        await client_of(server, "anthropic", api_key="").run("hi", NO_TOOLS)
    with pytest.raises(ModelNotFoundError):
        await client_of(server, "gemini", api_key="").run("hi", NO_TOOLS)
    assert not {"authorization", "x-api-key", "x-goog-api-key"} & {
        name for request in server.requests for name in request.headers
    }


def test_the_repr_of_a_client_says_what_it_reaches_and_not_with_what():
    client = create_client(
        style="anthropic", model="m-1", api_key=KEY, base_url="https://proxy.example.org/a?key=hidden-secret"
    )
    assert repr(client) == "<Client anthropic m-1 at https://proxy.example.org/a>"


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        (
            {"style": "gemini9"},
            "unknown style 'gemini9': use one of openai, openai-responses, anthropic, gemini",
        ),
        ({"model": ""}, "model must be the name of a model"),
        ({"model": None}, "model must be the name of a model"),
        ({"retries": -1}, "retries must be a whole number from 0 on, not -1"),
        ({"retries": True}, "retries must be a whole number from 0 on, not True"),
        ({"base_url": "ftp://x"}, "must begin with http:// or https://"),
        ({"base_url": "http://user:hidden-secret@x/v1"}, "holds a user name or a password"),
        ({"base_url": "http://hidden-secret host/"}, "the address cannot be read"),
        ({"headers": {"bad name": "x"}}, "is not a header name"),
        ({"headers": {"x-key": "hidden-secret\n"}, "api_key": "a\nb"}, "header"),
        ({"headers": {"content-length": "3"}}, "belongs to the transport"),
        ({"api_key": "hidden-secret\nx"}, "authorization"),
        ({"api_key": 7}, "api_key must be text, not int"),
        ({"connect_timeout": 0}, "connect_timeout must be a positive number of seconds"),
        ({"read_timeout": -1}, "read_timeout must be a positive number of seconds"),
        ({"request_params": {"x": {1}}}, "request_params.x"),
        ({"tool_choice": "tally"}, 'tool_choice must be "auto", "none", "required" or'),
        ({"tool_choice": {"type": "function", "function": "tally"}}, "tool_choice must be"),
        ({"parallel_tool_calls": 1}, "parallel_tool_calls must be True, False or None, not 1"),
    ],
)
def test_a_setting_that_cannot_work_is_refused_without_its_secret(setting, says):
    with pytest.raises(ConfigurationError) as caught:
        create_client(**{"model": "m", "api_key": "", **setting})
    assert says in str(caught.value)
    assert "hidden-secret" not in "".join(traceback.format_exception(caught.value))


async def test_odd_replies_are_read(server):
    """B4, E1, C5: a null id, `stop` beside calls, arguments as an object, unknown fields."""
    function = {"name": "tally", "arguments": {"n": 2}}
    made = [{"index": 0, "id": None, "type": "function", "function": function}]
    message = {"role": "assistant", "content": None, "tool_calls": made, "reasoning_content": "hm"}
    server.script(
        Reply({"choices": [{"message": message, "finish_reason": "stop", "odd": 1}], "model": "m"}), openai_reply("8")
    )
    result = await client_of(server).run("count", Toolkit([tally]))
    (record,) = result.tool_calls
    assert (record.output, json.loads(record.arguments)) == ("8", {"n": 2})
    assistant, answered = server.bodies[1]["messages"][1:]
    assert assistant["tool_calls"][0]["id"] == answered["tool_call_id"] == record.id
    assert assistant["reasoning_content"] == "hm"


async def test_a_refusal_ends_the_run_with_its_text(server):
    """E5."""
    server.script(openai_reply("", refusal="cannot do that"))
    result = await client_of(server).run("hi", NO_TOOLS)
    assert (result.status, result.text) == ("done", "cannot do that")


async def test_a_hundred_runs_at_once_share_a_client(server):
    server.script(*[openai_reply("ok") for _ in range(100)])
    client = client_of(server)
    results = await asyncio.gather(*(client.run(f"hi {at}", NO_TOOLS) for at in range(100)))
    assert {result.text for result in results} == {"ok"}
    assert len(server.requests) == 100


async def test_a_prompt_that_says_nothing_is_the_callers_mistake_and_is_not_sent(server):
    with pytest.raises(TranscriptError, match=r"cannot be sent.*add a prompt") as caught:
        await client_of(server, "anthropic").run(" ", NO_TOOLS)
    assert [message["content"] for message in caught.value.transcript] == [" "]
    assert server.requests == []
