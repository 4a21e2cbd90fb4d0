"""What a type checker makes of clients, runs, halts, stores and errors. Checked, and run as a program."""

import asyncio
import tempfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, assert_never, assert_type

from toolrelay import (
    AlreadyAnswered,
    Answer,
    ChunkStream,
    Client,
    Conversation,
    File,
    GenerateError,
    Image,
    InProcessRequest,
    InProcessResponse,
    InProcessToolCall,
    MemoryStore,
    PendingError,
    ProviderError,
    RelayResult,
    Request,
    ResumeError,
    RunResult,
    SqliteStore,
    SyncChunkStream,
    Text,
    Tool,
    ToolCallRecord,
    Toolkit,
    ToolRelayError,
    Transcript,
    Usage,
    WaitForError,
    answer_output,
    create_client,
    create_in_process_client,
    create_toolkit,
    relay_answer,
    relay_calls_of,
    relay_tool,
)

TIDE = relay_tool("tide", "high water", {"type": "object", "properties": {"port": {"type": "string"}}})


async def model(request: InProcessRequest) -> InProcessResponse:
    assert_type(request.messages, list[dict[str, Any]])
    assert_type(request.tools, list[dict[str, Any]])
    if request.messages[-1]["role"] == "tool":
        return InProcessResponse(content=f"it is {request.messages[-1]['content']}", usage={"input_tokens": 1})
    return InProcessResponse(tool_calls=[InProcessToolCall(id="c1", name="tide", arguments={"port": "Ames"})])


def plain_model(request: InProcessRequest) -> str:
    return "hello"


def dict_model(request: InProcessRequest) -> dict[str, Any]:
    return {"role": "assistant", "content": "hello"}


async def host(request: Request) -> Answer | None:
    return answer_output(request.id, "4 m") if relay_calls_of(request) else None


def plain_host(request: Request) -> Answer:
    return answer_output(request.id, "4 m")


def follow(result: RunResult) -> str:
    assert_type(result.text, str)
    assert_type(result.status, Literal["done", "pending", "incomplete"])
    assert_type(result.limit, Literal["max_turns", "timeout"] | None)
    assert_type(result.messages, Transcript)
    assert_type(result.tool_calls, tuple[ToolCallRecord, ...])
    assert_type(result.pending, Request | None)
    assert_type(result.suspensions, tuple[Request, ...])
    assert_type(result.turns, int)
    assert_type(result.usage, Usage)
    assert_type(result.usage.input_tokens, int)
    assert_type(result.model, str | None)
    assert_type(result.finish_reason, str | None)
    for record in result.tool_calls:
        assert_type(record.input, dict[str, Any])
        assert_type((record.id, record.name, record.arguments, record.output), tuple[str, str, str, str])
        assert_type((record.is_error, record.pending), tuple[bool, bool])
    status = result.status
    match status:
        case "done":
            return result.text
        case "pending":
            return "waits"
        case "incomplete":
            return f"ended by {result.limit}"
        case _:
            assert_never(status)


def read(transcript: Transcript) -> None:
    assert_type(transcript[0], dict[str, Any])
    assert_type(transcript[:2], list[dict[str, Any]])
    assert_type(iter(transcript), Iterator[dict[str, Any]])
    assert_type(transcript.to_json(), bytes)
    assert_type(transcript.halted, bool)
    assert_type(Transcript.from_json(transcript.to_json()), Transcript)


async def halt_and_resume(toolkit: Toolkit) -> None:
    client = create_in_process_client(generate=model)
    assert_type(client, Client)
    halted = await client.run("tide?", toolkit)
    assert_type(halted, RunResult)
    assert halted.pending is not None
    assert_type(halted.pending.expires_at, datetime | None)
    resumed = await client.run_with_answer(
        toolkit, halted.messages.to_json(), halted.pending, answer_output(halted.pending.id, "4 m"), missing="wait"
    )
    assert follow(resumed) == "it is 4 m"
    read(resumed.messages)


