"""Parts of a prompt or of a tool's result: text, images and files (contract 1.3).

This module owns these values and their OpenAI-shaped dicts; how each provider wants them is the
wires' business. A part is what its class says, never guessed from a value's shape.
"""

# Callers without a type checker are checked here:
# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

from typing import Any

from toolrelay._text import clean
from toolrelay._value import Value, put, value
from toolrelay.errors import PayloadError


@value
class Text(Value):
    """A text among other parts."""

    text: str

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise PayloadError(f"text: expected a string, got {type(text).__name__}", key="text")
        put(self, "text", clean(text))

    def to_dict(self) -> dict[str, Any]:
        """The part in the OpenAI shape."""
        return {"type": "text", "text": self.text}


@value
class Image(Value):
    """An image: its bytes and their MIME type, or the URL where the provider fetches it.

    >>> Image(url="https://example.org/map.png").to_dict()
    {'type': 'image_url', 'image_url': {'url': 'https://example.org/map.png'}}
    """

    data: bytes | None
    mime: str | None
    url: str | None

    def __init__(self, data: bytes | None = None, mime: str | None = None, url: str | None = None) -> None:
        _fill(self, data, mime, url)

    def to_dict(self) -> dict[str, Any]:
        """The part in the OpenAI shape; bytes become a data URL."""
        return {"type": "image_url", "image_url": {"url": _url(self)}}

    def __repr__(self) -> str:
        return _show(self)


@value
class File(Value):
    """A file: its bytes and their MIME type, or the URL where the provider fetches it.

    >>> File(b"a,b", "text/csv", name="table.csv").to_dict()
    {'type': 'file', 'file': {'filename': 'table.csv', 'file_data': 'data:text/csv;base64,YSxi'}}
    """

    data: bytes | None
    mime: str | None
    url: str | None
    name: str | None

    def __init__(
        self, data: bytes | None = None, mime: str | None = None, url: str | None = None, name: str | None = None
    ) -> None:
        _fill(self, data, mime, url)
        if name is not None and not isinstance(name, str):
            raise PayloadError(f"name: expected a string, got {type(name).__name__}", key="name")
        put(self, "name", name if name is None else clean(name))

    def to_dict(self) -> dict[str, Any]:
        """The part in the OpenAI shape; bytes become a data URL under `file_data`."""
        file = {} if self.name is None else {"filename": self.name}
        file["file_url" if self.data is None else "file_data"] = _url(self)
        return {"type": "file", "file": file}

    def __repr__(self) -> str:
        return _show(self)


def _fill(part: Image | File, data: bytes | None, mime: str | None, url: str | None) -> None:
    if (data is None) is (url is None):
        raise PayloadError("data: give either data or url", key="data")
    if data is not None and not isinstance(data, bytes):
        raise PayloadError(f"data: expected bytes, got {type(data).__name__}", key="data")
    if data is not None and (not isinstance(mime, str) or "/" not in mime):
        raise PayloadError('mime: data needs its MIME type, such as "image/png"', key="mime")
    if url is not None and not isinstance(url, str):
        raise PayloadError(f"url: expected a string, got {type(url).__name__}", key="url")
    put(part, "data", data)
    put(part, "mime", mime if mime is None else clean(mime))
    put(part, "url", url if url is None else clean(url))


def _url(part: Image | File) -> str:
    if part.data is None:
        return part.url or ""
    from base64 import b64encode

    return f"data:{part.mime};base64,{b64encode(part.data).decode()}"


def _show(part: Image | File) -> str:
    """A repr without the bytes: they would drown a log."""
    source = f"url={part.url!r}" if part.data is None else f"data=<{len(part.data)} bytes>, mime={part.mime!r}"
    return f"{type(part).__name__}({source})"
