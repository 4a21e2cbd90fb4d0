"""Tools: what the model may call, here or at the host (contract 2).

This module owns the declaration of tools and the values that go in and out of a call. It decides
nothing of the loop: arguments arrive validated, and the output is stored by whoever called `invoke`.
Schemas are made by `_schema`, calls are made by `_call`; both load at the first `define_tool`.
"""

# JSON values are any value, and callers without a type checker are checked here:
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnnecessaryIsInstance=false
from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from toolrelay import _required
from toolrelay._json import encode, plain
from toolrelay._text import clean
from toolrelay._value import Value, put, value
from toolrelay.errors import PayloadError, ToolkitError
from toolrelay.relay import RELAY_KIND, Request

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping
    from datetime import datetime

    from toolrelay.relay import Answer

    Schema = Mapping[str, Any]
    Call = Callable[[bytes, "ToolContext"], Coroutine[Any, Any, "ToolOutput | ParkedCall"]]


class ToolOutput(NamedTuple):
    """What a call gave: text for the model, and images and files beside it in the OpenAI shape."""

    text: str
    parts: list[dict[str, Any]] | None = None
    is_error: bool = False


class ToolContext:
    """What a tool may know of its call: a parameter annotated `ToolContext` receives it.

    - `call_id`, `tool`: the call's id in the transcript and the tool's name.
    - `answer`: the answer to what the tool parked itself for with `pending`; None on the first run.
    - `idempotency_key`: the same on every run of this call, for a service that is to act once.
    """

    __slots__ = ("_cancelled", "answer", "call_id", "idempotency_key", "tool")

    def __init__(self, call_id: str, tool: str, answer: Answer | None = None, idempotency_key: str = "") -> None:
        self.call_id: str = call_id
        self.tool: str = tool
        self.answer: Answer | None = answer
        self.idempotency_key: str = idempotency_key
        self._cancelled = False

    @property
    def cancelled(self) -> bool:
        """Whether the run was cancelled: a function in a thread should look now and then, and return.

        A coroutine has no need to: it receives `asyncio.CancelledError`.
        """
        return self._cancelled

    def cancel(self) -> None:
        """Tells the tool that nobody waits for it any more."""
        self._cancelled = True


class ParkedCall(Exception):  # noqa: N818 - no error: it may be raised to leave a deep stack
    """A call that waits for an answer; made by `pending`, and frozen."""

    def __init__(self, wanted: Request) -> None:
        super().__init__(wanted)
        self._wanted = wanted

    @property
    def kind(self) -> str:
        """What kind of answer is wanted, such as `approval`."""
        return self._wanted.kind

    @property
    def prompt(self) -> str:
        """A line for a person."""
        return self._wanted.prompt

    @property
    def data(self) -> dict[str, Any] | None:
        """What the host needs to answer."""
        return self._wanted.data

    @property
    def url(self) -> str | None:
        """Where a person can settle it."""
        return self._wanted.url

    @property
    def expires_at(self) -> datetime | None:
        """When the wait ends, in UTC."""
        return self._wanted.expires_at

    def to_dict(self) -> dict[str, Any]:
        """The request in its JSON form, without the id that it has not yet."""
        form = self._wanted.to_dict()
        del form["id"]
        return form

    def to_json(self) -> bytes:
        """`to_dict` as compact UTF-8."""
        return encode(self.to_dict()).encode()

    def __str__(self) -> str:
        return f"{self.kind}: {self.prompt}"


@value
class Tool(Value):
    """A tool as the toolkit takes it; made by `define_tool` or `relay_tool`.

    `schema` is this tool's own copy. `retry_safe`: a call that was cut off by the end of its process may run again.
    `expires_after`: the seconds that the host has to answer a call of a relay tool.
    Calling the tool calls its function.
    """

    name: str
    description: str
    schema: dict[str, Any]
    relay: bool
    function: Callable[..., Any] | None
    call: Call | None
    retry_safe: bool
    expires_after: float | None

    def __init__(
        self,
        name: str,
        description: str,
        schema: dict[str, Any],
        relay: bool = False,
        function: Callable[..., Any] | None = None,
        call: Call | None = None,
        retry_safe: bool = False,
        expires_after: float | None = None,
    ) -> None:
        put(self, "name", name)
        put(self, "description", description)
        put(self, "schema", schema)
        put(self, "relay", relay)
        put(self, "function", function)
        put(self, "call", call)
        put(self, "retry_safe", retry_safe)
        put(self, "expires_after", expires_after)

    def invoke(self, arguments: bytes, context: ToolContext) -> Coroutine[Any, Any, ToolOutput | ParkedCall]:
        """Runs the tool with its arguments as JSON; what goes wrong in it is an error output.

        Only cancellation, `KeyboardInterrupt` and `SystemExit` pass through.
        """
        if self.call is None:
            raise ToolkitError(f"{self.name} is a relay tool, only the host can execute it", tool=self.name)
        return self.call(arguments, context)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the tool's own function, as if it had not been made a tool."""
        if self.function is None:
            raise ToolkitError(f"{self.name} is a relay tool, only the host can execute it", tool=self.name)
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<{'relay tool' if self.relay else 'tool'} {self.name}>"


