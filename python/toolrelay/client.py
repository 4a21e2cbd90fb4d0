"""The client: the runs of one model, with its limits and a store.

It shows what the native loop does; `create_client` and its kin make it.
"""

from __future__ import annotations

from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from toolrelay._end import end_of
from toolrelay._inputs import (
    named,
    native_history,
    native_id,
    native_json,
    native_prompt,
    native_tools,
    supersedes,
    waits,
)
from toolrelay._life import Life, of
from toolrelay._start import Start
from toolrelay._sync import run_here
from toolrelay._text import clean
from toolrelay._translate import OneCall
from toolrelay.errors import PayloadError, ResumeError
from toolrelay.relay import Answer, Request
from toolrelay.streams import Stream, SyncStream, told

if TYPE_CHECKING:
    from toolrelay._core import NativeClient, RunResult, SealKeys, Transcript
    from toolrelay.stores import Store
    from toolrelay.toolkit import Toolkit
    from toolrelay.types import History, Missing, OnEvent, OnPending, Prompt


class Client(Life, OneCall):
    """Runs conversations with one model; made by `create_client` or `create_in_process_client`.

    One client serves any number of runs at once, on any event loop. Every run ends with a `RunResult` whose `status` is
    `done`, `pending` (calls wait for the host), or `incomplete` (a limit ended it, see `limit`). What goes wrong is a
    `ToolRelayError`; where a run had begun, its `transcript` is a history for the next one. A run that is cancelled
    puts the same on its `CancelledError`.
    """

    __slots__ = ("_label",)

    def __init__(self, native: NativeClient, store: Store, label: str) -> None:
        self._native = native
        self._store = store
        self._label = label

    async def run(
        self,
        prompt: Prompt | None,
        toolkit: Toolkit,
        history: History | None = None,
        *,
        on_pending: OnPending = "error",
        on_event: OnEvent | None = None,
    ) -> RunResult:
        """Runs from a prompt to the end or a halt; without a prompt it goes on from a settled transcript.

        `prompt` is text, an `Image`, a `File`, or a list of these and of OpenAI content parts as dicts. `history` is a
        `Transcript`, a list of message dicts in the OpenAI or Anthropic shape, or JSON; it is never changed. One that
        waits for answers is a `PendingError`, or with `on_pending="supersede"` its calls are settled as superseded
        (contract 6.14). `on_event`, sync or async, is called on the loop with each `Event`; replies are streamed then.
        """
        return await _end(self._prompted(prompt, toolkit, history, None, on_pending), on_event)

    async def run_with_answer(
        self,
        toolkit: Toolkit,
        history: History,
        pending: Request,
        answer: Answer,
        missing: Missing = "error",
        *,
        on_event: OnEvent | None = None,
    ) -> RunResult:
        """Resumes a halted transcript: every call gets exactly one result, and the loop goes on (contract 6).

        `pending` is the request that `answer` settles. A call that the answer leaves out gets an error result; with
        `missing="wait"` it stays parked. An answer that does not fit is a `ResumeError`; nothing was changed, run or
        sent.
        """
        return await _end(self._answered(toolkit, history, None, pending, answer, missing), on_event)

    async def ask(
        self,
        prompt: Prompt | None,
        toolkit: Toolkit,
        *,
        id: str,
        on_pending: OnPending = "error",
        wait: bool = False,
        on_event: OnEvent | None = None,
    ) -> RunResult:
        """`run` on the stored conversation `id`, which begins with its first prompt (contract 7.1).

        A conversation that another run works on is `ConversationBusy`; with `wait=True` this one begins when that one
        has ended, if the client's `timeout` leaves it the time. What expired meanwhile is settled first.
        """
        return await _end(self._prompted(prompt, toolkit, None, native_id(id), on_pending, wait), on_event)

    async def ask_with_answer(
        self,
        toolkit: Toolkit,
        id: str,
        pending: Request | str,
        answer: Answer,
        missing: Missing = "error",
        *,
        on_event: OnEvent | None = None,
    ) -> RunResult:
        """`run_with_answer` on the stored conversation `id`. The request's id alone is enough: the store has the rest.

        The answer is durable before the model is called. The same answer again gives the same outcome, or
        `AnswerInProgress` while that run goes on; another one is `AlreadyAnswered` (contract 7.4).
        """
        return await _end(self._answered(toolkit, None, native_id(id), pending, answer, missing), on_event)

    async def submit(
        self, prompt: Prompt | None, toolkit: Toolkit, *, id: str, on_pending: OnPending = "error"
    ) -> bool:
        """`ask` without the run: the prompt is checked and durable, no model is called, and another worker goes on.

        `recover`, `ask(None, ...)` or, once the client's `lease` is over, a sweep takes the run up; of several exactly
        one does. Until then the conversation is `running`. True: there is a run to take up.
        """
        prompted = native_prompt(prompt), supersedes(on_pending)
        return await of(id, self._native.submit(native_tools(toolkit), copy_context(), native_id(id), *prompted))

    async def submit_answer(
        self, toolkit: Toolkit, id: str, pending: Request | str, answer: Answer, missing: Missing = "error"
    ) -> bool:
        """`ask_with_answer` without the run: the answer is checked, settled and durable, and another worker goes on.

        Whether there is a run to take up: there is none where calls still wait for other answers, or where the same
        answer was given before and its run has ended. Errors are those of `ask_with_answer`.
        """
        request, wait = named(pending, answer), waits(missing)
        given = native_json("answer", answer, Answer)
        try:
            return await of(
                id,
                self._native.submit_answer(native_tools(toolkit), copy_context(), native_id(id), request, given, wait),
            )
        except ResumeError as error:
            error.pending = pending if isinstance(pending, Request) else None
            raise

    async def run_with_sealed(
        self,
        toolkit: Toolkit,
        token: str,
        answer: Answer,
        *,
        keys: SealKeys,
        audience: str | None = None,
        once: bool = False,
        missing: Missing = "error",
        on_event: OnEvent | None = None,
    ) -> RunResult:
        """`run_with_answer` on a halt that was sealed by `RunResult.seal`: the token holds transcript and requests.

        A token that was changed, is not of these `keys`, has expired or was sealed for another `audience` is a
        `SealError`; no model is called. With `once` the client's store remembers the token, after the checks and before
        the model is called, and a second use is a `SealError` too.
        """
        begin = partial(
            self._native.answer_sealed,
            native_tools(toolkit),
            copy_context(),
            clean(token),
            keys,
            audience,
            native_json("answer", answer, Answer),
            waits(missing),
            once,
        )
        return await _end(Start(begin), on_event)

    def stream(
        self,
        prompt: Prompt | None,
        toolkit: Toolkit,
        history: History | None = None,
        *,
        id: str | None = None,
        on_pending: OnPending = "error",
    ) -> Stream:
        """`run` event by event, or with an `id` `ask`: an async iterator of `Event`, the last of which is `Done`.

        Replies are streamed. The run begins when the first event is asked for; leaving early stops it.
        """
        return Stream(self._prompted(prompt, toolkit, history, id, on_pending))

    def stream_with_answer(
        self,
        toolkit: Toolkit,
        history: History | None,
        pending: Request | str,
        answer: Answer,
        missing: Missing = "error",
        *,
        id: str | None = None,
    ) -> Stream:
        """`run_with_answer` event by event, or with an `id` and no history `ask_with_answer`."""
        return Stream(self._answered(toolkit, history, id, pending, answer, missing))

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
        self,
        prompt: Prompt | None,
        toolkit: Toolkit,
        *,
        id: str,
        on_pending: OnPending = "error",
        wait: bool = False,
    ) -> RunResult:
        """`ask` for a program without an event loop."""
        return run_here(self.ask(prompt, toolkit, id=id, on_pending=on_pending, wait=wait))

    def ask_with_answer_sync(
        self, toolkit: Toolkit, id: str, pending: Request | str, answer: Answer, missing: Missing = "error"
    ) -> RunResult:
        """`ask_with_answer` for a program without an event loop."""
        return run_here(self.ask_with_answer(toolkit, id, pending, answer, missing))

    def submit_sync(self, prompt: Prompt | None, toolkit: Toolkit, *, id: str, on_pending: OnPending = "error") -> bool:
        """`submit` for a program without an event loop."""
        return run_here(self.submit(prompt, toolkit, id=id, on_pending=on_pending))

    def submit_answer_sync(
        self, toolkit: Toolkit, id: str, pending: Request | str, answer: Answer, missing: Missing = "error"
    ) -> bool:
        """`submit_answer` for a program without an event loop."""
        return run_here(self.submit_answer(toolkit, id, pending, answer, missing))

    def run_with_sealed_sync(
        self,
        toolkit: Toolkit,
        token: str,
        answer: Answer,
        *,
        keys: SealKeys,
        audience: str | None = None,
        once: bool = False,
        missing: Missing = "error",
    ) -> RunResult:
        """`run_with_sealed` for a program without an event loop."""
        return run_here(
            self.run_with_sealed(toolkit, token, answer, keys=keys, audience=audience, once=once, missing=missing)
        )

    def stream_sync(
        self,
        prompt: Prompt | None,
        toolkit: Toolkit,
        history: History | None = None,
        *,
        id: str | None = None,
        on_pending: OnPending = "error",
    ) -> SyncStream:
        """`stream` for a program without an event loop: a plain iterator."""
        return SyncStream(self.stream(prompt, toolkit, history, id=id, on_pending=on_pending))

    def stream_with_answer_sync(
        self,
        toolkit: Toolkit,
        history: History | None,
        pending: Request | str,
        answer: Answer,
        missing: Missing = "error",
        *,
        id: str | None = None,
    ) -> SyncStream:
        """`stream_with_answer` for a program without an event loop."""
        return SyncStream(self.stream_with_answer(toolkit, history, pending, answer, missing, id=id))

    def _prompted(
        self,
        prompt: Prompt | None,
        toolkit: Toolkit,
        history: History | None,
        id: str | None,
        on_pending: OnPending,
        wait: bool = False,
    ) -> Start:
        begin = partial(
            self._native.prompt,
            native_tools(toolkit),
            copy_context(),
            _place(history, id),
            id,
            native_prompt(prompt),
            supersedes(on_pending),
            wait,
        )
        return Start(begin, None, id)

    def _answered(
        self,
        toolkit: Toolkit,
        history: History | None,
        id: str | None,
        pending: Request | str,
        answer: Answer,
        missing: Missing,
    ) -> Start:
        begin = partial(
            self._native.answer,
            native_tools(toolkit),
            copy_context(),
            _place(history, id),
            id,
            native_json("pending", pending, Request) if id is None else named(pending, answer),
            native_json("answer", answer, Answer),
            waits(missing),
        )
        return Start(begin, pending if isinstance(pending, Request) else None, id)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Client holds connections and functions of this process: make one where it is used")

    def __repr__(self) -> str:
        return f"<Client {self._label}>"


async def _end(start: Start, on_event: OnEvent | None) -> RunResult:
    return await (end_of(start) if on_event is None else told(start, on_event))


def _place(history: History | None, id: str | None) -> Transcript | bytes | None:
    if history is not None and id is not None:
        raise PayloadError("history: a stored conversation has its own; pass a history or an id", key="history")
    if id is not None:
        native_id(id)
    return native_history(history)
