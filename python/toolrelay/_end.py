"""Waiting for the end of a run, and for what a cancelled one leaves."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from toolrelay.errors import ResumeError, StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolrelay._core import RunResult, Segment, Transcript
    from toolrelay._start import Start


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


async def outcome(start: Start, segment: Segment, future: asyncio.Future[RunResult]) -> RunResult:
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


async def settled(segment: Segment) -> Transcript | None:
    """Waits until a cancelled run has settled and saved what was under way, and its tasks have cleaned up.

    The transcript, or None where there is none, the store takes too long, or a fork left the run to its parent.
    """
    ended = segment.ended()
    if ended is None:
        return None
    await _all_done([ended])
    await _all_done(segment.given_up())
    if not ended.done():
        ended.cancel()
        return None
    error = ended.exception()
    return ended.result().messages if error is None else getattr(error, "transcript", None)


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
