"""A run that may begin."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolrelay._core import Segment
    from toolrelay.relay import Request


class Start(NamedTuple):
    """What begins a run, watched or not, and what its errors do not know by themselves."""

    begin: Callable[[bool], Segment]
    pending: Request | None = None
    conversation: str | None = None
