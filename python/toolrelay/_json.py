"""JSON values and their text: what may be one, and what its bytes are.

This module owns the check that a Python value is a JSON value, and reading and writing that loses
nothing: integers of any size stay exact, NUL and lone surrogates become U+FFFD, NaN is refused. It
knows nothing of requests or tools. `json` is imported at first use: it costs more than this package.
"""

# JSON values are any value, and callers without a type checker are checked here:
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnnecessaryIsInstance=false
from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from toolrelay._text import clean
from toolrelay.errors import PayloadError

if TYPE_CHECKING:
    from collections.abc import Callable


def plain(value: object, key: str, convert: Callable[[object], object] | None = None) -> Any:
    """A copy of `value` made of str, int, float, bool, None, list and dict only, with clean text.

    Subclasses lose their class and tuples become lists. `convert` turns what is none of these into
    a value that is, or returns it as it came; with it, keys that are no strings become their JSON text.
    Raises `PayloadError` naming the place below `key`.
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
    try:
        return _encoder()(value)
    except ValueError:  # an integer past the interpreter's limit of digits
        return _write(value)


def decode(text: str | bytes | bytearray) -> Any:
    """The value of a JSON text. Raises `ValueError` for what is not JSON, NaN and Infinity included.

    Its strings are as they came: `plain` cleans them.
    """
    if not isinstance(text, str):
        text = text.decode()
    try:
        value, end = _decoder()(text)
    except (ValueError, RecursionError):
        return _decode_carefully(text)
    return value if end == len(text) else _decode_carefully(text)


@cache
def _encoder() -> Callable[[Any], str]:
    import json

    return json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


@cache
def _decoder() -> Callable[[str], tuple[Any, int]]:
    """The decoder that takes no blanks around the value, in half the time of the other."""
    import json

    return json.JSONDecoder(parse_constant=_refuse).raw_decode


def _decode_carefully(text: str) -> Any:
    import json

    try:
        return json.loads(text, parse_constant=_refuse, parse_int=_read_int)
    except RecursionError:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels") from None


class _RefusedError(Exception):
    """Why a value is not JSON; the steps to it are added on the way out, innermost first."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.steps: list[str] = []


def _copy(value: Any, convert: Callable[[object], object] | None, depth: int) -> Any:
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
    step: Any = None
    try:
        if isinstance(value, dict):
            copy: dict[str, Any] = {}
            for step, item in value.items():
                name = step if isinstance(step, str) or convert is None else _name(step, convert)
                if not isinstance(name, str):
                    raise _RefusedError("the key is not a string")
                copy[clean(name)] = _copy(item, convert, depth + 1)
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


def _name(key: object, convert: Callable[[object], object]) -> object:
    """A key as JSON writes it: what `json.dumps` does, and what `convert` makes a string of."""
    if key is None or isinstance(key, int | float):
        return encode(_copy(key, None, 0))
    return convert(key)


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
