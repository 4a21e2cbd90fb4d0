"""What a run has the event loop do: run a tool, ask the host inline, call an in-process model, use the host's store.

This module owns the tasks; the native module calls its `start_*` functions on the loop's thread and
learns the end through the reply. It decides nothing of the run.
"""

from __future__ import annotations

import asyncio
import concurrent.futures.thread  # noqa: F401 - asyncio would import it in the middle of a run, where a fork may find it half done
import inspect
from collections.abc import AsyncIterable
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Literal

from toolrelay._json import decode, encode
from toolrelay._text import clean, describe
from toolrelay.errors import PayloadError
from toolrelay.inprocess import InProcessRequest, reply_of, say
from toolrelay.relay import Answer
from toolrelay.tools import PASSING, ToolContext, ToolOutput

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context

    from toolrelay._core import Reply, Speech
    from toolrelay.relay import Request
    from toolrelay.stores import Store
    from toolrelay.tools import Tool


def start_tool(
    context: Context, tool: Tool, arguments: bytes, call_id: str, answer: Answer | None, key: str, reply: Reply
) -> asyncio.Task[None]:
    """Runs a local tool as a task with the caller's context variables."""
    run = _run_tool(tool, arguments, ToolContext(call_id, tool.name, answer, key), reply)
    return asyncio.get_running_loop().create_task(run, context=context.copy())


async def _run_tool(tool: Tool, arguments: bytes, context: ToolContext, reply: Reply) -> None:
    try:
        end = await tool.invoke(arguments, context)
        if isinstance(end, ToolOutput):
            reply.finish(end.text, encode(end.parts) if end.parts else None, end.is_error)
        else:
            reply.park(end.to_json())
    except PASSING:
        context.cancel()
        _give_up(reply)
        raise
    except BaseException as error:  # noqa: BLE001 - a run that is not told the end of its tool never ends
        reply.finish(clean(describe(error)), None, True)


def start_ask(
    context: Context, wait_for: Callable[[Request], Any], request: Request, reply: Reply
) -> asyncio.Task[None]:
    """Asks the host inline for an answer to a request."""
    return asyncio.get_running_loop().create_task(_ask(wait_for, request, reply), context=context.copy())


async def _ask(wait_for: Callable[[Request], Any], request: Request, reply: Reply) -> None:
    try:
        answer = await _call(wait_for, request)
        if answer is None:
            reply.not_here()
        elif isinstance(answer, Answer):
            reply.answer(answer.to_json())
        else:
            raise PayloadError(f"wait_for must return an Answer or None, not {type(answer).__name__}", key="answer")
    except PASSING:
        _give_up(reply)
        raise
    except BaseException as error:  # noqa: BLE001 - whatever it is, it reaches the caller as the cause
        reply.ask_failed(error)


def start_model(
    context: Context, generate: Callable[[Any], Any], body: bytes, speech: Speech, reply: Reply
) -> asyncio.Task[None]:
    """Calls the in-process model."""
    return asyncio.get_running_loop().create_task(_generate(generate, body, speech, reply), context=context.copy())


async def _generate(generate: Callable[[Any], Any], body: bytes, speech: Speech, reply: Reply) -> None:
    try:
        made = await _call(generate, InProcessRequest(body))
        if isinstance(made, AsyncIterable):
            await _speak(made, speech)
            reply.spoken(speech)
        else:
            reply.model(reply_of(made))
    except PASSING:
        _give_up(reply)
        raise
    except BaseException as error:  # noqa: BLE001 - whatever it is, it reaches the caller as the cause
        reply.model_failed(error, clean(describe(error)), speech)


async def _speak(pieces: AsyncIterable[Any], speech: Speech) -> None:
    """Tells the pieces of a reply as they come, each when there is room for it; closes what gives them."""
    close = getattr(pieces, "aclose", None)
    try:
        async for piece in pieces:
            room = say(piece, speech)
            if room is not None:
                await room
    finally:
        if close is not None:
            await close()


def start_store(
    context: Context,
    store: Store,
    method: Literal["load", "request", "commit", "delete", "leases", "open_requests"],
    arguments: tuple[Any, ...],
    reply: Reply,
) -> asyncio.Task[None]:
    """Calls a method of the host's own store."""
    return asyncio.get_running_loop().create_task(_store(store, method, arguments, reply), context=context.copy())


async def _store(store: Store, method: str, arguments: tuple[Any, ...], reply: Reply) -> None:
    try:
        reply.kept(method, await getattr(store, method)(*arguments))
    except PASSING:
        _give_up(reply)
        raise
    except BaseException as error:  # noqa: BLE001 - whatever it is, it reaches the caller as the cause
        reply.store_failed(error)


def abandon(event_loop: asyncio.AbstractEventLoop) -> None:
    """Ends the tasks of a loop that was closed: they cannot go on, and asyncio would tell of each of them."""
    for task in asyncio.all_tasks(event_loop):
        coroutine: Any = task.get_coro()
        if getattr(coroutine, "cr_code", None) in _OURS:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            with suppress(Exception):
                coroutine.close()


async def _call(function: Callable[[Any], Any], argument: Any) -> Any:
    """Calls a function of the host: an async one here, a plain one in a worker thread."""
    if _is(inspect.isasyncgenfunction, function):
        return function(argument)
    if _is(inspect.iscoroutinefunction, function):
        return await function(argument)
    run: Callable[..., Any] = copy_context().run
    result = await asyncio.get_running_loop().run_in_executor(None, run, _in_thread, function, argument)
    return await result if inspect.isawaitable(result) else result


def _in_thread(function: Callable[[Any], Any], argument: Any) -> Any:
    try:
        return function(argument)
    except StopIteration as stop:  # a future cannot carry it, and who waits would wait for ever
        raise RuntimeError(f"{getattr(function, '__name__', 'the function')} raised StopIteration") from stop


def _give_up(reply: Reply) -> None:
    """Lets go of the reply, which the task would keep with its exception's traceback."""
    reply.give_up()
    task = asyncio.current_task()
    if task is not None:
        task.add_done_callback(_retrieve)


def _retrieve(task: asyncio.Task[Any]) -> None:
    """`KeyboardInterrupt` and `SystemExit` leave through the loop; asyncio is not to tell of them once more."""
    if not task.cancelled():
        task.exception()


def _is(kind: Callable[[Any], bool], function: Callable[[Any], Any]) -> bool:
    return kind(function) or kind(type(function).__call__)


encode(decode(b"{}"))  # has them import `json` now, for the same reason
_OURS = frozenset(function.__code__ for function in (_run_tool, _ask, _generate, _store))
