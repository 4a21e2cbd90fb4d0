"""Reading what happens in a run, event by event: what `Client.stream` and its kin give."""

from __future__ import annotations

import asyncio
import inspect
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn, Self

from toolrelay._end import outcome, settled
from toolrelay.errors import EventLoopError, ToolRelayError
from toolrelay.events import Done

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from toolrelay._core import RunResult, Segment, Transcript
    from toolrelay._start import Start
    from toolrelay.events import Event

    OnEvent = Callable[[Event], object]


class Stream:
    """The events of one run, as an async iterator; made by `Client.stream` and `Client.stream_with_answer`.

    The run begins with the first event that is asked for, and ends with `Done`, or with its error. Nothing is read for
    a reader that does not read. Leaving early stops the run: `async with` does it at once, and so does the cancellation
    of a task that waits for an event; a stream that nobody holds any more stops by itself.
    """

    __slots__ = ("__weakref__", "_is_over", "_is_waiting", "_ready", "_result", "_segment", "_start", "_transcript")

    def __init__(self, start: Start) -> None:
        self._start = start
        self._segment: Segment | None = None
        self._ready: list[Event] = []
        """What was taken and not read yet, the last one first."""
        self._is_waiting = False
        self._is_over = False
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

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        if self._ready:
            return self._ready.pop()
        return await self._more()

    async def _more(self) -> Event:
        if self._is_over:
            raise StopAsyncIteration
        if self._is_waiting:
            raise RuntimeError("another task waits for the next event of this stream already")
        self._is_waiting = True
        try:
            if self._segment is None:
                self._segment = self._start.begin(True)
            return await self._take(self._segment)
        except asyncio.CancelledError as cancelled:
            await self._leave()
            cancelled.transcript = self._transcript  # type: ignore[attr-defined]
            raise
        except BaseException as error:
            self._is_over = True
            self._transcript = getattr(error, "transcript", None)
            raise
        finally:
            self._is_waiting = False

    async def _take(self, segment: Segment) -> Event:
        while (events := segment.next()) is not None:
            if not isinstance(events, list):
                events = await events
            if events and not self._is_over:
                events.reverse()
                self._ready = events
                return events.pop()
        if self._is_over:  # another task closed it
            raise StopAsyncIteration
        ended = segment.ended()
        if ended is None:
            raise ToolRelayError("the run goes on in the process that began it")
        result = self._result = await outcome(self._start, segment, ended)
        self._transcript = result.messages
        self._is_over = True
        return Done(result)

    async def aclose(self) -> None:
        """Stops the run, if it goes on, and waits until its transcript is whole."""
        self._ready.clear()
        if self._is_over:
            return
        task = asyncio.current_task()
        before = 0 if task is None else task.cancelling()
        await self._leave()
        if task is not None and task.cancelling() > before:
            raise asyncio.CancelledError

    async def _leave(self) -> None:
        self._is_over = True
        self._ready.clear()
        if self._segment is not None:
            self._segment.stop()
            self._transcript = await settled(self._segment)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()
        if isinstance(error, asyncio.CancelledError):
            error.transcript = self._transcript  # type: ignore[attr-defined]

    def __reduce__(self) -> NoReturn:
        raise TypeError(_OF_THIS_PROCESS)

    def __repr__(self) -> str:
        state = "ended" if self._is_over else "open" if self._segment else "not begun"
        return f"<{type(self).__name__}: {state}>"


class SyncStream:
    """The events of one run, as a plain iterator; made by `Client.stream_sync` and `Client.stream_with_answer_sync`.

    It is `Stream` for programs without an event loop. What the host does for the run, its tools and an in-process
    model, goes on while an event is waited for, and rests in between. `with` or `close` stops a run that goes on.
    """

    __slots__ = ("__weakref__", "_runner", "_stream")

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._runner: asyncio.Runner | None = None

    @property
    def result(self) -> RunResult:
        """As `Stream.result`."""
        return self._stream.result

    @property
    def transcript(self) -> Transcript | None:
        """As `Stream.transcript`."""
        return self._stream.transcript

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        if self._stream._ready:
            return self._stream._ready.pop()
        try:
            return self._here().run(self._stream._more())
        except StopAsyncIteration:
            self.close()
            raise StopIteration from None
        except BaseException:
            self.close()
            raise

    def _here(self) -> asyncio.Runner:
        if self._runner is None:
            if asyncio._get_running_loop() is not None:
                raise EventLoopError("an event loop runs in this thread: read stream() there, not stream_sync()")
            self._runner = asyncio.Runner()
        return self._runner

    def close(self) -> None:
        """Stops the run, if it goes on, and waits until its transcript is whole."""
        runner, self._runner = self._runner, None
        if runner is not None:
            with runner:
                runner.run(self._stream.aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        with suppress(Exception):
            self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(_OF_THIS_PROCESS)

    def __repr__(self) -> str:
        return repr(self._stream).replace("Stream", "SyncStream", 1)


async def told(start: Start, on_event: OnEvent) -> RunResult:
    """Runs to the end, and tells a function of the host what happens."""
    stream = Stream(start)
    async with stream:
        async for event in stream:
            given: Any = on_event(event)
            if given is not None and inspect.isawaitable(given):
                await given
    return stream.result


_OF_THIS_PROCESS = "a stream is a run of this process: keep its events, or its result, instead"
