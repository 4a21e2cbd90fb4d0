"""The exceptions of toolrelay: one tree under `ToolRelayError` (contract 9.3).

This module owns their names and fields; it does not decide when one is raised.

```text
ToolRelayError
├── ConfigurationError            a client that cannot be built; names the missing variable
├── ToolkitError                  a tool that cannot be declared or joined; names the tool
├── PayloadError                  a value that its JSON form does not allow; names the key
│                                 (also a TypeError and a ValueError)
├── ToolError                     raised by a tool: its text is the error the model reads
├── ResumeError                   an answer that does not fit the halted transcript
├── PendingError                  a new prompt on a halted transcript
├── TranscriptError               a history that cannot be mended
├── WaitForError                  `wait_for` raised, or its answer did not fit
├── EventLoopError                awaited where no loop of asyncio runs (also a RuntimeError)
├── ModelReplyError               replies that stay cut, refused or empty
├── ProviderError                 the model could not be called
│   ├── AuthenticationError       the key is missing or wrong
│   ├── PermissionDeniedError     the key may not do this
│   ├── ModelNotFoundError        no such model or address
│   ├── BadRequestError           the provider refuses the request as it stands
│   │   ├── ContextOverflowError  the request is larger than the model reads
│   │   └── ContentFilterError    a content filter refuses the request
│   ├── RateLimitError            too many requests for now
│   │   └── QuotaError            the account's budget is spent; waiting does not help
│   ├── OverloadedError           the provider has too much to do
│   ├── ProviderServerError       the provider failed
│   ├── ProviderTimeoutError      no reply in time (also a TimeoutError)
│   ├── ProviderConnectionError   no connection, or one that broke (also a ConnectionError)
│   ├── ProviderReplyError        a reply that cannot be read
│   └── GenerateError             the in-process model raised; its exception is the cause
└── StoreError                    a stored conversation could not be used
    ├── ConversationNotFound      nothing is stored under this id
    ├── ConversationBusy          another run has it
    ├── AnswerInProgress          this very answer is being worked on
    ├── AlreadyAnswered           the request was settled with another answer
    ├── StoreConflict             somebody else wrote in between
    ├── LeaseLost                 the run took too long and lost the conversation
    └── StoreUnavailable          the store itself cannot serve
        ├── StoreFull             no space left
        ├── StoreReadOnly         it may not be written
        ├── StoreLocked           another process holds it
        ├── StoreCorrupt          it is damaged
        └── StoreSchemaError      a newer version wrote it, or something else did
```

Every error pickles and copies with its fields; a cause that cannot be pickled is replaced by its text.
`transcript` is set on whatever ends a run that had begun.
"""

# ruff: noqa: N818 - the contract names some errors for what happened
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolrelay._text import describe

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from toolrelay.relay import Request

    Messages = Sequence[dict[str, Any]]


class ToolRelayError(Exception):
    """The root: `except ToolRelayError` catches whatever this library raises on purpose.

    `transcript` is the conversation as it stood, a history for any later run; None where no run had begun.
    """

    def __init__(self, message: str = "", *, transcript: Messages | None = None) -> None:
        super().__init__(message)
        self.transcript = transcript

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, dict(self.__dict__), _portable(self.__cause__))


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


class ProviderError(ToolRelayError):
    """The model could not be called, retries included.

    - `kind`: what happened in one word, such as `"rate_limited"`; a stable label for metrics.
    - `status`: the HTTP status, or None where there was no response.
    - `error_type`, `code`, `request_id`: the provider's own words for it.
    - `retryable`: whether the same request may work later; `retry_after`: seconds, if it said.
    """

    kind: str = "provider"

    def __init__(
        self,
        message: str = "",
        *,
        transcript: Messages | None = None,
        kind: str | None = None,
        status: int | None = None,
        error_type: str | None = None,
        code: str | None = None,
        request_id: str | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, transcript=transcript)
        self.kind = kind or self.kind
        self.status = status
        self.error_type = error_type
        self.code = code
        self.request_id = request_id
        self.retryable = retryable
        self.retry_after = retry_after


class AuthenticationError(ProviderError):
    """The key is missing or wrong (HTTP 401)."""

    kind = "authentication"


class PermissionDeniedError(ProviderError):
    """The key is known but may not do this (HTTP 403)."""

    kind = "permission"


class ModelNotFoundError(ProviderError):
    """No such model, or no such address (HTTP 404)."""

    kind = "not_found"


class BadRequestError(ProviderError):
    """The provider refuses the request as it stands (HTTP 400, 422)."""

    kind = "bad_request"


class ContextOverflowError(BadRequestError):
    """The request is larger than the model reads, in tokens or in bytes."""

    kind = "context_overflow"


class ContentFilterError(BadRequestError):
    """A content filter refuses the request."""

    kind = "filtered"


class RateLimitError(ProviderError):
    """Too many requests or tokens for now (HTTP 429)."""

    kind = "rate_limited"


class QuotaError(RateLimitError):
    """The account's budget is spent; waiting does not help."""

    kind = "out_of_quota"


class OverloadedError(ProviderError):
    """The provider has too much to do (HTTP 503, 529)."""

    kind = "overloaded"


class ProviderServerError(ProviderError):
    """The provider failed (HTTP 5xx), or two requests got into each other's way (kind `conflict`)."""

    kind = "server"


class ProviderTimeoutError(ProviderError, TimeoutError):
    """No reply in time."""

    kind = "timeout"


class ProviderConnectionError(ProviderError, ConnectionError):
    """No connection, one that broke, or none possible as configured (kind `setup`)."""

    kind = "connection"


class ProviderReplyError(ProviderError):
    """A reply that cannot be read, or is larger than its limit (kind `too_large`)."""

    kind = "malformed"


class GenerateError(ProviderError):
    """The in-process model raised, or returned what is no reply. Its exception is the cause."""

    kind = "generate"


class StoreError(ToolRelayError):
    """A stored conversation could not be used. `conversation` is its id."""

    def __init__(
        self,
        message: str = "",
        *,
        transcript: Messages | None = None,
        conversation: str | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(message, transcript=transcript)
        self.conversation = conversation
        self.request_id = request_id


class ConversationNotFound(StoreError):
    """Nothing is stored under this id."""


class ConversationBusy(StoreError):
    """Another run has the conversation (contract 7.2, 7.9)."""


class AnswerInProgress(StoreError):
    """This very answer is being worked on; ask again later for its outcome (contract 7.4)."""


class AlreadyAnswered(StoreError):
    """The request `request_id` was settled with another answer (contract 7.4)."""


class StoreConflict(StoreError):
    """Somebody else wrote in between; nothing was stored."""


class LeaseLost(StoreError):
    """The run was slower than its lease and another one took the conversation over (contract 7.2)."""


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


def _rebuild(kind: type[ToolRelayError], args: tuple[Any, ...], fields: dict[str, Any], cause: Any) -> ToolRelayError:
    """The inverse of `__reduce__`: no `__init__`, so subclasses may have any signature."""
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(fields)
    if cause is not None:
        error.__cause__ = cause
    return error


def _portable(cause: Any) -> Any:
    """The cause if it survives pickling; otherwise an error that has its type's name and text."""
    import pickle

    try:
        pickle.loads(pickle.dumps(cause))  # noqa: S301 - these bytes are ours
    except Exception:  # noqa: BLE001 - a cause may refuse in any way
        return ToolRelayError(describe(cause))
    return cause
