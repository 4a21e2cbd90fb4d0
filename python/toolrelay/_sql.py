"""A store in a database that SQLAlchemy reaches, where a commit can carry statements of somebody else.

It owns its tables and decides nothing; what else belongs into the transaction of a commit is its subclass's.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, OperationalError

from toolrelay.errors import (
    ConfigurationError,
    StoreConflict,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreLocked,
    StoreReadOnly,
    StoreSchemaError,
    StoreUnavailable,
)
from toolrelay.stores import Cursor, Lease, Order, Slot, StoredConversation, StoredRequest, Write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")


class SqlStore:
    """Conversations in a SQLite or PostgreSQL database; see `toolrelay.stores.Store` for the methods.

    `_beside` is called with the connection of each commit, inside its transaction, behind the store's own statements.
    """

    def __init__(self, url: str) -> None:
        # What is stored is not for the texts of errors.
        self._engine = sa.create_engine(_with_driver(url), pool_pre_ping=True, hide_parameters=True)
        # Not those of the loop, which DBOS replaces and takes along when it ends.
        self._threads = ThreadPoolExecutor(_THREADS, "toolrelay-sql")
        self._process = 0
        self._prepared = False
        self._preparing = threading.Lock()
        if self._engine.dialect.name == "sqlite":
            # The driver begins transactions when it sees fit; a snapshot begins with its first read.
            event.listen(self._engine, "connect", _connected)
            event.listen(self._engine, "begin", _begin)

    async def load(self, id: str, /) -> StoredConversation | None:
        """The conversation as it stands; None when there is none of that id."""
        return await self._reading(lambda connection: _load(connection, id))

    async def request(self, id: str, request_id: str, /) -> StoredRequest | None:
        """One request of a conversation, settled or not; None when there is none of that id."""
        found = _REQUESTS.select().where(_REQUESTS.c.conversation == id, _REQUESTS.c.id == request_id)

        def read(connection: sa.Connection) -> StoredRequest | None:
            row = connection.execute(found).one_or_none()
            return None if row is None else _request(row)

        return await self._reading(read)

    async def commit(self, id: str, write: Write, /) -> None:
        """Applies a write if the conversation is at the version that it expects."""
        await self._writing(lambda connection: self._commit(connection, id, write))

    async def delete(self, id: str, expect: int, /) -> None:
        """Takes the conversation away, with its messages and requests."""

        def take(connection: sa.Connection) -> None:
            there = _CONVERSATIONS.c.id == id
            gone = connection.execute(_CONVERSATIONS.delete().where(there, _CONVERSATIONS.c.version == expect))
            if gone.rowcount != 1 and (expect or _version(connection, id)):
                raise StoreConflict(f"{id!r} is at version {_version(connection, id)}, not at {expect}")
            connection.execute(_MESSAGES.delete().where(_MESSAGES.c.conversation == id))
            connection.execute(_REQUESTS.delete().where(_REQUESTS.c.conversation == id))

        await self._writing(take)

    async def leases(self, after: Cursor | None, limit: int, /) -> list[tuple[str, Lease]]:
        """The conversations that have a lease, by when it ends."""
        columns = _CONVERSATIONS.c
        place = (columns.lease_until_ms, columns.id)
        found = _CONVERSATIONS.select().where(_IS_LEASED).order_by(*place).limit(limit)
        if after is not None:
            found = found.where(sa.tuple_(*place) > sa.tuple_(after.at_ms, after.conversation))
        rows = await self._reading(lambda connection: connection.execute(found).all())
        return [(row.id, Lease(row.lease_owner, row.lease_epoch, row.lease_until_ms)) for row in rows]

    async def open_requests(self, order: Order, after: Cursor | None, limit: int, /) -> list[tuple[str, StoredRequest]]:
        """The unsettled requests of all conversations, with the conversations' ids."""
        columns = _REQUESTS.c
        place = (columns.made_at_ms if order == "age" else columns.expires_at_ms, columns.conversation, columns.id)
        found = _REQUESTS.select().where(_IS_OPEN, place[0].is_not(None))
        if after is not None:
            found = found.where(sa.tuple_(*place) > sa.tuple_(after.at_ms, after.conversation, after.request))
        found = found.order_by(*place).limit(limit)
        rows = await self._reading(lambda connection: connection.execute(found).all())
        return [(row.conversation, _request(row)) for row in rows]

    async def close(self) -> None:
        """Finishes what is under way and gives the connections up; the store is not used again."""
        with ThreadPoolExecutor(1, "toolrelay-sql") as thread:
            await asyncio.get_running_loop().run_in_executor(thread, self.close_sync)

    def close_sync(self) -> None:
        """`close`, for programs without an event loop."""
        self._threads.shutdown()
        self._engine.dispose()

    def __repr__(self) -> str:
        url = self._engine.url
        shown = sa.URL.create(url.get_backend_name(), host=url.host, port=url.port, database=url.database)
        return f"<{type(self).__name__} {shown}>"

    def _beside(self, connection: sa.Connection, id: str, write: Write) -> None:
        """What else belongs into the transaction of a commit."""
        raise NotImplementedError

    async def _reading(self, work: Callable[[sa.Connection], T]) -> T:
        return await self._in_thread(lambda: self._read(work))

    async def _writing(self, work: Callable[[sa.Connection], None]) -> None:
        await self._in_thread(lambda: self._write(work))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        self._process = self._process or os.getpid()
        if self._process != os.getpid():
            # Its threads are not here, and SQLite's connections must not be.
            raise StoreUnavailable("the store was used before this process was forked: make one that is its own")
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _read(self, work: Callable[[sa.Connection], T]) -> T:
        """One snapshot."""
        with _typed(self):
            self._prepare()
            with self._engine.connect() as connection:
                if self._engine.dialect.name == "postgresql":
                    connection.execution_options(isolation_level="REPEATABLE READ")
                else:
                    connection.execution_options(toolrelay_reads=True)
                return work(connection)

    def _write(self, work: Callable[[sa.Connection], None]) -> None:
        with _typed(self):
            self._prepare()
            with self._engine.begin() as connection:
                work(connection)

    def _prepare(self) -> None:
        """Makes the tables where they are missing, once per store."""
        with self._preparing:
            if self._prepared:
                return
            with self._engine.begin() as connection:
                if self._engine.dialect.name == "postgresql":
                    connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
                _TABLES.create_all(connection)
                schema = connection.scalar(sa.select(_SCHEMA.c.version))
                if schema is None:
                    connection.execute(_SCHEMA.insert().values(version=_VERSION))
                elif schema != _VERSION:
                    raise StoreSchemaError(
                        f"the tables toolrelay_* are of schema {schema}, and this toolrelay knows schema {_VERSION}: "
                        f"install a newer one"
                    )
            self._prepared = True

    def _commit(self, connection: sa.Connection, id: str, write: Write) -> None:
        lease = write.lease
        values: dict[str, Any] = {
            "version": write.version,
            "written_at_ms": write.at_ms,
            "epoch": write.epoch,
            "state": write.state,
            "lease_owner": lease and lease.owner,
            "lease_epoch": lease and lease.epoch,
            "lease_until_ms": lease and lease.until_ms,
        }
        try:
            if write.expect == 0:
                connection.execute(_CONVERSATIONS.insert().values(id=id, **values))
            else:
                there = (_CONVERSATIONS.c.id == id, _CONVERSATIONS.c.version == write.expect)
                if connection.execute(_CONVERSATIONS.update().where(*there).values(values)).rowcount != 1:
                    raise StoreConflict(f"{id!r} is at version {_version(connection, id)}, not at {write.expect}")
            if write.append:
                rows = [{"conversation": id, "seq": seq, "body": body} for seq, body in write.append]
                connection.execute(_MESSAGES.insert(), rows)
        except IntegrityError:
            raise StoreConflict(f"{id!r} exists already, or a place among its messages is taken") from None
        for request in write.requests:
            connection.execute(_REQUESTS.delete().where(_REQUESTS.c.conversation == id, _REQUESTS.c.id == request.id))
            connection.execute(_REQUESTS.insert().values(conversation=id, **_row(request)))
        self._beside(connection, id, write)


