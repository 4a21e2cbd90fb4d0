"""A stored conversation could not be used."""

# ruff: noqa: N818 - the contract names some errors for what happened

from __future__ import annotations

from typing import TYPE_CHECKING

from toolrelay.errors.base import ToolRelayError

if TYPE_CHECKING:
    from datetime import datetime

    from toolrelay.errors.base import Messages


class StoreError(ToolRelayError):
    """A stored conversation could not be used. `conversation` is its id.

    Where a run has it, `worker` is who works on it, and `lease_until` the end of the lease unless that is renewed;
    without a worker it was submitted and nobody has taken it up.
    """

    def __init__(
        self,
        message: str = "",
        *,
        transcript: Messages | None = None,
        conversation: str | None = None,
        request_id: str | None = None,
        worker: str | None = None,
        lease_until: datetime | None = None,
    ) -> None:
        super().__init__(message, transcript=transcript)
        self.conversation = conversation
        self.request_id = request_id
        self.worker = worker
        self.lease_until = lease_until


class ConversationNotFound(StoreError):
    """Nothing is stored under this id."""


class ConversationBusy(StoreError):
    """Another run has the conversation (contract 7.2, 7.9): that of `worker`, where it is known."""


class ConversationExists(StoreError):
    """There is one of this id already: `fork` and `restore` make new ones only."""


class NothingToRecover(StoreError):
    """No worker died on this conversation: it is idle, or waits for answers (contract 7.6)."""


class AnswerInProgress(StoreError):
    """This very answer is being worked on; ask again later for its outcome (contract 7.4)."""


class AlreadyAnswered(StoreError):
    """The request `request_id` was settled with another answer (contract 7.4)."""


class StoreConflict(StoreError):
    """Somebody else wrote in between; nothing was stored."""


class LeaseLost(StoreError):
    """The run has its conversation no more, and the text says why.

    It was slower than its lease and another one took over (contract 7.2), or somebody cancelled or deleted it.
    """


class StoreUnavailable(StoreError):
    """The store itself cannot serve."""


class StoreFull(StoreUnavailable):
    """No space is left."""


class StoreReadOnly(StoreUnavailable):
    """The store may not be written."""


class StoreLocked(StoreUnavailable):
    """Another process holds the store for longer than we wait."""


class StoreCorrupt(StoreUnavailable):
    """The store is damaged; restore it from a backup."""


class StoreSchemaError(StoreUnavailable):
    """The store was written by a newer version of this library, or by something else."""
