"""The typed face of the native module: what happens in a run."""

from typing import Any, ClassVar, Literal, Self, final

from toolrelay._core import RunResult, Usage
from toolrelay.relay import Request

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