def _with_driver(url: str) -> sa.URL:
    """With the drivers that come with DBOS, unless the URL names another."""
    try:
        parsed = sa.make_url(url)
    except ArgumentError:
        raise ConfigurationError("the URL of the database cannot be read") from None
    if parsed.drivername in ("postgresql", "postgres"):
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.get_backend_name() not in ("postgresql", "sqlite"):
        raise ConfigurationError(f"expected a URL of PostgreSQL or SQLite, not of {parsed.get_backend_name()}")
    return parsed


@contextmanager
def _typed(store: SqlStore) -> Iterator[None]:
    """What the database says in the words of the library, where it has one for it."""
    try:
        yield
    except DBAPIError as error:
        said = getattr(error.orig, "sqlite_errorname", None) or getattr(error.orig, "sqlstate", None) or ""
        for code, kind in _KINDS.items():
            if said.startswith(code):
                raise kind(f"the database says {said}") from error
        if isinstance(error, OperationalError):
            reason = str(error.orig).partition("\n")[0]
            raise StoreUnavailable(f"{store!r} cannot be used: {reason}") from error
        raise


def _load(connection: sa.Connection, id: str) -> StoredConversation | None:
    found = connection.execute(_CONVERSATIONS.select().where(_CONVERSATIONS.c.id == id)).one_or_none()
    if found is None:
        return None
    messages = sa.select(_MESSAGES.c.seq, _MESSAGES.c.body).where(_MESSAGES.c.conversation == id)
    messages = messages.order_by(_MESSAGES.c.seq)
    waiting = _REQUESTS.select().where(_REQUESTS.c.conversation == id, _IS_OPEN)
    requests = [_request(row) for row in connection.execute(waiting)]
    lease = None
    if found.lease_owner is not None:
        lease = Lease(found.lease_owner, found.lease_epoch, found.lease_until_ms)
    return StoredConversation(
        version=found.version,
        written_at_ms=found.written_at_ms,
        epoch=found.epoch,
        state=found.state,
        lease=lease,
        messages=tuple((seq, bytes(body)) for seq, body in connection.execute(messages)),
        requests=tuple(sorted(requests, key=lambda request: request.slots[0].seq if request.slots else -1)),
    )


