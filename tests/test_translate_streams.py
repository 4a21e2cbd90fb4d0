"""The answer to one call of any provider in chunks of Chat Completions (contract 8.1, 8.2, 8.6, 8.7; faults G3, G6)."""

import asyncio
import gc
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from flood import Flood, resident
from official import Package, Said, SaidCall, scripted
from official_anthropic import Anthropic
from official_gemini import Gemini
from official_openai import OpenAi
from official_responses import Responses
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from scripted_server import Reply, ScriptedServer, client_of, sse, stream
from streamed import calls, delta, texts
from toolrelay import (
    ChunkStream,
    EventLoopError,
    GenerateError,
    InProcessResponse,
    InProcessToolCall,
    OverloadedError,
    PayloadError,
    ProviderConnectionError,
    ProviderTimeoutError,
    RateLimitError,
    TranscriptError,
    create_in_process_client,
)
from toolrelay.events import ReasoningDelta

PACKAGES = [OpenAi(), Responses(), Anthropic(), Gemini()]
PROMPT = {"role": "user", "content": "count"}
TALLY = {"type": "function", "function": {"name": "dock/tally", "parameters": {"type": "object", "properties": {}}}}
COST = {"include_usage": True}


@pytest.fixture(params=PACKAGES, ids=lambda package: package.style)
def package(request: pytest.FixtureRequest) -> Package:
    return request.param


def together(chunks: list[dict[str, Any]]) -> dict[str, Any]:
    """The completion that the official package puts together from these chunks."""
    state = ChatCompletionStreamState()
    for chunk in chunks:
        state.handle_chunk(ChatCompletionChunk.model_validate(chunk, strict=True))
    return bare(state.current_completion_snapshot.model_dump(exclude_unset=True))


def bare(completion: dict[str, Any]) -> dict[str, Any]:
    """A completion without what is different each time, and without what is not there."""
    choice = completion["choices"][0]
    message = {key: value for key, value in choice["message"].items() if value is not None and key != "parsed"}
    blocks = json.loads(message.pop("toolrelay", {"provider": {"raw": "null"}})["provider"]["raw"])
    made = message.pop("tool_calls", [])
    functions = [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in made]
    more = {"blocks": blocks, "calls": functions, "ended": choice["finish_reason"], "usage": completion["usage"]}
    return {**message, **more}


SAID = {
    "calls": Said(
        "both of them",
        (SaidCall("call_1", "tally", '{"n": 1}'), SaidCall("call_2", "moor", '{"b":2}')),
        "one, then two",
    ),
    "text": Said("It is 7.", thought="six and one"),
    "cut": Said("It is", stop="length"),
    "refused": Said("I will not.", stop="refusal"),
}


@pytest.mark.parametrize("said", SAID.values(), ids=SAID)
async def test_chunks_put_together_are_the_plain_completion(
    server: ScriptedServer, package: Package, said: Said
) -> None:
    server.script(scripted(package, said, "plain"), scripted(package, said, "streamed"))
    client = client_of(server, package.style)
    plain = await client.translate(messages=[PROMPT])
    ChatCompletion.model_validate(plain, strict=True)
    chunks = [chunk async for chunk in await client.translate(messages=[PROMPT], stream=True, stream_options=COST)]
    assert together(chunks) == bare(plain)
    assert [problem for body in server.bodies for problem in package.problems(body)] == []


async def test_a_reply_that_comes_whole_is_told_in_chunks(server: ScriptedServer, package: Package) -> None:
    reply = scripted(package, SAID["calls"], "plain")
    server.script(reply, reply)
    client = client_of(server, package.style)
    plain = await client.translate(messages=[PROMPT])
    chunks = [chunk async for chunk in await client.translate(messages=[PROMPT], stream=True, stream_options=COST)]
    assert together(chunks) == bare(plain)
    assert plain["choices"][0]["message"]["reasoning_content"] == "one, then two"


