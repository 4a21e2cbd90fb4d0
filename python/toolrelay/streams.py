"""Reading what a model says while it says it: what `Client.stream`, `Client.translate` and their kin give."""

from __future__ import annotations

import asyncio
import inspect
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from toolrelay._end import outcome, settled
from toolrelay._pieces import Pieces, SyncPieces, over
from toolrelay.errors import ToolRelayError
from toolrelay.events import Done, Event

if TYPE_CHECKING:
    from toolrelay._core import RunResult, Transcript
    from toolrelay._end import Work
    from toolrelay._start import Start
    from toolrelay.types import OnEvent


class Stream(Pieces[Event]):
    """The events of one run, as an async iterator; made by `Client.stream` and `Client.stream_with_answer`.

    The run begins with the first event that is asked for, and ends with `Done`, or with its error. Nothing is read for
    a reader that does not read. Leaving early stops the run: `async with` does it at once, and so does the cancellation
    of a task that waits for an event; a stream that nobody holds any more stops by itself.
    """

    __slots__ = ("_result", "_start", "_transcript")

    def __init__(self, start: Start) -> None:
        super().__init__(partial(start.begin, True))
        self._start = start
        self._result: RunResult | None = None
        self._transcript: Transcript | None = None

    @property
    def result(self) -> RunResult:
        """The result of the run, once it has one. A `ToolRelayError` before, and where the run failed or was left."""
        if self._result is None:
            raise ToolRelayError("the run has no result: it goes on, it was left early, or it failed")
        return self._result

    @property
    def transcript(self) -> Transcript | None:
        """The conversation as the run left it: a history for any later run. None while it goes on."""
        return self._transcript

    async def _last(self, work: Work[Event], ended: asyncio.Future[Any]) -> Event:
        result = self._result = await outcome(self._start, work, ended)
        self._transcript = result.messages
        return Done(result)

    def _let_go(self) -> None:
        super()._let_go()
        self._start = self._start._replace(begin=over)

    async def _settle(self, work: Work[Event]) -> None:
        self._transcript = await settled(work)

    def _broke(self, error: BaseException) -> None:
        if isinstance(error, asyncio.CancelledError):
            error.transcript = self._transcript  # type: ignore[attr-defined]
        elif isinstance(error, ToolRelayError):
            self._transcript = getattr(error, "transcript", None)


class SyncStream(SyncPieces[Event]):
    """The events of one run, as a plain iterator; made by `Client.stream_sync` and `Client.stream_with_answer_sync`.

    It is `Stream` for programs without an event loop. What the host does for the run, its tools and an in-process
    model, goes on while an event is waited for, and rests in between. `with` or `close` stops a run that goes on.
    """

    __slots__ = ()

    _stream: Stream

    @property
    def result(self) -> RunResult:
        """As `Stream.result`."""
        return self._stream.result

    @property
    def transcript(self) -> Transcript | None:
        """As `Stream.transcript`."""
        return self._stream.transcript


class ChunkStream(Pieces[dict[str, Any]]):
    """The answer to one call in the chunks of Chat Completions, as an async iterator; made by `Client.translate`.

    An error of the provider comes out where the next chunk would. Nothing is read for a reader that does not read.
    Leaving early closes the connection: `async with` does it at once, and so does the cancellation of a task that waits
    for a chunk; a stream that nobody holds any more closes it by itself.
    """

    __slots__ = ()

    async def _opened(self) -> Self:
        """Waits for the first chunk, so that what fails before it is an error of whoever calls."""
        first = await self._more()
        self._ready.append(first)
        return self


class SyncChunkStream(SyncPieces[dict[str, Any]]):
    """`ChunkStream` for programs without an event loop: a plain iterator. `with` or `close` closes the connection."""

    __slots__ = ()

    _stream: ChunkStream

    def _opened(self) -> Self:
        self._wait(self._stream._opened)
        return self


async def told(start: Start, on_event: OnEvent) -> RunResult:
    """Runs to the end, and tells a function of the host what happens."""
    stream = Stream(start)
    async with stream:
        async for event in stream:
            given: Any = on_event(event)
            if given is not None and inspect.isawaitable(given):
                await given
    return stream.result
