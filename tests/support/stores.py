"""Stores as other processes would see them: several clients, each with its own store on the same conversations."""

from pathlib import Path
from typing import Any

from dict_store import DictStore
from harbour import HARBOUR
from places import new_place, open_store
from scripted_model import Said, ScriptedModel, client_for, says
from toolrelay import Client, InProcessToolCall, MemoryStore, PostgresStore, RedisStore, RunResult, SqliteStore
from toolrelay.stores import Store


class Shared:
    """One place for conversations: this process's memory, dicts, or a place that every client opens for itself."""

    def __init__(self, kind: str, folder: Path) -> None:
        self._one: Store | None = {"memory": MemoryStore, "own": DictStore}.get(kind, lambda: None)()
        self._place = new_place(kind, folder) if self._one is None else ""
        self._opened: list[SqliteStore | PostgresStore | RedisStore] = []

    def store(self) -> Store:
        if self._one is not None:
            return self._one
        self._opened.append(open_store(self._place))
        return self._opened[-1]

    def client(self, *replies: Said, **settings: Any) -> tuple[Client, ScriptedModel]:
        return client_for(*replies, store=self.store(), **settings)

    async def halt(self, *calls: InProcessToolCall, conversation: str = "c-1") -> RunResult:
        """Begins a conversation that waits for some of these calls."""
        client, _ = self.client(says(*calls))
        halted = await client.ask("go", HARBOUR, id=conversation)
        assert halted.status == "pending"
        return halted

    async def close(self) -> None:
        for store in self._opened:
            await store.close()
