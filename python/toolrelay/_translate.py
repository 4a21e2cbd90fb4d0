"""One call of a provider in the shapes of Chat Completions: `Client.translate`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, overload

from toolrelay._core import _translate
from toolrelay._end import stopped
from toolrelay._inputs import native_history
from toolrelay._json import encode, plain
from toolrelay._settings import native_choice
from toolrelay._sync import run_here
from toolrelay.errors import ConfigurationError, PayloadError
from toolrelay.streams import ChunkStream, SyncChunkStream

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolrelay._core import NativeClient, Translation
    from toolrelay.types import History, ToolChoice


class OneCall:
    """The part of a client that calls its model once."""

    __slots__ = ()

    _native: NativeClient

    @overload
    async def translate(
        self,
        *,
        messages: History,
        tools: Sequence[Mapping[str, Any]] | None = None,
        tool_choice: ToolChoice | None = None,
        parallel_tool_calls: bool | None = None,
        stream: Literal[False] | None = None,
        extras: bool = True,
        **params: Any,
    ) -> dict[str, Any]: ...

    @overload
    async def translate(
        self,
        *,
        messages: History,
        tools: Sequence[Mapping[str, Any]] | None = None,
        tool_choice: ToolChoice | None = None,
        parallel_tool_calls: bool | None = None,
        stream: Literal[True],
        stream_options: Mapping[str, bool] | None = None,
        extras: bool = True,
        **params: Any,
    ) -> ChunkStream: ...

    @overload
    async def translate(
        self,
        *,
        messages: History,
        tools: Sequence[Mapping[str, Any]] | None = None,
        tool_choice: ToolChoice | None = None,
        parallel_tool_calls: bool | None = None,
        stream: bool | None,
        stream_options: Mapping[str, bool] | None = None,
        extras: bool = True,
        **params: Any,
    ) -> dict[str, Any] | ChunkStream: ...

    async def translate(self, **asked: Any) -> dict[str, Any] | ChunkStream:
        """One call of the provider in the shapes of Chat Completions, whatever style it speaks.

        No loop and no state: nothing runs, nothing is stored, and of the client's settings those of runs
        (`system_prompt`, `tool_choice`, `max_turns`) do not count. `params` are parameters of Chat Completions, such as
        `temperature` or `max_completion_tokens`; one that the style has no word for is a `PayloadError`. Messages in
        which a call has no result are a `TranscriptError`, and nothing is sent.

        With `stream` the answer comes in chunks, once the first of them is there; `stream_options` may have
        `include_usage`.

        With `extras` the message in the response carries the provider's own blocks under the key `toolrelay`: sent back
        with the other messages, they reach the provider as it made them.
        """
        is_streamed, begin = _asked(self._native, **asked)
        if is_streamed:
            return await ChunkStream(begin)._opened()
        return await _whole(begin())

    @overload
    def translate_sync(
        self,
        *,
        messages: History,
        tools: Sequence[Mapping[str, Any]] | None = None,
        tool_choice: ToolChoice | None = None,
        parallel_tool_calls: bool | None = None,
        stream: Literal[False] | None = None,
        extras: bool = True,
        **params: Any,
    ) -> dict[str, Any]: ...

    @overload
    def translate_sync(
        self,
        *,
        messages: History,
        tools: Sequence[Mapping[str, Any]] | None = None,
        tool_choice: ToolChoice | None = None,
        parallel_tool_calls: bool | None = None,
        stream: Literal[True],
        stream_options: Mapping[str, bool] | None = None,
        extras: bool = True,
        **params: Any,
    ) -> SyncChunkStream: ...

    @overload
    def translate_sync(
        self,
        *,
        messages: History,
        tools: Sequence[Mapping[str, Any]] | None = None,
        tool_choice: ToolChoice | None = None,
        parallel_tool_calls: bool | None = None,
        stream: bool | None,
        stream_options: Mapping[str, bool] | None = None,
        extras: bool = True,
        **params: Any,
    ) -> dict[str, Any] | SyncChunkStream: ...

    def translate_sync(self, **asked: Any) -> dict[str, Any] | SyncChunkStream:
        """`translate` for a program without an event loop; streamed, the answer is a plain iterator."""
        is_streamed, begin = _asked(self._native, **asked)
        if is_streamed:
            return SyncChunkStream(ChunkStream(begin))._opened()

        async def whole() -> dict[str, Any]:
            return await _whole(begin())

        return run_here(whole())


async def _whole(call: Translation) -> dict[str, Any]:
    try:
        return await call.future()
    except asyncio.CancelledError:
        await stopped(call)
        raise
    finally:
        del call  # it holds the error, whose traceback holds this frame


def _asked(
    native: NativeClient,
    *,
    messages: object = None,
    tools: object = None,
    tool_choice: object = None,
    parallel_tool_calls: object = None,
    stream: object = None,
    stream_options: object = None,
    extras: object = True,
    **params: Any,
) -> tuple[bool, Callable[[], Translation]]:
    """Whether the answer is streamed, and what begins the call."""
    history = native_history(messages, "messages")
    if history is None:
        raise PayloadError("messages: expected a list of messages, got None", key="messages")
    is_streamed = _flag("stream", stream) is True
    return is_streamed, partial(
        _translate,
        native,
        copy_context(),
        history,
        _tools(tools),
        _choice(tool_choice),
        _flag("parallel_tool_calls", parallel_tool_calls),
        _params(params),
        _flag("extras", extras) is not False,
        _with_usage(is_streamed, stream_options),
    )


def _with_usage(is_streamed: bool, options: object) -> bool | None:
    """Whether the cost is asked for; None where the answer is not streamed."""
    name = "stream_options"
    if options is None:
        return False if is_streamed else None
    if not is_streamed:
        raise PayloadError(f"{name}: the answer is not streamed; pass stream=True", key=name)
    if not isinstance(options, Mapping):
        raise PayloadError(f"{name}: expected a dict, got {type(options).__name__}", key=name)
    if unknown := options.keys() - {"include_usage"}:
        raise PayloadError(f"{name}: there is include_usage, and no {min(map(str, unknown))}", key=name)
    return _flag("include_usage", options.get("include_usage")) is True


def _tools(tools: Any) -> str | None:
    if tools is None:
        return None
    if not isinstance(tools, Sequence) or isinstance(tools, str | bytes):
        raise PayloadError(f"tools: expected a list of dicts, got {type(tools).__name__}", key="tools")
    return encode(plain([dict(tool) if isinstance(tool, Mapping) else tool for tool in tools], "tools"))


def _choice(choice: object) -> tuple[str, str] | None:
    try:
        return native_choice(choice)
    except ConfigurationError as error:
        raise PayloadError(str(error), key="tool_choice") from None


def _flag(name: str, flag: Any) -> bool | None:
    if flag is not None and not isinstance(flag, bool):
        raise PayloadError(f"{name}: expected True, False or None, got {type(flag).__name__}", key=name)
    return flag


def _params(params: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name, encode(plain(value, name))) for name, value in params.items()]
