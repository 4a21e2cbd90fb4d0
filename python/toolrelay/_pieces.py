"""Reading work under way piece by piece: what the events of a run and the chunks of a single call have in common."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, TypeVar

from toolrelay._end import stopped
from toolrelay.errors import EventLoopError, ToolRelayError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from types import TracebackType

    from toolrelay._end import Work

T = TypeVar("T")
W = TypeVar("W")


class Pieces(Generic[T]):
    """An async iterator over the pieces of one piece of work, which begins with the first that is asked for."""

    __slots__ = ("__weakref__", "_begin", "_is_over", "_is_waiting", "_ready", "_work")

    def __init__(self, begin: Callable[[], Work[T]]) -> None:
        self._begin = begin
        self._work: Work[T] | None = None
        self._ready: list[T] = []
        """What was taken and not read yet, the last one first."""
        self._is_waiting = False
        self._is_over = False

    async def _last(self, work: Work[T], ended: asyncio.Future[Any]) -> T:
        """What comes behind all others."""
        await ended
        raise StopAsyncIteration

    async def _settle(self, work: Work[T]) -> None:
        """Waits until stopped work has ended."""
        ended = await stopped(work)
        if ended is not None:
            ended.exception()  # nobody reads it

    def _broke(self, error: BaseException) -> None:
        """The reader gets this error."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        if self._ready:
            return self._ready.pop()
        return await self._more()

    async def _more(self) -> T:
        if self._is_over:
            raise StopAsyncIteration
        if self._is_waiting:
            raise RuntimeError("another task waits for the next piece of this stream already")
        self._is_waiting = True
        try:
            if self._work is None:
                self._work = self._begin()
            return await self._take(self._work)
        except asyncio.CancelledError as cancelled:
            await self._leave()
            self._broke(cancelled)
            raise
        except BaseException as error:
            self._let_go()
            self._broke(error)
            raise
        finally:
            self._is_waiting = False

    async def _take(self, work: Work[T]) -> T:
        while (pieces := work.next()) is not None:
            if not isinstance(pieces, list):
                pieces = await pieces
            if pieces and not self._is_over:
                pieces.reverse()
                self._ready = pieces
                return pieces.pop()
        if self._is_over:  # another task closed it
            raise StopAsyncIteration
        ended = work.ended()
        if ended is None:
            raise ToolRelayError("the run goes on in the process that began it")
        last = await self._last(work, ended)
        self._let_go()
        return last

    async def aclose(self) -> None:
        """Stops what goes on, and waits until it has ended."""
        self._ready.clear()
        if self._is_over:
            return
        task = asyncio.current_task()
        before = 0 if task is None else task.cancelling()
        await self._leave()
        if task is not None and task.cancelling() > before:
            raise asyncio.CancelledError

    async def _leave(self) -> None:
        work = self._work
        self._let_go()
        self._ready.clear()
        if work is not None:
            work.stop()
            await self._settle(work)

    def _let_go(self) -> None:
        """It is over: what it would begin, and what the host has for it, is not held any more."""
        self._is_over = True
        self._work = None
        self._begin = over

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()
        if isinstance(error, asyncio.CancelledError):
            self._broke(error)

    def __reduce__(self) -> NoReturn:
        raise TypeError(_OF_THIS_PROCESS)

    def __repr__(self) -> str:
        state = "ended" if self._is_over else "open" if self._work else "not begun"
        return f"<{type(self).__name__}: {state}>"


class SyncPieces(Generic[T]):
    """`Pieces` as a plain iterator. What the host does for the work goes on while a piece is waited for only."""

    __slots__ = ("__weakref__", "_runner", "_stream")

    def __init__(self, stream: Pieces[T]) -> None:
        self._stream = stream
        self._runner: asyncio.Runner | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        if self._stream._ready:
            return self._stream._ready.pop()
        try:
            return self._wait(self._stream._more)
        except StopAsyncIteration:
            raise StopIteration from None

    def _wait(self, begin: Callable[[], Coroutine[Any, Any, W]]) -> W:
        try:
            return self._here().run(begin())
        except BaseException:
            self.close()
            raise

    def _here(self) -> asyncio.Runner:
        if self._runner is None:
            if asyncio._get_running_loop() is not None:
                raise EventLoopError(_LOOP_RUNS)
            self._runner = asyncio.Runner()
        return self._runner

    def close(self) -> None:
        """Stops what goes on, and waits until it has ended."""
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
        return repr(self._stream).replace(type(self._stream).__name__, type(self).__name__, 1)


def over(*_: object) -> NoReturn:
    """Stands for the beginning of what is over."""
    raise ToolRelayError("the stream is over")


_OF_THIS_PROCESS = "a stream is a run of this process: keep what came of it instead"
_LOOP_RUNS = "an event loop runs in this thread: read the async twin there, not stream_sync() or translate_sync()"
