"""Pickles, copies and collected objects: what goes between processes, and that nothing is kept (contract 9.3, 9.4)."""

import asyncio
import copy
import gc
import pickle
import resource
import time
import weakref

import pytest
import toolrelay
from scripted_model import ScriptedModel, call, says
from toolrelay import (
    Answer,
    File,
    Image,
    InProcessRequest,
    InProcessResponse,
    InProcessToolCall,
    MemoryStore,
    PostgresStore,
    Profile,
    RedisStore,
    RelayCall,
    RelayResult,
    Request,
    SealKeys,
    SqliteStore,
    Text,
    ToolContext,
    Toolkit,
    ToolOutput,
    ToolRelayError,
    create_in_process_client,
    define_tool,
    pending,
    relay_tool,
)

TIDE = relay_tool("tide", "high water")
TWINS = [lambda value: pickle.loads(pickle.dumps(value)), copy.deepcopy, copy.copy]


def plain_values():
    return [
        Request("req_1", "approval", "Pay?", data={"amount": 1}),
        Answer("req_1", True, {"output": ""}),
        RelayCall("k1", "tide", {}, "{}"),
        RelayResult("k1", "4.2 m"),
        Text("a"),
        Image(b"png", "image/png"),
        File(b"pdf", "application/pdf", name="a.pdf"),
        InProcessToolCall("tide", {"port": "Tromsø"}, "k1"),
        InProcessResponse("hi", usage={"input_tokens": 1}),
        ToolOutput("text", None, True),
        Profile(max_tools=64),
        TIDE,
    ]


async def halted():
    client = create_in_process_client(generate=ScriptedModel(says(call("tide"))))
    result = await client.ask("tide?", Toolkit([TIDE]), id="c-1")
    return [result, result.messages, *result.tool_calls, result.usage, await client.get("c-1")]


@pytest.mark.parametrize("twin", TWINS, ids=["pickle", "deepcopy", "copy"])
async def test_i11_every_value_has_an_equal_twin(twin):
    for value in [*plain_values(), *await halted()]:
        assert (type(twin(value)), twin(value)) == (type(value), value)
        if not isinstance(value, InProcessResponse | InProcessToolCall):  # they hold dicts
            assert hash(twin(value)) == hash(value)


@pytest.mark.parametrize("twin", TWINS, ids=["pickle", "deepcopy", "copy"])
async def test_i11_a_pickled_conversation_keeps_its_requests(twin):
    conversation = (await halted())[-1]
    twins = twin(conversation)
    assert (twins.id, twins.state, twins.messages) == ("c-1", "pending", conversation.messages)
    assert twins.suspensions == conversation.suspensions
    assert len(twins.suspensions) == 1


@pytest.mark.parametrize("twin", TWINS, ids=["pickle", "deepcopy", "copy"])
def test_i11_what_a_tool_or_model_is_given_has_twins_too(twin):
    context, parked, request = ToolContext("k1", "tide"), pending("approval", "Pay?"), InProcessRequest(b'{"tools":[]}')
    assert (twin(context).call_id, twin(parked).to_dict(), twin(request).tools) == ("k1", parked.to_dict(), [])


@pytest.mark.parametrize("twin", TWINS, ids=["pickle", "deepcopy", "copy"])
def test_i11_what_belongs_to_its_process_says_so(twin, tmp_path):
    client = create_in_process_client(generate=ScriptedModel())
    for whole, says_what in [
        (client, "a Client holds"),
        (Toolkit([TIDE]), "a Toolkit holds"),
        (MemoryStore(), "pickle"),
        (PostgresStore("postgresql://127.0.0.1/db"), "pickle"),
        (RedisStore("redis://127.0.0.1"), "pickle"),
        (SealKeys(bytes(32)), "pickle"),
        (client.stream("go", Toolkit()), "a stream is a run"),
        (client.stream_sync("go", Toolkit()), "a stream is a run"),
    ]:
        with pytest.raises(TypeError, match=says_what):
            twin(whole)
    with pytest.raises(TypeError, match="pickle"):
        twin(SqliteStore(tmp_path / "c.db"))


