"""What happens in a run: the events of `Client.stream` and of `on_event`.

They are frozen, compare by value, pickle, copy, and match by position or by name. `Event` is their union.
"""

from typing import TypeAlias

from toolrelay._core import (
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

Event: TypeAlias = (
    TextDelta
    | ReasoningDelta
    | CallStarted
    | ArgumentsDelta
    | CallReady
    | ToolStarted
    | ToolEnded
    | Parked
    | UsageReported
    | Done
)

__all__ = [
    "ArgumentsDelta",
    "CallReady",
    "CallStarted",
    "Done",
    "Event",
    "Parked",
    "ReasoningDelta",
    "TextDelta",
    "ToolEnded",
    "ToolStarted",
    "UsageReported",
]
