"""The typed face of the native module."""

from asyncio import Future
from collections.abc import Iterator, Sequence
from contextvars import Context
from datetime import datetime
from typing import Any, Literal, Self, SupportsIndex, final, overload

from toolrelay._core_events import (
    ArgumentsDelta,
    CallReady,
    CallStarted,
    Done,
    Parked,
    ReasoningDelta,
    TextDelta,
    ToolEnded,
    ToolStarted,
    UsageReported,
)
from toolrelay._core_native import (
    MemoryStore,
    NativeClient,
    NativeStore,
    NativeToolkit,
    PostgresStore,
    RedisStore,
    Reply,
    Segment,
    Speech,
    SqliteStore,
    Translation,
)
from toolrelay.relay import Request

__all__ = [
    "ArgumentsDelta",
    "CallReady",
    "CallStarted",
    "Conversation",
    "Done",
    "MemoryStore",
    "NativeClient",
    "NativeStore",
    "NativeToolkit",
    "Parked",
    "PostgresStore",
    "ReasoningDelta",
    "RedisStore",
    "Reply",
    "RunResult",
    "SealKeys",
    "Segment",
    "Speech",
    "SqliteStore",
    "TextDelta",
    "ToolCallRecord",
    "ToolEnded",
    "ToolStarted",
    "Transcript",
    "Translation",
    "Usage",
    "UsageReported",
    "__version__",
    "_bridge_probe",
    "_bridge_probes_alive",
    "_known_servers",
    "_translate",
]

__version__: str
"""The version of the package."""

@final
class Transcript(Sequence[dict[str, Any]]):
    """The messages of a conversation: an immutable sequence of dicts in the OpenAI chat shape.

    A dict is made when it is looked at, so changing one changes nothing here. `toolrelay` is the one key beside the
    chat shape: the provider's own blocks, how a call ended, what a parked call waits for. No provider sees it.
    """

    @classmethod
    def from_json(cls, json: str | bytes) -> Self:
        """Reads `to_json`'s form, or a bare JSON list of messages in the OpenAI or Anthropic shape.

        Raises `TranscriptError` for anything else, and for a format of a newer version.
        """

    def to_json(self) -> bytes:
        """`{"format": 1, "messages": [...]}`. Messages keep the very bytes that they came with."""

    @property
    def halted(self) -> bool:
        """Whether calls of the last turn wait for answers."""

    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, key: SupportsIndex, /) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, key: slice[Any, Any, Any], /) -> list[dict[str, Any]]: ...
    def __iter__(self) -> Iterator[dict[str, Any]]: ...
    def __reversed__(self) -> Iterator[dict[str, Any]]: ...
    def __contains__(self, message: object, /) -> bool: ...
    def index(self, message: Any, *bounds: int) -> int: ...
    def count(self, message: Any) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class RunResult:
    """A run that has ended. It is immutable, pickles and copies."""

    @property
    def text(self) -> str:
        """The text of the last reply; empty in a halt whose reply had none."""

    @property
    def status(self) -> Literal["done", "pending", "incomplete"]:
        """`done`; `pending`: calls wait for the host; `incomplete`: a limit ended it, see `limit`."""

    @property
    def limit(self) -> Literal["max_turns", "timeout"] | None:
        """What ended an `incomplete` run."""

    @property
    def messages(self) -> Transcript:
        """The whole transcript, balanced: a history for the next run or resume."""

    @property
    def tool_calls(self) -> tuple[ToolCallRecord, ...]:
        """One record per call of this run, in order; a resumed run begins with the halted turn."""

    @property
    def pending(self) -> Request | None:
        """The first outstanding request in call order."""

    @property
    def suspensions(self) -> tuple[Request, ...]:
        """Every outstanding request in call order."""

    @property
    def turns(self) -> int:
        """Model turns since the prompt, those before a halt included."""

    @property
    def usage(self) -> Usage:
        """Tokens of this run."""

    @property
    def model(self) -> str | None:
        """The model that answered last, as the provider names it."""

    @property
    def finish_reason(self) -> str | None:
        """Why the last reply ended: `stop`, `tool_calls`, `length`, `content_filter`, `refusal`, or another word."""

    def seal(self, keys: SealKeys, *, audience: str | None = None, expires_in: float | None = 604_800.0) -> str:
        """A halt as one token that an untrusted client may keep and bring back with its answer.

        It is encrypted and authenticated with the first of `keys`; `Client.run_with_sealed` takes it for `expires_in`
        seconds (None: for ever) and from that `audience` alone. A result that waits for nothing is a `SealError`.
        """

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    @classmethod
    def _restore(cls, json: bytes) -> Self: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class SealKeys:
    """Secret keys of 32 random bytes each, for sealed halts. The first one seals, all of them open.

    To rotate, put a new key in front, and take the old one out when its tokens have expired.

    >>> import secrets
    >>> from toolrelay import SealKeys
    >>> SealKeys(secrets.token_bytes(32))
    <SealKeys: 1 key>
    """

    def __new__(cls, *keys: bytes) -> Self: ...

