"""Waiting for the end of work under way, and for what it leaves when it is cancelled."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from toolrelay.errors import ResumeError, StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolrelay._core import RunResult, Transcript
    from toolrelay._start import Start

Piece = TypeVar("Piece")


class Work(Protocol[Piece]):
    """A native `Segment` or `Translation`."""

    def next(self) -> list[Piece] | asyncio.Future[list[Piece]] | None: ...
    def stop(self) -> None: ...
    def ended(self) -> asyncio.Future[Any] | None: ...
    def given_up(self) -> list[asyncio.Task[None]]: ...


async def end_of(start: Start) -> RunResult:
    """Begins a run that nobody watches, and gives its result."""
    segment = start.begin(False)
    try:
        return await outcome(start, segment, segment.future())
    except asyncio.CancelledError as cancelled:
        cancelled.transcript = await settled(segment)  # type: ignore[attr-defined]
        raise
    finally:
        del segment  # it holds the error, whose traceback holds this frame


async def outcome(start: Start, segment: Work[Any], future: asyncio.Future[RunResult]) -> RunResult:
    """The result of a run, or its exception with the fields that only the caller knows."""
    try:
        result = await future
        if result.limit == "timeout":
            await _all_done(segment.given_up())
    except ResumeError as error:
        error.pending = start.pending
        raise
    except StoreError as error:
        error.conversation = start.conversation
        raise
    else:
        return result
    finally:
        del segment, future


async def settled(segment: Work[Any]) -> Transcript | None:
    """Waits as `stopped` for a run that was cancelled, and gives its transcript, or None where there is none."""
    ended = await stopped(segment)
    if ended is None:
        return None
    error = ended.exception()
    return ended.result().messages if error is None else getattr(error, "transcript", None)


async def stopped(work: Work[Any]) -> asyncio.Future[Any] | None:
    """Waits until cancelled work has settled and saved what was under way, and its tasks have cleaned up.

    Its end, or None where that takes too long, or a fork left the work to its parent.
    """
    ended = work.ended()
    if ended is None:
        return None
    await _all_done([ended])
    await _all_done(work.given_up())
    if not ended.done():
        ended.cancel()
        return None
    return ended


async def _all_done(futures: Sequence[asyncio.Future[Any]]) -> None:
    """Waits for futures with patience: anyio cancels its tasks again and again, which is no reason to give up."""
    loop = asyncio.get_running_loop()
    give_up = loop.time() + _PATIENCE
    while waiting := [future for future in futures if not future.done()]:
        left = give_up - loop.time()
        if left <= 0:
            return
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait(waiting, timeout=left)


_PATIENCE = 10.0
"""Seconds."""
