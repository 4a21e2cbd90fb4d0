"""An in-process model that follows a script and keeps what it was asked."""

import inspect
from collections.abc import Callable
from typing import Any

from toolrelay import (
    Client,
    InProcessRequest,
    InProcessResponse,
    InProcessToolCall,
    RunResult,
    Toolkit,
    create_in_process_client,
)

Said = str | dict[str, Any] | InProcessResponse | BaseException | Callable[[InProcessRequest], Any]


class ScriptedModel:
    """Gives its replies one after another. An exception is raised; a function gets the request and makes the reply."""

    def __init__(self, *replies: Said) -> None:
        self.replies = list(replies)
        self.requests: list[InProcessRequest] = []

    async def __call__(self, request: InProcessRequest) -> Any:
        assert self.replies, f"the script is over, but the model is asked: {request.messages}"
        self.requests.append(request)
        reply = self.replies.pop(0)
        if isinstance(reply, BaseException):
            raise reply
        if callable(reply):
            reply = reply(request)
            return await reply if inspect.isawaitable(reply) else reply
        return reply

    @property
    def results(self) -> list[str]:
        """The texts of the tool results in the last request."""
        return results(self.requests[-1])


def call(name: str, arguments: dict[str, Any] | str = "{}", call_id: str | None = None) -> InProcessToolCall:
    return InProcessToolCall(name, arguments, call_id)


def says(*calls: InProcessToolCall, text: str = "", stop: str | None = None) -> InProcessResponse:
    """A reply that makes these calls. Calls without an id get `k1`, `k2`, …"""
    numbered = [
        made if made.id is not None else InProcessToolCall(made.name, made.arguments, f"k{at}")
        for at, made in enumerate(calls, 1)
    ]
    return InProcessResponse(text, numbered, finish_reason=stop)


def results(request: InProcessRequest) -> list[str]:
    return [message["content"] for message in request.messages if message["role"] == "tool"]


def client_for(*replies: Said, **settings: Any) -> tuple[Client, ScriptedModel]:
    """A client of a model with this script, and the model."""
    model = ScriptedModel(*replies)
    return create_in_process_client(generate=model, **settings), model


async def halted_on(toolkit: Toolkit, *calls: InProcessToolCall) -> RunResult:
    """A run that makes these calls and waits for some of them."""
    client, _ = client_for(says(*calls))
    halted = await client.run("go", toolkit)
    assert halted.status == "pending"
    return halted