def relay_tool(
    name: str, description: str, schema: Schema | None = None, *, expires_after: float | None = None
) -> Tool:
    """A tool with a schema and no behaviour: its calls halt the run, and the host executes them.

    With `expires_after` a request for a call of it expires so many seconds after it was made, whatever the client's
    `requests_expire_after` is; several calls on one request have the shortest of their times.

    >>> relay_tool("lookup", "look something up").schema
    {'type': 'object', 'properties': {}}
    """
    told, own = _describe(name, description), _own(name, schema)
    return Tool(_name(name), told, own, relay=True, expires_after=_lasting(name, expires_after))


@overload
def define_tool(
    function: Callable[..., Any],
    /,
    description: str | None = None,
    schema: Schema | None = None,
    *,
    retry_safe: bool = False,
) -> Tool: ...


@overload
def define_tool(
    name: str,
    description: str,
    schema: Schema | None,
    fn: Callable[[dict[str, Any], ToolContext], Any],
    *,
    retry_safe: bool = False,
) -> Tool: ...


@overload
def define_tool(
    name: str | None = None,
    description: str | None = None,
    schema: Schema | None = None,
    *,
    retry_safe: bool = False,
) -> Callable[[Callable[..., Any]], Tool]: ...


def define_tool(
    name: Callable[..., Any] | str | None = None,
    description: str | None = None,
    schema: Schema | None = None,
    fn: Callable[..., Any] | None = None,
    *,
    retry_safe: bool = False,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """A tool that runs in this process.

    As a decorator, bare or with arguments, it makes name, description and schema from the
    function's name, docstring and type hints; each can be given instead. As
    `define_tool(name, description, schema, fn)` it takes `fn(arguments, context)` as it is.

    The function may be `async`, or plain: then it runs in a worker thread with the caller's context
    variables. It returns text, any JSON value, pydantic models or dataclasses (the model reads their
    JSON; None is `null`), `Image` and `File` alone or in a list, or `pending(...)` to park the call.
    An exception is an error output `TypeName: message`; `ToolError` gives its text alone.

    `retry_safe=True` says that the call may run again from its beginning: a worker that goes on with a stored
    conversation whose process died does so, instead of telling the model that the call may have run (contract 7.6).

    >>> @define_tool
    ... async def tide(port: str, days: int = 1) -> dict[str, float]:
    ...     '''High water at a port.'''
    ...     return {"metres": 4.2}
    >>> tide.name, tide.description, tide.schema["required"]
    ('tide', 'High water at a port.', ['port'])

    Raises `ToolkitError` naming the tool for a function that no schema can describe.
    """
    from inspect import currentframe

    from toolrelay._call import raw, typed

    if fn is not None:
        tool = _name(name)
        call = raw(tool, fn)
        told, own = _describe(tool, description), _own(tool, schema)
        return Tool(tool, told, own, function=fn, call=call, retry_safe=retry_safe)
    frame = currentframe()
    scope = frame.f_back.f_locals if frame is not None and frame.f_back is not None else {}

    def define(function: Callable[..., Any]) -> Tool:
        tool = _name(name if isinstance(name, str) else getattr(function, "__name__", None))
        made = typed(tool, function, None if schema is None else _own(tool, schema), scope)
        told = _describe(tool, made.description if description is None else description)
        return Tool(tool, told, made.schema, function=function, call=made.call, retry_safe=retry_safe)

    return define(name) if callable(name) else define


def pending(
    kind: str,
    prompt: str,
    data: Mapping[str, Any] | None = None,
    url: str | None = None,
    expires_at: datetime | None = None,
) -> ParkedCall:
    """What a tool returns, or raises, to park its call until an answer comes (contract 4.6, 6.8).

    The tool then runs once more, with the answer in its context.

    >>> @define_tool
    ... async def pay(amount: int, context: ToolContext) -> object:
    ...     '''Pays.'''
    ...     if context.answer is None:
    ...         return pending("approval", f"Pay {amount} EUR?", {"amount": amount})
    ...     return "paid"
    """
    if kind == RELAY_KIND:
        raise PayloadError(f"kind: {RELAY_KIND} is for relay tools, choose another", key="kind")
    return ParkedCall(Request("", kind, prompt, url, None if data is None else dict(data), expires_at))


def _name(name: object) -> str:
    if not isinstance(name, str) or not name.strip():
        raise ToolkitError("a tool needs a name", tool=None)
    return clean(name)


def _describe(name: str, description: object) -> str:
    if not isinstance(description, str):
        raise ToolkitError(f"{name}: expected a description as text, got {type(description).__name__}", tool=name)
    return clean(description)


def _lasting(name: str, seconds: Any) -> float | None:
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < _LONGEST:
        raise ToolkitError(f"{name}: expires_after must be a positive number of seconds, not {seconds!r}", tool=name)
    return float(seconds)


def _own(name: str, schema: Schema | None) -> dict[str, Any]:
    """The tool's own copy of a schema; the host's object is never changed."""
    if schema is None:
        return {"type": "object", "properties": {}}
    try:
        copy = plain(schema, "schema")
    except PayloadError as error:
        raise ToolkitError(f"{name}: {error}", tool=name) from None
    if not isinstance(copy, dict) or copy.get("type", "object") != "object":
        raise ToolkitError(f"{name}: the schema must describe an object", tool=name)
    _required.check(name, copy)
    return copy


_LONGEST = 1e11
"""Seconds: some three thousand years."""
PASSING = (CancelledError, GeneratorExit, KeyboardInterrupt, SystemExit)
"""What code of the host may raise that is no error of a run: it passes through."""
