"""Runs that are read event by event: what comes, in which order, and how it ends (contract 8.1, 8.7, 9.1)."""

import asyncio
import contextvars
import threading

import anyio
import pytest
import uvloop
from harbour import HARBOUR, NO_TOOLS, TIDE, tally
from scripted_model import call, client_for, says
from scripted_server import Reply, client_of, openai_reply, sse, stream
from streamed import calls, delta, end, joined, read, texts
from toolrelay import (
    EventLoopError,
    PayloadError,
    ProviderConnectionError,
    ProviderServerError,
    ResumeError,
    SqliteStore,
    Toolkit,
    ToolRelayError,
    Transcript,
    answer_declined,
    answer_output,
    create_in_process_client,
    define_tool,
)
from toolrelay.events import (
    ArgumentsDelta,
    CallReady,
    CallStarted,
    Done,
    Parked,
    ReasoningDelta,
    TextDelta,
    ToolEnded,
    ToolStarted,
    UsageReported,
)


async def test_events_come_in_the_order_in_which_things_happen(server):
    server.script(calls(("k1", "tally", '{"n": 2}'), ("k2", "tide", "{}"), text="Let me see."))
    events = await read(client_of(server).stream("go", HARBOUR))
    usage, result = events[7].usage, events[-1].result
    assert (usage.input_tokens, usage.output_tokens, result.status) == (9, 4, "pending")
    assert events == [
        TextDelta("Let me see."),
        CallStarted(0, "tally"),
        ArgumentsDelta(0, '{"n"'),
        ArgumentsDelta(0, ": 2}"),
        CallStarted(1, "tide"),
        ArgumentsDelta(1, "{"),
        ArgumentsDelta(1, "}"),
        UsageReported(usage),
        CallReady(0, "k1", "tally", '{"n": 2}'),
        CallReady(1, "k2", "tide", "{}"),
        ToolStarted("k1", "tally", {"n": 2}),
        Parked(result.pending),
        ToolEnded("k1", "tally", "8", False),
        Done(result),
    ]


async def test_a_piece_is_there_before_the_next_is_sent(server):
    more = [threading.Event() for _ in range(3)]
    server.script(stream(delta(content="one"), more[0], delta(content="two"), more[1], *end(), more[2]))
    events = client_of(server).stream("go", NO_TOOLS)
    assert await anext(events) == TextDelta("one")
    more[0].set()
    assert await anext(events) == TextDelta("two")
    more[1].set()
    assert [type(event) for event in await read(events)] == [UsageReported, Done]
    more[2].set()


async def test_a_streamed_run_leaves_the_transcript_of_a_plain_one(server):
    streamed = stream(
        delta(role="assistant", reasoning_content="h"),
        delta(reasoning_content="m"),
        delta(content="Hel"),
        delta(content="lo", odd={"a": 1}),
        *calls(("k1", "tally", '{ "n":1 }')).pieces,
    )
    plain = openai_reply("Hello", [("k1", "tally", '{ "n":1 }')], reasoning_content="hm", odd={"a": 1})
    server.script(plain, openai_reply("done"), streamed, texts("do", "ne"))
    client = client_of(server)
    first = await client.run("go", HARBOUR)
    events = await read(client.stream("go", HARBOUR))
    again = events[-1].result
    assert [message["content"] for message in again.messages] == [message["content"] for message in first.messages]
    assert (joined(events, TextDelta), joined(events, ReasoningDelta)) == ("Hellodone", "hm")
    assert again.messages[1]["tool_calls"] == first.messages[1]["tool_calls"]


async def test_a_server_that_does_not_stream_is_read_all_the_same(server):
    server.script(openai_reply("Hello"))
    events = await read(client_of(server).stream("go", NO_TOOLS))
    assert [TextDelta("Hello"), "UsageReported", "Done"] == [events[0], *(type(event).__name__ for event in events[1:])]
    assert server.bodies[0]["stream"] is True


async def test_an_error_comes_out_where_the_next_event_would(server):
    server.script(stream(delta(content="Hel"), sse({"error": {"code": 503, "message": "down"}})), texts("again"))
    events = client_of(server).stream("go", NO_TOOLS)
    assert await anext(events) == TextDelta("Hel")
    with pytest.raises(ProviderServerError) as caught:
        await anext(events)
    assert (caught.value.partial_text, caught.value.retryable, len(server.requests)) == ("Hel", True, 1)
    assert caught.value.transcript == events.transcript == [{"role": "user", "content": "go"}]
    assert await read(events) == []
    with pytest.raises(ToolRelayError, match="no result"):
        _ = events.result


async def test_d19_a_cut_stream_is_an_error_and_its_call_does_not_run(server):
    server.script(stream(*calls(("k1", "tally", '{"n": 2}')).pieces[:-3], closes=True))
    events = client_of(server).stream("go", HARBOUR)
    with pytest.raises(ProviderConnectionError) as caught:
        await read(events)
    assert (caught.value.partial_text, len(events.transcript)) == ("", 1)


