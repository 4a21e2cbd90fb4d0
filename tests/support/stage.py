"""Plays the dialogues of `tests/scenarios` through an in-process client; their README describes the language.

Streamed, the model gives its replies in pieces, and each run is read event by event. A model call, a tool call or a
question to the host is an effect that stays open until a step ends it.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from toolrelay import (
    Answer,
    InProcessRequest,
    InProcessResponse,
    InProcessToolCall,
    ParkedCall,
    PendingError,
    Request,
    RunResult,
    Stream,
    Tool,
    ToolContext,
    ToolError,
    Toolkit,
    ToolRelayError,
    Transcript,
    WaitForError,
    create_in_process_client,
    define_tool,
    events,
    pending,
    relay_calls_of,
    relay_tool,
)
from toolrelay.events import Done, TextDelta, ToolEnded, UsageReported


@dataclass
class Effect:
    """Something under way."""

    kind: str
    key: str
    given: Any = None
    after: dict[str, Any] | None = None
    end: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Names:
    """Names for ids that nobody chose: `$label` for calls, `$req1`, `$req2`, … for requests."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}

    def label(self, label: str, call_id: str) -> None:
        self._ids[f"${label}"] = call_id

    def number(self, request_id: str) -> None:
        if request_id.startswith("req_") and request_id not in self._ids.values():
            self._ids[f"$req{1 + sum(name.startswith('$req') for name in self._ids)}"] = request_id

    def hide(self, text: str) -> str:
        for name, known in self._ids.items():
            text = text.replace(known, name)
        return text

    def show(self, text: str) -> str:
        for name, known in self._ids.items():
            text = text.replace(name, known)
        return text


@dataclass
class Ending:
    """How a segment ended, in the words of the fixtures."""

    status: str
    limit: str | None = None
    error: ToolRelayError | None = None
    result: RunResult | None = None
    transcript: Any = None
    suspensions: tuple[Request, ...] = ()


