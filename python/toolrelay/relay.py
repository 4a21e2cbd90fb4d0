"""Requests, answers and the calls and results that ride in them (contract 1.1 to 1.6).

This module owns these values and their JSON; it does not park, resume or run anything. Every value
is checked when it is made: a wrong type raises `PayloadError` (a `TypeError` and a `ValueError`)
naming the key. Data is copied, with NUL and lone surrogates replaced by U+FFFD. Keys that this
version does not know are ignored on input, so that a newer writer does not lock out an older reader.
"""

# ruff: noqa: A002 - the contract's names
# JSON values are any value, and callers without a type checker are checked here:
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnnecessaryIsInstance=false
from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from toolrelay._json import plain
from toolrelay._text import clean
from toolrelay._value import JsonValue, put, value
from toolrelay.errors import PayloadError
from toolrelay.parts import File, Image

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime
    from typing import Self


Reason = Literal["declined", "cancelled", "expired"]


@value
class Request(JsonValue):
    """What a parked call waits for.

    `kind` is `tool_call` for relay calls (`relay_calls_of` reads them), otherwise what the tool that
    parked itself chose. `expires_at` is an aware datetime, kept in UTC; in JSON it is
    `expiresAt`, RFC 3339.

    >>> Request("req_1", "approval", "Pay 30 EUR?", data={"sum": 30}).to_json()
    b'{"id":"req_1","kind":"approval","prompt":"Pay 30 EUR?","data":{"sum":30}}'
    """

    id: str
    kind: str
    prompt: str
    url: str | None
    data: dict[str, Any] | None
    expires_at: datetime | None

    def __init__(
        self,
        id: str,
        kind: str,
        prompt: str,
        url: str | None = None,
        data: dict[str, Any] | None = None,
        expires_at: datetime | None = None,
    ) -> None:
        put(self, "id", _text(id, "id"))
        put(self, "kind", _text(kind, "kind"))
        put(self, "prompt", _text(prompt, "prompt"))
        put(self, "url", None if url is None else _text(url, "url"))
        put(self, "data", None if data is None else _object(data, "data"))
        put(self, "expires_at", None if expires_at is None else _instant(expires_at, "expires_at"))

    def idempotency_key(self, call: RelayCall | str) -> str:
        """A key for one call of this request, for a service that is to act once.

        It is the same in every delivery, process and retry, and no other call ever has it (contract 7.7): the two
        ids with a colon between, or what the data has under `keys` for a call that had another request before.

        >>> Request("req_1", "tool_call", "", data={"calls": []}).idempotency_key("call_1")
        'req_1:call_1'
        """
        id = call if isinstance(call, str) else call.id
        keys = self.data.get("keys") if is_relay_request(self) and self.data else None
        kept = keys.get(id) if isinstance(keys, dict) else None
        return kept if isinstance(kept, str) else f"{self.id}:{id}"

    def _form(self) -> dict[str, Any]:
        form: dict[str, Any] = {"id": self.id, "kind": self.kind, "prompt": self.prompt}
        if self.url is not None:
            form["url"] = self.url
        if self.data is not None:
            form["data"] = plain(self.data, "data")
        if self.expires_at is not None:
            form["expiresAt"] = self.expires_at.isoformat().replace("+00:00", "Z")
        return form

    @classmethod
    def _read(cls, value: Mapping[str, Any]) -> Self:
        expires_at = _mapping(value).get("expiresAt")
        return cls(
            id=_need(value, "id"),
            kind=_need(value, "kind"),
            prompt=_need(value, "prompt"),
            url=value.get("url"),
            data=value.get("data"),
            expires_at=None if expires_at is None else _read_instant(expires_at),
        )


