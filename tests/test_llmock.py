"""Against llmock, a model server that nobody here wrote, which judges its client too (contract 3, 5, 8.1, 8.6)."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NamedTuple

import pytest
from harbour import NO_TOOLS, RAN, TIDE, save, tally
from llmock_process import LLMock
from streamed import joined, read
from toolrelay import (
    AuthenticationError,
    BadRequestError,
    Client,
    ContextOverflowError,
    ModelNotFoundError,
    ModelReplyError,
    OverloadedError,
    PermissionDeniedError,
    ProviderConnectionError,
    ProviderReplyError,
    ProviderServerError,
    ProviderTimeoutError,
    RateLimitError,
    RunResult,
    Toolkit,
    answer_output,
    define_tool,
)
from toolrelay.events import Done, Event, TextDelta, ToolStarted, UsageReported


class Peer(NamedTuple):
    """One of llmock's providers, and the style that speaks to it."""

    name: str
    style: str
    path: str
    text: int = 1
    """How many events of a stream come before the first text."""
    call: int = 4
    """How many come before the end of the call in a reply with a text of two words and a call."""


PEERS = [
    Peer("openai", "openai", "/v1"),
    Peer("responses", "openai-responses", "/v1", text=4, call=10),
    Peer("anthropic", "anthropic", "/anthropic", text=3, call=7),
    Peer("gemini", "gemini", "/gemini", text=0, call=1),
]
IMITATORS = [Peer(name, "openai", f"/{name}/v1") for name in ("mistral", "together", "ai21", "xai", "perplexity")]
GROQ = Peer("groq", "openai", "/groq/openai/v1")


@pytest.fixture(scope="module")
def process() -> Iterator[LLMock]:
    with LLMock() as process:
        yield process


@pytest.fixture
def mock(process: LLMock) -> LLMock:
    process.reset()
    return process


@pytest.fixture(params=PEERS, ids=lambda peer: peer.name)
def peer(request: pytest.FixtureRequest) -> Peer:
    return request.param


def calling(*calls: tuple[str, dict[str, Any]], text: str | None = None) -> dict[str, Any]:
    made = [{"name": name, "arguments": arguments} for name, arguments in calls]
    return {"type": "reply", "text": text, "tool_calls": made}


def saying(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "reply", "text": text, **more}


def failing(status: int, **more: Any) -> dict[str, Any]:
    return {"type": "fail", "status": status, "retry_after": 0.1, **more}


def client_of(mock: LLMock, peer: Peer, **settings: Any) -> Client:
    return mock.client(peer.style, peer.path, **settings)


Run = Callable[..., Awaitable[RunResult]]


