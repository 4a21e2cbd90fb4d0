"""Text that no database, provider or codec chokes on (contract 9.5).

This module owns single strings; JSON values are `_json`'s.
"""

from __future__ import annotations


def clean(text: str) -> str:
    """`text` with NUL and lone surrogates replaced by U+FFFD; halves of a pair become their character.

    >>> clean("a\\0b \\ud83d")
    'a\ufffdb \ufffd'
    """
    if type(text) is not str:
        text = str.__str__(text)  # an enum's own `__str__` is not its text
    if "\0" in text:
        text = text.replace("\0", REPLACEMENT)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def describe(error: BaseException) -> str:
    """`TypeName: message`, for whoever reads an exception without its traceback."""
    name = type(error).__name__
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - __str__ is anybody's code
        return name
    return f"{name}: {message}" if message else name


REPLACEMENT = "\ufffd"
