"""In-process models that give their replies in pieces (contract 8.1)."""

import asyncio

import pytest
from harbour import HARBOUR, NO_TOOLS
from scripted_model import results
from streamed import joined, read
from toolrelay import (
    GenerateError,
    InProcessResponse,
    InProcessToolCall,
    PayloadError,
    create_in_process_client,
)
from toolrelay.events import (
    ArgumentsDelta,
    CallReady,
    CallStarted,
    ReasoningDelta,
    TextDelta,
    ToolEnded,
    UsageReported,
)

USAGE = {"input_tokens": 7, "output_tokens": 3}


async def speaks(request):
    if results(request):
        yield "it is "
        yield results(request)[0]
        return
    yield ReasoningDelta("hm")
    yield "Let me "
    yield "see."
    yield InProcessToolCall("tally", {"n": 2}, "k1")
    yield InProcessResponse(" Now.", [InProcessToolCall("save", id="k2")], USAGE, "tool_calls", "m-1")


async def whole(request):
    if results(request):
        return f"it is {results(request)[0]}"
    calls = [InProcessToolCall("tally", {"n": 2}, "k1"), InProcessToolCall("save", id="k2")]
    return InProcessResponse("Let me see. Now.", calls, USAGE, "tool_calls", "m-1")


async def test_pieces_are_told_one_by_one_and_make_one_reply():
    client = create_in_process_client(generate=speaks)
    events = await read(client.stream("go", HARBOUR))
    said = events[: next(at for at, event in enumerate(events) if isinstance(event, UsageReported))]
    assert said == [
        ReasoningDelta("hm"),
        TextDelta("Let me "),
        TextDelta("see."),
        CallStarted(0, "tally"),
        ArgumentsDelta(0, '{"n":2}'),
        TextDelta(" Now."),
        CallStarted(1, "save"),
        ArgumentsDelta(1, "{}"),
    ]
    assert CallReady(0, "k1", "tally", '{"n":2}') in events
    result = events[-1].result
    assert (result.text, result.model, result.usage.output_tokens) == ("it is 8", "m-1", 3)


async def test_pieces_and_a_whole_reply_leave_the_same_transcript_watched_or_not():
    transcripts = []
    for generate in (speaks, whole):
        client = create_in_process_client(generate=generate)
        result = await client.run("go", HARBOUR)
        events = await read(client.stream("go", HARBOUR))
        transcripts += [result.messages, events[-1].result.messages]
        assert (result.finish_reason, result.usage) == ("stop", events[-1].result.usage)
    assert transcripts == [transcripts[0]] * 4


def chunk(finish_reason=None, **delta):
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


async def test_chunks_of_chat_completions_are_pieces_too():
    async def generate(request):
        if results(request):
            yield chunk(content="done")
            yield chunk("stop")
            return
        yield chunk(role="assistant", content="Let")
        yield chunk(content=" me")
        function = {"name": "tally", "arguments": ""}
        yield chunk(tool_calls=[{"index": 0, "id": "k1", "type": "function", "function": function}])
        yield chunk(tool_calls=[{"index": 0, "function": {"arguments": '{ "n"'}}])
        yield chunk(tool_calls=[{"index": 0, "function": {"arguments": ": 1}"}}])
        yield chunk("tool_calls")
        yield {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}

    client = create_in_process_client(generate=generate)
    events = await read(client.stream("go", HARBOUR))
    assert joined(events, TextDelta) == "Let medone"
    assert CallReady(0, "k1", "tally", '{ "n": 1}') in events
    assert ToolEnded("k1", "tally", "7", False) in events
    assert (await client.run("go", HARBOUR)).usage.input_tokens == 7


class Completion:
    """An asynchronous iterator as the packages of providers give it."""

    def __init__(self, chunks):
        self._chunks = iter(chunks)

    def __aiter__(self):
        return self

    async def __anext__(self):
        for made in self._chunks:
            return made
        raise StopAsyncIteration


async def test_a_function_may_return_any_iterator_of_pieces():
    async def later(request):
        return Completion([chunk(content="hi"), chunk("stop")])

    def at_once(request):
        return Completion(["h", "i"])

    class Model:
        async def __call__(self, request):
            yield "hi"

    for generate in (later, at_once, Model()):
        client = create_in_process_client(generate=generate)
        assert joined(await read(client.stream("go", NO_TOOLS)), TextDelta) == "hi"
        assert (await client.run("go", NO_TOOLS)).text == "hi"


@pytest.mark.parametrize(
    ("pieces", "says"),
    [
        ([7], "generate must yield a str"),
        (["a", chunk("stop")], "not in both"),
        ([chunk(content="a"), "b"], "not in both"),
        ([chunk(content="a")], "before the reply was complete"),
        ([{"error": {"message": "down"}}], "down"),
        ([{"choices": 7}, {1: 2}], "chunk"),
        ([InProcessResponse(finish_reason="tired")], "finish_reason"),
    ],
    ids=["odd piece", "chunk behind text", "text behind chunk", "cut", "error", "odd chunk", "odd reason"],
)
async def test_what_is_no_reply_is_an_error_that_says_so(pieces, says):
    async def generate(request):
        for piece in pieces:
            yield piece

    client = create_in_process_client(generate=generate)
    with pytest.raises(GenerateError, match=says) as caught:
        await client.run("go", NO_TOOLS)
    assert isinstance(caught.value.__cause__, PayloadError)


async def test_d20_what_a_model_raises_in_the_middle_keeps_the_text_so_far():
    async def generate(request):
        yield "Hel"
        yield InProcessToolCall("tally", id="k1")
        raise LookupError("reef")

    client = create_in_process_client(generate=generate)
    events = client.stream("go", HARBOUR)
    with pytest.raises(GenerateError, match="LookupError: reef") as caught:
        await read(events)
    assert (caught.value.partial_text, len(caught.value.transcript)) == ("Hel", 1)
    assert isinstance(caught.value.__cause__, LookupError)
    with pytest.raises(GenerateError) as caught:
        await client.run("go", HARBOUR)
    assert caught.value.partial_text is None, "nobody was told"


async def test_a_model_that_is_ahead_of_its_reader_waits():
    said = []

    async def generate(request):
        for number in range(1_000):
            said.append(number)
            yield "x" * 10_000

    client = create_in_process_client(generate=generate)
    events = client.stream("go", NO_TOOLS)
    await anext(events)
    for _ in range(1_000):
        await asyncio.sleep(0)
    assert 1 < len(said) < 100
    assert len(joined(await read(events), TextDelta)) == 9_990_000
    assert len(said) == 1_000


async def test_a_model_that_is_stopped_closes_its_generator_and_is_waited_for():
    ended, waits = [], asyncio.Event()

    async def in_a_wait(request):
        try:
            yield "Hel"
            waits.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("wait")

    async def ahead(request):
        try:
            for _ in range(1_000):
                yield "x" * 10_000
        finally:
            await asyncio.sleep(0)
            ended.append("ahead")

    for generate in (in_a_wait, ahead):
        async with create_in_process_client(generate=generate).stream("go", NO_TOOLS) as events:
            await anext(events)
        assert [message["role"] for message in events.transcript] == ["user"]
    waits.clear()
    running = asyncio.create_task(create_in_process_client(generate=in_a_wait).run("go", NO_TOOLS))
    await waits.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ended == ["wait", "ahead", "wait"]
