"""The in-process model: what the host's `generate` receives and what it may return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolrelay._json import decode, encode, plain
from toolrelay.errors import PayloadError


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

    `usage` counts tokens (`input_tokens`, `output_tokens`, `cached_tokens`, `reasoning_tokens`); `finish_reason` is one
    of `stop`, `tool_calls`, `length`, `content_filter`, `refusal`; left out, it follows from the calls.
    """

    content: str = ""
    tool_calls: Sequence[InProcessToolCall] = ()
    usage: Mapping[str, int] | None = None
    finish_reason: str | None = None
    model: str | None = None


def reply_of(made: object) -> bytes:
    """What `generate` returned, as the native module reads it: a text, a response, or a Chat Completions message."""
    if isinstance(made, str):
        made = InProcessResponse(made)
    elif isinstance(made, Mapping):
        made = _from_message(made)
    if not isinstance(made, InProcessResponse):
        raise PayloadError(
            f"generate must return a str, a dict or an InProcessResponse, not {type(made).__name__}", key="reply"
        )
    reply = {
        "text": _text(made.content, "content"),
        "calls": [_call(call) for call in made.tool_calls],
        "finish_reason": _reason(made.finish_reason),
        "usage": _usage(made.usage or {}),
        "model": made.model,
    }
    return encode(plain(reply, "reply")).encode()


def _from_message(message: Mapping[str, Any]) -> InProcessResponse:
    calls = []
    for call in message.get("tool_calls") or ():
        if isinstance(call, InProcessToolCall):
            calls.append(call)
            continue
        function = call.get("function", call)
        calls.append(InProcessToolCall(function["name"], function.get("arguments") or {}, call.get("id")))
    return InProcessResponse(
        message.get("content") or "",
        calls,
        message.get("usage"),
        message.get("finish_reason"),
        message.get("model"),
    )


def _call(call: InProcessToolCall) -> dict[str, Any]:
    arguments = call.arguments if isinstance(call.arguments, str) else encode(plain(call.arguments, "arguments"))
    return {"id": call.id, "name": _text(call.name, "name"), "arguments": arguments}


def _usage(usage: Mapping[str, int]) -> dict[str, int]:
    return {
        "input_tokens": usage.get("input_tokens", usage.get("prompt_tokens", 0)),
        "output_tokens": usage.get("output_tokens", usage.get("completion_tokens", 0)),
        "cached_tokens": usage.get("cached_tokens", 0),
        "cache_write_tokens": usage.get("cache_write_tokens", 0),
        "reasoning_tokens": usage.get("reasoning_tokens", 0),
    }


def _text(value: object, key: str) -> str:
    if not isinstance(value, str):
        raise PayloadError(f"{key} must be a str, not {type(value).__name__}", key=key)
    return value


def _reason(reason: str | None) -> str | None:
    if reason is not None and reason not in _REASONS:
        raise PayloadError(f"finish_reason must be one of {', '.join(_REASONS)}, not {reason!r}", key="finish_reason")
    return _REASONS[reason] if reason is not None else None


_REASONS = {
    "stop": "end",
    "tool_calls": "calls",
    "length": "length",
    "content_filter": "filtered",
    "refusal": "refused",
}
