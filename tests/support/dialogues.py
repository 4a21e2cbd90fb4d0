"""Dialogues that make requests of every kind, for whichever package says the model's part."""

from collections.abc import Awaitable, Callable
from typing import Any

from harbour import HARBOUR, NO_TOOLS, tally
from official import Package, Said, SaidCall, scripted
from scripted_server import ScriptedServer, client_of
from toolrelay import (
    Answer,
    File,
    Image,
    RelayResult,
    RunResult,
    Text,
    Toolkit,
    answer_declined,
    define_tool,
    relay_answer,
    relay_tool,
)
from toolrelay.events import Event

MAP = "https://example.org/map.png"
SETTINGS = ("system_prompt", "prompt_cache", "tool_choice", "parallel_tool_calls")
"""What a dialogue may say of its client."""


class Play:
    """Runs of one dialogue, each with what the model says in it."""

    def __init__(self, package: Package, way: str, server: ScriptedServer) -> None:
        self.package = package
        self.way = way
        self.server = server
        self.events: list[Event] = []

    async def run(self, prompt: Any, *said: Said, toolkit: Toolkit = HARBOUR, **more: Any) -> RunResult:
        settings = {name: more.pop(name) for name in SETTINGS if name in more}
        self._script(said)
        client = client_of(self.server, self.package.style, **settings)
        return await client.run(prompt, toolkit, on_event=self._on_event, **more)

    async def resume(self, halted: RunResult, answer: Answer, *said: Said, toolkit: Toolkit = HARBOUR) -> RunResult:
        self._script(said)
        (request,) = (request for request in halted.suspensions if request.id == answer.id)
        return await client_of(self.server, self.package.style).run_with_answer(
            toolkit, halted.messages.to_json(), request, answer, on_event=self._on_event
        )

    @property
    def _on_event(self) -> Callable[[Event], None] | None:
        """A run whose events are heard streams its replies."""
        return self.events.append if self.way.startswith("streamed") else None

    def _script(self, said: tuple[Said, ...]) -> None:
        self.server.script(*[scripted(self.package, reply, self.way) for reply in said])


def calls(*made: tuple[str, str] | str) -> tuple[SaidCall, ...]:
    """Calls `k1`, `k2`, …: each a tool's name, or a name and arguments."""
    pairs = [(one, "{}") if isinstance(one, str) else one for one in made]
    return tuple(SaidCall(f"k{number}", *pair) for number, pair in enumerate(pairs, 1))


@define_tool
async def chart() -> list[Any]:
    """Shows a chart."""
    return ["the chart", Image(b"\x89PNG", "image/png"), File(b"%PDF-1", "application/pdf", name="a.pdf")]


@define_tool
async def silence() -> str:
    """Says nothing."""
    return ""


@define_tool
async def reef() -> str:
    """Fails."""
    raise ValueError("reef")


DIALOGUES: dict[str, Callable[[Play], Awaitable[RunResult]]] = {}


def dialogue(play: Callable[[Play], Awaitable[RunResult]]) -> Callable[[Play], Awaitable[RunResult]]:
    DIALOGUES[play.__name__] = play
    return play


@dialogue
async def parallel_calls_with_every_kind_of_result(play: Play) -> RunResult:
    toolkit = Toolkit([*HARBOUR, chart, silence, reef])
    made = calls(("tally", '{"n": 2}'), "chart", "silence", "reef", ("tally", '{"n":"x"}'), ("nothing", "{}"))
    return await play.run("go", Said("all at once", made), Said("done"), toolkit=toolkit, system_prompt="be brief")


@dialogue
async def a_halt_and_its_answer_with_attachments(play: Play) -> RunResult:
    said = Said("let me see", calls(("tide", '{"port": "Ames"}'), ("tally", '{"n":1}'), "moor", "tide"), "hm")
    halted = await play.run("go", said)
    assert halted.pending is not None
    picture = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}]
    paper = [{"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0x"}}]
    results = [
        RelayResult("k1", "4 m", parts=picture),
        RelayResult("k3", "", parts=paper),
        RelayResult("k4", {"reef": True}, is_error=True, parts=picture),
    ]
    return await play.resume(halted, relay_answer(halted.pending.id, results), Said("done", thought="so"))


@dialogue
async def a_halt_that_is_declined(play: Play) -> RunResult:
    halted = await play.run("go", Said(calls=calls("tide", "moor")))
    assert halted.pending is not None
    return await play.resume(halted, answer_declined(halted.pending.id), Said("done"))


@dialogue
async def a_halt_that_is_superseded_by_a_prompt_with_attachments(play: Play) -> RunResult:
    halted = await play.run("go", Said(calls=calls("tide", "tally", "pay")))
    prompt = [
        Text("never mind: what is this?"),
        Image(url=MAP),
        Image(b"\xff\xd8", "image/jpeg"),
        File(b"%PDF-1", "application/pdf", name="a.pdf"),
    ]
    return await play.run(prompt, Said("a map"), history=halted.messages, on_pending="supersede")


