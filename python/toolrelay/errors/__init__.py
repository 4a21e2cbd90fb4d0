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
├── SealError                     a sealed halt that is not taken; says why
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
    ├── ConversationExists        there is one of this id already
    ├── NothingToRecover          no worker died on it
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

from toolrelay.errors.base import ToolRelayError
from toolrelay.errors.provider import (
    AuthenticationError,
    BadRequestError,
    ContentFilterError,
    ContextOverflowError,
    GenerateError,
    ModelNotFoundError,
    OverloadedError,
    PermissionDeniedError,
    ProviderConnectionError,
    ProviderError,
    ProviderReplyError,
    ProviderServerError,
    ProviderTimeoutError,
    QuotaError,
    RateLimitError,
)
from toolrelay.errors.run import (
    ConfigurationError,
    EventLoopError,
    ModelReplyError,
    PayloadError,
    PendingError,
    ResumeError,
    SealError,
    ToolError,
    ToolkitError,
    TranscriptError,
    WaitForError,
)
from toolrelay.errors.store import (
    AlreadyAnswered,
    AnswerInProgress,
    ConversationBusy,
    ConversationExists,
    ConversationNotFound,
    LeaseLost,
    NothingToRecover,
    StoreConflict,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreLocked,
    StoreReadOnly,
    StoreSchemaError,
    StoreUnavailable,
)

__all__ = [
    "AlreadyAnswered",
    "AnswerInProgress",
    "AuthenticationError",
    "BadRequestError",
    "ConfigurationError",
    "ContentFilterError",
    "ContextOverflowError",
    "ConversationBusy",
    "ConversationExists",
    "ConversationNotFound",
    "EventLoopError",
    "GenerateError",
    "LeaseLost",
    "ModelNotFoundError",
    "ModelReplyError",
    "NothingToRecover",
    "OverloadedError",
    "PayloadError",
    "PendingError",
    "PermissionDeniedError",
    "ProviderConnectionError",
    "ProviderError",
    "ProviderReplyError",
    "ProviderServerError",
    "ProviderTimeoutError",
    "QuotaError",
    "RateLimitError",
    "ResumeError",
    "SealError",
    "StoreConflict",
    "StoreCorrupt",
    "StoreError",
    "StoreFull",
    "StoreLocked",
    "StoreReadOnly",
    "StoreSchemaError",
    "StoreUnavailable",
    "ToolError",
    "ToolRelayError",
    "ToolkitError",
    "TranscriptError",
    "WaitForError",
]


def _claim() -> None:
    """Users know the errors under this module's name alone."""
    for name in __all__:
        globals()[name].__module__ = __name__


_claim()
