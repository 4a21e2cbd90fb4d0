"""A scripted conversation over a store, and stores as workers in trouble see them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from toolrelay._create import create_in_process_client
from toolrelay.client import Client
from toolrelay.inprocess import InProcessRequest, InProcessResponse, InProcessToolCall
from toolrelay.relay import Answer, Request, answer_output
from toolrelay.stores import Cursor, Lease, Order, Store, StoredConversation, StoredRequest, Write
from toolrelay.toolkit import Toolkit
from toolrelay.tools import Tool, ToolContext, define_tool, pending, relay_tool

Note = Callable[[str], None]


def toolkit(note: Note = lambda what: None, expires_at: datetime | None = None) -> Toolkit:
    """`click` is the host's; `tally` runs here; `pay` asks first. What runs is noted."""

    def tally(arguments: dict[str, Any], context: ToolContext) -> str:
        note(f"tally {context.call_id}")
        return "counted"

    def pay(arguments: dict[str, Any], context: ToolContext) -> Any:
        if context.answer is None:
            return pending("approval", "pay?", expires_at=expires_at)
        note(f"pay {context.call_id}")
        return "paid"

    tools: list[Tool] = [relay_tool("click", "Clicks.")]
    tools += [define_tool("tally", "Counts.", None, tally), define_tool("pay", "Pays.", None, pay)]
    return Toolkit(tools)


class Model:
    """Says the same in every life of a process: what it says follows from how far the conversation has come."""

    def __init__(self, *replies: Sequence[InProcessToolCall] | str) -> None:
        self.replies = replies
        self.calls = 0
        self.called = asyncio.Event()
        self.may_reply = asyncio.Event()
        self.may_reply.set()

    async def __call__(self, request: InProcessRequest) -> InProcessResponse | str:
        self.calls += 1
        self.called.set()
        await self.may_reply.wait()
        made = sum(message["role"] == "assistant" for message in request.messages)
        reply = self.replies[made] if made < len(self.replies) else "and so on"
        return reply if isinstance(reply, str) else InProcessResponse("", list(reply))

    def client(self, store: Store, lease: float = 30.0) -> Client:
        """A worker of its own on the store."""
        return create_in_process_client(generate=self, store=store, lease=lease)


CLICK = InProcessToolCall("click", id="k1")
TALLY = InProcessToolCall("tally", id="k2")
PAY = InProcessToolCall("pay", id="k3")


def clicked(request: Request, output: str = "clicked") -> Answer:
    """The host's answer to `click`."""
    return answer_output(request.id, output)


class Over:
    """A store over another one."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner

    async def load(self, id: str, /) -> StoredConversation | None:
        """Delegates."""
        return await self.inner.load(id)

    async def request(self, id: str, request_id: str, /) -> StoredRequest | None:
        """Delegates."""
        return await self.inner.request(id, request_id)

    async def commit(self, id: str, write: Write, /) -> None:
        """Delegates."""
        await self.inner.commit(id, write)

    async def delete(self, id: str, expect: int, /) -> None:
        """Delegates."""
        await self.inner.delete(id, expect)

    async def leases(self, after: Cursor | None, limit: int, /) -> Sequence[tuple[str, Lease]]:
        """Delegates."""
        return await self.inner.leases(after, limit)

    async def open_requests(
        self, order: Order, after: Cursor | None, limit: int, /
    ) -> Sequence[tuple[str, StoredRequest]]:
        """Delegates."""
        return await self.inner.open_requests(order, after, limit)


class Ahead(Over):
    """The store as a worker sees it whose clock is ahead of the others' by so many milliseconds, or behind."""

    def __init__(self, inner: Store, by_ms: int) -> None:
        super().__init__(inner)
        self.by_ms = by_ms

    async def load(self, id: str, /) -> StoredConversation | None:
        """What others take to be later is earlier here."""
        found = await self.inner.load(id)
        return None if found is None else replace(found, lease=self._moved(found.lease, -self.by_ms))

    async def commit(self, id: str, write: Write, /) -> None:
        """What is now here is later for others."""
        await self.inner.commit(id, replace(write, lease=self._moved(write.lease, self.by_ms)))

    @staticmethod
    def _moved(lease: Lease | None, by_ms: int) -> Lease | None:
        return None if lease is None else replace(lease, until_ms=lease.until_ms + by_ms)


def late(store: Store) -> Store:
    """The store as a worker sees it that comes when every lease is over."""
    return Ahead(store, 24 * 3_600_000)


async def gathered(*work: Awaitable[Any]) -> list[Any]:
    """What each gave or raised."""
    return await asyncio.gather(*work, return_exceptions=True)
