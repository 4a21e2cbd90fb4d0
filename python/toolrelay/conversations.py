"""What is told of stored conversations: requests that wait, runs that go on, and what a sweep did."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from toolrelay._json import decode, encode
from toolrelay.errors import PayloadError, StoreError, StoreUnavailable
from toolrelay.stores import Cursor

if TYPE_CHECKING:
    from toolrelay._core import RunResult
    from toolrelay.relay import Request
    from toolrelay.stores import Store

__all__ = ["PendingPage", "PendingRequest", "RunningConversation", "RunningPage", "Swept"]


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """A request that waits for an answer, with the calls only that still wait; `made_at` is in UTC."""

    conversation: str
    request: Request
    made_at: datetime

    @property
    def age(self) -> timedelta:
        """For how long it has waited by now."""
        return datetime.now(UTC) - self.made_at


@dataclass(frozen=True, slots=True)
class PendingPage:
    """Some of the requests that wait; `next` is what `after` takes for the ones behind them, None at the end."""

    requests: tuple[PendingRequest, ...]
    next: str | None


@dataclass(frozen=True, slots=True)
class RunningConversation:
    """A conversation that a run has until `lease_until` (in UTC), or had when its worker died.

    `worker` is None for a run that was submitted and that nobody has taken up.
    """

    conversation: str
    worker: str | None
    lease_until: datetime


@dataclass(frozen=True, slots=True)
class RunningPage:
    """Some of the conversations that are running; `next` is what `after` takes, None at the end.

    A page before the end may have few, or none: marks of sealed halts stand among them in the store.
    """

    conversations: tuple[RunningConversation, ...]
    next: str | None


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep did, by the ids of conversations.

    - `recovered`: what a dead worker left and came to an end now, with the result.
    - `expired`: a request's time was over, and its calls are settled so.
    - `failed`: what went wrong with a conversation; the others were not held up by it.
    """

    recovered: dict[str, RunResult] = field(default_factory=dict)
    expired: list[str] = field(default_factory=list)
    failed: dict[str, Exception] = field(default_factory=dict)


async def running_in(store: Store, limit: int, after: str | None) -> RunningPage:
    """A page of the leases of a store, without those of marks: no run has them."""
    cursor = cursor_of("lease", after)
    try:
        leases = await store.leases(cursor, limit)
    except StoreError:
        raise
    except Exception as error:
        kind = type(store).__name__
        raise StoreUnavailable(f"{kind} is unavailable: its leases raised {type(error).__name__}") from error
    found = [
        RunningConversation(id, lease.owner or None, instant(lease.until_ms))
        for id, lease in leases
        if lease.owner != _MARK
    ]
    if len(leases) < limit:
        return RunningPage(tuple(found), None)
    id, lease = leases[-1]
    return RunningPage(tuple(found), token("lease", Cursor(lease.until_ms, id, "")))


def instant(ms: int) -> datetime:
    """Milliseconds since 1970 as a time in UTC."""
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=ms)


def token(order: str, cursor: Cursor | None) -> str | None:
    """A cursor as text that means something to this module alone."""
    if cursor is None:
        return None
    text = encode([order, cursor.at_ms, cursor.conversation, cursor.request])
    return base64.urlsafe_b64encode(text.encode()).decode()


def cursor_of(order: str, after: str | None) -> Cursor | None:
    """The cursor that `token` made."""
    if after is None:
        return None
    try:
        was, at_ms, conversation, request = decode(base64.urlsafe_b64decode(after.encode()))
        if was == order:
            return Cursor(at_ms, conversation, request)
    except (AttributeError, binascii.Error, TypeError, ValueError):
        pass
    raise PayloadError(f"after: expected the `next` of a page by {order}", key="after")


_MARK = "sealed"
"""Who has the lease of a mark that a sealed token was used."""
