"""One call of a provider in the shapes of Chat Completions: the caller's side of `Client.translate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from toolrelay._core import _translate
from toolrelay._inputs import native_history
from toolrelay._json import encode, plain
from toolrelay._settings import native_choice
from toolrelay.errors import ConfigurationError, PayloadError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from toolrelay._core import NativeClient


def whole(
    native: NativeClient,
    messages: object,
    tools: object,
    tool_choice: object,
    parallel_tool_calls: object,
    extras: object,
    params: Mapping[str, Any],
) -> Awaitable[dict[str, Any]]:
    """The response to one call, as a dict."""
    history = native_history(messages)
    if history is None:
        raise PayloadError("messages: expected a list of messages, got None", key="messages")
    return _translate(
        native,
        copy_context(),
        history,
        _tools(tools),
        _choice(tool_choice),
        _flag("parallel_tool_calls", parallel_tool_calls),
        _params(params),
        _flag("extras", extras) is not False,
    )


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
    return [(name, encode(plain(value, name))) for name, value in params.items() if name != "stream_options"]