async def test_a_round_of_calls_in_chunks_with_any_provider(server: ScriptedServer, package: Package) -> None:
    """The message that the official package puts together goes back, the provider's own blocks with it."""
    client = client_of(server, package.style)
    server.script(scripted(package, Said("hm"), "streamed"))
    assert [chunk async for chunk in await client.translate(messages=[PROMPT], tools=[TALLY], stream=True)]
    (tool,) = server.bodies[0]["tools"]
    (tool,) = tool.get("functionDeclarations", [tool])
    name = (tool.get("function") or tool)["name"]
    said = Said("both", (SaidCall("call_1", name, '{"n":1}'), SaidCall("call_2", name, '{"n":2}')), "one, then two")
    server.script(scripted(package, said, "streamed"), scripted(package, Said("3"), "streamed"))

    state = ChatCompletionStreamState()
    async for chunk in await client.translate(messages=[PROMPT], tools=[TALLY], stream=True):
        state.handle_chunk(ChatCompletionChunk.model_validate(chunk, strict=True))
    message = state.current_completion_snapshot.choices[0].message.to_dict()
    made: Any = message["tool_calls"]
    assert [call["function"]["name"] for call in made] == ["dock/tally", "dock/tally"]
    assert len({call["id"] for call in made}) == 2
    for call in made:
        call.pop("index")
    results = [{"role": "tool", "tool_call_id": call["id"], "content": str(at)} for at, call in enumerate(made)]
    messages = json.loads(json.dumps([PROMPT, message, *results]))
    chunks = [chunk async for chunk in await client.translate(messages=messages, tools=[TALLY], stream=True)]
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == "3"
    assert [problem for body in server.bodies for problem in package.problems(body)] == []
    assert b"one, then two" in server.requests[-1].body
    assert b"toolrelay" not in server.requests[-1].body


async def test_chunks_are_those_of_chat_completions(server: ScriptedServer) -> None:
    server.script(calls(("k1", "tally", '{"n": 2}'), ("k2", "tide", "{}"), text="Let me see."))
    stream = await client_of(server).translate(messages=[PROMPT], stream=True, stream_options=COST)
    *chunks, cost = [chunk async for chunk in stream]
    frames = [{key: value for key, value in chunk.items() if key != "choices"} for chunk in chunks]
    assert frames == [frames[0]] * len(frames)
    assert {key: frames[0][key] for key in ("object", "model", "usage")} == {
        "object": "chat.completion.chunk",
        "model": "m-1",
        "usage": None,
    }
    assert (cost["choices"], cost["usage"]["total_tokens"]) == ([], 13)

    def begun(index: int, call_id: str, name: str) -> dict[str, Any]:
        function = {"name": name, "arguments": ""}
        return {"tool_calls": [{"index": index, "id": call_id, "type": "function", "function": function}]}

    def grown(index: int, arguments: str) -> dict[str, Any]:
        return {"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}

    assert [chunk["choices"][0]["delta"] for chunk in chunks] == [
        {"role": "assistant", "content": ""},
        {"content": "Let me see."},
        begun(0, "k1", "tally"),
        grown(0, '{"n"'),
        grown(0, ": 2}"),
        begun(1, "k2", "tide"),
        grown(1, "{"),
        grown(1, "}"),
        {},
    ]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None] * 8 + ["tool_calls"]


async def test_the_cost_is_told_where_it_is_asked_for(server: ScriptedServer) -> None:
    for options in (None, {}, {"include_usage": False}):
        server.script(texts("hi"))
        stream = await client_of(server).translate(messages=[PROMPT], stream=True, stream_options=options)
        chunks = [chunk async for chunk in stream]
        assert all("usage" not in chunk and chunk["choices"] for chunk in chunks)


async def test_an_error_before_the_first_chunk_is_the_callers(server: ScriptedServer) -> None:
    server.script(Reply(status=503, headers={"retry-after": "0"}), texts("ok"))
    assert await client_of(server).translate(messages=[PROMPT], stream=True)
    server.script(Reply({"error": {"message": "slow down"}}, status=429))
    with pytest.raises(RateLimitError, match="slow down"):
        await client_of(server, retries=0).translate(messages=[PROMPT], stream=True)
    with pytest.raises(TranscriptError, match="the messages cannot be sent"):
        await client_of(server).translate(messages=[], stream=True)
    with pytest.raises(PayloadError, match="has no form in style anthropic"):
        await client_of(server, "anthropic").translate(messages=[PROMPT], stream=True, logit_bias={})


