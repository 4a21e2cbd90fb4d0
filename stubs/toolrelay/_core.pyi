"""The typed face of the native module."""

from asyncio import Future, Task
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import Context
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, SupportsIndex, final, overload

from toolrelay.events import Event
from toolrelay.relay import Request
from toolrelay.stores import Cursor, Lease, Order, StoredConversation, StoredRequest, Write
from toolrelay.tools import Tool
from typing_extensions import disjoint_base

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
class TextDelta:
    """More of the visible text of a reply."""

    __match_args__: ClassVar[tuple[Literal["text"]]]
    def __new__(cls, text: str) -> Self: ...
    @property
    def text(self) -> str: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class ReasoningDelta:
    """More of the model's reasoning, where the provider shows it."""

    __match_args__: ClassVar[tuple[Literal["text"]]]
    def __new__(cls, text: str) -> Self: ...
    @property
    def text(self) -> str: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class CallStarted:
    """A call has begun; its arguments are still to come."""

    __match_args__: ClassVar[tuple[Literal["index"], Literal["name"]]]
    def __new__(cls, index: int, name: str) -> Self: ...
    @property
    def index(self) -> int:
        """Its place among the calls of this reply."""

    @property
    def name(self) -> str:
        """The tool's name."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class ArgumentsDelta:
    """More of a call's argument text."""

    __match_args__: ClassVar[tuple[Literal["index"], Literal["text"]]]
    def __new__(cls, index: int, text: str) -> Self: ...
    @property
    def index(self) -> int:
        """The call's place among the calls of this reply."""

    @property
    def text(self) -> str: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class CallReady:
    """A call of a reply that has ended: its id is known and its arguments are whole. It may yet be refused."""

    __match_args__: ClassVar[tuple[Literal["index"], Literal["id"], Literal["name"], Literal["arguments"]]]
    def __new__(cls, index: int, id: str, name: str, arguments: str) -> Self: ...
    @property
    def index(self) -> int:
        """Its place among the calls of this reply."""

    @property
    def id(self) -> str:
        """Its id in the transcript."""

    @property
    def name(self) -> str:
        """The tool's name."""

    @property
    def arguments(self) -> str:
        """The model's own argument text."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class ToolStarted:
    """The tool of a call was started; once more for a call that was parked and is approved."""

    __match_args__: ClassVar[tuple[Literal["id"], Literal["name"], Literal["input"]]]
    def __new__(cls, id: str, name: str, input: dict[str, Any]) -> Self: ...  # noqa: A002 - the name of the field
    @property
    def id(self) -> str:
        """The call."""

    @property
    def name(self) -> str:
        """The tool's name."""

    @property
    def input(self) -> dict[str, Any]:
        """The arguments as the tool gets them, a fresh object each time."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class ToolEnded:
    """A call has its result: its tool's, the host's answer, or the reason why it did not run."""

    __match_args__: ClassVar[tuple[Literal["id"], Literal["name"], Literal["output"], Literal["is_error"]]]
    def __new__(cls, id: str, name: str, output: str, is_error: bool) -> Self: ...
    @property
    def id(self) -> str:
        """The call."""

    @property
    def name(self) -> str:
        """The tool's name."""

    @property
    def output(self) -> str:
        """The result's text."""

    @property
    def is_error(self) -> bool:
        """Whether the result is an error."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Parked:
    """Calls wait for an answer to this request. When a run halts, all its `suspensions` have been told."""

    __match_args__: ClassVar[tuple[Literal["request"]]]
    def __new__(cls, request: Request) -> Self: ...
    @property
    def request(self) -> Request: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class UsageReported:
    """A reply has ended; this is what it cost."""

    __match_args__: ClassVar[tuple[Literal["usage"]]]
    def __new__(cls, usage: Usage) -> Self: ...
    @property
    def usage(self) -> Usage:
        """Tokens of this reply alone."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Done:
    """The run has ended; the last event."""

    __match_args__: ClassVar[tuple[Literal["result"]]]
    def __new__(cls, result: RunResult) -> Self: ...
    @property
    def result(self) -> RunResult: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
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
    ) -> Future[None]: ...
    def submit_answer(
        self,
        toolkit: NativeToolkit,
        context: Context,
        conversation: str,
        pending: bytes | None,
        answer: bytes,
        wait: bool,
    ) -> Future[None]: ...
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
