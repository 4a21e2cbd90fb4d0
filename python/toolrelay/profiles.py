"""What single servers want that differs from the style which they speak."""

# Callers without a type checker are checked here:
# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from toolrelay._core import _known_servers
from toolrelay._json import decode, encode, plain
from toolrelay._value import Value, put, value
from toolrelay.errors import ConfigurationError, PayloadError

if TYPE_CHECKING:
    from typing import Self

    CallContent = Literal["null", "empty", "absent"]
    CacheControl = Literal["request", "blocks"]


@value
class Profile(Value):
    """How a server differs from its style; without arguments it differs in nothing.

    For style `openai`:

    - `call_id_length`: call ids have exactly so many letters and digits.
    - `call_content`: the content of a message that holds calls and no text: `null`, `""` or no such key; left out, as
      the transcript has it.
    - `refused_fields`: what other servers put into a model's message and this one refuses: keys of the message and of
      its calls, and types of content parts.
    - `call_fields`: keys that a message with calls must have, and what stands for a missing one.
    - `developer_role`: whether the role `developer` is known; otherwise it goes out as `system`.
    - `user_after_results`: whether the user may speak right behind results; otherwise the model has a word between.
    - `stream_options`: whether `stream_options` is taken.
    - `output_limit`: the key that limits output tokens in `Client.translate`.

    For every style, `max_tools`: how many tools a request may declare. For style `anthropic`, `cache_control`: where
    the end of a prompt is marked for the cache, once in the `request` or at the last of its `blocks`.

    >>> Profile(max_tools=64).max_tools
    64
    """

    call_id_length: int | None
    call_content: CallContent | None
    refused_fields: tuple[str, ...]
    call_fields: Mapping[str, Any]
    developer_role: bool
    user_after_results: bool
    stream_options: bool
    output_limit: str | None
    max_tools: int | None
    cache_control: CacheControl | None

    def __init__(
        self,
        call_id_length: int | None = None,
        call_content: CallContent | None = None,
        refused_fields: Sequence[str] = (),
        call_fields: Mapping[str, Any] | None = None,
        developer_role: bool = True,
        user_after_results: bool = True,
        stream_options: bool = True,
        output_limit: str | None = None,
        max_tools: int | None = None,
        cache_control: CacheControl | None = None,
    ) -> None:
        put(self, "call_id_length", _number("call_id_length", call_id_length, 6, 64))
        put(self, "call_content", _word("call_content", call_content, ("null", "empty", "absent")))
        put(self, "refused_fields", _names(refused_fields))
        put(self, "call_fields", _fields({} if call_fields is None else call_fields))
        put(self, "developer_role", _flag("developer_role", developer_role))
        put(self, "user_after_results", _flag("user_after_results", user_after_results))
        put(self, "stream_options", _flag("stream_options", stream_options))
        if output_limit is not None and not isinstance(output_limit, str):
            raise ConfigurationError(f"output_limit must be text or None, not {output_limit!r}")
        put(self, "output_limit", output_limit)
        put(self, "max_tools", _number("max_tools", max_tools, 1, None))
        put(self, "cache_control", _word("cache_control", cache_control, ("request", "blocks")))

    @classmethod
    def named(cls, name: str) -> Self:
        """The profile of a server that is known by name: see the table in docs/providers.md.

        >>> Profile.named("mistral").call_id_length
        9
        """
        _, facts = _known(name)
        return cls(**{**facts, "call_fields": dict(facts["call_fields"])})


def native_profile(profile: object, style: str) -> str | None:
    """A profile or the name of one, as the native client takes it for a style; `None` goes by the address."""
    if profile is None:
        return None
    if isinstance(profile, str):
        own, facts = _known(profile)
        if own != style:
            raise ConfigurationError(f"the profile {profile!r} is one of style {own!r}, not {style!r}")
        return encode(facts)
    if not isinstance(profile, Profile):
        raise ConfigurationError(f"profile must be a Profile or the name of one, not {type(profile).__name__}")
    facts = {name: getattr(profile, name) for name in profile.__slots__}
    usual = Profile()
    for name, fact in facts.items():
        concerns = _CONCERNS.get(name, "openai")
        if style != concerns and concerns != "" and fact != getattr(usual, name):
            raise ConfigurationError(f"the profile's {name} is for style {concerns!r}, not {style!r}")
    return encode(
        {**facts, "refused_fields": list(profile.refused_fields), "call_fields": [*facts["call_fields"].items()]}
    )


def _known(name: str) -> tuple[str, dict[str, Any]]:
    known = {known: (style, facts) for known, style, facts in _known_servers()}
    if name not in known:
        raise ConfigurationError(f"unknown profile {name!r}: use a Profile, or one of {', '.join(known)}")
    style, facts = known[name]
    return style, decode(facts)


def _number(name: str, number: Any, least: int, most: int | None) -> int | None:
    if number is None:
        return None
    if (
        isinstance(number, bool)
        or not isinstance(number, int)
        or number < least
        or (most is not None and number > most)
    ):
        limits = f"from {least} on" if most is None else f"from {least} to {most}"
        raise ConfigurationError(f"{name} must be a whole number {limits}, or None, not {number!r}")
    return number


def _word(name: str, word: Any, words: tuple[str, ...]) -> Any:
    if word is not None and word not in words:
        raise ConfigurationError(f"{name} must be one of {', '.join(words)}, or None, not {word!r}")
    return word


def _flag(name: str, flag: Any) -> bool:
    if not isinstance(flag, bool):
        raise ConfigurationError(f"{name} must be True or False, not {flag!r}")
    return flag


def _names(names: Any) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise ConfigurationError(f"refused_fields must be a list of names, not {names!r}")
    return tuple(names)


def _fields(fields: Any) -> dict[str, Any]:
    if not isinstance(fields, Mapping):
        raise ConfigurationError(f"call_fields must be a dict, not {type(fields).__name__}")
    try:
        copy: dict[str, Any] = plain(dict(fields), "call_fields")
    except PayloadError as error:
        raise ConfigurationError(str(error)) from None
    return copy


_CONCERNS = {"max_tools": "", "cache_control": "anthropic"}
"""The style that a fact is for, unless it is `openai`; `""`: every style."""
