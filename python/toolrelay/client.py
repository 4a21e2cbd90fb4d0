"""The client: a model, its limits and a store, and the runs that it makes.

This module owns the Python face of a run; the loop itself, with its halts and resumes, is native.
"""

# Callers without a type checker are checked here:
# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from toolrelay._core import Conversation, MemoryStore, NativeClient, RunResult, Transcript
from toolrelay._json import encode, plain
from toolrelay._settings import provider_settings, run_settings, seconds
from toolrelay._sync import run_here
from toolrelay._text import clean
from toolrelay.errors import (
    ConfigurationError,
    ConversationNotFound,
    PayloadError,
    ResumeError,
    StoreError,
    ToolkitError,
)
from toolrelay.parts import File, Image, Text
from toolrelay.relay import Answer, Request
from toolrelay.toolkit import Toolkit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from toolrelay._core import NativeToolkit, Segment
    from toolrelay.inprocess import InProcessRequest, InProcessResponse
    from toolrelay.stores import Store

    Prompt = str | Sequence[Text | Image | File | Mapping[str, Any]]
    History = Transcript | Sequence[Mapping[str, Any]] | Mapping[str, Any] | str | bytes
    WaitFor = Callable[[Request], Answer | None] | Callable[[Request], Awaitable[Answer | None]]
    Made = InProcessResponse | str | Mapping[str, Any]
    Generate = Callable[[InProcessRequest], Made] | Callable[[InProcessRequest], Awaitable[Made]]
    OnPending = Literal["error", "supersede"]
    Missing = Literal["error", "wait"]


class Client:
    """Runs conversations with one model; made by `create_client` or `create_in_process_client`.

    One client serves any number of runs at once, on any event loop. Every run ends with a `RunResult` whose `status` is
    `done`, `pending` (calls wait for the host), or `incomplete` (a limit ended it, see `limit`). What goes wrong is a
    `ToolRelayError`; where a run had begun, its `transcript` is a history for the next one. A run that is cancelled
    puts the same on its `CancelledError`.
    """

    __slots__ = ("_label", "_native")

    def __init__(self, native: NativeClient, label: str) -> None:
        self._native = native
        self._label = label

    async def run(
        self,
        prompt: Prompt | None,
        toolkit: Toolkit,
        history: History | None = None,
        *,
        on_pending: OnPending = "error",
    ) -> RunResult:
        """Runs from a prompt to the end or a halt; without a prompt it goes on from a settled transcript.

        `prompt` is text or a list of parts: `Text`, `Image`, `File`, or OpenAI content parts as dicts. `history` is a
        `Transcript`, a list of message dicts in the OpenAI or Anthropic shape, or JSON; it is never changed. One that
        waits for answers is a `PendingError`, or with `on_pending="supersede"` its calls are settled as superseded
        (contract 6.14).
        """
        return await _end(
            self._native.prompt(
                _tools(toolkit),
                copy_context(),
                _history(history),
                None,
                _prompt(prompt),
                _supersedes(on_pending),
            )
        )

    async def run_with_answer(
        self, toolkit: Toolkit, history: History, pending: Request, answer: Answer, missing: Missing = "error"
    ) -> RunResult:
        """Resumes a halted transcript: every call gets exactly one result, and the loop goes on (contract 6).

        `pending` is the request that `answer` settles. A call that the answer leaves out gets an error result; with
        `missing="wait"` it stays parked. An answer that does not fit is a `ResumeError`; nothing was changed, run or
        sent.
        """
        return await _end(
            self._native.answer(
                _tools(toolkit),
                copy_context(),
                _history(history),
                None,
                _json("pending", pending, Request),
                _json("answer", answer, Answer),
                _waits(missing),
            ),
            pending,
        )

    async def ask(
        self, prompt: Prompt | None, toolkit: Toolkit, *, id: str, on_pending: OnPending = "error"
    ) -> RunResult:
        """`run` on the stored conversation `id`, which begins with its first prompt (contract 7.1).

        A conversation that another run works on is `ConversationBusy`.
        """
        return await _end(
            self._native.prompt(_tools(toolkit), copy_context(), None, id, _prompt(prompt), _supersedes(on_pending)),
            conversation=id,
        )

    async def ask_with_answer(
        self, toolkit: Toolkit, id: str, pending: Request, answer: Answer, missing: Missing = "error"
    ) -> RunResult:
        """`run_with_answer` on the stored conversation `id`.

        The answer is durable before the model is called. The same answer again gives the same outcome, or
        `AnswerInProgress` while that run goes on; another one is `AlreadyAnswered` (contract 7.4).
        """
        return await _end(
            self._native.answer(
                _tools(toolkit),
                copy_context(),
                None,
                id,
                _json("pending", pending, Request),
                _json("answer", answer, Answer),
                _waits(missing),
            ),
            pending,
            id,
        )

    async def get(self, id: str) -> Conversation:
        """The stored conversation `id` as it stands, without a claim on it; `ConversationNotFound` if there is none."""
        try:
            conversation = await self._native.get(copy_context(), id)
        except StoreError as error:
            error.conversation = id
            raise
        if conversation is None:
            raise ConversationNotFound(f"there is no conversation {id!r} in the store", conversation=id)
        return conversation

    def run_sync(
        self,
        prompt: Prompt | None,
        toolkit: Toolkit,
        history: History | None = None,
        *,
        on_pending: OnPending = "error",
    ) -> RunResult:
        """`run` for a program without an event loop; where one runs, it works in a thread of its own."""
        return run_here(self.run(prompt, toolkit, history, on_pending=on_pending))

    def run_with_answer_sync(
        self, toolkit: Toolkit, history: History, pending: Request, answer: Answer, missing: Missing = "error"
    ) -> RunResult:
        """`run_with_answer` for a program without an event loop."""
        return run_here(self.run_with_answer(toolkit, history, pending, answer, missing))

    def ask_sync(
        self, prompt: Prompt | None, toolkit: Toolkit, *, id: str, on_pending: OnPending = "error"
    ) -> RunResult:
        """`ask` for a program without an event loop."""
        return run_here(self.ask(prompt, toolkit, id=id, on_pending=on_pending))

    def ask_with_answer_sync(
        self, toolkit: Toolkit, id: str, pending: Request, answer: Answer, missing: Missing = "error"
    ) -> RunResult:
        """`ask_with_answer` for a program without an event loop."""
        return run_here(self.ask_with_answer(toolkit, id, pending, answer, missing))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Client holds connections and functions of this process: make one where it is used")

    def __repr__(self) -> str:
        return f"<Client {self._label}>"


