"""Names for the annotations of a program: what the methods of a client, and those that make one, take and give."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from toolrelay._core import Transcript
from toolrelay._sweep import Sweeper
from toolrelay.events import Event, ReasoningDelta
from toolrelay.inprocess import InProcessRequest, InProcessResponse, InProcessToolCall
from toolrelay.parts import File, Image, Text
from toolrelay.relay import Answer, Request

__all__ = [
    "Generate",
    "Generated",
    "History",
    "Missing",
    "OnEvent",
    "OnPending",
    "Pieces",
    "Prompt",
    "Sweeper",
    "ToolChoice",
    "WaitFor",
]

Prompt: TypeAlias = str | Text | Image | File | Sequence[str | Text | Image | File | Mapping[str, Any]]
"""Text, a part, or a list of these and of content parts as dicts."""

History: TypeAlias = Transcript | Sequence[Mapping[str, Any]] | Mapping[str, Any] | str | bytes
"""A transcript, messages, or JSON."""

OnPending: TypeAlias = Literal["error", "supersede"]
"""What becomes of calls that wait when a prompt comes."""

Missing: TypeAlias = Literal["error", "wait"]
"""What becomes of calls that an answer leaves out."""

ToolChoice: TypeAlias = Literal["auto", "none", "required"] | Mapping[str, Any]
"""Whether the model may, may not or must call a tool; or the one that it must call."""

OnEvent: TypeAlias = Callable[[Event], object]
"""Told each event of a run; it may be async."""

WaitFor: TypeAlias = Callable[[Request], Answer | None] | Callable[[Request], Awaitable[Answer | None]]
"""Answers a request inline; None is "not here"."""

Pieces: TypeAlias = AsyncIterable[str | ReasoningDelta | InProcessToolCall | InProcessResponse | Mapping[str, Any]]
"""The reply of an in-process model, in pieces."""

Generated: TypeAlias = InProcessResponse | str | Mapping[str, Any] | Pieces
"""The reply of an in-process model."""

Generate: TypeAlias = Callable[[InProcessRequest], Generated] | Callable[[InProcessRequest], Awaitable[Generated]]
"""An in-process model."""