@final
class ToolCallRecord:
    """One call of a run."""

    @property
    def id(self) -> str:
        """The call's id in the transcript."""

    @property
    def name(self) -> str:
        """The tool's name."""

    @property
    def input(self) -> dict[str, Any]:
        """The arguments as an object, a fresh one each time; empty where they could not be read."""

    @property
    def arguments(self) -> str:
        """The model's own argument text."""

    @property
    def output(self) -> str:
        """The result's text; empty while the call is parked."""

    @property
    def is_error(self) -> bool:
        """Whether the result is an error. A parked call is none."""

    @property
    def pending(self) -> bool:
        """Whether the call waits for an answer."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    @classmethod
    def _restore(cls, json: bytes) -> Self: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Usage:
    """Tokens, as the provider counts them."""

    @property
    def input_tokens(self) -> int:
        """All input tokens, cached ones included."""

    @property
    def output_tokens(self) -> int:
        """All output tokens, reasoning included."""

    @property
    def cached_tokens(self) -> int:
        """Input tokens that were read from a prompt cache."""

    @property
    def cache_write_tokens(self) -> int:
        """Input tokens that were written to a prompt cache."""

    @property
    def reasoning_tokens(self) -> int:
        """Output tokens spent on reasoning."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    @classmethod
    def _restore(cls, json: bytes) -> Self: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Conversation:
    """A stored conversation as it stands."""

    @property
    def id(self) -> str:
        """Its id in the store."""

    @property
    def state(self) -> Literal["idle", "running", "pending"]:
        """`running` while a worker has it, `pending` while calls wait for answers."""

    @property
    def messages(self) -> Transcript:
        """Its transcript; calls that are being worked on have no result yet."""

    @property
    def suspensions(self) -> tuple[Request, ...]:
        """The requests it waits for, in call order."""

    @property
    def version(self) -> int:
        """Raised by one with each write. Where it began says nothing."""

    @property
    def written_at(self) -> datetime:
        """When it was last written, in UTC."""

    @property
    def worker(self) -> str | None:
        """Who works on it, or died working on it: host name, process id and more. None where nobody does."""

    @property
    def lease_until(self) -> datetime | None:
        """When the worker counts as dead unless it gives a sign of life, in UTC."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    @classmethod
    def _restore(cls, kept: tuple[Any, ...]) -> Self: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

def _bridge_probe(
    kind: Literal["ready", "yield", "sleep", "fail", "panic", "never"], seconds: float = 0.0
) -> Future[float]: ...
def _bridge_probes_alive() -> int: ...
def _known_servers() -> list[tuple[str, str, bytes]]: ...
def _translate(
    client: NativeClient,
    context: Context,
    messages: Transcript | bytes,
    tools: str | None,
    tool_choice: tuple[str, str] | None,
    parallel_tool_calls: bool | None,
    params: list[tuple[str, str]],
    extras: bool,
    stream: bool | None,
) -> Translation: ...
