"""One call of a Python tool: read the arguments, run the function, render what it gave.

This module owns the two ways to run, on the loop and in a thread. What can be decided when the tool
is defined is decided then, so that a call costs little more than its function.
"""

from __future__ import annotations

import inspect
from asyncio import CancelledError, get_running_loop
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, NamedTuple

from toolrelay._render import failed, raised, render
from toolrelay._schema import InvalidArgumentsError, read_object, reader_of, schema_of
from toolrelay._signature import read_signature, source_of
from toolrelay._text import clean
from toolrelay.errors import ToolkitError
from toolrelay.tools import PASSING, ParkedCall, ToolContext, ToolOutput

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    Start = Callable[[bytes, ToolContext], Any]
    Call = Callable[[bytes, ToolContext], Coroutine[Any, Any, ToolOutput | ParkedCall]]


class Made(NamedTuple):
    """What `define_tool` needs of a function."""

    description: str
    schema: dict[str, Any]
    call: Call


def typed(tool: str, function: Callable[..., Any], schema: dict[str, Any] | None, scope: Mapping[str, Any]) -> Made:
    """For a function that takes its arguments by name; a given schema is believed over its hints."""
    signature = read_signature(tool, function, scope)
    read = reader_of(tool, signature.parameters)
    contexts = signature.contexts

    def start(arguments: bytes, context: ToolContext) -> Any:
        values = read(arguments)
        for name in contexts:
            values[name] = context
        return function(**values)

    call = _on_loop(tool, start) if signature.is_async else _in_thread(tool, start)
    schema = schema_of(tool, signature.parameters) if schema is None else schema
    return Made(signature.description, schema, call)


def raw(tool: str, function: Callable[..., Any]) -> Call:
    """For a function that takes `(arguments, context)`."""
    if not callable(function):
        raise ToolkitError(f"{tool}: expected a function, got {type(function).__name__}", tool=tool)
    try:
        inspect.signature(function).bind({}, None)
    except (TypeError, ValueError):
        raise ToolkitError(f"{tool}: the function must take (arguments, context)", tool=tool) from None

    def start(arguments: bytes, context: ToolContext) -> Any:
        return function(read_object(arguments), context)

    return (_on_loop if inspect.iscoroutinefunction(source_of(function)) else _in_thread)(tool, start)


def _on_loop(tool: str, start: Start) -> Call:
    async def call(arguments: bytes, context: ToolContext) -> ToolOutput | ParkedCall:
        try:
            value = await start(arguments, context)
        except InvalidArgumentsError as error:
            return failed(f"invalid arguments: {error}")
        except PASSING:
            raise
        except BaseException as error:  # noqa: BLE001 - a tool may raise anything (contract 2.6)
            return raised(tool, error)
        if type(value) is str:
            return ToolOutput(clean(value))
        return render(tool, value)

    return call


def _in_thread(tool: str, start: Start) -> Call:
    """A thread of the loop's default executor. Exceptions are settled there: asyncio loses a StopIteration."""

    def work(arguments: bytes, context: ToolContext) -> Any:
        try:
            value = start(arguments, context)
        except InvalidArgumentsError as error:
            return failed(f"invalid arguments: {error}")
        except PASSING:
            raise
        except BaseException as error:  # noqa: BLE001 - as above
            return raised(tool, error)
        return value if inspect.isawaitable(value) else render(tool, value)

    async def call(arguments: bytes, context: ToolContext) -> ToolOutput | ParkedCall:
        try:
            run: Callable[..., Any] = copy_context().run
            value: Any = await get_running_loop().run_in_executor(None, run, work, arguments, context)
        except CancelledError:
            context.cancel()
            raise
        if isinstance(value, ToolOutput | ParkedCall):
            return value
        try:
            return render(tool, await value)
        except PASSING:
            raise
        except BaseException as error:  # noqa: BLE001 - as above
            return raised(tool, error)

    return call