async def histories_and_prompts(toolkit: Toolkit) -> None:
    client = create_in_process_client(generate=plain_model, wait_for=host)
    messages: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
    transcript = Transcript.from_json(b"[]")
    for history in (None, messages, transcript, "[]", b"[]", {"format": 1, "messages": messages}):
        await client.run("hello", toolkit, history)
    await client.run([Text("what is this?"), Image(url="https://example.org/map.png")], toolkit)
    await client.run([{"type": "text", "text": "hello"}, File(b"a,b", "text/csv")], toolkit, on_pending="supersede")
    await client.run(None, toolkit, history=messages)


async def conversations(toolkit: Toolkit, store: MemoryStore | SqliteStore) -> None:
    client = create_in_process_client(generate=model, store=store)
    halted = await client.ask("tide?", toolkit, id="c-1")
    assert_type(halted, RunResult)
    conversation = await client.get("c-1")
    assert_type(conversation, Conversation)
    assert_type(conversation.messages, Transcript)
    assert_type(conversation.suspensions, tuple[Request, ...])
    pending = conversation.suspensions[0]
    results = [RelayResult(call.id, "4 m") for call in relay_calls_of(pending)]
    answer = relay_answer(pending.id, results)
    assert_type(await client.ask_with_answer(toolkit, "c-1", pending.id, answer), RunResult)
    assert_type(await client.ask_with_answer(toolkit, "c-1", pending, answer), RunResult)
    try:
        await client.ask_with_answer(toolkit, "c-1", pending, answer_output(pending.id, "5 m"))
    except AlreadyAnswered as error:
        assert_type(error.conversation, str | None)
        assert_type(error.request_id, str | None)


async def failures(toolkit: Toolkit) -> None:
    def broken(request: InProcessRequest) -> str:
        raise OSError("down")

    try:
        await create_in_process_client(generate=broken).run("hi", toolkit)
    except GenerateError as error:
        assert_type(error.status, int | None)
        await create_in_process_client(generate=dict_model).run(None, toolkit, history=error.transcript)
    except (ResumeError, PendingError, WaitForError) as error:
        assert_type(error, ResumeError | PendingError | WaitForError)
    except ProviderError as error:
        assert_type(error.retryable, bool)
    except ToolRelayError as error:
        raise AssertionError from error


def without_a_loop(toolkit: Toolkit) -> None:
    messages = [{"role": "user", "content": "tide?"}]
    for chunk in assert_type(
        create_in_process_client(generate=plain_model).translate_sync(messages=messages, stream=True), SyncChunkStream
    ):
        assert_type(chunk, dict[str, Any])
    client = create_in_process_client(generate=dict_model, wait_for=plain_host)
    assert_type(client.run_sync("hi", toolkit), RunResult)
    assert_type(client.ask_sync("hi", toolkit, id="c-1"), RunResult)


async def chunks(client: Client, is_streamed: bool) -> None:
    messages = [{"role": "user", "content": "tide?"}]
    async with await client.translate(messages=messages, stream=True, stream_options={"include_usage": True}) as stream:
        assert_type(stream, ChunkStream)
        async for chunk in stream:
            assert_type(chunk, dict[str, Any])
    assert_type(await client.translate(messages=messages, stream=is_streamed), dict[str, Any] | ChunkStream)
    assert_type(await client.translate(messages=messages, stream=False), dict[str, Any])


async def main() -> None:
    toolkit = await create_toolkit(extra_tools=[TIDE], builtins=False)
    assert_type(toolkit, Toolkit)
    assert_type(list(toolkit), list[Tool])
    await halt_and_resume(toolkit)
    await histories_and_prompts(toolkit)
    await conversations(toolkit, MemoryStore())
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "c.db")
        assert_type(store.path, Path)
        await conversations(toolkit, store)
        await store.close()
    await failures(toolkit)
    answering = create_in_process_client(generate=lambda _: "4 m")
    messages = [{"role": "user", "content": "tide?"}]
    assert_type(await answering.translate(messages=messages, tools=[], temperature=0.5), dict[str, Any])
    await chunks(answering, bool(messages))
    assert_type(
        create_client(
            style="anthropic",
            model="m-1",
            api_key="",
            base_url="http://127.0.0.1:9",
            headers={"x-trace": "1"},
            request_params={"temperature": 0.5},
            timeout=5,
            requests_expire_after=3600,
            wait_for=host,
        ),
        Client,
    )


if __name__ == "__main__":
    asyncio.run(main())
    without_a_loop(Toolkit([TIDE]))