def create_client(
    *,
    style: Literal["openai", "anthropic"] = "openai",
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
    connect_timeout: float = 10.0,
    read_timeout: float = 600.0,
    lease: float = 30.0,
) -> Client:
    """A client of a provider.

    - `style`: the shape that the server speaks, Chat Completions or Messages.
    - `base_url`: as the provider's official SDK takes it; left out, the provider's own.
    - `api_key`: left out, it is read from `OPENAI_API_KEY` or `ANTHROPIC_API_KEY`; `""` for a server that wants none.
    - `request_params`: more keys of the request, such as `temperature`; they win, and `None` leaves a key out.
    - `timeout`: seconds for a whole run; `connect_timeout` and `read_timeout`: for a connection, and for a silence.
    - `max_turns`: model turns from a prompt on, halts included. `retries`: attempts after the first (contract 8.6).
    - `wait_for`: answers requests inline (contract 4); without it a run halts.
    - `store`: where `ask` keeps conversations: a `SqliteStore`, or one's own (see `toolrelay.stores.Store`); left out,
      this process's memory. `lease`: seconds that a claim on a
      conversation lasts without a sign of life.

    Raises `ConfigurationError` for settings that cannot work, naming the variable of a missing key.
    """
    settings = provider_settings(style, model, base_url, api_key, headers, request_params, retries)
    settings["connect_timeout"] = seconds("connect_timeout", connect_timeout)
    settings["read_timeout"] = seconds("read_timeout", read_timeout)
    run = run_settings(system_prompt, max_turns, timeout, lease, wait_for)
    native = NativeClient(settings, store=store if store is not None else MemoryStore(), **run)
    address, _, _ = settings["base_url"].partition("?")  # the query may hold a key
    return Client(native, f"{style} {model} at {address}")


def create_in_process_client(
    *,
    generate: Generate,
    system_prompt: str | None = None,
    max_turns: int = 10,
    timeout: float | None = None,
    wait_for: WaitFor | None = None,
    store: Store | None = None,
    lease: float = 30.0,
) -> Client:
    """A client whose model is a function of this process, sync (called in a worker thread) or async.

    `generate` receives an `InProcessRequest` and returns text, an `InProcessResponse`, or a Chat Completions message or
    response as a dict. What it raises is the cause of a `GenerateError`. The other settings are those of
    `create_client`.

    >>> from toolrelay import Toolkit, create_in_process_client
    >>> client = create_in_process_client(generate=lambda request: f"you said {request.messages[-1]['content']}")
    >>> client.run_sync("hello", Toolkit()).text
    'you said hello'
    """
    if not callable(generate):
        raise ConfigurationError(f"generate must be a function, not {type(generate).__name__}")
    run = run_settings(system_prompt, max_turns, timeout, lease, wait_for)
    native = NativeClient(generate, store=store if store is not None else MemoryStore(), **run)
    return Client(native, "in process")


