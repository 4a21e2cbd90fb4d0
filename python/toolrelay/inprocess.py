"""The in-process model: what the host's `generate` receives and what it may return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from toolrelay._json import decode, encode, plain
from toolrelay._text import clean
from toolrelay.errors import PayloadError
from toolrelay.events import ReasoningDelta

if TYPE_CHECKING:
    from asyncio import Future

    from toolrelay._core import Speech


class InProcessRequest:
    """One model call, in the shape of Chat Completions.

    - `messages`: the conversation as a list of dicts, the system prompt first; a fresh list for each request.
    - `tools`: the tools as a list of dicts with `type` and `function`; empty when there are none.
    """

    __slots__ = ("_body", "_parsed")

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._parsed: dict[str, Any] | None = None

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation, oldest first."""
        return self._read("messages")

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tools that the model may call."""
        return self._read("tools")

    def _read(self, key: str) -> list[dict[str, Any]]:
        parsed = self._parsed
        if parsed is None:
            parsed = self._parsed = decode(self._body)
        value: list[dict[str, Any]] = parsed.get(key, [])
        return value

    def __repr__(self) -> str:
        return f"<InProcessRequest: {len(self.messages)} messages, {len(self.tools)} tools>"


@dataclass(frozen=True, slots=True)
class InProcessToolCall:
    """A tool call of an in-process model.

    `arguments` is an object, or the model's own argument text, which is kept byte for byte. Without an `id` one is
    minted.
    """

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    id: str | None = None


@dataclass(frozen=True, slots=True)
class InProcessResponse:
    """A reply of an in-process model: text, tool calls, or both.

    `usage` counts tokens: `input_tokens`, `output_tokens`, `cached_tokens`, `cache_write_tokens`, `reasoning_tokens`,
    or in the words of Chat Completions. `finish_reason` is one of `stop`, `tool_calls`, `length`, `content_filter`,
    `refusal`; left out, it follows from the calls.
    """

    content: str = ""
    tool_calls: Sequence[InProcessToolCall] = ()
    usage: Mapping[str, int] | None = None
    finish_reason: str | None = None
    model: str | None = None


def reply_of(made: object) -> bytes:
    """What `generate` returned, as the native module reads it. Raises `PayloadError` for what is no reply."""
    if isinstance(made, str):
        made = InProcessResponse(made)
    elif isinstance(made, Mapping):
        made = _from_message(made)
    if not isinstance(made, InProcessResponse):
        raise PayloadError(
            f"generate must return a str, a dict or an InProcessResponse, not {type(made).__name__}", key="reply"
        )
    calls: Any = made.tool_calls
    reply = {
        "text": _text(made.content, "content"),
        "calls": [_call(call, f"tool_calls[{at}]") for at, call in enumerate(calls)],
        "finish_reason": _reason(made.finish_reason),
        "usage": None if made.usage is None else _usage(made.usage),
        "model": None if made.model is None else _text(made.model, "model"),
    }
    return encode(reply).encode()


def say(piece: object, speech: Speech) -> Future[None] | None:
    """Tells a piece of a reply; gives a future where more has no room yet. `PayloadError` for what is no piece."""
    if isinstance(piece, str):
        return speech.text(clean(piece))
    if isinstance(piece, ReasoningDelta):
        return speech.reasoning(piece.text)
    if isinstance(piece, InProcessToolCall):
        return speech.part(reply_of(InProcessResponse(tool_calls=[piece])))
    if isinstance(piece, InProcessResponse):
        return speech.part(reply_of(piece))
    if isinstance(piece, Mapping):
        return speech.chunk(encode(plain(dict(piece), "chunk")).encode())
    raise PayloadError(
        "generate must yield a str, a ReasoningDelta, an InProcessToolCall, an InProcessResponse, or a chunk of Chat "
        f"Completions as a dict, not {type(piece).__name__}",
        key="piece",
    )


def _from_message(message: Mapping[str, Any]) -> InProcessResponse:
    """A Chat Completions message, or a whole response with its first choice."""
    about: Mapping[str, Any] = message
    if "choices" in message:
        choices = message["choices"]
        if not isinstance(choices, Sequence) or not choices or not isinstance(choices[0], Mapping):
            raise PayloadError("choices: expected a list with a choice", key="choices")
        about = {**message, **choices[0]}
        message = about.get("message") or {}
    if not message.keys() & {"content", "tool_calls", "refusal"}:
        raise PayloadError(f"expected content or tool_calls, found {', '.join(message) or 'no keys'}", key="reply")
    content, refusal = _joined(message.get("content")), message.get("refusal")
    reason = about.get("finish_reason")
    if refusal and not content:
        content, reason = refusal, "refusal"
    return InProcessResponse(content, message.get("tool_calls") or (), about.get("usage"), reason, about.get("model"))


def _joined(content: Any) -> Any:
    """The text of content parts; other content as it is."""
    if isinstance(content, list):
        return "".join(part["text"] for part in content if isinstance(part, Mapping) and part.get("type") == "text")
    return "" if content is None else content


def _call(call: object, key: str) -> dict[str, Any]:
    if isinstance(call, Mapping):
        function = call.get("function", call)
        if not isinstance(function, Mapping):
            raise _wrong(function, f"{key}.function", "an object")
        arguments = function.get("arguments")
        call = InProcessToolCall(function.get("name"), {} if arguments is None else arguments, call.get("id"))  # type: ignore[arg-type]
    if not isinstance(call, InProcessToolCall):
        raise _wrong(call, key, "an InProcessToolCall or a dict")
    arguments = call.arguments
    if not isinstance(arguments, str):
        if not isinstance(arguments, Mapping):
            raise _wrong(arguments, f"{key}.arguments", "an object or its text")
        arguments = encode(plain(dict(arguments), f"{key}.arguments"))
    return {
        "id": None if call.id is None else _text(call.id, f"{key}.id"),
        "name": _text(call.name, f"{key}.name"),
        "arguments": clean(arguments),
    }


def _usage(usage: object) -> dict[str, int]:
    """Token counts in our words, or in those of Chat Completions."""
    if not isinstance(usage, Mapping):
        raise _wrong(usage, "usage", "an object")
    read = usage.get("prompt_tokens_details") or {}
    made = usage.get("completion_tokens_details") or {}
    counts = {
        "input_tokens": usage.get("input_tokens", usage.get("prompt_tokens")),
        "output_tokens": usage.get("output_tokens", usage.get("completion_tokens")),
        "cached_tokens": usage.get("cached_tokens", read.get("cached_tokens")),
        "cache_write_tokens": usage.get("cache_write_tokens"),
        "reasoning_tokens": usage.get("reasoning_tokens", made.get("reasoning_tokens")),
    }
    for name, count in counts.items():
        if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 0):
            raise PayloadError(f"usage.{name}: expected a whole number from 0 on, got {count!r}", key=f"usage.{name}")
    return {name: count or 0 for name, count in counts.items()}


def _text(value: object, key: str) -> str:
    if not isinstance(value, str):
        raise _wrong(value, key, "a string")
    return clean(value)


def _reason(reason: object) -> str | None:
    if reason is None:
        return None
    if not isinstance(reason, str) or reason not in _REASONS:
        raise PayloadError(f"finish_reason: expected one of {', '.join(_REASONS)}, got {reason!r}", key="finish_reason")
    return _REASONS[reason]


def _wrong(value: object, key: str, expected: str) -> PayloadError:
    return PayloadError(f"{key}: expected {expected}, got {type(value).__name__}", key=key)


_REASONS = {
    "stop": "end",
    "tool_calls": "calls",
    "length": "length",
    "content_filter": "filtered",
    "refusal": "refused",
}
