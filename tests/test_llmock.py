"""Against llmock, a model server that nobody here wrote, which judges its client too (contract 3, 5, 8.1, 8.6)."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NamedTuple

import pytest
from harbour import NO_TOOLS, TIDE, tally
from llmock_process import LLMock
from toolrelay import (
    AuthenticationError,
    BadRequestError,
    Client,
    ContextOverflowError,
    ModelNotFoundError,
    ModelReplyError,
    OverloadedError,
    PermissionDeniedError,
    ProviderServerError,
    ProviderTimeoutError,
    RateLimitError,
    RunResult,
    Toolkit,
    answer_output,
    define_tool,
)
from toolrelay.events import Event, TextDelta


class Peer(NamedTuple):
    """One of llmock's providers, and the style that speaks to it."""

    name: str
    style: str
    path: str


PEERS = [
    Peer("openai", "openai", "/v1"),
    Peer("responses", "openai-responses", "/v1"),
    Peer("anthropic", "anthropic", "/anthropic"),
    Peer("gemini", "gemini", "/gemini"),
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
