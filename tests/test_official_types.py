"""The wires against the official packages: their types take what is sent, and what their types make is read.

(contract 8.1, 8.5) Each dialogue runs once per package and way of writing a reply; each request that it makes is
checked against the package's request type, unknown keys included.
"""

import json
from typing import Any

import pytest
from dialogues import DIALOGUES, MAP, Play, calls, chart, reef
from harbour import HARBOUR
from official import WAYS, Package, Said, SaidCall, scripted
from official_anthropic import Anthropic
from official_gemini import Gemini, plain
from official_openai import OpenAi
from official_responses import Responses
from toolrelay import (
    Image,
    RelayResult,
    Text,
    Toolkit,
    answer_declined,
    relay_answer,
)
from toolrelay.events import ArgumentsDelta, CallStarted, ReasoningDelta, TextDelta

PACKAGES = [OpenAi(), Responses(), Anthropic(), Gemini()]


@pytest.fixture(params=PACKAGES, ids=lambda package: package.style)
def package(request: pytest.FixtureRequest) -> Package:
    return request.param


CHAT = {"model": "m-1", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
CHAT_ODD = {
    "no key of": {"odd": 1},
    "missing": {"messages": [{"role": "user"}]},
    "is no str": {"messages": [{"role": "user", "content": 7}]},
    "is no object": {"messages": ["hi"]},
    "no key of ": {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi", "toolrelay": {}}]}]},
    "is none of": {"messages": [{"role": "pirate", "content": "arr"}]},
    "is no list": {"messages": {}},
}
RESPONSES = {"model": "m-1", "input": [{"role": "user", "content": "hi"}]}
RESPONSES_ODD = {
    "no key of": {"odd": 1},
    "missing": {"input": [{"type": "function_call", "name": "tally", "arguments": "{}"}]},
    "is none of": {"input": [{"role": "pirate", "content": "arr"}]},
    "is no list": {"tools": {}},
}
GEMINI = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
GEMINI_ODD = {
    "no key of": {"odd": 1},
    "Extra inputs": {"contents": [{"role": "user", "parts": [{"text": "hi", "toolrelay": {}}]}]},
    "valid string": {"contents": [{"role": "user", "parts": [{"text": 7}]}]},
    "valid list": {"tools": {}},
    "reads as": {"contents": [{"role": "user", "parts": [{"inline_data": {"mimeType": "a/b", "data": "YQ=="}}]}]},
}
ODD = [
    *[(package, CHAT, says, odd) for package in (OpenAi(), Anthropic()) for says, odd in CHAT_ODD.items()],
    *[(Responses(), RESPONSES, says, odd) for says, odd in RESPONSES_ODD.items()],
    *[(Gemini(), GEMINI, says, odd) for says, odd in GEMINI_ODD.items()],
]


@pytest.mark.parametrize(("package", "body", "says", "odd"), ODD)
def test_a_request_that_the_types_do_not_take_is_told(package, body, says, odd):
    assert package.problems(body) == []
    (told,) = package.problems({**body, **odd})
    assert says in told


@pytest.mark.parametrize("play", DIALOGUES.values(), ids=DIALOGUES)
@pytest.mark.parametrize("way", WAYS[:3])
async def test_the_official_types_take_every_request_of(server, package, way, play):
    result = await play(Play(package, way, server))
    assert result.status == "done"
    assert result.text
    assert server.requests
    told = [f"request {at}: {line}" for at, body in enumerate(server.bodies) for line in package.problems(body)]
    assert told == []


@pytest.mark.parametrize("play", DIALOGUES.values(), ids=DIALOGUES)
async def test_the_official_client_of_gemini_sends_the_same(server, play):
    package = Gemini()
    await play(Play(package, "plain", server))
    for body in server.bodies:
        server.script(scripted(package, Said("ok"), "plain"))
        await package.send_again(server.url, body)
        # The API takes these keys in either spelling.
        again = server.requests[-1].body
        for key, other in [(b"mime_type", b"mimeType"), (b"file_uri", b"fileUri"), (b"_json_schema", b"JsonSchema")]:
            again = again.replace(key, other)
        assert plain(json.loads(again)) == plain({"generationConfig": {}, **body})


PAIRS = [(one, other) for one in PACKAGES for other in PACKAGES if one is not other]


@pytest.mark.parametrize(("one", "other"), PAIRS, ids=lambda package: package.style)
async def test_a_halt_moves_to_another_provider_and_back(server, one, other):
    """Contract 8.3: with parallel calls, a failed one, images, files and thoughts in it."""
    toolkit = Toolkit([*HARBOUR, chart, reef])
    made = calls(("tide", '{"port": "Ames"}'), "chart", "reef", ("tally", "{}"), "moor")
    there, elsewhere = Play(one, "plain", server), Play(other, "plain", server)

    halted = await there.run([Text("go"), Image(url=MAP)], Said("all at once", made, "hm"), toolkit=toolkit)
    assert halted.pending is not None
    answer = relay_answer(halted.pending.id, [RelayResult("k1", "4 m"), RelayResult("k5", "reef", is_error=True)])
    more = Said("so far", (SaidCall("k6", "tally"), SaidCall("k7", "tide")), "well")
    moved = await elsewhere.resume(halted, answer, more, toolkit=toolkit)
    assert moved.pending is not None
    back = await there.resume(moved, answer_declined(moved.pending.id), Said("done", thought="so"), toolkit=toolkit)

    assert (back.status, back.text) == ("done", "done")
    first, second, third = server.bodies
    assert (one.problems(first), other.problems(second), one.problems(third)) == ([], [], [])
    for text in ("all at once", "4 m", "ValueError: reef", "the chart", "so far", "declined"):
        assert text in json.dumps(third)
    assert ("hm" in json.dumps(second), "hm" in json.dumps(third)) == (False, True)


SAID = {
    "text": Said("it is 4 m, é帆"),
    "calls": Said("hm", calls(("tally", '{"n": 2}'), ("tide", '{"port": "A\\n"}'), "moor"), "thinking"),
    "a call alone": Said(calls=calls("moor")),
    "nothing": Said(),
    "thoughts and a text": Said("so", thought="well"),
    "cut": Said("half", stop="length"),
    "refused": Said("cannot do that", stop="refusal"),
}


@pytest.mark.parametrize("said", SAID.values(), ids=SAID)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("package", [OpenAi(), Responses(), Anthropic(), Gemini()], ids=lambda package: package.style)
async def test_the_official_client_reads_the_same_in_the_script(server, package, way, said):
    if (package.style, way) == ("openai", "streamed nulls") and said.calls:
        pytest.skip("the package's own client cannot read these nulls")
    server.script(scripted(package, said, way))
    read = await (package.read_stream if way.startswith("streamed") else package.read)(server.url)
    assert read == said


@pytest.mark.parametrize("said", SAID.values(), ids=SAID)
@pytest.mark.parametrize("way", WAYS)
async def test_what_the_official_types_serialise_is_read(server, package, way, said):
    play = Play(package, way, server)
    result = await play.run("go", said)
    ends = {"": "tool_calls" if said.calls else "stop", "refusal": package.refused}
    assert (result.text, result.finish_reason) == (said.text, ends.get(said.stop, said.stop))
    made = [SaidCall(record.id, record.name, record.arguments) for record in result.tool_calls]
    assert [call._replace(arguments=json.loads(call.arguments)) for call in made] == [
        call._replace(arguments=json.loads(call.arguments)) for call in said.calls
    ]
    usage = result.usage
    assert (usage.input_tokens, usage.cached_tokens, usage.output_tokens, usage.reasoning_tokens) == (20, 8, 7, 2)
    assert result.model == "m-1"
    if way.startswith("streamed"):
        names = [event.name for event in play.events if isinstance(event, CallStarted)]
        texts = ["".join(e.text for e in play.events if isinstance(e, kind)) for kind in (TextDelta, ReasoningDelta)]
        assert (texts, names) == ([said.text, said.thought], [call.name for call in said.calls])
        for index, call in enumerate(made):
            pieces = [e.text for e in play.events if isinstance(e, ArgumentsDelta) and e.index == index]
            assert "".join(pieces) == call.arguments


@pytest.mark.parametrize("said", SAID.values(), ids=SAID)
async def test_a_streamed_reply_leaves_the_transcript_of_a_plain_one(server, package, said):
    """Contract 8.1."""
    results = [await Play(package, way, server).run("go", said) for way in ("plain", "streamed")]
    plain_one, streamed_one = ([kept(message) for message in result.messages[:2]] for result in results)
    assert streamed_one == plain_one


def kept(message: dict[str, Any]) -> dict[str, Any]:
    """A message with its JSON texts read: a stream does not say how they would have been spaced."""
    match message:
        case {"toolrelay": {"provider": provider}}:
            message = {**message, "toolrelay": {**provider, "raw": json.loads(provider["raw"])}}
    made = [call["function"] for call in message.get("tool_calls", [])]
    return {**message, "tool_calls": [(one["name"], json.loads(one["arguments"])) for one in made]}
