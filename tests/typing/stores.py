"""What a type checker makes of stores. Checked, and run as a program."""

import asyncio
from collections.abc import Sequence
from typing import assert_type

from toolrelay import Client, MemoryStore, PostgresStore, RedisStore, SqliteStore, Toolkit, create_in_process_client
from toolrelay.dbos import DbosStore
from toolrelay.stores import Cursor, Lease, Order, Store, StoredConversation, StoredRequest, Write


class Own:
    """A store of one's own, with coroutine functions."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner

    async def load(self, id: str) -> StoredConversation | None:
        """Delegates."""
        return await self.inner.load(id)

    async def request(self, id: str, request_id: str) -> StoredRequest | None:
        """Delegates."""
        return await self.inner.request(id, request_id)

    async def commit(self, id: str, write: Write) -> None:
        """Delegates."""
        await self.inner.commit(id, write)

    async def delete(self, id: str, expect: int) -> None:
        """Delegates."""
        await self.inner.delete(id, expect)

    async def leases(self, after: Cursor | None, limit: int) -> Sequence[tuple[str, Lease]]:
        """Delegates."""
        return await self.inner.leases(after, limit)

    async def open_requests(
        self, order: Order, after: Cursor | None, limit: int
    ) -> Sequence[tuple[str, StoredRequest]]:
        """Delegates."""
        return await self.inner.open_requests(order, after, limit)


def all_kinds(path: str) -> list[Store]:
    """Each is one, for a type checker."""
    postgres = PostgresStore("postgresql://localhost/db", schema="relay", connections=2)
    redis = RedisStore("redis://localhost", prefix="relay", connections=2)
    beside_dbos = DbosStore(f"sqlite:///{path}", queue="slow")
    return [MemoryStore(), SqliteStore(path), postgres, redis, beside_dbos, Own(MemoryStore())]


def work(store: DbosStore, client: Client, toolkit: Toolkit) -> None:
    """What a worker does before DBOS is launched."""
    store.register(client, toolkit)


async def look(store: Store) -> None:
    """The values of a store."""
    write = Write(0, 1, 0, "idle", 1, Lease("worker", 1, 0), ((0, b"{}"),), ())
    await store.commit("c-1", write)
    found = await store.load("c-1")
    assert_type(found, StoredConversation | None)
    if found is not None:
        assert_type(found.messages, tuple[tuple[int, bytes], ...])
        assert_type(found.lease, Lease | None)
    assert_type(await store.request("c-1", "req_1"), StoredRequest | None)
    assert_type(await store.leases(None, 10), Sequence[tuple[str, Lease]])
    after = Cursor(0, "c-1", "")
    assert_type(await store.open_requests("age", after, 10), Sequence[tuple[str, StoredRequest]])
    await store.delete("c-1", 1)


client = create_in_process_client(generate=lambda request: "hello", store=Own(MemoryStore()))
assert_type(client, Client)
asyncio.run(look(Own(MemoryStore())))
assert len(all_kinds("none.db")) == 6
