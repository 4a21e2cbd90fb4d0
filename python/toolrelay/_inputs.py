"""What callers pass to a client, checked at the door and turned into what the native client takes."""

# Callers without a type checker are checked here:
# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from toolrelay._core import Conversation, RunResult, Transcript
from toolrelay._json import encode, plain
from toolrelay._text import clean
from toolrelay.errors import PayloadError, ResumeError, StoreError, ToolkitError
from toolrelay.parts import File, Image, Text
from toolrelay.relay import Answer, Request
from toolrelay.toolkit import Toolkit

if TYPE_CHECKING:
    from toolrelay._core import NativeToolkit


def native_tools(toolkit: Any) -> NativeToolkit:
    if not isinstance(toolkit, Toolkit):
        raise ToolkitError(f"expected a Toolkit, got {type(toolkit).__name__}: make one with Toolkit([...])")
    return toolkit._native


def native_id(id: Any) -> str:
    """The id of a stored conversation; what else it may be, the native client says."""
    if not isinstance(id, str):
        raise PayloadError(f"id: expected text, got {type(id).__name__}", key="id")
    try:
        id.encode()
    except UnicodeEncodeError:
        raise StoreError("conversation id contains half of a surrogate pair, remove it", conversation=id) from None
    return id


def native_history(history: Any, name: str = "history") -> Transcript | bytes | None:
    if history is None or isinstance(history, Transcript):
        return history
    if isinstance(history, str):
        return history.encode("utf-8", "surrogatepass")
    if isinstance(history, bytes | bytearray):
        return bytes(history)
    if isinstance(history, Mapping):
        return encode(plain(dict(history), name)).encode()
    if isinstance(history, Sequence):
        return encode(plain(list(history), name)).encode()
    hint = ": pass its messages" if isinstance(history, RunResult | Conversation) else ""
    raise PayloadError(
        f"{name}: expected a Transcript, a list of messages or JSON, got {type(history).__name__}{hint}", key=name
    )


def native_json(name: str, value: Any, kind: type[Request | Answer]) -> bytes:
    if not isinstance(value, kind):
        article = "an" if kind is Answer else "a"
        hint = f": {kind.__name__}.from_dict makes one" if isinstance(value, Mapping) else ""
        raise PayloadError(f"{name}: expected {article} {kind.__name__}, got {type(value).__name__}{hint}", key=name)
    return value.to_json()


def named(pending: Any, answer: Any) -> bytes | None:
    """The request of a stored conversation; None for the one that the answer names, where its id is all there is."""
    if not isinstance(pending, str | Request | Mapping):
        raise PayloadError(f"pending: expected a Request or its id, got {type(pending).__name__}", key="pending")
    if not isinstance(pending, str):
        return native_json("pending", pending, Request)
    if isinstance(answer, Answer) and answer.id != pending:
        raise ResumeError(f"the answer's id must echo the request's: expected {pending}, found {answer.id}")
    return None


def native_prompt(prompt: Any) -> str | None:
    if prompt is None:
        return None
    if isinstance(prompt, str):
        return encode(clean(prompt))
    if isinstance(prompt, Text | Image | File):
        return encode([_part(prompt, "prompt")])
    if isinstance(prompt, Sequence) and not isinstance(prompt, bytes | bytearray):
        return encode([_part(part, f"prompt[{at}]") for at, part in enumerate(prompt)])
    raise PayloadError(f"prompt: expected text or a list of parts, got {type(prompt).__name__}", key="prompt")


def _part(part: Any, key: str) -> dict[str, Any]:
    part = Text(part) if isinstance(part, str) else part
    form = part.to_dict() if isinstance(part, Text | Image | File) else part
    if not isinstance(form, Mapping) or not isinstance(form.get("type"), str):
        raise PayloadError(f"{key}: expected text, a Text, Image or File, or a dict with a type", key=key)
    copy: dict[str, Any] = plain(dict(form), key)
    return copy


def supersedes(on_pending: str) -> bool:
    if on_pending not in ("error", "supersede"):
        raise PayloadError(f"on_pending: expected 'error' or 'supersede', got {on_pending!r}", key="on_pending")
    return on_pending == "supersede"


def waits(missing: str) -> bool:
    if missing not in ("error", "wait"):
        raise PayloadError(f"missing: expected 'error' or 'wait', got {missing!r}", key="missing")
    return missing == "wait"
