"""Runs on the queues of DBOS: many machines, one SQL database. It needs the extra, `pip install 'toolrelay[dbos]'`.

It owns the store that conversations lie in, what is dispatched with each of its commits, and the workflows that work
on that. A run is one workflow, named after the conversation and the version that its start made. It is never parked in
a workflow: a halt ends it, and an answer dispatches the next one.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from contextvars import Context
from typing import TYPE_CHECKING

try:
    from dbos import DBOS, DBOSClient, EnqueueOptions
    from sqlalchemy.exc import DBAPIError

    from toolrelay._sql import SqlStore
except ModuleNotFoundError as _error:
    _told = f"toolrelay.dbos needs DBOS, and there is no module {_error.name}: pip install 'toolrelay[dbos]'"
    raise ModuleNotFoundError(_told, name=_error.name) from None

from toolrelay.errors import (
    ConversationBusy,
    ConversationNotFound,
    LeaseLost,
    NothingToRecover,
    PendingError,
    StoreSchemaError,
    ToolRelayError,
    TranscriptError,
)

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from toolrelay.client import Client
    from toolrelay.stores import Write
    from toolrelay.toolkit import Toolkit

__all__ = ["DbosStore"]


class DbosStore(SqlStore):
    """Conversations in the system database of DBOS at `url`, SQLite or PostgreSQL, and their runs on one of its queues.

    A client with this store begins and answers conversations with `submit` and `submit_answer`: the commit that makes
    a prompt or an answer durable puts the run on the queue, in one transaction. With each request that expires goes a
    delayed workflow that settles it then. The tables of DBOS must be there: a worker makes them, or `dbos migrate`.

    Raises `ConfigurationError` for a URL that cannot be used.
    """

    def __init__(self, url: str, *, queue: str = "toolrelay") -> None:
        super().__init__(url)
        self._dbos = DBOSClient(system_database_engine=self._engine, lazy=True)
        self._queue = queue

    def register(self, client: Client, toolkit: Toolkit) -> None:
        """Has this process work on the queue with a client of this store. Call it before `DBOS.launch()`.

        The queue itself is registered with `DBOS.register_queue`, which says how many runs there may be at once.
        """

        async def run(id: str) -> str:
            return await _run(client, toolkit, id)

        async def expire(id: str) -> bool:
            return await _expire(client, id)

        for work in (run, expire):
            DBOS.workflow(name=f"{self._queue}.{work.__name__}")(work)

    def _beside(self, connection: Connection, id: str, write: Write) -> None:
        if write.lease is not None and not write.lease.owner:
            self._dispatch(connection, "run", f"{id}:{write.version}", id)
        for request in write.requests:
            if not request.settled and request.expires_at_ms is not None:
                left = max(0, request.expires_at_ms - write.at_ms) / 1000
                self._dispatch(connection, "expire", f"{id}:{request.id}", id, left)

    def _dispatch(self, connection: Connection, work: str, name: str, id: str, delay: float | None = None) -> None:
        """One that was dispatched under this name before stays as it is."""
        options: EnqueueOptions = {
            "workflow_name": f"{self._queue}.{work}",
            "queue_name": self._queue,
            "workflow_id": name,
        }
        if delay is not None:
            options["delay_seconds"] = delay
        try:
            self._dbos.enqueue_in_transaction(connection, options, id)
        except DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) == _NO_TABLE or "no such table" in str(error.orig):
                raise StoreSchemaError(f"{self!r} has no tables of DBOS: run `dbos migrate`") from error
            raise


async def _run(client: Client, toolkit: Toolkit, id: str) -> str:
    """Goes on with what was submitted, or with what a dead worker left; what became of it.

    DBOS may run this again. What others have, have done or have called off is left alone.
    """
    # Without the context of the workflow: steps of DBOS that are tools would be taken for steps of it, by their number.
    going = asyncio.create_task(client.recover(toolkit, id), context=Context())
    try:
        result = await going
    except (ConversationBusy, ConversationNotFound, LeaseLost, NothingToRecover):
        return "left alone"
    except ToolRelayError as error:
        error.transcript = None  # the store has it; the database need not keep it twice
        raise
    except asyncio.CancelledError:
        # This worker is being shut down: another one goes on.
        with suppress(ConversationBusy, ConversationNotFound, PendingError, TranscriptError):
            await client.submit(None, toolkit, id=id)
        raise
    if any(request.expires_at is not None for request in result.suspensions):
        # One whose time was over while the run went on could not be settled then.
        await _expire(client, id)
    return result.status


async def _expire(client: Client, id: str) -> bool:
    """Settles what expired; whether there was anything."""
    return await client._native.expire(Context(), id)


_NO_TABLE = "42P01"
