"""Streams that are left before their end, and readers that are slow (contract 8.6, 9.1, 9.4; fault G6)."""

import asyncio
import gc

import anyio
import pytest
from flood import Flood, resident
from harbour import HARBOUR, NO_TOOLS
from scripted_model import call, says
from scripted_server import client_of, stream
from streamed import calls, delta, texts
from toolrelay import SqliteStore, Toolkit, create_in_process_client, define_tool
from toolrelay.events import Done, TextDelta, ToolStarted

PROMPT = {"role": "user", "content": "go"}


def hanging(*texts):
    """Some text, and then nothing for ever."""
    return stream(*(delta(content=text) for text in texts), hangs=True)


async def by_aclose(events):
    assert await anext(events) == TextDelta("Hel")
    await events.aclose()


async def by_break(events):
    async with events:
        async for event in events:
            assert event == TextDelta("Hel")
            break


async def by_an_exception(events):
    async def fail():
        async with events:
            async for _ in events:
                raise LookupError

    with pytest.raises(LookupError):
        await fail()


async def by_cancelling_who_waits(events):
    await anext(events)
    waiting = asyncio.create_task(anext(events))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await waiting
    assert caught.value.transcript == events.transcript


async def by_cancelling_who_works(events):
    reached = asyncio.Event()

    async def work():
        async with events:
            async for _ in events:
                reached.set()
                await asyncio.Event().wait()

    working = asyncio.create_task(work())
    await reached.wait()
    working.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await working
    assert caught.value.transcript == events.transcript


async def by_timeout(events):
    await anext(events)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(events), 0.05)


async def by_scope(events):
    with anyio.move_on_after(0.05) as scope:
        async for _ in events:
            pass
    assert scope.cancelled_caught


WAYS = [
    by_aclose,
    by_an_exception,
    by_break,
    by_cancelling_who_waits,
    by_cancelling_who_works,
    by_scope,
    by_timeout,
]


@pytest.mark.parametrize("leave", WAYS, ids=lambda way: way.__name__)
async def test_g6_leaving_early_stops_the_run_and_leaves_a_history(server, leave):
    server.script(hanging("Hel"), texts("Hello"))
    client = client_of(server)
    events = client.stream("go", NO_TOOLS)
    await leave(events)
    assert await asyncio.to_thread(server.left_by_client.wait, 5)
    assert list(events.transcript) == [PROMPT]
    assert [event async for event in events] == []
    assert (await client.run(None, NO_TOOLS, events.transcript)).text == "Hello"


async def test_g6_a_stream_that_nobody_holds_stops_by_itself(server):
    server.script(hanging("Hel"), hanging("Hel"))
    client = client_of(server)
    async for event in client.stream("go", NO_TOOLS):
        assert event == TextDelta("Hel")
        break
    assert await asyncio.to_thread(server.left_by_client.wait, 5)

    server.left_by_client.clear()
    ring = [client.stream("go", NO_TOOLS)]
    ring.append(ring)
    await anext(ring[0])
    del ring
    gc.collect()
    assert await asyncio.to_thread(server.left_by_client.wait, 5)


async def test_a_stream_that_was_never_read_never_began(server):
    events = client_of(server).stream("go", NO_TOOLS)
    async with events:
        pass
    assert [event async for event in events] == []
    assert (server.requests, events.transcript) == ([], None)


def sleeper():
    """A toolkit of one tool that never ends, when it began, and whether it has cleaned up."""
    begun, ended = asyncio.Event(), []

    @define_tool
    async def sleeps() -> str:
        """Never ends."""
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(True)
        return "never"

    return Toolkit([sleeps]), begun, ended


