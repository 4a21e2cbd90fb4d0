"""The settings of a client, checked at the door."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any

from toolrelay._json import encode, plain
from toolrelay._text import clean
from toolrelay.errors import ConfigurationError, PayloadError
from toolrelay.profiles import native_profile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def provider_settings(
    style: str,
    model: Any,
    base_url: str | None,
    api_key: object,
    headers: Mapping[str, str] | None,
    request_params: Mapping[str, Any] | None,
    tool_choice: object,
    parallel_tool_calls: object,
    profile: object,
    prompt_cache: object,
    retries: Any,
) -> dict[str, Any]:
    """How a provider is reached, as the native client takes it."""
    if style not in _PROVIDERS:
        raise ConfigurationError(f"unknown style {style!r}: use one of {', '.join(_PROVIDERS)}")
    if not isinstance(model, str) or not model:
        raise ConfigurationError("model must be the name of a model")
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise ConfigurationError(f"retries must be a whole number from 0 on, not {retries!r}")
    for name, flag in (("parallel_tool_calls", parallel_tool_calls), ("prompt_cache", prompt_cache)):
        if flag is not None and not isinstance(flag, bool):
            raise ConfigurationError(f"{name} must be True, False or None, not {flag!r}")
    default_url, *variables = _PROVIDERS[style]
    try:
        params = plain(dict(request_params or {}), "request_params")
    except PayloadError as error:
        raise ConfigurationError(str(error)) from None
    return {
        "style": style,
        "model": model,
        "base_url": base_url if base_url is not None else default_url,
        "api_key": _key(api_key, variables),
        "headers": [(str(name), str(value)) for name, value in (headers or {}).items()],
        "params": [(name, encode(value)) for name, value in params.items()],
        "tool_choice": native_choice(tool_choice),
        "parallel_tool_calls": parallel_tool_calls,
        "profile": native_profile(profile, style),
        "prompt_cache": prompt_cache,
        "retries": retries,
    }


def run_settings(
    system_prompt: object,
    max_turns: Any,
    timeout: object,
    lease: object,
    wait_for: object,
    requests_expire_after: object,
) -> dict[str, Any]:
    """The limits of runs, as the native client takes them."""
    if isinstance(max_turns, bool) or not isinstance(max_turns, int) or not 0 < max_turns < _MOST:
        raise ConfigurationError(f"max_turns must be a whole number from 1 on, not {max_turns!r}")
    if wait_for is not None and not callable(wait_for):
        raise ConfigurationError(f"wait_for must be a function, not {type(wait_for).__name__}")
    if system_prompt is not None and not isinstance(system_prompt, str):
        raise ConfigurationError(f"system_prompt must be text, not {type(system_prompt).__name__}")
    return {
        "system_prompt": None if system_prompt is None else clean(system_prompt),
        "max_turns": max_turns,
        "timeout": None if timeout is None else seconds("timeout", timeout),
        "lease": seconds("lease", lease),
        "owner": f"{socket.gethostname()}:{os.getpid()}:{os.urandom(4).hex()}",
        "wait_for": wait_for,
        "requests_expire_after": (
            None if requests_expire_after is None else seconds("requests_expire_after", requests_expire_after)
        ),
    }


def native_choice(choice: Any) -> tuple[str, str] | None:
    """A tool choice in the words of Chat Completions, as its kind and the tool that it names; `None` is no choice."""
    if choice is None or choice in ("auto", "none", "required"):
        return None if choice is None else (choice, "")
    try:
        if choice["type"] == "function" and isinstance(name := choice["function"]["name"], str):
            return "tool", clean(name)
    except (TypeError, KeyError):
        pass
    raise ConfigurationError(
        'tool_choice must be "auto", "none", "required" or '
        f'{{"type": "function", "function": {{"name": ...}}}}, not {choice!r}'
    )


def seconds(name: str, value: object) -> float:
    """A length of time; the native client refuses what is not positive."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value < _LONGEST:
        raise ConfigurationError(f"{name} must be a positive number of seconds, not {value!r}")
    return float(value)


def _key(api_key: Any, variables: Sequence[str]) -> str:
    if api_key is None:
        api_key = next(filter(None, map(os.environ.get, variables)), None)
        if api_key is None:
            raise ConfigurationError(
                f"no API key: pass api_key, or set {variables[0]} (api_key='' for a server that wants none)",
                variable=variables[0],
            )
    if not isinstance(api_key, str):
        raise ConfigurationError(f"api_key must be text, not {type(api_key).__name__}")
    return api_key


_PROVIDERS = {
    "openai": ("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "openai-responses": ("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "anthropic": ("https://api.anthropic.com", "ANTHROPIC_API_KEY"),
    "gemini": ("https://generativelanguage.googleapis.com", "GEMINI_API_KEY", "GOOGLE_API_KEY"),
}
_MOST = 2**32
_LONGEST = 1e11
"""Its end has a date."""