async def test_a_stream_that_breaks_is_an_error_behind_what_was_said(server: ScriptedServer) -> None:
    """Fault G3: what was told is not told again by another attempt."""
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    message = {"type": "message", "role": "assistant", "model": "m", "content": [], "usage": {"input_tokens": 1}}
    begun = [
        sse({"type": "message_start", "message": message}, "message_start"),
        sse({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        sse({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hel"}}),
    ]
    broken: list[tuple[str, Reply, type[Exception], dict[str, Any]]] = [
        ("anthropic", stream(*begun, sse(overloaded, "error")), OverloadedError, {}),
        ("openai", stream(delta(content="Hel"), closes=True), ProviderConnectionError, {}),
        ("openai", stream(delta(content="Hel"), hangs=True), ProviderTimeoutError, {"read_timeout": 0.3}),
    ]
    for style, reply, error, settings in broken:
        server.script(reply)
        chunks = await client_of(server, style, **settings).translate(messages=[PROMPT], stream=True)
        told = [await anext(chunks), await anext(chunks)]
        with pytest.raises(error) as caught:
            await anext(chunks)
        assert [chunk["choices"][0]["delta"]["content"] for chunk in told] == ["", "Hel"]
        assert (caught.value.transcript, caught.value.partial_text) == (None, "Hel")
        assert [chunk async for chunk in chunks] == []
    assert len(server.requests) == len(broken)


async def by_aclose(chunks: ChunkStream) -> None:
    await chunks.aclose()


async def by_break(chunks: ChunkStream) -> None:
    async with chunks:
        async for _ in chunks:
            break


async def by_cancelling_who_waits(chunks: ChunkStream) -> None:
    assert await anext(chunks)
    assert await anext(chunks)
    waiting = asyncio.create_task(anext(chunks))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


@pytest.mark.parametrize("leave", [by_aclose, by_break, by_cancelling_who_waits], ids=lambda way: way.__name__)
async def test_g6_leaving_early_closes_the_connection(server: ScriptedServer, leave: Any) -> None:
    server.script(stream(delta(content="Hel"), hangs=True))
    chunks = await client_of(server).translate(messages=[PROMPT], stream=True)
    await leave(chunks)
    assert await asyncio.to_thread(server.left_by_client.wait, 10)
    assert [chunk async for chunk in chunks] == []


async def test_g6_a_stream_that_nobody_holds_closes_by_itself(server: ScriptedServer) -> None:
    server.script(stream(delta(content="Hel"), hangs=True))
    async for _ in await client_of(server).translate(messages=[PROMPT], stream=True):
        break
    gc.collect()
    assert await asyncio.to_thread(server.left_by_client.wait, 10)


async def test_g6_a_call_that_is_cancelled_before_its_first_chunk_leaves_the_server(server: ScriptedServer) -> None:
    server.script(Reply(hangs=True))
    task = asyncio.create_task(client_of(server).translate(messages=[PROMPT], stream=True))
    await asyncio.to_thread(server.arrived.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(server.left_by_client.wait, 10)


async def test_a_slow_reader_holds_the_server_back() -> None:
    flood = Flood(pieces=400, size=65_536)
    server: Any = flood
    chunks = await client_of(server).translate(messages=[PROMPT], stream=True)
    before = resident()
    assert await asyncio.to_thread(flood.is_stuck.wait, 30), "the server was never held back"
    assert resident() - before < 16_000_000
    assert flood.sent < 20_000_000
    flood.go_on.set()
    length = sum([len(chunk["choices"][0]["delta"].get("content", "")) async for chunk in chunks])
    assert length == 400 * 65_536


async def speaks(request: Any) -> AsyncIterator[Any]:
    yield ReasoningDelta("hm")
    yield "Let me "
    yield "see."
    yield InProcessToolCall("dock/tally", {"n": 1}, "k1")
    yield InProcessResponse(usage={"input_tokens": 9, "output_tokens": 4})


async def relays(request: Any) -> AsyncIterator[Any]:
    for content in ("Hel", "lo"):
        yield {"choices": [{"index": 0, "delta": {"content": content}}]}
    yield {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


async def test_a_model_in_this_process_answers_in_chunks() -> None:
    client = create_in_process_client(generate=speaks)
    asked: dict[str, Any] = {"messages": [PROMPT], "tools": [TALLY]}
    chunks = [chunk async for chunk in await client.translate(**asked, stream=True, stream_options=COST)]
    whole = bare(await client.translate(**asked))
    assert together(chunks) == {"role": "assistant", "reasoning_content": "hm", **whole}
    assert [chunk["choices"][0]["delta"].get("content") for chunk in chunks[2:4]] == ["Let me ", "see."]
    assert (whole["calls"], whole["ended"]) == ([("dock/tally", {"n": 1})], "tool_calls")

    for generate in (relays, lambda request: "Hello"):
        client = create_in_process_client(generate=generate)
        chunks = [chunk async for chunk in await client.translate(messages=[PROMPT], stream=True, stream_options=COST)]
        assert together(chunks)["content"] == "Hello"


async def test_an_error_of_a_model_in_this_process_is_the_cause() -> None:
    async def fails(request: Any) -> AsyncIterator[str]:
        yield "Hel"
        raise KeyError("tide")

    chunks = await create_in_process_client(generate=fails).translate(messages=[PROMPT], stream=True)
    with pytest.raises(GenerateError) as caught:
        [chunk async for chunk in chunks]
    assert isinstance(caught.value.__cause__, KeyError)
    assert caught.value.partial_text == "Hel"


@pytest.mark.parametrize("is_streamed", [True, False])
async def test_a_model_in_this_process_has_cleaned_up_when_its_call_is_left(is_streamed: bool) -> None:
    reached, ended = asyncio.Event(), []

    async def speaks(request: Any) -> AsyncIterator[str]:
        try:
            yield "Hel"
            reached.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(True)

    client = create_in_process_client(generate=speaks)
    if is_streamed:
        async with await client.translate(messages=[PROMPT], stream=True):
            await reached.wait()
    else:
        task = asyncio.create_task(client.translate(messages=[PROMPT]))
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert ended == [True]


def test_a_program_without_a_loop_reads_a_plain_iterator(server: ScriptedServer) -> None:
    server.script(texts("Hel", "lo"), stream(delta(content="Hel"), hangs=True), Reply({"error": {}}, status=401))
    client = client_of(server)
    chunks = client.translate_sync(messages=[PROMPT], stream=True)
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == "Hello"
    assert repr(chunks) == "<SyncChunkStream: ended>"
    with client.translate_sync(messages=[PROMPT], stream=True) as chunks:
        assert next(chunks)["choices"][0]["delta"]["role"] == "assistant"
    assert server.left_by_client.wait(10)
    assert list(chunks) == []
    with pytest.raises(Exception, match="401"):
        client.translate_sync(messages=[PROMPT], stream=True)


async def test_i2_a_plain_iterator_inside_a_loop_is_a_typed_error() -> None:
    client = create_in_process_client(generate=lambda request: "hi")
    with pytest.raises(EventLoopError, match="translate_sync"):
        client.translate_sync(messages=[PROMPT], stream=True)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"stream": 1}, "stream: expected True, False or None, got int"),
        ({"stream_options": COST}, "stream_options: the answer is not streamed; pass stream=True"),
        ({"stream": True, "stream_options": []}, "stream_options: expected a dict, got list"),
        ({"stream": True, "stream_options": {"x": True}}, "stream_options: there is include_usage, and no x"),
        ({"stream": True, "stream_options": {"include_usage": 1}}, "include_usage: expected True, False or None"),
    ],
)
async def test_what_cannot_be_asked_is_told(server: ScriptedServer, asked: dict[str, Any], says: str) -> None:
    with pytest.raises(PayloadError) as caught:
        await client_of(server).translate(messages=[PROMPT], **asked)
    assert says in str(caught.value)
    assert server.requests == []