@value
class Answer(JsonValue):
    """What settles a request; `id` echoes the request's.

    `reason` says why not, and goes with `ok=False` only; absent it means declined. Use
    `answer_output`, `relay_answer` or `answer_declined` rather than this constructor.

    >>> Answer.from_json('{"id":"req_1","ok":false,"reason":"expired"}')
    Answer(id='req_1', ok=False, data=None, reason='expired')
    """

    id: str
    ok: bool
    data: dict[str, Any] | None
    reason: Reason | None

    def __init__(
        self,
        id: str,
        ok: bool,
        data: dict[str, Any] | None = None,
        reason: Reason | None = None,
    ) -> None:
        if reason is not None and reason not in REASONS:
            raise PayloadError(f"reason: expected one of {', '.join(REASONS)}", key="reason")
        put(self, "id", _text(id, "id"))
        put(self, "ok", _flag(ok, "ok"))
        put(self, "data", None if data is None else _object(data, "data"))
        put(self, "reason", reason)
        if ok and reason is not None:
            raise PayloadError("reason: goes with ok false only", key="reason")

    def _form(self) -> dict[str, Any]:
        form: dict[str, Any] = {"id": self.id, "ok": self.ok}
        if self.data is not None:
            form["data"] = plain(self.data, "data")
        if self.reason is not None:
            form["reason"] = self.reason
        return form

    @classmethod
    def _read(cls, value: Mapping[str, Any]) -> Self:
        return cls(
            id=_need(value, "id"), ok=_need(value, "ok"), data=value.get("data"), reason=value.get("reason") or None
        )


@value
class RelayCall(JsonValue):
    """One call that the host is asked to execute.

    `input` is the parsed object, `arguments` the model's own text of it, byte for byte (contract 1.2).
    """

    id: str
    name: str
    input: dict[str, Any]
    arguments: str

    def __init__(
        self,
        id: str,
        name: str,
        input: dict[str, Any],
        arguments: str,
    ) -> None:
        put(self, "id", _text(id, "id"))
        put(self, "name", _text(name, "name"))
        put(self, "input", _object(input, "input"))
        put(self, "arguments", _text(arguments, "arguments"))

    def _form(self) -> dict[str, Any]:
        return {"id": self.id, "name": self.name, "input": plain(self.input, "input"), "arguments": self.arguments}

    @classmethod
    def _read(cls, value: Mapping[str, Any]) -> Self:
        return cls(**{key: _need(value, key) for key in ("id", "name", "input", "arguments")})


@value
class RelayResult(JsonValue):
    """What the host's tool gave for one call.

    `output` is a string, or any JSON value, which reaches the model as its JSON text. `parts` are
    images and files beside it: `Image` and `File` objects, or dicts in the OpenAI shape.

    >>> RelayResult("call_1", {"free": False}).to_dict()
    {'id': 'call_1', 'output': {'free': False}, 'isError': False}
    """

    id: str
    output: Any
    is_error: bool
    parts: list[dict[str, Any]] | None

    def __init__(
        self,
        id: str,
        output: Any,
        is_error: bool = False,
        parts: Sequence[Image | File | dict[str, Any]] | None = None,
    ) -> None:
        put(self, "id", _text(id, "id"))
        if isinstance(output, Image | File):
            raise PayloadError(
                f"output: {type(output).__name__} is not a JSON value: it goes under `parts`", key="output"
            )
        put(self, "output", plain(output, "output"))
        put(self, "is_error", _flag(is_error, "isError"))
        put(self, "parts", None if parts is None else _parts(parts, "parts"))

    def _form(self) -> dict[str, Any]:
        form = {"id": self.id, "output": plain(self.output, "output"), "isError": self.is_error}
        if self.parts is not None:
            form["parts"] = plain(self.parts, "parts")
        return form

    @classmethod
    def _read(cls, value: Mapping[str, Any]) -> Self:
        return cls(
            id=_need(value, "id"),
            output=_need(value, "output"),
            is_error=value.get("isError", False),
            parts=value.get("parts"),
        )


def relay_answer(request_id: str, results: Iterable[RelayResult]) -> Answer:
    """The answer for several relay calls, or for one whose tool failed at the host.

    >>> relay_answer("req_1", [RelayResult("call_1", "no such file", is_error=True)]).data
    {'results': [{'id': 'call_1', 'output': 'no such file', 'isError': True}]}
    """
    if isinstance(results, RelayResult):
        raise _wrong(results, "results", "a list of them")
    forms: list[dict[str, Any]] = []
    for at, result in enumerate(results):
        if not isinstance(result, RelayResult):
            raise _wrong(result, f"results[{at}]", "a RelayResult")
        forms.append(result.to_dict())
    return Answer(request_id, ok=True, data={"results": forms})


