"""A store of one's own, as a user would write it: dicts, and time that passes in every method."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from toolrelay import StoreConflict
from toolrelay.stores import StoredConversation, StoredRequest, Write


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

    async def commit(self, id: str, write: Write) -> int:
        self.before("commit", id)
        await asyncio.sleep(0)
        nothing = StoredConversation(0, 0, "idle", None, (), ())
        before = self.conversations.get(id, nothing)
        if before.version != write.expect:
            raise StoreConflict(f"{id} is at {before.version}, not at {write.expect}")
        places = [place for place, _ in before.messages + write.append]
        if len(set(places)) < len(places):
            raise StoreConflict(f"{id}: a place is taken")
        requests = {request.id: request for request in (*before.requests, *write.requests)}
        self.conversations[id] = replace(
            before,
            version=write.expect + 1,
            epoch=write.epoch,
            state=write.state,
            lease=write.lease,
            messages=tuple(sorted(before.messages + write.append)),
            requests=tuple(request for request in requests.values() if not request.settled),
        )
        self.requests.update(((id, request.id), request) for request in write.requests)
        self.commits.append(write)
        self.after("commit", id)
        return write.expect + 1
