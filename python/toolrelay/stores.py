"""Where `ask` keeps conversations: `MemoryStore` in this process, `SqliteStore` in a file."""

from __future__ import annotations

from toolrelay._core import MemoryStore, SqliteStore

__all__ = ["MemoryStore", "SqliteStore"]