def answer_output(id: str, output: Any) -> Answer:
    """The answer for the single outstanding relay call of a request.

    False, 0, "", [], {} and None are outputs like any other (contract 6.9).

    >>> answer_output("req_1", "sunny").to_json()
    b'{"id":"req_1","ok":true,"data":{"output":"sunny"}}'
    """
    return Answer(id, ok=True, data={RELAY_OUTPUT_KEY: output})


def answer_declined(
    id: str,
    reason: Literal["", "declined", "cancelled", "expired"] = "",
) -> Answer:
    """The answer of a host that has no result; the model reads why, and the run goes on.

    >>> answer_declined("req_1").to_json()
    b'{"id":"req_1","ok":false}'
    """
    return Answer(id, ok=False, reason=reason or None)


def is_relay_request(request: Request) -> bool:
    """Whether the request carries relay calls."""
    return request.kind == RELAY_KIND


def relay_calls_of(request: Request) -> list[RelayCall]:
    """The relay calls of a request in call order; none for any other kind.

    Raises `PayloadError` for a relay request whose data cannot be read.
    """
    if not is_relay_request(request):
        return []
    calls = (request.data or {}).get("calls")
    if not isinstance(calls, list):
        raise _wrong(calls, "data.calls", "a list")
    read: list[RelayCall] = []
    for at, call in enumerate(calls):
        try:
            read.append(RelayCall.from_dict(call))
        except PayloadError as error:
            key = f"data.calls[{at}].{error.key}".removesuffix(".")
            raise PayloadError(f"data.calls[{at}].{error}", key=key) from None
    return read


def _wrong(value: object, key: str, expected: str) -> PayloadError:
    return PayloadError(f"{key}: expected {expected}, got {type(value).__name__}", key=key)


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise PayloadError(f"expected an object, got {type(value).__name__}", key="")
    return value


def _need(value: object, key: str) -> Any:
    try:
        return _mapping(value)[key]
    except KeyError:
        raise PayloadError(f"{key}: missing", key=key) from None


def _text(value: object, key: str) -> str:
    if not isinstance(value, str):
        raise _wrong(value, key, "a string")
    return clean(value)


def _flag(value: object, key: str) -> bool:
    if not isinstance(value, bool):
        raise _wrong(value, key, "a boolean")
    return value


def _object(value: Any, key: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(value, key, "an object")
    copy: dict[str, Any] = plain(value, key)
    return copy


def _parts(value: Any, key: str) -> list[dict[str, Any]]:
    if not isinstance(value, list | tuple):
        raise _wrong(value, key, "a list")
    parts: list[dict[str, Any]] = plain(value, key, _part)
    for at, part in enumerate(parts):
        if not isinstance(part, dict):
            raise _wrong(part, f"{key}[{at}]", "an object")
    return parts


def _part(value: Any) -> object:
    return value.to_dict() if hasattr(value, "to_dict") else value


def _instant(value: object, key: str) -> datetime:
    from datetime import UTC, datetime

    if not isinstance(value, datetime):
        raise _wrong(value, key, "a datetime")
    if value.utcoffset() is None:
        raise PayloadError(f"{key}: a datetime without a time zone; add one, such as datetime.UTC", key=key)
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise PayloadError(f"{key}: outside the years 1 to 9999 in UTC", key=key) from None


def _read_instant(value: object) -> datetime:
    import re
    from datetime import datetime

    text = _text(value, "expiresAt")
    if re.fullmatch(_RFC_3339, text):
        try:
            return datetime.fromisoformat(text.upper())
        except ValueError:
            pass
    raise PayloadError("expiresAt: not an RFC 3339 time such as 2026-01-31T09:30:00Z", key="expiresAt")


RELAY_KIND = "tool_call"
RELAY_OUTPUT_KEY = "output"
REASONS = ("declined", "cancelled", "expired")

_RFC_3339 = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})"
