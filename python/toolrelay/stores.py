"""Where `ask` keeps conversations: in this process, in a file, on a server, or in a store of one's own (contract 7.10).

A store is any object with the methods of `Store`, which the stores here have too, so that one can be wrapped. A store
decides nothing: who may answer, what a late answer is told and when a lease is stale is worked out above it. All values
here are plain: texts, whole numbers, and JSON as UTF-8 bytes, which a store keeps byte for byte and does not look into.
(A text column takes `body.decode()` and gives back `text.encode()`.) `toolrelay.testing` has a suite for stores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from toolrelay._core import MemoryStore, PostgresStore, RedisStore, SqliteStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

__all__ = [
    "Cursor",
    "Lease",
    "MemoryStore",
    "Order",
    "PostgresStore",
    "RedisStore",
    "Slot",
    "SqliteStore",
    "State",
    "Store",
    "StoredConversation",
    "StoredRequest",
    "Write",
]

State = Literal["idle", "running", "pending"]
"""`idle`: a prompt may start a run. `running`: a worker has it, under the lease. `pending`: it waits for answers."""

Order = Literal["age", "expiry"]
"""`age`: by when requests were made. `expiry`: by when they expire; those that never do are left out."""


@dataclass(frozen=True, slots=True)
class Lease:
    """Who works on a conversation, since which epoch, and until when (milliseconds since 1970) that may be believed."""

    owner: str
    epoch: int
    until_ms: int


@dataclass(frozen=True, slots=True)
class Slot:
    """The place that the result of a parked call will take among the messages, and the call's id."""

    seq: int
    call: str


@dataclass(frozen=True, slots=True)
class StoredRequest:
    """A request that parked calls wait for, or waited for. Its id is unique within its conversation.

    `body` is the request as JSON, made at `made_at_ms` (milliseconds since 1970); `answers` are those that were taken,
    as JSON, in the order of their arrival; `outcome` is what came of them, as JSON. `settled`: no call waits for it any
    more.
    """

    id: str
    slots: tuple[Slot, ...]
    body: bytes
    made_at_ms: int
    expires_at_ms: int | None
    settled: bool
    answers: tuple[bytes, ...]
    outcome: bytes | None


@dataclass(frozen=True, slots=True)
class StoredConversation:
    """A conversation at one instant.

    `messages` are `(place, JSON)` in ascending order; there may be gaps, for the result of a parked call is absent
    until it is settled. `requests` are the unsettled ones, by the place of their first slot. `version` is what the last
    commit made it, at `written_at_ms`.
    """

    version: int
    written_at_ms: int
    epoch: int
    state: State
    lease: Lease | None
    messages: tuple[tuple[int, bytes], ...]
    requests: tuple[StoredRequest, ...]


@dataclass(frozen=True, slots=True)
class Write:
    """One change of a conversation, applied as a whole or not at all.

    `expect` is the version that the conversation must have; 0 means that it must not exist yet. `version` is the one
    that it gets: one more, or for a new conversation a random number of 48 bits, so that whoever still works on a
    deleted conversation never meets the version that it expects. The write was made at `at_ms`. `state`, `epoch` and
    `lease` become the conversation's; the messages of `append` are added, and each of `requests` is added or takes the
    place of the one with its id.
    """

    expect: int
    version: int
    at_ms: int
    state: State
    epoch: int
    lease: Lease | None
    append: tuple[tuple[int, bytes], ...]
    requests: tuple[StoredRequest, ...]


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where an entry of a listing stands. Listings are in this order: by time, then by the bytes (UTF-8) of the ids.

    `at_ms` is the time that the entry is listed by; `request` is empty in a listing of leases.
    """

    at_ms: int
    conversation: str
    request: str


class Store(Protocol):
    """Where conversations are kept. The methods are coroutine functions, or return some other awaitable.

    - **All or nothing.** A refused write or deletion changes nothing; one whose task is cancelled is applied whole or
      not at all.
    - **Durable before it is told.** When `commit` returns, the write survives the end of the process.
    - **A snapshot.** What one `load` returns was true at one instant.

    The methods run on the caller's event loop, as tasks with its context variables.

    A `StoreError` that a method raises reaches the caller as it is, and any other exception as the cause of a
    `StoreUnavailable`. After a `commit` that failed as unavailable or locked nobody knows whether it was applied: the
    conversation is loaded again, and where its version says that it was not, the commit is tried anew, twice at most.

    >>> import asyncio
    >>> from toolrelay import Toolkit, create_in_process_client
    >>> from toolrelay.stores import MemoryStore
    >>> class Watched:
    ...     inner = MemoryStore()
    ...     async def load(self, id):
    ...         return await self.inner.load(id)
    ...     async def request(self, id, request_id):
    ...         return await self.inner.request(id, request_id)
    ...     async def commit(self, id, write):
    ...         print(write.state, [place for place, _ in write.append])
    ...         return await self.inner.commit(id, write)
    ...     async def delete(self, id, expect):
    ...         return await self.inner.delete(id, expect)
    ...     async def leases(self, after, limit):
    ...         return await self.inner.leases(after, limit)
    ...     async def open_requests(self, order, after, limit):
    ...         return await self.inner.open_requests(order, after, limit)
    >>> client = create_in_process_client(generate=lambda request: "hello", store=Watched())
    >>> asyncio.run(client.ask("hi", Toolkit(), id="c-1")).text
    running [0]
    idle [1]
    'hello'
    """

    def load(self, id: str, /) -> Awaitable[StoredConversation | None]:
        """The conversation as it stands; None when there is none of that id."""
        ...

    def request(self, id: str, request_id: str, /) -> Awaitable[StoredRequest | None]:
        """One request of a conversation, settled or not; None when there is none of that id."""
        ...

    def commit(self, id: str, write: Write, /) -> Awaitable[None]:
        """Applies a write if the conversation is at the version that it expects.

        Raises `StoreConflict` when it is at another, or when a place in `append` is taken. Of all writers that expect
        one version exactly one wins.
        """
        ...

    def delete(self, id: str, expect: int, /) -> Awaitable[None]:
        """Takes the conversation away, with its messages and requests; after it the id is as if never used.

        Raises `StoreConflict` when the conversation is not at version `expect` (0: there is none).
        """
        ...

    def leases(self, after: Cursor | None, limit: int, /) -> Awaitable[Sequence[tuple[str, Lease]]]:
        """The conversations that have a lease, by when it ends: up to `limit`, those behind `after`."""
        ...

    def open_requests(
        self, order: Order, after: Cursor | None, limit: int, /
    ) -> Awaitable[Sequence[tuple[str, StoredRequest]]]:
        """The unsettled requests of all conversations, with the conversations' ids: up to `limit`, behind `after`.

        Keep an index for each order: the number of conversations that wait should not matter.
        """
        ...
