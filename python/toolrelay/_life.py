"""What happens to stored conversations besides prompts and answers."""

from __future__ import annotations

from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from toolrelay._end import end_of
from toolrelay._inputs import native_history, native_id, native_tools
from toolrelay._json import encode
from toolrelay._start import Start
from toolrelay._sync import run_here
from toolrelay.errors import ConfigurationError, ConversationNotFound, PayloadError, StoreError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from toolrelay._core import Conversation, NativeClient, RunResult
    from toolrelay.conversations import PendingPage, RunningPage, Swept
    from toolrelay.stores import Store
    from toolrelay.toolkit import Toolkit
    from toolrelay.types import History, Sweeper

T = TypeVar("T")


class Life:
    """The part of a client that looks after stored conversations."""

    __slots__ = ("_native", "_store")

    _native: NativeClient
    _store: Store

    async def get(self, id: str) -> Conversation:
        """The stored conversation `id` as it stands, without a claim on it; `ConversationNotFound` if there is none."""
        conversation = await of(id, self._native.get(copy_context(), native_id(id)))
        if conversation is None:
            raise ConversationNotFound(f"there is no conversation {id!r} in the store", conversation=id)
        return conversation

    async def pending(
        self, order: Literal["age", "expiry"] = "age", *, limit: int = 100, after: str | None = None
    ) -> PendingPage:
        """The requests that wait, of all conversations: the oldest first, or those that expire first.

        By expiry, those that never expire are left out. `after` is the `next` of the page before.
        """
        from toolrelay.conversations import PendingPage, PendingRequest, cursor_of, instant, token

        if order not in ("age", "expiry"):
            raise PayloadError(f"order: expected 'age' or 'expiry', got {order!r}", key="order")
        cursor = cursor_of(order, after)
        found, behind = await self._native.waiting(copy_context(), order, cursor, _count("limit", limit))
        requests = (PendingRequest(id, request, instant(made_at_ms)) for id, request, made_at_ms in found)
        return PendingPage(tuple(requests), token(order, behind))

    async def running(self, *, limit: int = 100, after: str | None = None) -> RunningPage:
        """The conversations that are running, with their workers: those whose lease ends first come first.

        A lease that is over is a dead worker's. `after` is the `next` of the page before; a lease that is renewed
        between two pages is on both.
        """
        from toolrelay.conversations import running_in

        return await running_in(self._store, _count("limit", limit), after)

    async def recover(self, toolkit: Toolkit, id: str) -> RunResult:
        """Goes on with a conversation whose worker died, and gives what came of it (contract 7.6).

        One that somebody works on is `ConversationBusy`; one that is idle or waits is `NothingToRecover`.
        """
        begin = partial(self._native.recover, native_tools(toolkit), copy_context(), native_id(id))
        return await end_of(Start(begin, None, id))

    async def sweep(self, toolkit: Toolkit | None = None, *, limit: int = 100, at_once: int = 8) -> Swept:
        """Looks after the store once: settles what expired and, with a toolkit, goes on with what dead workers left.

        At most `limit` conversations of either kind, `at_once` of them at a time. One that fails is in the report and
        holds up none of the others; any number of sweepers may be at work at once.
        """
        from toolrelay._sweep import Sweep

        tools = None if toolkit is None else native_tools(toolkit)
        return await Sweep(self._native, tools, _count("limit", limit), _count("at_once", at_once)).run()

    def sweeping(self, toolkit: Toolkit | None = None, *, every: float = 30.0, at_once: int = 8) -> Sweeper:
        """Sweeps every so many seconds, as long as `async with` lasts (or its `run()`).

        It waits for none of the runs that it recovers, of which there are at most `at_once`. The logger
        `toolrelay.sweep` says what it does.
        """
        from toolrelay._settings import seconds
        from toolrelay._sweep import Sweeper

        pause = seconds("every", every)
        if not pause > 0:
            raise ConfigurationError(f"every must be a positive number of seconds, not {every!r}")
        tools = None if toolkit is None else native_tools(toolkit)
        return Sweeper(self._native, tools, pause, _count("at_once", at_once))

    async def cancel(self, id: str) -> Conversation:
        """Calls a conversation off: it is idle then, and its transcript valid.

        Calls that wait are settled as cancelled. Who works on it gets `LeaseLost` at its next write; what it had
        started has been interrupted.
        """
        return await of(id, self._native.cancel(copy_context(), native_id(id)))

    async def delete(self, id: str) -> bool:
        """Deletes a conversation for good, also while somebody works on it; whether there was one."""
        return await of(id, self._native.delete(copy_context(), native_id(id)))

    async def fork(self, id: str, new_id: str) -> Conversation:
        """Copies a conversation, to try another way.

        The copy waits for what the original waits for, under requests of its own. One that somebody works on is
        `ConversationBusy`; `new_id` must be new, or it is `ConversationExists`.
        """
        return await of(new_id, self._native.fork(copy_context(), native_id(id), native_id(new_id)))

    async def export(self, id: str) -> bytes:
        """A conversation as JSON: its transcript, which every `history` takes, and facts under `conversation`."""
        found = await self.get(id)
        facts = {"id": id, "state": found.state, "version": found.version, "writtenAt": found.written_at.isoformat()}
        return found.messages.to_json()[:-1] + b',"conversation":' + encode(facts).encode() + b"}"

    async def restore(self, id: str, messages: History) -> Conversation:
        """Puts what `export` gave, or any history, into the store under a new id; requests that wait keep theirs.

        An id that is there already is `ConversationExists`.
        """
        history = native_history(messages, "messages")
        if history is None:
            raise PayloadError("messages: expected a history, got None", key="messages")
        return await of(id, self._native.restore(copy_context(), native_id(id), history))

    def get_sync(self, id: str) -> Conversation:
        """`get` for a program without an event loop."""
        return run_here(self.get(id))

    def pending_sync(
        self, order: Literal["age", "expiry"] = "age", *, limit: int = 100, after: str | None = None
    ) -> PendingPage:
        """`pending` for a program without an event loop."""
        return run_here(self.pending(order, limit=limit, after=after))

    def running_sync(self, *, limit: int = 100, after: str | None = None) -> RunningPage:
        """`running` for a program without an event loop."""
        return run_here(self.running(limit=limit, after=after))

    def recover_sync(self, toolkit: Toolkit, id: str) -> RunResult:
        """`recover` for a program without an event loop."""
        return run_here(self.recover(toolkit, id))

    def sweep_sync(self, toolkit: Toolkit | None = None, *, limit: int = 100, at_once: int = 8) -> Swept:
        """`sweep` for a program without an event loop."""
        return run_here(self.sweep(toolkit, limit=limit, at_once=at_once))

    def cancel_sync(self, id: str) -> Conversation:
        """`cancel` for a program without an event loop."""
        return run_here(self.cancel(id))

    def delete_sync(self, id: str) -> bool:
        """`delete` for a program without an event loop."""
        return run_here(self.delete(id))

    def fork_sync(self, id: str, new_id: str) -> Conversation:
        """`fork` for a program without an event loop."""
        return run_here(self.fork(id, new_id))

    def export_sync(self, id: str) -> bytes:
        """`export` for a program without an event loop."""
        return run_here(self.export(id))

    def restore_sync(self, id: str, messages: History) -> Conversation:
        """`restore` for a program without an event loop."""
        return run_here(self.restore(id, messages))


async def of(id: str, future: Awaitable[T]) -> T:
    """Waits for work on a conversation, which an error of the store then names."""
    try:
        return await future
    except StoreError as error:
        error.conversation = id
        raise


def _count(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < _MOST:
        raise PayloadError(f"{name}: expected a whole number from 1 on, got {value!r}", key=name)
    return value


_MOST = 2**31
