"""Making a client, of a provider or of a function of this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from toolrelay._core import MemoryStore, NativeClient
from toolrelay._settings import provider_settings, run_settings, seconds
from toolrelay.client import Client
from toolrelay.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolrelay.profiles import Profile
    from toolrelay.stores import Store
    from toolrelay.types import Generate, ToolChoice, WaitFor


def create_client(
    *,
    style: Literal["openai", "openai-responses", "anthropic", "gemini"] = "openai",
    model: str,
    base_url: str | None = None,
    api_key: str | None = None,
    headers: Mapping[str, str] | None = None,
    system_prompt: str | None = None,
    max_turns: int = 10,
    timeout: float | None = None,
    retries: int = 2,
    wait_for: WaitFor | None = None,
    store: Store | None = None,
    request_params: Mapping[str, Any] | None = None,
    tool_choice: ToolChoice | None = None,
    parallel_tool_calls: bool | None = None,
    profile: str | Profile | None = None,
    prompt_cache: bool | None = None,
    connect_timeout: float = 10.0,
    read_timeout: float = 600.0,
    progress_timeout: float = 600.0,
    lease: float = 30.0,
    requests_expire_after: float | None = None,
) -> Client:
    """A client of a provider.

    - `style`: the shape that the server speaks: Chat Completions, Responses, Messages or generateContent.
    - `base_url`: as the provider's official SDK takes it; left out, the provider's own.
    - `api_key`: left out, it is read from `OPENAI_API_KEY`, `ANTHROPIC_API_KEY` or `GEMINI_API_KEY` (then
      `GOOGLE_API_KEY`); `""` for a server that wants none.
    - `request_params`: more keys of the request, such as `temperature`; they win, and `None` leaves a key out.
    - `tool_choice`: `"auto"`, `"none"`, `"required"`, or a tool as `{"type": "function", "function": {"name": ...}}`.
      One that forces a call holds for the reply to a prompt only; then the model is free. `parallel_tool_calls`:
      whether the model may make several calls at once; left out, as the provider has it.
    - `profile`: how the server differs from its style, a `Profile` or the name of one; left out, the address tells.
    - `prompt_cache`: whether prompts are marked for the cache, which style `anthropic` needs; left out, they are where
      that saves money.
    - `timeout`: seconds for a whole run; `connect_timeout` and `read_timeout`: for a connection, and for a silence;
      `progress_timeout`: for a stream that is alive but brings nothing of the reply.
    - `max_turns`: model turns from a prompt on, halts included. `retries`: attempts after the first (contract 8.6).
    - `wait_for`: answers requests inline (contract 4); without it a run halts.
    - `store`: where `ask` keeps conversations: a `SqliteStore`, or one's own (see `toolrelay.stores.Store`); left out,
      this process's memory. `lease`: seconds that a claim on a
      conversation lasts without a sign of life.

    - `requests_expire_after`: seconds until a request expires for which nobody says otherwise
      (`relay_tool(expires_after=...)`, `pending(expires_at=...)`); left out, never.

    Raises `ConfigurationError` for settings that cannot work, naming the variable of a missing key.
    """
    settings = provider_settings(
        style,
        model,
        base_url,
        api_key,
        headers,
        request_params,
        tool_choice,
        parallel_tool_calls,
        profile,
        prompt_cache,
        retries,
    )
    settings["connect_timeout"] = seconds("connect_timeout", connect_timeout)
    settings["read_timeout"] = seconds("read_timeout", read_timeout)
    settings["progress_timeout"] = seconds("progress_timeout", progress_timeout)
    run = run_settings(system_prompt, max_turns, timeout, lease, wait_for, requests_expire_after)
    kept: Store = store if store is not None else MemoryStore()
    native = NativeClient(settings, store=kept, **run)
    address, _, _ = settings["base_url"].partition("?")  # the query may hold a key
    return Client(native, kept, f"{style} {model} at {address}")


def create_in_process_client(
    *,
    generate: Generate,
    system_prompt: str | None = None,
    max_turns: int = 10,
    timeout: float | None = None,
    wait_for: WaitFor | None = None,
    store: Store | None = None,
    lease: float = 30.0,
    requests_expire_after: float | None = None,
) -> Client:
    """A client whose model is a function of this process, sync (called in a worker thread) or async.

    `generate` receives an `InProcessRequest` and returns text, an `InProcessResponse`, or a Chat Completions message or
    response as a dict. As an async generator it gives the reply in pieces: text, `ReasoningDelta`, `InProcessToolCall`,
    an `InProcessResponse` with the rest, or chunks of Chat Completions as dicts. What it raises is the cause of a
    `GenerateError`. The other settings are those of `create_client`.

    >>> from toolrelay import Toolkit, create_in_process_client
    >>> client = create_in_process_client(generate=lambda request: f"you said {request.messages[-1]['content']}")
    >>> client.run_sync("hello", Toolkit()).text
    'you said hello'
    """
    if not callable(generate):
        raise ConfigurationError(f"generate must be a function, not {type(generate).__name__}")
    run = run_settings(system_prompt, max_turns, timeout, lease, wait_for, requests_expire_after)
    kept: Store = store if store is not None else MemoryStore()
    native = NativeClient(generate, store=kept, **run)
    return Client(native, kept, "in process")
