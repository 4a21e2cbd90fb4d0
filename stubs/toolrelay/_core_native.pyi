"""The typed face of the native module: its stores, and what the package alone uses."""

from asyncio import Future, Task
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, final

from toolrelay._core import Conversation, RunResult, SealKeys, Transcript
from toolrelay.events import Event
from toolrelay.relay import Request
from toolrelay.stores import Cursor, Lease, Order, StoredConversation, StoredRequest, Write
from toolrelay.tools import Tool
from typing_extensions import disjoint_base

@disjoint_base
class NativeStore:
    """What the stores of the package have in common: the methods of `toolrelay.stores.Store`."""

    def load(self, id: str, /) -> Future[StoredConversation | None]: ...
    def request(self, id: str, request_id: str, /) -> Future[StoredRequest | None]: ...
    def commit(self, id: str, write: Write, /) -> Future[None]: ...
    def delete(self, id: str, expect: int, /) -> Future[None]: ...
    def leases(self, after: Cursor | None, limit: int, /) -> Future[tuple[tuple[str, Lease], ...]]: ...
    def open_requests(
        self, order: Order, after: Cursor | None, limit: int, /
    ) -> Future[tuple[tuple[str, StoredRequest], ...]]: ...
    def close(self) -> Future[None]:
        """Finishes what is under way and lets go of its file or connections; the store is not used again.

        A store in memory has nothing to let go of, and is used on.
        """

    def close_sync(self) -> None:
        """`close`, for programs without an event loop."""

@final
class MemoryStore(NativeStore):
    """Conversations in this process's memory: the default store of a client. See `toolrelay.stores.Store`."""

    def __new__(cls) -> Self: ...

@final
class SqliteStore(NativeStore):
    """Conversations in one SQLite file, durable and shared by any number of processes of one machine.

    The file is opened at first use and made if it is missing. Do not open it with another SQLite library in the same
    process while it is in use: two libraries in one process break each other's file locks.
    """

    def __new__(cls, path: str | PathLike[str]) -> Self: ...
    @property
    def path(self) -> Path:
        """The file."""

@final
class PostgresStore(NativeStore):
    """Conversations in a PostgreSQL database (13 or newer), for any number of processes and machines.

    `url` is `postgresql://user:password@host:port/database?sslmode=verify-full`. Where the tables are missing they are
    made, in the schema of that name. A process has at most so many connections. Nothing is connected before the first
    use; a forked process connects for itself.

    Raises `ConfigurationError` for a URL or a name that cannot be used.
    """

    def __new__(cls, url: str, *, schema: str | None = None, connections: int | None = None) -> Self:
        """The schema is `toolrelay` and there are up to 8 connections, unless told otherwise."""

@final
class RedisStore(NativeStore):
    """Conversations in Redis (5 or newer) or Valkey, one server or a cluster: as durable as the server is set up to be.

    `url` is `redis://user:password@host:port/0`, with `rediss://` for TLS. The names of all keys begin with `prefix`. A
    process has at most so many connections to a server. Nothing is connected before the first use; a forked process
    connects for itself.

    Raises `ConfigurationError` for a URL or a prefix that cannot be used.
    """

    def __new__(cls, url: str, *, prefix: str | None = None, connections: int | None = None) -> Self:
        """The prefix is `toolrelay` and there are up to 8 connections, unless told otherwise."""

@final
class NativeToolkit:
    BUILTIN_NAMES: ClassVar[list[str]]
    def __new__(cls, tools: Sequence[tuple[Tool, str]]) -> Self: ...

@final
class NativeClient:
    def __new__(
        cls,
        model: Mapping[str, Any] | Callable[[Any], Any],
        *,
        system_prompt: str | None,
        max_turns: int,
        timeout: float | None,
        lease: float,
        owner: str,
        wait_for: Callable[[Any], Any] | None,
        requests_expire_after: float | None,
        store: Any,
    ) -> Self: ...
    def prompt(
        self,
        toolkit: NativeToolkit,
        context: Context,
        history: Transcript | bytes | None,
        conversation: str | None,
        prompt: str | None,
        supersede: bool,
        in_turn: bool,
        is_watched: bool,
    ) -> Segment: ...
    def answer(
        self,
        toolkit: NativeToolkit,
        context: Context,
        history: Transcript | bytes | None,
        conversation: str | None,
        pending: bytes | None,
        answer: bytes,
        wait: bool,
        is_watched: bool,
    ) -> Segment: ...
    def answer_sealed(
        self,
        toolkit: NativeToolkit,
        context: Context,
        token: str,
        keys: SealKeys,
        audience: str | None,
        answer: bytes,
        wait: bool,
        once: bool,
        is_watched: bool,
    ) -> Segment: ...
    def submit(
        self, toolkit: NativeToolkit, context: Context, conversation: str, prompt: str | None, supersede: bool
    ) -> Future[bool]: ...
    def submit_answer(
        self,
        toolkit: NativeToolkit,
        context: Context,
        conversation: str,
        pending: bytes | None,
        answer: bytes,
        wait: bool,
    ) -> Future[bool]: ...
    def recover(self, toolkit: NativeToolkit, context: Context, conversation: str, is_watched: bool) -> Segment: ...
    def get(self, context: Context, id: str) -> Future[Conversation | None]: ...
    def cancel(self, context: Context, id: str) -> Future[Conversation]: ...
    def delete(self, context: Context, id: str) -> Future[bool]: ...
    def fork(self, context: Context, id: str, new_id: str) -> Future[Conversation]: ...
    def restore(self, context: Context, id: str, messages: Transcript | bytes) -> Future[Conversation]: ...
    def expire(self, context: Context, id: str) -> Future[bool]: ...
    def due(
        self, context: Context, why: Literal["expired", "abandoned", "spent"], after: Cursor | None, limit: int
    ) -> Future[tuple[list[str], Cursor | None]]: ...
    def waiting(
        self, context: Context, order: Order, after: Cursor | None, limit: int
    ) -> Future[tuple[list[tuple[str, Request, int]], Cursor | None]]: ...

@final
class Segment:
    def future(self) -> Future[RunResult]: ...
    def next(self) -> list[Event] | Future[list[Event]] | None: ...
    def stop(self) -> None: ...
    def ended(self) -> Future[RunResult] | None: ...
    def given_up(self) -> list[Task[None]]: ...

@final
class Translation:
    def future(self) -> Future[dict[str, Any]]: ...
    def next(self) -> list[dict[str, Any]] | Future[list[dict[str, Any]]] | None: ...
    def stop(self) -> None: ...
    def ended(self) -> Future[dict[str, Any] | None] | None: ...
    def given_up(self) -> list[Task[None]]: ...

@final
class Reply:
    def give_up(self) -> None: ...
    def finish(self, text: str, parts: str | None, is_error: bool) -> None: ...
    def park(self, parked: bytes) -> None: ...
    def answer(self, answer: bytes) -> None: ...
    def not_here(self) -> None: ...
    def ask_failed(self, error: BaseException) -> None: ...
    def model(self, reply: bytes) -> None: ...
    def spoken(self, speech: Speech) -> None: ...
    def model_failed(self, error: BaseException, message: str, speech: Speech) -> None: ...
    def kept(self, method: str, given: object) -> None: ...
    def store_failed(self, error: BaseException) -> None: ...

@final
class Speech:
    def text(self, text: str) -> Future[None] | None: ...
    def reasoning(self, text: str) -> Future[None] | None: ...
    def part(self, part: bytes) -> Future[None] | None: ...
    def chunk(self, json: bytes) -> Future[None] | None: ...