async def test_g6_a_tool_under_way_is_interrupted_and_the_conversation_is_free(tmp_path):
    toolkit, begun, ended = sleeper()
    store = SqliteStore(tmp_path / "c.db")
    replies = iter([says(call("sleeps")), "again"])
    client = create_in_process_client(generate=lambda request: next(replies), store=store)
    async with client.stream("go", toolkit, id="c-1") as events:
        async for event in events:
            if isinstance(event, ToolStarted):
                await begun.wait()
                break
    assert ended == [True], "the tool has cleaned up when the stream is closed"
    conversation = await client.get("c-1")
    assert (conversation.state, conversation.messages) == ("idle", events.transcript)
    assert conversation.messages[-1]["content"].startswith("interrupted")
    assert (await client.ask(None, toolkit, id="c-1")).text == "again"
    await store.close()


async def test_g6_a_function_that_raises_stops_the_run_and_its_tools():
    toolkit, begun, ended = sleeper()

    async def fails(event):
        if isinstance(event, ToolStarted):
            await begun.wait()
            raise LookupError(event.name)

    client = create_in_process_client(generate=lambda request: says(call("sleeps")))
    with pytest.raises(LookupError, match="sleeps"):
        await client.run("go", toolkit, on_event=fails)
    assert ended == [True], "the tool has cleaned up when the error is there"


async def test_what_comes_while_another_task_closes_the_stream_is_not_read():
    async def generate(request):
        yield "Hel"
        await waits.wait()
        closing.append(asyncio.create_task(events.aclose()))
        yield "lo"
        await asyncio.Event().wait()

    waits, closing = asyncio.Event(), []
    events = create_in_process_client(generate=generate).stream("go", NO_TOOLS)
    assert await anext(events) == TextDelta("Hel")
    reading = asyncio.create_task(anext(events))
    await asyncio.sleep(0)
    waits.set()
    with pytest.raises(StopAsyncIteration):
        await reading
    await closing[0]
    assert list(events.transcript) == [PROMPT]


async def test_closing_a_stream_does_not_swallow_a_cancellation(tmp_path):
    begun, reached, finish = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @define_tool
    async def sleeps() -> str:
        """Ends when it may."""
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            reached.set()
            await finish.wait()
        return "never"

    client = create_in_process_client(generate=lambda request: says(call("sleeps")))

    async def close():
        events = client.stream("go", Toolkit([sleeps]))
        while not isinstance(await anext(events), ToolStarted):
            pass
        await begun.wait()
        await events.aclose()

    closing = asyncio.create_task(close())
    await reached.wait()
    closing.cancel()
    await asyncio.sleep(0)
    finish.set()
    with pytest.raises(asyncio.CancelledError):
        await closing


async def test_events_that_were_told_before_a_stream_is_closed_are_gone(server):
    server.script(calls(("k1", "tally", "{}")), texts("fine"))
    events = client_of(server).stream("go", HARBOUR)
    await anext(events)
    await events.aclose()
    assert [event async for event in events] == []
    await events.aclose()


def test_a_plain_iterator_that_is_left_stops_its_run(server):
    server.script(hanging("Hel"), hanging("Hel"))
    client = client_of(server)
    for event in client.stream_sync("go", NO_TOOLS):
        assert event == TextDelta("Hel")
        break
    assert server.left_by_client.wait(5)
    server.left_by_client.clear()
    with client.stream_sync("go", NO_TOOLS) as events:
        assert next(events) == TextDelta("Hel")
    assert server.left_by_client.wait(5)
    assert (list(events), list(events.transcript)) == ([], [PROMPT])


async def test_a_slow_reader_holds_the_server_back_and_not_the_events():
    flood = Flood(pieces=800, size=65_536)
    client = client_of(flood)
    events = client.stream("go", NO_TOOLS)
    before = resident()
    assert (await anext(events)).text == "x" * 65_536
    assert await asyncio.to_thread(flood.is_stuck.wait, 30), "the server was never held back"
    assert resident() - before < 16_000_000
    assert flood.sent < 30_000_000
    flood.go_on.set()
    length = 65_536
    async for event in events:
        match event:
            case TextDelta(text):
                length += len(text)
            case Done(result):
                assert len(result.text) == length == 800 * 65_536
    assert events.result.status == "done"