@pytest.fixture(params=["plain", "streamed"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a client with plain replies, or with streamed ones, whose pieces must add up to the texts that stay."""

    async def run(client: Client, prompt: str | None, toolkit: Toolkit) -> RunResult:
        if request.param == "plain":
            return await client.run(prompt, toolkit)
        events: list[Event] = []
        result = await client.run(prompt, toolkit, on_event=events.append)
        texts = [message["content"] for message in result.messages if message["role"] == "assistant"]
        assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "".join(
            map(str, filter(None, texts))
        )
        return result

    return run


@define_tool
async def reef() -> str:
    """Fails."""
    raise ValueError("reef")


@pytest.mark.parametrize("peer", [*PEERS, *IMITATORS, GROQ], ids=lambda peer: peer.name)
async def test_a_loop_with_parallel_calls_ends_with_the_models_text(mock, peer, run):
    mock.script(calling(("tally", {"n": 2}), ("reef", {}), ("tally", {"n": 3}), text="all at once"), saying("8 and 9"))

    result = await run(client_of(mock, peer), "count", Toolkit([tally, reef]))

    assert (result.status, result.text, result.turns) == ("done", "8 and 9", 2)
    assert [record.output for record in result.tool_calls] == ["8", "ValueError: reef", "9"]
    assert len({record.id for record in result.tool_calls}) == 3
    assert result.messages[1]["content"] == "all at once"
    assert result.usage.output_tokens > 0
    assert mock.findings == []


async def test_a_model_that_picks_a_tool_itself_gets_its_result_and_ends(mock, peer, run):
    """The server makes up arguments that fit the schema as it got it."""
    schema = {
        "type": "object",
        "properties": {"port": {"enum": ["Ames", "Bree"]}, "days": {"type": "integer", "minimum": 2}},
        "required": ["port", "days"],
    }
    given = []

    async def harbour_report(arguments: dict[str, Any], context: Any) -> str:
        given.append(arguments)
        return "calm"

    toolkit = Toolkit([tally, define_tool("harbour_report", "Reports on a harbour.", schema, harbour_report)])
    result = await run(client_of(mock, peer), "a harbour report, please", toolkit)
    assert (result.status, [record.name for record in result.tool_calls]) == ("done", ["harbour_report"])
    assert given == [{"port": "Ames", "days": 2}]


async def test_a_halt_resumes_with_the_hosts_output(mock, peer, run):
    mock.script(calling(("tide", {"port": "Ames"}), ("tally", {})), saying("4 m"))
    toolkit = Toolkit([TIDE, tally])
    client = client_of(mock, peer)

    halted = await run(client, "tide?", toolkit)
    assert (halted.status, len(mock.requests)) == ("pending", 1)
    resumed = await client.run_with_answer(
        toolkit, halted.messages.to_json(), halted.pending, answer_output(halted.pending.id, "4 m")
    )

    assert (resumed.status, resumed.text) == ("done", "4 m")
    assert [record.output for record in resumed.tool_calls] == ["4 m", "7"]
    assert mock.findings == []


@pytest.mark.parametrize("status", [429, 500, 503, 529])
async def test_a_passing_failure_is_waited_out(mock, peer, run, status):
    """G1, G7: the server finds that its `Retry-After` was kept, and no tool runs twice."""
    ran = []

    @define_tool
    async def save() -> str:
        """Has an effect."""
        ran.append(1)
        return "saved"

    mock.script(calling(("save", {})), saying("done"), failing(status, times=2))
    result = await run(client_of(mock, peer), "save", Toolkit([save]))
    assert (result.text, ran) == ("done", [1])
    assert [request["status"] for request in mock.requests] == [status, status, 200, 200]
    assert mock.findings == []


LASTING = {
    "400": (failing(400), BadRequestError, 1),
    "401": (failing(401), AuthenticationError, 1),
    "403": (failing(403), PermissionDeniedError, 1),
    "404": (failing(404), ModelNotFoundError, 1),
    "429": (failing(429, times=None), RateLimitError, 3),
    "500": (failing(500, times=None), ProviderServerError, 3),
    "529": (failing(529, times=None), OverloadedError, 3),
    "a full context": (
        failing(400, message="prompt is too long: 5 tokens > 4 maximum", code="context_length_exceeded"),
        ContextOverflowError,
        1,
    ),
}


@pytest.mark.parametrize(("fault", "kind", "attempts"), LASTING.values(), ids=LASTING)
async def test_a_lasting_failure_is_typed(mock, peer, run, fault, kind, attempts):
    """G4."""
    if kind is ContextOverflowError and peer.style == "anthropic":
        fault = {**fault, "code": None}
    mock.script(fault)
    with pytest.raises(kind) as caught:
        await run(client_of(mock, peer), "hi", NO_TOOLS)
    assert type(caught.value) is kind
    assert caught.value.transcript == [{"role": "user", "content": "hi"}]
    assert len(mock.requests) == attempts
    assert mock.findings == []


@pytest.mark.parametrize(
    ("kind", "says"), [("malformed_arguments", "invalid arguments"), ("unknown_tool", "unknown tool")]
)
async def test_a_broken_call_is_an_error_result_and_the_run_goes_on(mock, run, kind, says):
    """C2, J10."""
    mock.script(calling(("tide", {"port": "Ames"}), ("tally", {})), saying("sorry"))
    mock.script({"type": "tool_fault", "kind": kind})
    result = await run(client_of(mock, PEERS[0]), "tide?", Toolkit([TIDE, tally]))
    assert (result.status, result.text) == ("done", "sorry")
    broken, counted = result.tool_calls
    assert (broken.is_error, counted.output) == (True, "7")
    assert says in broken.output


async def test_calls_of_a_cut_reply_do_not_run(mock, peer, run):
    """E3."""
    cut = {**calling(("tally", {}), ("tide", {})), "finish_reason": "length"}
    mock.script(cut, saying("again"), cut, cut, cut)
    client = client_of(mock, peer)
    result = await run(client, "count", Toolkit([TIDE, tally]))
    assert (result.text, [record.is_error for record in result.tool_calls]) == ("again", [True, True])
    with pytest.raises(ModelReplyError, match="length"):
        await run(client, "count", Toolkit([TIDE, tally]))


async def test_a_server_that_is_silent_for_too_long_is_asked_again(mock, peer, run):
    mock.script({"type": "delay", "seconds": 2.0}, saying("late"), saying("in time"))
    result = await run(client_of(mock, peer, read_timeout=0.3), "hi", NO_TOOLS)
    assert result.text == "in time"


async def test_a_server_that_stays_silent_is_a_timeout_error(mock, peer, run):
    mock.script({"type": "delay", "seconds": 2.0})
    with pytest.raises(ProviderTimeoutError):
        await run(client_of(mock, peer, read_timeout=0.2, retries=0), "hi", NO_TOOLS)


FAULTS = {
    "disconnect": ProviderConnectionError,
    "truncate": ProviderConnectionError,
    "malformed": ProviderReplyError,
    "stall": ProviderTimeoutError,
}


def breaking(kind: str, after: int, seconds: float = 3.0) -> dict[str, Any]:
    return {"type": "stream_fault", "kind": kind, "after_chunks": after, "stall_seconds": seconds}


def patience(fault: str) -> float:
    return 0.5 if fault == "stall" else 10.0


@pytest.mark.parametrize("fault", ["disconnect", "truncate", "stall"])
async def test_a_stream_that_breaks_before_anything_was_told_is_asked_for_again(mock, peer, fault):
    """G3, A16: after a busy server, too; nothing of the broken reply is told or kept."""
    mock.script(failing(429), breaking(fault, peer.text), saying("lost words"), saying("high water at six"))
    events = await read(client_of(mock, peer, read_timeout=patience(fault)).stream("hi", NO_TOOLS))
    result = events[-1].result
    assert [type(event) for event in events] == [*[TextDelta] * 4, UsageReported, Done]
    assert joined(events, TextDelta) == result.text == result.messages[1]["content"] == "high water at six"
    assert ([request["status"] for request in mock.requests], len(result.messages)) == ([429, 200, 200], 2)
    assert mock.findings == []


async def test_a_stream_that_cannot_be_read_is_an_error_at_once(mock, peer):
    """What a server says wrong it would say wrong again."""
    mock.script(breaking("malformed", peer.text), saying("lost words"))
    with pytest.raises(ProviderReplyError) as caught:
        await read(client_of(mock, peer).stream("hi", NO_TOOLS))
    assert (caught.value.partial_text, len(mock.requests), len(caught.value.transcript)) == (None, 1, 1)


@pytest.mark.parametrize(("fault", "kind"), FAULTS.items(), ids=FAULTS)
async def test_a_stream_that_breaks_in_the_middle_is_an_error_and_nothing_of_it_stays(mock, peer, fault, kind):
    """D19, G3."""
    mock.script(breaking(fault, peer.text + 1), saying("high water at six"), saying("low water"))
    client = client_of(mock, peer, read_timeout=patience(fault))
    stream = client.stream("hi", NO_TOOLS)
    assert await anext(stream) == TextDelta("high ")
    with pytest.raises(kind) as caught:
        await anext(stream)
    assert type(caught.value) is kind
    assert (caught.value.partial_text, len(mock.requests)) == ("high ", 1)
    assert caught.value.transcript == stream.transcript == [{"role": "user", "content": "hi"}]

    again = await read(client.stream(None, NO_TOOLS, history=caught.value.transcript))
    assert (joined(again, TextDelta), len(again[-1].result.messages)) == ("low water", 2)


@pytest.mark.parametrize(("fault", "kind"), FAULTS.items(), ids=FAULTS)
async def test_a_call_whose_stream_breaks_does_not_run(mock, peer, fault, kind):
    """D19."""
    mock.script(breaking(fault, peer.call), calling(("save", {}), text="I save"))
    stream = client_of(mock, peer, read_timeout=patience(fault)).stream("save", Toolkit([save]))
    with pytest.raises(kind) as caught:
        [event async for event in stream if isinstance(event, ToolStarted)]
    assert (RAN, len(mock.requests), len(caught.value.transcript)) == ([], 1, 1)


async def test_a_stream_that_only_pauses_is_waited_for(mock, peer):
    mock.script(
        {"type": "slow_first_token", "seconds": 0.2}, breaking("stall", peer.text + 1, 0.2), saying("high tide")
    )
    events = await read(client_of(mock, peer).stream("hi", NO_TOOLS))
    assert (joined(events, TextDelta), len(mock.requests)) == ("high tide", 1)
    assert mock.findings == []