class Stage:
    """What is carried from segment to segment of one dialogue."""

    def __init__(self, scenario: dict[str, Any], warnings: Callable[[], list[str]], is_streamed: bool) -> None:
        self._scenario = scenario
        self._is_streamed = is_streamed
        self._warnings = warnings
        self._toolkit = Toolkit([self._tool(name, spec) for name, spec in scenario["tools"].items()])
        self._names = Names()
        self._history: Any = []
        self._requests: tuple[Request, ...] = ()
        self._open: list[Effect] = []
        self._opened = asyncio.Event()
        self._labelled: list[dict[str, Any]] = []

    async def play(self) -> None:
        for number, segment in enumerate(self._scenario["segments"], 1):
            try:
                self._compare(segment["expect"], await self._run(segment))
            except AssertionError as difference:
                raise AssertionError(f"segment {number}: {difference}") from None

    async def _run(self, segment: dict[str, Any]) -> Ending:
        self._history = segment.get("history", self._history)
        steps = segment.get("steps", [])
        running = asyncio.ensure_future(self._start(segment, any("timeout" in step for step in steps)))
        for number, step in enumerate(steps, 1):
            if "cancel" in step:
                await self._wait_until(lambda: bool(self._open), running)
                running.cancel()
            elif "timeout" not in step:
                try:
                    await self._step(step, running)
                except AssertionError as why:
                    running.cancel()
                    raise AssertionError(f"step {number}: {why}") from None
        await asyncio.wait([running], timeout=PATIENCE)
        assert running.done(), f"the run goes on: {self._open}"
        ending = _ending(running)
        for _ in range(100):
            if not self._open:
                break
            await asyncio.sleep(0.01)
        assert not self._open, f"the run has ended, but nothing ends {self._open}"
        return ending

    async def _start(self, segment: dict[str, Any], times_out: bool) -> RunResult:
        client = create_in_process_client(
            generate=self._speak if self._is_streamed else self._generate,
            wait_for=self._wait_for if self._scenario.get("wait_for") else None,
            max_turns=self._scenario.get("max_turns", 10),
            timeout=1.0 if times_out else None,
        )
        if "answer" not in segment:
            begin = client.stream if self._is_streamed else client.run
            prompt, on_pending = segment.get("prompt"), segment.get("on_pending", "error")
            return await _read(begin(prompt, self._toolkit, self._history, on_pending=on_pending))
        to = segment["answer"].get("to", 0)
        known = self._requests[to].to_dict() if to < len(self._requests) else {}
        asked = Request.from_json(self._names.show(json.dumps({**known, **segment.get("pending", {})})))
        answer = self._answer(segment["answer"], asked.id)
        resume = client.stream_with_answer if self._is_streamed else client.run_with_answer
        missing = segment.get("missing", "error")
        return await _read(resume(self._toolkit, self._history, asked, answer, missing))

    def _answer(self, spec: dict[str, Any], request_id: str) -> Answer:
        data = {key: spec[key] for key in ("output", "isError", "parts", "results") if key in spec}
        rest = {key: value for key, value in spec.items() if key not in data and key != "to"}
        form = {"id": request_id, "ok": True, **({"data": data} if data else {}), **rest}
        return Answer.from_json(self._names.show(json.dumps(form)))

    async def _step(self, step: dict[str, Any], running: asyncio.Future[RunResult]) -> None:
        if "model" in step:
            effect = await self._close(lambda effect: effect.kind == "model", "a model call", running)
            says = step["model"]
            self._labelled = [made for made in says.get("calls", []) if "as" in made]
            made = [
                InProcessToolCall(made["name"], made.get("arguments", ""), made.get("id"))
                for made in says.get("calls", [])
            ]
            effect.end.set_result(InProcessResponse(says.get("text", ""), made, finish_reason=says.get("stop")))
        elif "model_fails" in step:
            effect = await self._close(lambda effect: effect.kind == "model", "a model call", running)
            effect.end.set_exception(RuntimeError(step["model_fails"]))
        elif "tool" in step:
            effect = await self._close(
                lambda effect: effect.kind == "tool" and effect.key == self._names.show(step["tool"]),
                f"the tool of call {step['tool']}",
                running,
            )
            if "given" in step:
                _same("given", step["given"], effect.given)
            _same("after", step.get("after"), effect.after)
            _end_tool(effect, step)
        else:
            effect = await self._close(
                lambda effect: effect.kind == "host" and effect.key == self._names.show(step["host"]),
                f"a question to the host about {step['host']}",
                running,
            )
            if "answers" in step:
                effect.end.set_result(self._answer(step["answers"], effect.given.id))
            elif "fails" in step:
                effect.end.set_exception(RuntimeError("the host fails"))
            else:
                effect.end.set_result(None)

    async def _close(self, fits: Callable[[Effect], bool], what: str, running: asyncio.Future[RunResult]) -> Effect:
        """The first open effect that fits; it is waited for, but not longer than the run."""
        await self._wait_until(lambda: any(map(fits, self._open)), running)
        effect = next(filter(fits, self._open), None)
        assert effect is not None, f"{what} is not under way, but {self._open}"
        self._open.remove(effect)
        return effect

    async def _wait_until(self, holds: Callable[[], bool], running: asyncio.Future[RunResult]) -> None:
        while not holds() and not running.done():
            self._opened.clear()
            opened = asyncio.ensure_future(self._opened.wait())
            done, _ = await asyncio.wait([opened, running], timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
            opened.cancel()
            if not done:
                return

    async def _under_way(self, effect: Effect) -> Any:
        self._open.append(effect)
        self._opened.set()
        try:
            return await effect.end
        finally:
            if effect in self._open:
                self._open.remove(effect)

    async def _generate(self, request: InProcessRequest) -> Any:
        return await self._under_way(Effect("model", "model", request))

    async def _speak(self, request: InProcessRequest) -> AsyncIterator[Any]:
        made: InProcessResponse = await self._generate(request)
        for at in range(0, len(made.content), 3):
            yield made.content[at : at + 3]
        for each in made.tool_calls:
            yield each
        yield InProcessResponse(finish_reason=made.finish_reason)

    async def _wait_for(self, request: Request) -> Any:
        calls = relay_calls_of(request)
        return await self._under_way(Effect("host", calls[0].id if calls else request.prompt, request))

    def _tool(self, name: str, spec: dict[str, Any]) -> Tool:
        if spec["kind"] == "relay":
            return relay_tool(name, "", spec.get("schema"))

        async def run(arguments: dict[str, Any], context: ToolContext) -> Any:
            after = None
            if context.answer is not None:
                after = context.answer.to_dict()
                del after["id"]
            for made in self._labelled:
                if made["name"] == name and json.loads(made.get("arguments") or "{}") == arguments:
                    self._names.label(made["as"], context.call_id)
                    self._labelled.remove(made)
                    break
            return await self._under_way(Effect("tool", context.call_id, arguments, after))

        return define_tool(name, "", spec.get("schema"), run)

    def _learn(self, ending: Ending) -> None:
        """The ids of labelled calls that no tool ran, and the numbers of the requests."""
        calls = [made for message in ending.transcript for made in message.get("tool_calls", ())]
        for label, made in zip(self._labelled, calls[-len(self._labelled) :], strict=False):
            self._names.label(label["as"], made["id"])
        self._labelled = []
        for request in ending.suspensions:
            self._names.number(request.id)

    def _compare(self, expect: dict[str, Any], ending: Ending) -> None:
        _same("status", expect["status"], ending.status)
        _same("limit", expect.get("limit"), ending.limit)
        _same("error", expect.get("error", {}).get("type"), ending.error and type(ending.error).__name__)
        for part in expect.get("error", {}).get("says", ()):
            assert part in self._names.hide(str(ending.error)), f"the error does not say {part!r}: {ending.error}"
        _lines("warnings", expect.get("warnings", []), self._warnings())
        if ending.transcript is None:
            return
        self._learn(ending)
        _lines("waits", expect.get("waits", []), [self._names.hide(_wait(request)) for request in ending.suspensions])
        if "requests" in expect:
            _same("requests", expect["requests"], self._hidden([request.to_dict() for request in ending.suspensions]))
        if ending.result is not None:
            for key in ("text", "finish_reason", "turns"):
                if key in expect:
                    _same(key, expect[key], getattr(ending.result, key))
            if "tool_calls" in expect:
                _same("tool_calls", expect["tool_calls"], self._hidden(_records(ending.result)))
        if "transcript" in expect:
            found = [self._names.hide(line) for message in ending.transcript for line in _play(message)]
            _lines("transcript", expect["transcript"], found)
        self._history, self._requests = ending.transcript, ending.suspensions

    def _hidden(self, value: Any) -> Any:
        return json.loads(self._names.hide(json.dumps(value)))


async def _read(run: Coroutine[Any, Any, RunResult] | Stream) -> RunResult:
    """The end of a run, read to it; what the events say must come to the same."""
    if not isinstance(run, Stream):
        return await run
    text, said, settled, parked = "", None, {}, []
    async for event in run:
        match event:
            case TextDelta(piece):
                text += piece
            case UsageReported():
                said, text = text, ""
            case ToolEnded(call_id, _, output, is_error):
                settled[call_id] = (output, is_error)
            case events.Parked(request):
                parked.append(request)
            case Done(result):
                _same("text in pieces", result.text, result.text if said is None else said)
    for record in run.result.tool_calls:
        if record.id in settled:
            _same("told of the end", settled[record.id], (record.output, record.is_error))
    assert set(run.result.suspensions) <= set(parked), f"not told of {run.result.suspensions}, but of {parked}"
    return run.result


def _ending(running: asyncio.Future[RunResult]) -> Ending:
    try:
        result = running.result()
    except asyncio.CancelledError as cancelled:
        transcript: Transcript = cancelled.transcript  # type: ignore[attr-defined]
        return Ending("cancelled", transcript=transcript, suspensions=_suspensions(transcript))
    except ToolRelayError as error:
        refused = isinstance(error, PendingError) or error.transcript is None
        suspensions = error.suspensions if isinstance(error, WaitForError) else ()
        return Ending("error", None, error, None, None if refused else error.transcript, suspensions)
    return Ending(result.status, result.limit, None, result, result.messages, result.suspensions)


def _suspensions(transcript: Transcript) -> tuple[Request, ...]:
    parked = [message["toolrelay"]["pending"] for message in transcript if "pending" in message.get("toolrelay", {})]
    return tuple(Request.from_dict(waits["request"]) for waits in parked if "request" in waits)


def _end_tool(effect: Effect, step: dict[str, Any]) -> None:
    if "returns" in step:
        effect.end.set_result(step["returns"])
    elif "raises" in step:
        effect.end.set_exception(ToolError(step["raises"]))
    else:
        effect.end.set_result(_parked(**step["parks"]))


def _parked(kind: str, prompt: str, expires_at: str | None = None, **more: Any) -> ParkedCall:
    return pending(kind, prompt, expires_at=expires_at and datetime.fromisoformat(expires_at), **more)


def _records(result: RunResult) -> list[dict[str, Any]]:
    keys = ("id", "name", "input", "arguments", "output", "is_error", "pending")
    return [{key: getattr(record, key) for key in keys} for record in result.tool_calls]


def _wait(request: Request) -> str:
    calls = " ".join(made.id for made in relay_calls_of(request))
    return f"{request.id} {request.kind} {calls or request.prompt}"


def _play(message: dict[str, Any]) -> list[str]:
    """A message, like a play."""
    text, extras = _text(message["content"]), message.get("toolrelay", {})
    if message["role"] == "tool":
        if "pending" in extras:
            return [f"  {message['tool_call_id']} (pending {extras['pending']['id']})"]
        outcome = f" ({extras['outcome']})" if "outcome" in extras else ""
        return [f"  {message['tool_call_id']}{outcome}: {text}"]
    functions = [(made["id"], made["function"]) for made in message.get("tool_calls", ())]
    role = "system" if message["role"] == "developer" else message["role"]
    said = f"{role}: {text}" if text or role != "assistant" else "assistant:"
    return [said, *[f"  call {call_id} {function['name']} {function['arguments']}" for call_id, function in functions]]


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""


def _same(what: str, expected: Any, found: Any) -> None:
    assert expected == found, f"{what}: expected {expected!r}, found {found!r}"


def _lines(what: str, expected: list[str], found: list[str]) -> None:
    """Lines must be equal, but for those that end with `…`: they are a beginning."""
    shown = [
        line[: len(begin) - 1] + "…" if begin.endswith("…") else line
        for begin, line in zip(expected, found, strict=False)
    ]
    both = "\n".join([f"{what}: expected", *expected, "found", *found])
    assert [*shown, *found[len(shown) :]] == expected, both


PATIENCE = 10.0
