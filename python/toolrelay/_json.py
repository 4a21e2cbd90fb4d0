"""JSON values and their text: what may be one, and what its bytes are.

This module owns the check that a Python value is a JSON value, and reading and writing that loses
nothing: integers of any size stay exact, NUL and lone surrogates become U+FFFD, NaN is refused. It
knows nothing of requests or tools. `json` is imported at first use: it costs more than this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolrelay._text import clean
from toolrelay.errors import PayloadError

if TYPE_CHECKING:
    from collections.abc import Callable


def plain(value: object, key: str, convert: Callable[[object], object] | None = None) -> Any:
    """A copy of `value` made of str, int, float, bool, None, list and dict only, with clean text.

    Subclasses lose their class and tuples become lists. `convert` turns what is none of these into
    a value that is, or returns it as it came. Raises `PayloadError` naming the place below `key`.
    """
    try:
        return _copy(value, convert, 0)
    except _RefusedError as refused:
        place = clean(key + "".join(reversed(refused.steps)))
        if len(place) > _PLACE_CHARS:
            place = f"{place[:_PLACE_CHARS]}…"
        raise PayloadError(f"{place}: {refused.reason}", key=place) from None
    except RecursionError:
        raise PayloadError(f"{key}: nested too deeply for the stack that is left", key=key) from None


def encode(value: Any) -> str:
    """The compact JSON text of what `plain` returned."""
    import json

    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:  # an integer past the interpreter's limit of digits
        return _write(value)


def decode(text: str | bytes | bytearray) -> Any:
    """The value of a JSON text. Raises `ValueError` for what is not JSON, NaN and Infinity included.

    Its strings are as they came: `plain` cleans them.
    """
    import json

    if not isinstance(text, str):
        text = text.decode()
    try:
        return json.loads(text, parse_constant=_refuse)
    except json.JSONDecodeError:
        raise
    except RecursionError:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels") from None
    except ValueError:
        return json.loads(text, parse_constant=_refuse, parse_int=_read_int)


class _RefusedError(Exception):
    """Why a value is not JSON; the steps to it are added on the way out, innermost first."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.steps: list[str] = []


def _copy(value: object, convert: Callable[[object], object] | None, depth: int) -> Any:
    if isinstance(value, str):
        return clean(value)
    if value is None or value is True or value is False:
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if value - value != 0.0:
            raise _RefusedError(f"{float(value)!r} is not a JSON number")
        return float(value)
    if depth == MAX_DEPTH:
        raise _RefusedError(f"nested deeper than {MAX_DEPTH} levels, or holds itself")
    step: object = None
    try:
        if isinstance(value, dict):
            copy = {}
            for step, item in value.items():
                if not isinstance(step, str):
                    raise _RefusedError("the key is not a string")
                copy[clean(step)] = _copy(item, convert, depth + 1)
            return copy
        if isinstance(value, list | tuple):
            items: list[Any] = []
            for item in value:
                step = len(items)
                items.append(_copy(item, convert, depth + 1))
            return items
    except _RefusedError as refused:
        refused.steps.append(f".{step}" if isinstance(step, str) else f"[{step!r}]")
        raise
    if convert is not None and (converted := convert(value)) is not value:
        return _copy(converted, convert, depth + 1)
    raise _RefusedError(f"{type(value).__name__} is not a JSON value")


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


def _read_int(digits: str) -> int:
    from decimal import Decimal

    return int(Decimal(digits))


def _write(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{encode(name)}:{_write(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_write, value)) + "]"
    if isinstance(value, int) and not isinstance(value, bool):
        from decimal import Decimal

        return str(Decimal(value))
    return encode(value)


MAX_DEPTH = 100
_PLACE_CHARS = 120