async def _end(segment: Segment, pending: Request | None = None, conversation: str | None = None) -> RunResult:
    try:
        result = await segment.future
        if result.limit == "timeout":
            await _all_done(segment.given_up())
    except ResumeError as error:
        error.pending = pending
        raise
    except StoreError as error:
        error.conversation = conversation
        raise
    except asyncio.CancelledError as cancelled:
        cancelled.transcript = await _settled(segment)  # type: ignore[attr-defined]
        raise
    else:
        return result
    finally:
        del segment  # it holds the error, whose traceback holds this frame


async def _settled(segment: Segment) -> Transcript | None:
    """Waits until a cancelled run has settled and saved what was under way, and its tasks have cleaned up.

    The transcript, or None where there is none, the store takes too long, or a fork left the run to its parent.
    """
    ended = segment.ended()
    if ended is None:
        return None
    await _all_done([ended])
    await _all_done(segment.given_up())
    if not ended.done():
        ended.cancel()
        return None
    error = ended.exception()
    return ended.result().messages if error is None else getattr(error, "transcript", None)


async def _all_done(futures: Sequence[asyncio.Future[Any]]) -> None:
    """Waits for futures with patience: anyio cancels its tasks again and again, which is no reason to give up."""
    loop = asyncio.get_running_loop()
    give_up = loop.time() + _PATIENCE
    while waiting := [future for future in futures if not future.done()]:
        left = give_up - loop.time()
        if left <= 0:
            return
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait(waiting, timeout=left)


def _tools(toolkit: Any) -> NativeToolkit:
    if not isinstance(toolkit, Toolkit):
        raise ToolkitError(f"expected a Toolkit, got {type(toolkit).__name__}: make one with Toolkit([...])")
    return toolkit._native


def _history(history: Any) -> Transcript | bytes | None:
    if history is None or isinstance(history, Transcript):
        return history
    if isinstance(history, str):
        return history.encode("utf-8", "surrogatepass")
    if isinstance(history, bytes | bytearray):
        return bytes(history)
    if isinstance(history, Mapping):
        return encode(plain(dict(history), "history")).encode()
    if isinstance(history, Sequence):
        return encode(plain(list(history), "history")).encode()
    hint = ": pass its messages" if isinstance(history, RunResult | Conversation) else ""
    raise PayloadError(
        f"history: expected a Transcript, a list of messages or JSON, got {type(history).__name__}{hint}", key="history"
    )


def _json(name: str, value: Any, kind: type[Request | Answer]) -> bytes:
    if not isinstance(value, kind):
        article = "an" if kind is Answer else "a"
        raise PayloadError(f"{name}: expected {article} {kind.__name__}, got {type(value).__name__}", key=name)
    return value.to_json()


def _prompt(prompt: Any) -> str | None:
    if prompt is None:
        return None
    if isinstance(prompt, str):
        return encode(clean(prompt))
    if isinstance(prompt, Sequence) and not isinstance(prompt, bytes | bytearray):
        return encode([_part(part, f"prompt[{at}]") for at, part in enumerate(prompt)])
    raise PayloadError(f"prompt: expected text or a list of parts, got {type(prompt).__name__}", key="prompt")


def _part(part: Any, key: str) -> dict[str, Any]:
    form = part.to_dict() if isinstance(part, Text | Image | File) else part
    if not isinstance(form, Mapping) or not isinstance(form.get("type"), str):
        raise PayloadError(f"{key}: expected a Text, Image or File, or a dict with a type", key=key)
    copy: dict[str, Any] = plain(dict(form), key)
    return copy


def _supersedes(on_pending: str) -> bool:
    if on_pending not in ("error", "supersede"):
        raise PayloadError(f"on_pending: expected 'error' or 'supersede', got {on_pending!r}", key="on_pending")
    return on_pending == "supersede"


def _waits(missing: str) -> bool:
    if missing not in ("error", "wait"):
        raise PayloadError(f"missing: expected 'error' or 'wait', got {missing!r}", key="missing")
    return missing == "wait"


_PATIENCE = 10.0
"""Seconds."""