def _version(connection: sa.Connection, id: str) -> int:
    found: int | None = connection.scalar(sa.select(_CONVERSATIONS.c.version).where(_CONVERSATIONS.c.id == id))
    return found or 0


def _request(row: Any) -> StoredRequest:
    return StoredRequest(
        id=row.id,
        slots=tuple(Slot(seq, call) for seq, call in json.loads(row.slots)),
        body=bytes(row.body),
        made_at_ms=row.made_at_ms,
        expires_at_ms=row.expires_at_ms,
        settled=row.settled,
        answers=tuple(base64.b64decode(answer) for answer in json.loads(row.answers)),
        outcome=None if row.outcome is None else bytes(row.outcome),
    )


def _row(request: StoredRequest) -> dict[str, Any]:
    return {
        "id": request.id,
        "slots": json.dumps([[slot.seq, slot.call] for slot in request.slots]),
        "body": request.body,
        "made_at_ms": request.made_at_ms,
        "expires_at_ms": request.expires_at_ms,
        "settled": request.settled,
        "answers": json.dumps([base64.b64encode(answer).decode() for answer in request.answers]),
        "outcome": request.outcome,
    }


def _connected(connection: Any, _record: Any) -> None:
    connection.isolation_level = None
    # Readers beside the writer, and a third of the syncs. While others are at work the file stays as it is.
    connection.execute("PRAGMA busy_timeout = 0")
    with suppress(sqlite3.OperationalError):
        connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA busy_timeout = {_PATIENCE_MS}")


def _begin(connection: sa.Connection) -> None:
    reads = connection.get_execution_options().get("toolrelay_reads")
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
"""Ordered by its bytes."""

_TABLES = sa.MetaData()
_SCHEMA = sa.Table("toolrelay_schema", _TABLES, sa.Column("version", sa.Integer, nullable=False))
_VERSION = 1
_CONVERSATIONS = sa.Table(
    "toolrelay_conversation",
    _TABLES,
    sa.Column("id", _TEXT, primary_key=True),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("written_at_ms", sa.BigInteger, nullable=False),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("lease_owner", sa.Text),
    sa.Column("lease_epoch", sa.BigInteger),
    sa.Column("lease_until_ms", sa.BigInteger),
)
_MESSAGES = sa.Table(
    "toolrelay_message",
    _TABLES,
    sa.Column("conversation", _TEXT, primary_key=True),
    sa.Column("seq", sa.BigInteger, primary_key=True),
    sa.Column("body", sa.LargeBinary, nullable=False),
)
_REQUESTS = sa.Table(
    "toolrelay_request",
    _TABLES,
    sa.Column("conversation", _TEXT, primary_key=True),
    sa.Column("id", _TEXT, primary_key=True),
    sa.Column("slots", sa.Text, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Column("made_at_ms", sa.BigInteger, nullable=False),
    sa.Column("expires_at_ms", sa.BigInteger),
    sa.Column("settled", sa.Boolean, nullable=False),
    sa.Column("answers", sa.Text, nullable=False),
    sa.Column("outcome", sa.LargeBinary),
)
# The indexes serve the questions that are asked in these very words.
_IS_LEASED = _CONVERSATIONS.c.lease_until_ms.is_not(None)
_IS_OPEN = sa.not_(_REQUESTS.c.settled)
for _name, _columns, _where in (
    ("toolrelay_conversation_lease", (_CONVERSATIONS.c.lease_until_ms, _CONVERSATIONS.c.id), _IS_LEASED),
    ("toolrelay_request_age", (_REQUESTS.c.made_at_ms, _REQUESTS.c.conversation, _REQUESTS.c.id), _IS_OPEN),
    ("toolrelay_request_expiry", (_REQUESTS.c.expires_at_ms, _REQUESTS.c.conversation, _REQUESTS.c.id), _IS_OPEN),
):
    sa.Index(_name, *_columns, sqlite_where=_where, postgresql_where=_where)
_KINDS: dict[str, type[StoreError]] = {
    "SQLITE_BUSY": StoreLocked,
    "SQLITE_CORRUPT": StoreCorrupt,
    "SQLITE_FULL": StoreFull,
    "SQLITE_NOTADB": StoreSchemaError,
    "SQLITE_READONLY": StoreReadOnly,
    "25006": StoreReadOnly,
    "53100": StoreFull,
    "55P03": StoreLocked,
}
"""By the beginnings of SQLite's names, and by PostgreSQL's codes."""
_PATIENCE_MS = 30_000
"""For a lock of SQLite, as DBOS has it."""
_THREADS = 8
"""As many connections are used at once."""
_LOCK = 0x746F6F6C72656C61
"""Of whoever makes the tables: "toolrela"."""
