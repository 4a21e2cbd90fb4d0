"""What is wrong with a client, a tool, a value, an answer or a history, and how a run fails by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolrelay.errors.base import ToolRelayError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolrelay.errors.base import Messages
    from toolrelay.relay import Request


class ConfigurationError(ToolRelayError):
    """A client or store that cannot be built; `variable` is the environment variable that would have helped."""

    def __init__(self, message: str = "", *, variable: str | None = None) -> None:
        super().__init__(message)
        self.variable = variable


class ToolkitError(ToolRelayError):
    """A tool, named by `tool`, that cannot be declared or may not join the others (contract 2.1, 2.2)."""

    def __init__(self, message: str = "", *, tool: str | None = None) -> None:
        super().__init__(message)
        self.tool = tool


class PayloadError(ToolRelayError, TypeError, ValueError):
    """A value that its JSON form does not allow: a wrong type, NaN, a set. `key` is the place (`data.calls[0].id`)."""

    def __init__(self, message: str = "", *, key: str | None = None) -> None:
        super().__init__(message)
        self.key = key


class ToolError(ToolRelayError):
    """For tools to raise: the text reaches the model as it is, without the exception's type.

    >>> raise ToolError("no such city; try the English name")
    Traceback (most recent call last):
    ...
    toolrelay.errors.ToolError: no such city; try the English name
    """


class ResumeError(ToolRelayError):
    """An answer that does not fit what the transcript waits for (contract 6.2).

    The text begins `cannot resume`; nothing was changed, run or sent. `pending` is the request that the
    caller named.
    """

    def __init__(
        self, message: str = "", *, transcript: Messages | None = None, pending: Request | None = None
    ) -> None:
        if not message.startswith("cannot resume"):
            message = f"cannot resume: {message}"
        super().__init__(message, transcript=transcript)
        self.pending = pending


class PendingError(ToolRelayError):
    """A new prompt on a transcript that waits for answers (contract 6.14).

    `calls` are the ids of the parked calls, `suspensions` the outstanding requests, in call order.
    """

    def __init__(
        self,
        message: str = "",
        *,
        transcript: Messages | None = None,
        calls: Iterable[str] = (),
        suspensions: Iterable[Request] = (),
    ) -> None:
        super().__init__(message, transcript=transcript)
        self.calls: tuple[str, ...] = tuple(calls)
        self.suspensions: tuple[Request, ...] = tuple(suspensions)


class TranscriptError(ToolRelayError):
    """A history that cannot be read, has two results for one call (contract 6.12), or says nothing to send."""


class WaitForError(ToolRelayError):
    """`wait_for` raised, or its answer did not fit (contract 4.5).

    `transcript` is the halted one and `suspensions` are its requests, so it can be resumed later.
    `cause` is the exception of `wait_for`, or the `ResumeError` that says why its answer does not fit.
    """

    __cause__: BaseException | None

    def __init__(
        self,
        message: str = "",
        *,
        transcript: Messages | None = None,
        suspensions: Iterable[Request] = (),
        cause: BaseException | None = None,
    ) -> None:
        super().__init__(message, transcript=transcript)
        self.suspensions: tuple[Request, ...] = tuple(suspensions)
        if cause is not None:
            self.__cause__ = cause

    @property
    def cause(self) -> BaseException | None:
        """What `wait_for` raised, or why its answer does not fit; the same object as `__cause__`."""
        return self.__cause__


class SealError(ToolRelayError):
    """A halt that is not sealed, or a token that is not taken.

    `reason` is one of `not_halted`, `malformed`, `newer` (sealed by a later version), `unknown_key`, `forged`,
    `expired`, `audience`, `used`, `entropy`.
    """

    def __init__(self, message: str = "", *, reason: str | None = None) -> None:
        super().__init__(message)
        self.reason = reason


class EventLoopError(ToolRelayError, RuntimeError):
    """Awaited where no event loop of asyncio runs: under trio, say. `run_sync` and its kin need none."""


class ModelReplyError(ToolRelayError):
    """The model's replies stay cut, refused or empty after the tries of contract 3.3.

    `finish_reason` is what the provider said of the last one.
    """

    def __init__(
        self, message: str = "", *, transcript: Messages | None = None, finish_reason: str | None = None
    ) -> None:
        super().__init__(message, transcript=transcript)
        self.finish_reason = finish_reason
