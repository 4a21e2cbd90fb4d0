"""What a tool may return beside text: images and files (contract 1.3).

This module owns these values and their OpenAI-shaped dicts; how each provider wants them is the
wires' business. A part is what its class says, never guessed from a value's shape.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from toolrelay._text import clean
from toolrelay._value import Value
from toolrelay.errors import PayloadError


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Text(Value):
    """A text among other parts."""

    text: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise PayloadError(f"text: expected a string, got {type(self.text).__name__}", key="text")
        object.__setattr__(self, "text", clean(self.text))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Image(Value):
    """An image: its bytes and their MIME type, or the URL where the provider fetches it.

    >>> Image(url="https://example.org/map.png").to_dict()
    {'type': 'image_url', 'image_url': {'url': 'https://example.org/map.png'}}
    """

    data: bytes | None = None
    mime: str | None = None
    url: str | None = None

    def __post_init__(self) -> None:
        _check(self)

    def to_dict(self) -> dict[str, Any]:
        """The part in the OpenAI shape; bytes become a data URL."""
        return {"type": "image_url", "image_url": {"url": _url(self)}}

    def __repr__(self) -> str:
        return _show(self)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class File(Value):
    """A file: its bytes and their MIME type, or the URL where the provider fetches it.

    >>> File(b"a,b", "text/csv", name="table.csv").to_dict()
    {'type': 'file', 'file': {'filename': 'table.csv', 'file_data': 'data:text/csv;base64,YSxi'}}
    """

    data: bytes | None = None
    mime: str | None = None
    url: str | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        _check(self)
        if self.name is not None and not isinstance(self.name, str):
            raise PayloadError(f"name: expected a string, got {type(self.name).__name__}", key="name")

    def to_dict(self) -> dict[str, Any]:
        """The part in the OpenAI shape; bytes become a data URL under `file_data`."""
        file = {} if self.name is None else {"filename": clean(self.name)}
        file["file_url" if self.data is None else "file_data"] = _url(self)
        return {"type": "file", "file": file}

    def __repr__(self) -> str:
        return _show(self)


def _check(part: Image | File) -> None:
    if (part.data is None) is (part.url is None):
        raise PayloadError("data: give either data or url", key="data")
    if part.data is None:
        if not isinstance(part.url, str):
            raise PayloadError(f"url: expected a string, got {type(part.url).__name__}", key="url")
        return
    if not isinstance(part.data, bytes):
        raise PayloadError(f"data: expected bytes, got {type(part.data).__name__}", key="data")
    if not isinstance(part.mime, str) or "/" not in part.mime:
        raise PayloadError('mime: data needs its MIME type, such as "image/png"', key="mime")


def _url(part: Image | File) -> str:
    if part.data is None:
        return clean(part.url or "")
    from base64 import b64encode

    return f"data:{clean(part.mime or '')};base64,{b64encode(part.data).decode()}"


def _show(part: Image | File) -> str:
    """A repr without the bytes: they would drown a log."""
    source = f"url={part.url!r}" if part.data is None else f"data=<{len(part.data)} bytes>, mime={part.mime!r}"
    return f"{type(part).__name__}({source})"
