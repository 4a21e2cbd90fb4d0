"""What a tool returned or raised, as an output for the model (contract 2.6, 3.4).

This module owns the texts of outputs. It never raises: what cannot be an output is an error output
that says why.
"""

# JSON values are any value, and callers without a type checker are checked here:
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnnecessaryIsInstance=false
from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from toolrelay._json import encode, plain
from toolrelay._text import clean, describe
from toolrelay.errors import PayloadError, ToolError
from toolrelay.parts import File, Image, Text
from toolrelay.tools import ParkedCall, ToolOutput

if TYPE_CHECKING:
    from collections.abc import Sequence


def render(tool: str, value: Any) -> ToolOutput | ParkedCall:
    """The output for what a tool returned."""
    try:
        if isinstance(value, str):
            return ToolOutput(clean(value))
        if isinstance(value, ParkedCall):
            return value
        if isinstance(value, ToolOutput):
            return ToolOutput(clean(value.text), value.parts and plain(value.parts, "parts"), value.is_error)
        if isinstance(value, Text | Image | File):
            return _of_parts([value])
        if isinstance(value, list | tuple) and any(isinstance(item, Text | Image | File) for item in value):
            return _of_parts(value)
        return ToolOutput(_json_text(value))
    except PayloadError as error:
        return failed(f"the tool's result is not JSON: {error}")
    except Exception as error:  # noqa: BLE001 - a value's own code may raise anything
        return raised(tool, error)


def raised(tool: str, error: BaseException) -> ToolOutput | ParkedCall:
    """The output for what a tool raised; the traceback goes to the log at debug level."""
    if isinstance(error, ParkedCall):
        return error
    _LOG.debug("tool %s raised", tool, exc_info=error)
    if isinstance(error, ToolError):
        return failed(str(error) or "the tool failed")
    text = describe(error)
    return failed(text if len(text) <= _ERROR_CHARS else f"{text[:_ERROR_CHARS]}…")


def failed(text: str) -> ToolOutput:
    """An error output."""
    return ToolOutput(clean(text), is_error=True)


def _of_parts(items: Sequence[Any]) -> ToolOutput:
    texts: list[str] = []
    parts: list[dict[str, Any]] = []
    for at, item in enumerate(items):
        if isinstance(item, Text):
            texts.append(item.text)
        elif isinstance(item, str):
            texts.append(clean(item))
        elif isinstance(item, Image | File):
            parts.append(item.to_dict())
        else:
            key = f"result[{at}]"
            raise PayloadError(f"{key}: {type(item).__name__} beside parts, only Text, Image, File and str go", key=key)
    return ToolOutput("\n".join(texts), parts or None)


def _json_text(value: Any) -> str:
    try:
        text = _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError):
        text = ""
    if not text or _NUL_ESCAPE in text:
        return encode(plain(value, "result", _convert))
    return clean(text)


def _convert(value: object) -> object:
    """The JSON value that stands for a Python value which is none; other values as they came."""
    serializer = getattr(type(value), "__pydantic_serializer__", None)
    if serializer is not None:
        return serializer.to_python(value, mode="json")
    fields = getattr(type(value), "__dataclass_fields__", None)
    if fields is not None:
        return {name: getattr(value, name) for name in fields}
    from datetime import date, time
    from decimal import Decimal
    from enum import Enum
    from pathlib import PurePath
    from uuid import UUID

    if isinstance(value, Enum):
        return value.value
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal | PurePath | UUID):
        return str(value)
    return value


def _convert_or_refuse(value: object) -> object:
    converted = _convert(value)
    if converted is value:
        raise TypeError
    return converted


_LOG = logging.getLogger("toolrelay.tools")
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_convert_or_refuse)
_NUL_ESCAPE = "\\u0000"
_ERROR_CHARS = 2_000
