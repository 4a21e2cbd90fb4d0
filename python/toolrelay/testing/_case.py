"""One case, and what the cases share: stores on one place, values to write, checks that say what they found."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from toolrelay.errors import ToolRelayError
from toolrelay.stores import Slot, Store, StoredRequest, Write

OpenStore = Callable[[], Store | Awaitable[Store]]
"""Opens the same place anew each time, empty at first, as another process would. It is called while a loop runs."""

T = TypeVar("T")
E = TypeVar("E", bound=ToolRelayError)


class Place:
    """Where one case keeps its conversations."""

    def __init__(self, open_store: OpenStore) -> None:
        self.open_store = open_store
        self._opened: list[Store] = []

    async def store(self) -> Store:
        """One more store on the place."""
        opened = self.open_store()
        store = await opened if inspect.isawaitable(opened) else opened
        self._opened.append(store)
        return store

    async def close(self) -> None:
        """Closes what was opened, as far as it can be closed."""
        for store in {id(store): store for store in self._opened}.values():
            close = getattr(store, "aclose", None) or getattr(store, "close", None)
            closed = close() if callable(close) else None
            if inspect.isawaitable(closed):
                await closed


Check = Callable[[Place], Coroutine[Any, Any, None]]


class StoreCase:
    """A promise that a store makes. Called with a way to open the store, it checks that the promise is kept.

    It runs on a loop of its own, and raises an `AssertionError` that says what was found. Stores that it opened are
    closed again if they have a method `aclose` or `close`.
    """

    def __init__(self, check: Check) -> None:
        self.name: str = check.__name__
        self.promise: str = inspect.getdoc(check) or ""
        self._check = check

    def __call__(self, open_store: OpenStore) -> None:
        """Checks the promise on the place that `open_store` opens, which must be empty."""
        asyncio.run(self.run(open_store))

    async def run(self, open_store: OpenStore) -> None:
        """The same, on the running loop."""
        place = Place(open_store)
        try:
            await self._check(place)
        finally:
            await place.close()

    def __repr__(self) -> str:
        return f"<StoreCase {self.name}>"

    def __str__(self) -> str:
        return self.name


def same(found: object, expected: object, about: str) -> None:
    """That these are equal."""
    if found != expected:
        raise AssertionError(f"{about}: found {_short(found)}, expected {_short(expected)}")


def sure(holds: object, about: str) -> None:
    """That this is so."""
    if not holds:
        raise AssertionError(about)


async def refused(work: Awaitable[Any], kind: type[E], about: str) -> E:
    """That it raises an error of this kind."""
    try:
        given = await work
    except kind as error:
        return error
    raise AssertionError(f"{about}: {_short(given)} was given, and {kind.__name__} is to be raised")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text)} characters)"


def touch(expect: int) -> Write:
    """A write that only moves the version on."""
    return Write(expect, expect + 1, 0, "idle", 0, None, (), ())


def append(expect: int, *messages: tuple[int, bytes]) -> Write:
    """A write that adds messages."""
    return Write(expect, expect + 1, 0, "idle", 0, None, messages, ())


def asking(expect: int, *requests: StoredRequest) -> Write:
    """A write that leaves requests."""
    return Write(expect, expect + 1, 0, "pending", 0, None, (), requests)


def asked(id: str, seq: int, made_at_ms: int = 0, expires_at_ms: int | None = None) -> StoredRequest:
    """A request that one call waits for."""
    body = b'{"id":"%s"}' % id.encode()
    return StoredRequest(id, (Slot(seq, f"call_{seq}"),), body, made_at_ms, expires_at_ms, False, (), None)


async def version_of(store: Store, id: str) -> int:
    """The version of a conversation, 0 if there is none."""
    found = await store.load(id)
    return 0 if found is None else found.version


async def known(store: Store, id: str, about: str) -> Any:
    """A conversation that must be there."""
    found = await store.load(id)
    if found is None:
        raise AssertionError(f"{about}: the conversation {id!r} is not there")
    return found


_LONGEST = 2_000
