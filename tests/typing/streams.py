"""What a type checker makes of streams and their events. Checked, and run as a program."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, assert_never, assert_type

from toolrelay import (
    Client,
    InProcessRequest,
    InProcessResponse,
    InProcessToolCall,
    ProviderError,
    Request,
    RunResult,
    Stream,
    SyncStream,
    Toolkit,
    Transcript,
    Usage,
    answer_output,
    create_in_process_client,
    relay_tool,
)
from toolrelay.events import (
    ArgumentsDelta,
    CallReady,
    CallStarted,
    Done,
    Event,
    Parked,
    ReasoningDelta,
    TextDelta,
    ToolEnded,
    ToolStarted,
    UsageReported,
)

TOOLS = Toolkit([relay_tool("tide", "high water")])


async def model(
    request: InProcessRequest,
) -> AsyncIterator[str | ReasoningDelta | InProcessToolCall | InProcessResponse]:
    if request.messages[-1]["role"] == "tool":
        yield "it is "
        yield request.messages[-1]["content"]
        return
    yield ReasoningDelta("hm")
    yield InProcessToolCall("tide", {"port": "Ames"}, "k1")
    yield InProcessResponse(usage={"input_tokens": 1})


async def chunks(request: InProcessRequest) -> AsyncIterator[dict[str, Any]]:
    yield {"choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}]}


def show(event: Event) -> str:
    """Every kind, and no other."""
    match event:
        case TextDelta(text) | ReasoningDelta(text):
            return assert_type(text, str)
        case CallStarted(index, name):
            assert_type(index, int)
            return assert_type(name, str)
        case ArgumentsDelta(index, text):
            assert_type(index, int)
            return assert_type(text, str)
        case CallReady(index, id, name, arguments):
            assert_type(index, int)
            return id + name + assert_type(arguments, str)
        case ToolStarted(id, name, input):
            assert_type(input, dict[str, Any])
            return id + name
        case ToolEnded(id, name, output, is_error):
            assert_type(is_error, bool)
            return id + name + output
        case Parked(request):
            return assert_type(request, Request).id
        case UsageReported(usage):
            return str(assert_type(usage, Usage).input_tokens)
        case Done(result):
            return assert_type(result, RunResult).status
    assert_never(event)


async def listen(event: Event) -> None:
    show(event)


async def main(client: Client) -> None:
    async with client.stream("tide?", TOOLS) as stream:
        assert_type(stream, Stream)
        async for event in stream:
            assert_type(event, Event)
            show(event)
    assert_type(stream.transcript, Transcript | None)
    halted = assert_type(stream.result, RunResult)
    assert halted.pending is not None
    answer = answer_output(halted.pending.id, "4 m")
    resumed = client.stream_with_answer(TOOLS, halted.messages, halted.pending, answer)
    texts = [event.text async for event in resumed if isinstance(event, TextDelta)]
    assert "".join(texts) == "it is 4 m"
    await client.run("tide?", TOOLS, on_event=show)
    asked = await client.ask("tide?", TOOLS, id="c-1", on_event=listen)
    assert asked.pending is not None
    again = answer_output(asked.pending.id, "4 m")
    await client.ask_with_answer(TOOLS, "c-1", asked.pending, again, on_event=print)
    try:
        await client.run("tide?", Toolkit(), on_event=show)
    except ProviderError as error:
        assert_type(error.partial_text, str | None)


client = create_in_process_client(generate=model)
asyncio.run(main(client))
with create_in_process_client(generate=chunks).stream_sync("hello", Toolkit()) as stream:
    assert_type(stream, SyncStream)
    for event in stream:
        assert_type(event, Event)
assert assert_type(stream.result, RunResult).text == "hi"