@dialogue
async def an_approval_beside_a_relay_call(play: Play) -> RunResult:
    halted = await play.run("go", Said(calls=calls("tide", ("pay", '{"amount": 30}'))))
    relayed, approval = halted.suspensions
    part = await play.resume(halted, Answer(approval.id, ok=True, data={"by": "Ann"}))
    return await play.resume(part, relay_answer(relayed.id, [RelayResult("k1", [1, None])]), Said("done"))


@dialogue
async def replies_that_are_cut_twice(play: Play) -> RunResult:
    cut = Said("half", calls("save"), stop="length")
    return await play.run("go", cut, Said("", calls("moor"), "hm", "length"), Said("done"))


@dialogue
async def a_refusal_and_a_prompt_after_it(play: Play) -> RunResult:
    refused = await play.run("go", Said("cannot do that", stop="refusal"))
    return await play.run("then what?", Said("this"), history=refused.messages)


@dialogue
async def turns_that_say_nothing(play: Play) -> RunResult:
    empty = await play.run("go", Said("", calls("silence")), Said(""), toolkit=Toolkit([silence]))
    return await play.run("still there?", Said("yes"), history=empty.messages, toolkit=NO_TOOLS)


@dialogue
async def thinking_in_a_loop(play: Play) -> RunResult:
    first = Said("", calls(("tally", '{"n": 1}')), "first")
    return await play.run("go", first, Said("", (SaidCall("k9", "tally"),), "then"), Said("done", thought="last"))


@dialogue
async def one_id_in_every_reply(play: Play) -> RunResult:
    same = Said("", (SaidCall("functions.tally:0", "tally"), SaidCall("functions.tally:0", "tally")))
    return await play.run("go", same, same, Said("done"))


@dialogue
async def names_and_ids_that_no_provider_takes(play: Play) -> RunResult:
    toolkit = Toolkit([relay_tool("dock/moor.boat", "moors"), relay_tool("x" * 90, "long")])
    halted = await play.run("go", Said("ok"), toolkit=toolkit)
    made = {"name": "dock/moor.boat", "arguments": "{}"}
    history = [
        *halted.messages,
        {"role": "user", "content": "moor"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "y" * 90, "type": "function", "function": made}]},
        {"role": "tool", "tool_call_id": "y" * 90, "content": "moored"},
    ]
    return await play.run(None, Said("done"), toolkit=toolkit, history=history)


@dialogue
async def schemas_of_every_shape(play: Play) -> RunResult:
    either = {"anyOf": [{"type": "object", "properties": {"a": {"type": "string"}}}, {"type": "object"}]}
    knot = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Knot"}}}
    schemas = [
        None,
        {},
        {"type": "object"},
        either,
        {**knot, "$defs": {"Knot": knot}},
        {"$ref": "#/$defs/Knot", "$defs": {"Knot": knot}},
    ]
    toolkit = Toolkit([relay_tool(f"t{at}", "", schema) for at, schema in enumerate(schemas)])
    return await play.run("go", Said("done"), toolkit=toolkit)


@dialogue
async def a_broken_history_of_another_program(play: Play) -> RunResult:
    made = [
        {"id": f"k{at}", "type": "function", "function": {"name": "tally", "arguments": text}}
        for at, text in enumerate(["", "[1]", '"{}"', '{"n":'])
    ]
    history = [
        {"role": "system", "content": "be brief"},
        {"role": "tool", "tool_call_id": "k0", "content": "an orphan"},
        {"role": "assistant", "content": "hello", "tool_calls": []},
        {"role": "user", "content": [{"type": "text", "text": "count"}]},
        {"role": "assistant", "content": "", "tool_calls": made},
        {"role": "tool", "tool_call_id": "k1", "content": ""},
        {"role": "user", "content": "hurry"},
        {"role": "tool", "tool_call_id": "k0", "content": "7"},
        {"role": "assistant", "content": ""},
    ]
    return await play.run("go on", Said("done"), history=history, toolkit=Toolkit([tally]))


@dialogue
async def blocks_of_messages_as_a_history(play: Play) -> RunResult:
    history = [
        {"role": "user", "content": "count"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                {"type": "text", "text": "I count"},
                {"type": "tool_use", "id": "toolu_1", "name": "tally", "input": {"n": 1}},
                {"type": "tool_use", "id": "toolu_2", "name": "tide", "input": {}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "7"}]},
    ]
    return await play.run("go on", Said("done"), history=history)


@dialogue
async def every_choice_of_tools(play: Play) -> RunResult:
    named = {"type": "function", "function": {"name": "tally"}}
    for choice in ("auto", "none", named):
        await play.run("go", Said("done"), tool_choice=choice)
    said = Said("", calls("tally"))
    return await play.run("go", said, Said("7"), tool_choice="required", parallel_tool_calls=False)


@dialogue
async def prompts_that_are_cached(play: Play) -> RunResult:
    halted = await play.run("go", Said("hm", calls("tally", "tide"), "so"), system_prompt="be brief", prompt_cache=True)
    return await play.run("never mind", Said("ok"), history=halted.messages, on_pending="supersede", prompt_cache=True)


@dialogue
async def calls_in_the_history_of_a_request_without_tools(play: Play) -> RunResult:
    counted = await play.run("go", Said("", calls("tally")), Said("7"), toolkit=Toolkit([tally]))
    return await play.run("sum it up", Said("seven"), history=counted.messages, toolkit=NO_TOOLS)