async def test_d20_nothing_is_lost_where_nothing_was_told(server):
    busy = Reply({"error": {"message": "busy"}}, 529, {"retry-after-ms": "1"})
    server.script(busy, stream(delta(role="assistant"), closes=True), texts("Hel", "lo"))
    events = await read(client_of(server).stream("go", NO_TOOLS))
    assert (joined(events, TextDelta), len(server.requests)) == ("Hello", 3)


async def test_a_run_whose_time_is_over_ends_with_its_limit(server):
    server.script(stream(delta(content="Hel"), hangs=True))
    events = await read(client_of(server, timeout=0.3).stream("go", NO_TOOLS))
    assert events == [TextDelta("Hel"), Done(events[-1].result)]
    assert (events[-1].result.limit, len(events[-1].result.messages)) == ("timeout", 1)
    assert await asyncio.to_thread(server.left_by_client.wait, 5)


async def test_a_refused_start_is_an_error_of_the_first_event():
    client, _ = client_for()
    halted = await client_for(says(call("tide")))[0].run("go", HARBOUR)
    answer = answer_output("req_other", "4 m")
    events = client.stream_with_answer(HARBOUR, halted.messages, halted.pending, answer)
    with pytest.raises(ResumeError) as caught:
        await anext(events)
    assert (caught.value.pending, events.transcript) == (halted.pending, None)
    with pytest.raises(PayloadError, match="a history or an id"):
        client.stream("go", NO_TOOLS, [], id="c-1")
    with pytest.raises(PayloadError, match="prompt"):
        client.stream(7, NO_TOOLS)


async def test_a_halt_is_resumed_as_a_stream():
    client, _ = client_for(says(call("tide"), call("pay")), "it is 4 m")
    halted = (await read(client.stream("go", HARBOUR)))[-1].result
    tide, approval = halted.suspensions
    events = await read(client.stream_with_answer(HARBOUR, halted.messages, tide, answer_output(tide.id, "4 m")))
    assert events == [ToolEnded("k1", "tide", "4 m", False), Parked(approval), Done(events[-1].result)]
    still = events[-1].result
    events = await read(client.stream_with_answer(HARBOUR, still.messages, approval, answer_declined(approval.id)))
    assert [type(event) for event in events] == [ToolEnded, TextDelta, UsageReported, Done]


async def test_a_host_that_answers_inline_is_told_of():
    client, _ = client_for(says(call("tide")), "fine", wait_for=lambda request: answer_output(request.id, "4 m"))
    events = await read(client.stream("go", HARBOUR))
    parked = next(event for event in events if isinstance(event, Parked))
    assert [call["id"] for call in parked.request.data["calls"]] == ["k1"]
    assert ToolEnded("k1", "tide", "4 m", False) in events
    assert events[-1].result.text == "fine"


async def test_a_stored_conversation_is_streamed_and_kept(tmp_path):
    store = SqliteStore(tmp_path / "c.db")
    client, _ = client_for(says(call("tide")), "fine", store=store)
    halted = (await read(client.stream("go", HARBOUR, id="c-1")))[-1].result
    answer = answer_output(halted.pending.id, "4 m")
    events = await read(client.stream_with_answer(HARBOUR, None, halted.pending, answer, id="c-1"))
    assert [type(event) for event in events] == [ToolEnded, TextDelta, UsageReported, Done]
    assert (await client.get("c-1")).messages == events[-1].result.messages
    again = await read(client.stream_with_answer(HARBOUR, None, halted.pending, answer, id="c-1"))
    assert again == [Done(again[0].result)], "the same answer again is the same outcome, and nothing happens"
    await store.close()


async def test_a_halt_that_is_told_again_tells_what_it_waits_for():
    client, _ = client_for(says(call("tide"), call("pay")), "fine")
    tide, approval = (await client.ask("go", HARBOUR, id="c-1")).suspensions
    answer = answer_output(tide.id, "4 m")
    first = await read(client.stream_with_answer(HARBOUR, None, tide, answer, id="c-1"))
    again = await read(client.stream_with_answer(HARBOUR, None, tide, answer, id="c-1"))
    assert (first[1:-1], again[:-1]) == ([Parked(approval)], [Parked(approval)])
    assert again[-1].result.suspensions == (approval,)
    seen = []
    await client.ask_with_answer(HARBOUR, "c-1", tide, answer, on_event=seen.append)
    assert seen == again[:-1] + seen[-1:]


async def test_a_function_is_told_and_the_result_is_returned():
    client, _ = client_for(says(call("tally")), "fine", says(call("tide")), "good")
    seen = []

    async def later(event):
        await asyncio.sleep(0)
        seen.append(event)

    result = await client.run("go", HARBOUR, on_event=seen.append)
    assert seen == [*seen[:-1], Done(result)]
    assert joined(seen, TextDelta) == "fine"
    seen.clear()
    halted = await client.ask("go", HARBOUR, id="c-1", on_event=later)
    answer = answer_output(halted.pending.id, "4 m")
    done = await client.ask_with_answer(HARBOUR, "c-1", halted.pending, answer, on_event=later)
    assert ([event.result for event in seen if isinstance(event, Done)], done.text) == ([halted, done], "good")


