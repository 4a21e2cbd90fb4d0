"""Looking after conversations that nobody asks for: what dead workers left, what nobody answered in time, and the marks
of sealed halts that have ended.

This module owns the order and the number of attempts. Which conversation is due, and what happens to it, is the native
module's.
"""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from toolrelay._end import end_of
from toolrelay._start import Start
from toolrelay.conversations import Swept
from toolrelay.errors import ConversationBusy, ConversationNotFound, LeaseLost, NothingToRecover

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Self

    from toolrelay._core import NativeClient, NativeToolkit
    from toolrelay.stores import Cursor

    Due = Literal["expired", "abandoned", "spent"]


class Sweep:
    """One look over the store; what it does is added to `swept`."""

    def __init__(self, native: NativeClient, toolkit: NativeToolkit | None, limit: int, at_once: int) -> None:
        self.swept = Swept()
        self._native = native
        self._toolkit = toolkit
        self._limit = limit
        self._room = asyncio.Semaphore(at_once)

    async def run(self) -> Swept:
        await self.settle()
        if self._toolkit is not None:
            await self._each("abandoned", self.recover)
        return self.swept

    async def settle(self) -> None:
        """All that needs no model."""
        await self._each("expired", self._expire)
        await self._each("spent", self._forget)

    async def _each(self, why: Due, treat: Callable[[str], Coroutine[Any, Any, bool]]) -> None:
        """Treats what is listed until so many were done. What fails, or others do, does not stand in the way."""
        left, after, seen = self._limit, None, set[str]()
        while left > 0:
            ids, after = await self._native.due(copy_context(), why, after, _PAGE)
            fresh = [id for id in dict.fromkeys(ids) if id not in seen]
            seen.update(fresh)
            while fresh and left > 0:
                some, fresh = fresh[:left], fresh[left:]
                left -= sum(await asyncio.gather(*(self._in_room(treat, id) for id in some)))
            if after is None:
                return

    async def _in_room(self, treat: Callable[[str], Coroutine[Any, Any, bool]], id: str) -> bool:
        async with self._room:
            return await treat(id)

    async def _expire(self, id: str) -> bool:
        try:
            settled = await self._native.expire(copy_context(), id)
        except Exception as error:  # noqa: BLE001 - it is this conversation's trouble, and told
            self.swept.failed[id] = error
            return False
        if settled:
            self.swept.expired.append(id)
        return settled

    async def _forget(self, id: str) -> bool:
        try:
            return await self._native.delete(copy_context(), id)
        except Exception as error:  # noqa: BLE001 - as above
            self.swept.failed[id] = error
            return False

    async def recover(self, id: str) -> bool:
        """Goes on with what a dead worker left; whether this came to an end here."""
        if self._toolkit is None:
            return False
        try:
            begin = partial(self._native.recover, self._toolkit, copy_context(), id)
            result = await end_of(Start(begin, None, id))
        except (ConversationBusy, ConversationNotFound, LeaseLost, NothingToRecover):
            return False  # somebody else looks after it
        except Exception as error:  # noqa: BLE001 - it is this conversation's trouble, and told
            self.swept.failed[id] = error
            return False
        self.swept.recovered[id] = result
        return True


class Sweeper:
    """Sweeps again and again: as an async context manager beside a program, or with `run` as a task of its own.

    What it does it tells the logger `toolrelay.sweep`. At the end the runs that it recovers are stopped and saved.
    """

    def __init__(self, native: NativeClient, toolkit: NativeToolkit | None, every: float, at_once: int) -> None:
        self._native = native
        self._toolkit = toolkit
        self._every = every
        self._at_once = at_once
        self._task: asyncio.Task[None] | None = None
        self._recovering: dict[str, asyncio.Task[None]] = {}

    def __repr__(self) -> str:
        return f"<Sweeper every {self._every:g} s, {len(self._recovering)} of {self._at_once} runs at work>"

    async def run(self) -> None:
        """Sweeps until it is cancelled."""
        try:
            while True:
                await self._sweep()
                await asyncio.sleep(self._every)
        finally:
            for task in self._recovering.values():
                task.cancel()
            await asyncio.gather(*self._recovering.values(), return_exceptions=True)

    async def _sweep(self) -> None:
        sweep = Sweep(self._native, None, _MOST, self._at_once)
        try:
            await sweep.settle()
            await self._recover()
        except Exception as error:  # noqa: BLE001 - a store that is away may be back the next time
            _log().warning("the sweep failed: %s", error)
        _tell(sweep.swept)

    async def _recover(self) -> None:
        """Starts what there is room for. A run that lasts does not hold up the next sweep."""
        after: Cursor | None = None
        while self._toolkit is not None and len(self._recovering) < self._at_once:
            ids, after = await self._native.due(copy_context(), "abandoned", after, _PAGE)
            for id in ids:
                if id not in self._recovering and len(self._recovering) < self._at_once:
                    self._recovering[id] = asyncio.create_task(self._recover_one(id))
            if after is None:
                return

    async def _recover_one(self, id: str) -> None:
        sweep = Sweep(self._native, self._toolkit, 1, 1)
        try:
            await sweep.recover(id)
        finally:
            del self._recovering[id]
        _tell(sweep.swept)

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self.run())
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


def _tell(swept: Swept) -> None:
    for id, result in swept.recovered.items():
        _log().info("recovered %s: %s", id, result.status)
    for id in swept.expired:
        _log().info("settled what expired in %s", id)
    for id, error in swept.failed.items():
        _log().warning("could not look after %s: %s: %s", id, type(error).__name__, error)


def _log() -> Any:
    from logging import getLogger

    return getLogger("toolrelay.sweep")


_PAGE = 100
_MOST = 2**31