def test_i11_these_are_all_public_classes():
    """A new one has to be put above, or be an error (see test_errors)."""
    covered = {type(value).__name__ for value in plain_values()} | {
        "ChunkStream",
        "Client",
        "MemoryStore",
        "PostgresStore",
        "RedisStore",
        "SqliteStore",
        "Stream",
        "SyncChunkStream",
        "SyncStream",
        "Toolkit",
    }
    covered |= {"Conversation", "RunResult", "SealKeys", "ToolCallRecord", "Transcript", "Usage"}
    covered |= {"InProcessRequest", "ParkedCall", "ToolContext"}
    public = {name for name in toolrelay.__all__ if isinstance(getattr(toolrelay, name), type)}
    assert {name for name in public if not issubclass(getattr(toolrelay, name), ToolRelayError)} == covered


class Assistant:
    """As programs have it: an object whose methods are the model, the tools and the host of its own client."""

    def __init__(self):
        self.client = create_in_process_client(generate=self.generate, wait_for=self.wait_for)
        self.toolkit = Toolkit([define_tool(self.tally), TIDE])
        self.replies = [says(call("tally"), call("tide")), "done"]

    async def generate(self, request):
        return self.replies.pop(0)

    async def tally(self) -> int:
        """Counts."""
        return 7

    async def wait_for(self, request):
        return toolrelay.answer_output(request.id, "4.2 m")


async def test_i14_an_object_whose_methods_its_client_and_toolkit_call_is_collected():
    assistants = [Assistant() for _ in range(3)]
    for assistant in assistants[1:]:
        assert (await assistant.client.run("go", assistant.toolkit)).text == "done"
    running = assistants[2]
    running.replies = [says(call("tally"))]
    with pytest.raises(ToolRelayError):
        await running.client.run("go", running.toolkit)
    gone = [weakref.ref(assistant) for assistant in assistants]
    del assistants, assistant, running
    await asyncio.sleep(0.05)
    gc.collect()
    assert [reference() for reference in gone] == [None] * 3


async def collect(stream):
    async for _ in stream:
        pass


LEAVE = {
    "read to its end": collect,
    "left": lambda stream: stream.aclose(),
    "never read": lambda stream: asyncio.sleep(0),
}


@pytest.mark.parametrize("leave", LEAVE.values(), ids=LEAVE)
async def test_i14_an_object_that_keeps_a_stream_of_its_own_is_collected(leave):
    assistant = Assistant()
    assistant.kept = assistant.client.stream("go", assistant.toolkit)
    if leave is not LEAVE["never read"]:
        await anext(assistant.kept)
    await leave(assistant.kept)
    gone = weakref.ref(assistant)
    del assistant
    await asyncio.sleep(0.05)
    gc.collect()
    assert gone() is None


def test_i14_an_object_whose_stream_was_open_when_its_loop_closed_is_collected():
    async def begin():
        assistant = Assistant()
        assistant.kept = assistant.client.stream("go", assistant.toolkit)
        await anext(assistant.kept)
        return weakref.ref(assistant)

    gone = asyncio.run(begin())
    while gone() is not None:  # the run ends in a thread of its own
        gc.collect()
        time.sleep(0.01)


async def test_i14_tools_and_clients_of_a_run_under_way_are_not_collected():
    """Nothing but the run itself holds them, and the collector looks for them again and again."""
    outcomes = []

    async def run(number):
        def generate(request):
            gc.collect()
            return f"done {number}" if len(request.messages) > 1 else says(call("naps"))

        @define_tool
        async def naps() -> int:
            """Naps."""
            await asyncio.sleep(0.01)
            return number

        outcomes.append((await create_in_process_client(generate=generate).run("go", Toolkit([naps]))).text)

    async with asyncio.timeout(20):
        await asyncio.gather(*(run(number) for number in range(10)))
    assert sorted(outcomes) == [f"done {number}" for number in range(10)]


class Large(str):
    """A megabyte of text that can be referred to weakly."""

    __slots__ = ("__weakref__",)


async def test_i14_results_are_freed_and_memory_stays_flat():
    alive = weakref.WeakSet()
    size = 0

    @define_tool
    async def large() -> str:
        """Returns much."""
        text = Large("x" * size)
        alive.add(text)
        return text

    async def generate(request):
        return "done" if b'"tool_call_id"' in request._body[:1_000] else says(call("large"))

    toolkit = Toolkit([large])
    client = create_in_process_client(generate=generate)

    async def grown_by(runs):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(runs):
            assert (await client.run("go", toolkit)).text == "done"
        return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024

    size = 1_000_000
    await grown_by(10)
    assert await grown_by(60) < 20, "MB: 60 would stay if the results did"
    size = 10
    assert await grown_by(2_000) < 4, "MB: 2 KB of a run stay"
    await asyncio.sleep(0.01)
    gc.collect()
    assert len(alive) == 0
