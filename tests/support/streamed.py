"""Chat Completions replies as they are streamed, and the reading of a run's events."""

from collections.abc import Iterable
from typing import Any

from scripted_server import Reply, sse, stream
from toolrelay import Stream
from toolrelay.events import Event


def delta(finish_reason: str | None = None, **fields: Any) -> bytes:
    """One event with this delta."""
    choice = {"index": 0, "delta": fields, "finish_reason": finish_reason}
    return sse({"id": "chatcmpl-1", "model": "gpt-test-1", "choices": [choice]})


def end(finish_reason: str = "stop") -> tuple[bytes, ...]:
    """What ends a reply: the reason, the usage, the mark."""
    usage = {"prompt_tokens": 9, "completion_tokens": 4}
    return delta(finish_reason), sse({"choices": [], "usage": usage}), sse("[DONE]")


def texts(*pieces: str, **more: Any) -> Reply:
    """A text in these pieces."""
    return stream(*(delta(content=piece) for piece in pieces), *end(), **more)


def calls(*made: tuple[str, str, str], text: str = "") -> Reply:
    """A reply with these calls: id, name and argument text, which comes in two halves."""
    pieces = [delta(content=text)] if text else []
    for index, (call_id, name, arguments) in enumerate(made):
        begun = {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}
        pieces.append(delta(tool_calls=[begun]))
        half = len(arguments) // 2
        halves = ({"arguments": arguments[:half]}, {"arguments": arguments[half:]})
        pieces += [delta(tool_calls=[{"index": index, "function": piece}]) for piece in halves]
    return stream(*pieces, *end("tool_calls"))


async def read(stream: Stream) -> list[Event]:
    """All events."""
    return [event async for event in stream]


def joined(events: Iterable[Any], kind: type) -> str:
    """The texts of all deltas of this kind."""
    return "".join(event.text for event in events if isinstance(event, kind))