async def test_a_function_that_raises_stops_the_run(server):
    server.script(stream(delta(content="Hel"), hangs=True))

    def fails(event):
        raise LookupError(event.text)

    with pytest.raises(LookupError, match="Hel"):
        await client_of(server).run("go", NO_TOOLS, on_event=fails)
    assert await asyncio.to_thread(server.left_by_client.wait, 5)


NAME = contextvars.ContextVar("name", default="none")


@define_tool
async def who() -> str:
    """Who it is."""
    return NAME.get()


async def test_i7_tools_see_the_context_of_whoever_made_the_stream():
    client, _ = client_for(says(call("who")), "fine")
    NAME.set("r1")
    events = client.stream("go", Toolkit([who]))
    NAME.set("r2")
    assert ToolEnded("k1", "who", "r1", False) in await read(events)


async def converse(server):
    server.script(calls(("k1", "tally", "{}"), ("k2", "tide", "{}")), texts("fi", "ne"))
    client = client_of(server, wait_for=lambda request: answer_output(request.id, "4 m"))
    async with client.stream("go", Toolkit([tally, TIDE])) as events:
        return joined(await read(events), TextDelta), [record.output for record in events.result.tool_calls]


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run, anyio.run], ids=["asyncio", "uvloop", "anyio"])
def test_i12_streams_work_on_every_loop_and_in_threads(server, run):
    async def main():
        return await converse(server)

    found = []
    thread = threading.Thread(target=lambda: found.append(run(main) if run is anyio.run else run(main())))
    thread.start()
    thread.join()
    assert found == [("fine", ["7", "4 m"])]


def test_i12_a_loop_of_another_kind_is_a_typed_error():
    import trio

    client, _ = client_for("hi")

    async def main():
        with pytest.raises(EventLoopError):
            await anext(client.stream("go", NO_TOOLS))

    trio.run(main)


async def test_many_streams_at_once(server):
    server.script(*(texts(*"Hello") for _ in range(200)))
    client = client_of(server)
    found = await asyncio.gather(*(read(client.stream("go", NO_TOOLS)) for _ in range(200)))
    assert {joined(events, TextDelta) for events in found} == {"Hello"}


async def test_two_tasks_do_not_read_one_stream_at_once(server):
    server.script(stream(delta(content="Hel"), hangs=True))
    events = client_of(server).stream("go", NO_TOOLS)
    await anext(events)
    waiting = asyncio.create_task(anext(events))
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="another task"):
        await anext(events)
    await events.aclose()
    with pytest.raises(StopAsyncIteration):
        await waiting


async def test_a_stream_has_its_result_at_the_end():
    client, _ = client_for("hi")
    events = client.stream("go", NO_TOOLS)
    assert (repr(events), events.transcript) == ("<Stream: not begun>", None)
    await anext(events)
    assert repr(events) == "<Stream: open>"
    last = (await read(events))[-1]
    assert (repr(events), last) == ("<Stream: ended>", Done(events.result))
    assert events.transcript == events.result.messages
    assert isinstance(events.transcript, Transcript)


def test_a_program_without_a_loop_reads_a_plain_iterator(server):
    server.script(calls(("k1", "tally", "{}"), ("k2", "tide", "{}")), texts("fi", "ne"))
    client = client_of(server)
    with client.stream_sync("go", HARBOUR) as events:
        assert list(events)[-1] == Done(events.result)
    halted = events.result
    answer = answer_output(halted.pending.id, "4 m")
    resumed = list(client.stream_with_answer_sync(HARBOUR, halted.messages, halted.pending, answer))
    assert resumed[:3] == [ToolEnded("k2", "tide", "4 m", False), TextDelta("fi"), TextDelta("ne")]


async def test_i2_a_plain_iterator_inside_a_loop_is_a_typed_error():
    client, _ = client_for("hi")
    with pytest.raises(EventLoopError, match="stream_sync"):
        next(client.stream_sync("go", NO_TOOLS))


async def test_a_large_event_and_odd_texts_arrive_whole(server):
    odd = "\0 \ud83d \u2028 \U0001f409 "
    server.script(texts("x" * 5_000_000, odd))
    events = await read(client_of(server).stream("go", NO_TOOLS))
    assert events[0] == TextDelta("x" * 5_000_000)
    assert joined(events, TextDelta) == events[-1].result.text


async def test_a_stream_can_be_made_anywhere_and_is_read_where_it_began():
    client = create_in_process_client(generate=lambda request: "hi")
    made = await asyncio.to_thread(client.stream, "go", NO_TOOLS)
    assert joined(await read(made), TextDelta) == "hi"
