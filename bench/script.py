"""Turns a recording of the model server into the script that a floor replays.

The requests of one conversation repeat each other: the history stands in all of them. A script holds once what they
share, as a client would that keeps its transcript in one buffer, and for each request the bytes around it. In native
byte order:

    length of the shared bytes, the shared bytes
    for each request: length of its head, number of shared bytes in it, length of its tail; its head, its tail
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

_LENGTH = struct.Struct("=I")
_LENGTHS = struct.Struct("=III")
_WORTH_SHARING = 4096


@dataclass(frozen=True, slots=True)
class Frame:
    """One request: `head`, then the first `shared` of the shared bytes, then `tail`."""

    head: bytes
    shared: int = 0
    tail: bytes = b""


@dataclass(frozen=True, slots=True)
class Script:
    """The requests of one pass."""

    shared: bytes
    frames: list[Frame]

    @classmethod
    def read(cls, path: Path) -> Script:
        """Read what `write` has written."""
        data = path.read_bytes()
        (length,) = _LENGTH.unpack_from(data)
        at = _LENGTH.size + length
        shared, frames = data[_LENGTH.size : at], []
        while at < len(data):
            head, count, tail = _LENGTHS.unpack_from(data, at)
            at += _LENGTHS.size
            frames.append(Frame(data[at : at + head], count, data[at + head : at + head + tail]))
            at += head + tail
        return cls(shared, frames)

    def write(self, path: Path) -> None:
        """Write it for the floors."""
        with path.open("wb") as file:
            file.write(_LENGTH.pack(len(self.shared)) + self.shared)
            for frame in self.frames:
                file.write(_LENGTHS.pack(len(frame.head), frame.shared, len(frame.tail)) + frame.head + frame.tail)

    @classmethod
    def of_recording(cls, path: Path) -> Script:
        """What a client has sent, as the model server has recorded it."""
        requests = _recorded(path)
        longest = max((_body(request) for request in requests), key=len)
        frames = []
        for request in requests:
            body = _body(request)
            count = _common_prefix(body, longest)
            if count < _WORTH_SHARING:
                frames.append(Frame(request))
            else:
                head = request[: len(request) - len(body)]
                frames.append(Frame(head, count, body[count:]))
        return cls(longest if any(frame.shared for frame in frames) else b"", frames)


def _recorded(path: Path) -> list[bytes]:
    recording = path.read_bytes()
    requests, at = [], 0
    while at < len(recording):
        (length,) = _LENGTH.unpack_from(recording, at)
        at += _LENGTH.size + length
        requests.append(recording[at - length : at])
    return requests


def _body(request: bytes) -> bytes:
    return request[request.index(b"\r\n\r\n") + 4 :]


def _common_prefix(one: bytes, other: bytes) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
