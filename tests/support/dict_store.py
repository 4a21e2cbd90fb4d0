"""A store of one's own, as a user would write it: dicts, and time that passes in every method."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from toolrelay import StoreConflict
from toolrelay.stores import Cursor, Lease, Order, StoredConversation, StoredRequest, Write


class DictStore:
    """`before` is called with the name of each method and its conversation; what it raises, the method raises."""

    def __init__(self) -> None:
        self.conversations: dict[str, StoredConversation] = {}
        self.requests: dict[tuple[str, str], StoredRequest] = {}
        self.commits: list[Write] = []
        self.before: Callable[[str, str], None] = lambda method, id: None
        self.after: Callable[[str, str], None] = lambda method, id: None

    async def load(self, id: str) -> StoredConversation | None:
        self.before("load", id)
        await asyncio.sleep(0)
        found = self.conversations.get(id)
        self.after("load", id)
        return found

    async def request(self, id: str, request_id: str) -> StoredRequest | None:
        self.before("request", id)
        await asyncio.sleep(0)
        return self.requests.get((id, request_id))

    async def commit(self, id: str, write: Write) -> None:
        self.before("commit", id)
        await asyncio.sleep(0)
        nothing = StoredConversation(0, 0, 0, "idle", None, (), ())
        before = self.conversations.get(id, nothing)
        if before.version != write.expect:
            raise StoreConflict(f"{id} is at {before.version}, not at {write.expect}")
        places = [place for place, _ in before.messages + write.append]
        if len(set(places)) < len(places):
            raise StoreConflict(f"{id}: a place is taken")
        requests = {request.id: request for request in (*before.requests, *write.requests)}
        self.conversations[id] = replace(
            before,
            version=write.version,
            written_at_ms=write.at_ms,
            epoch=write.epoch,
            state=write.state,
            lease=write.lease,
            messages=tuple(sorted(before.messages + write.append)),
            requests=tuple(sorted((row for row in requests.values() if not row.settled), key=_place)),
        )
        self.requests.update(((id, request.id), request) for request in write.requests)
        self.commits.append(write)
        self.after("commit", id)

    async def delete(self, id: str, expect: int) -> None:
        self.before("delete", id)
        await asyncio.sleep(0)
        found = self.conversations.get(id)
        if (0 if found is None else found.version) != expect:
            raise StoreConflict(f"{id} is not at {expect}")
        self.conversations.pop(id, None)
        self.requests = {key: request for key, request in self.requests.items() if key[0] != id}
        self.after("delete", id)

    async def leases(self, after: Cursor | None, limit: int) -> list[tuple[str, Lease]]:
        self.before("leases", "")
        await asyncio.sleep(0)
        leased = [(id, found.lease) for id, found in self.conversations.items() if found.lease is not None]
        return _page([(Cursor(lease.until_ms, id, ""), (id, lease)) for id, lease in leased], after, limit)

    async def open_requests(self, order: Order, after: Cursor | None, limit: int) -> list[tuple[str, StoredRequest]]:
        self.before("open_requests", "")
        await asyncio.sleep(0)
        placed = []
        for (id, _), request in self.requests.items():
            at_ms = request.made_at_ms if order == "age" else request.expires_at_ms
            if not request.settled and at_ms is not None:
                placed.append((Cursor(at_ms, id, request.id), (id, request)))
        return _page(placed, after, limit)


T = TypeVar("T")


def _place(row: StoredRequest) -> int:
    return row.slots[0].seq


def _page(placed: list[tuple[Cursor, T]], after: Cursor | None, limit: int) -> list[T]:
    placed.sort(key=lambda entry: _key(entry[0]))
    return [entry for cursor, entry in placed if after is None or _key(cursor) > _key(after)][:limit]


def _key(cursor: Cursor) -> tuple[int, bytes, bytes]:
    return cursor.at_ms, cursor.conversation.encode(), cursor.request.encode()
