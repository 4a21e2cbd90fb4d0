"""What a type checker makes of tools, requests and answers. Checked, and run as a program."""

import asyncio
from datetime import datetime
from typing import Any, Literal, assert_type

from toolrelay.errors import ProviderError, RateLimitError, WaitForError
from toolrelay.parts import Image
from toolrelay.relay import (
    Answer,
    RelayCall,
    RelayResult,
    Request,
    answer_declined,
    answer_output,
    is_relay_request,
    relay_answer,
    relay_calls_of,
)
from toolrelay.tools import ParkedCall, Tool, ToolContext, ToolOutput, define_tool, pending, relay_tool


@define_tool
async def tide(port: str) -> float:
    """High water."""
    return 4.2


@define_tool(name="moor_boat")
def moor(berth: int, context: ToolContext) -> str | ParkedCall:
    """Moors."""
    assert_type(context.answer, Answer | None)
    assert_type(context.cancelled, bool)
    if context.answer is None:
        return pending("approval", "Moor?", {"berth": berth})
    return "moored"


async def real(arguments: dict[str, Any], context: ToolContext) -> list[str | Image]:
    """The reference's form."""
    return ["seen", Image(url=f"https://example.org/{arguments['name']}.png")]


assert_type(tide, Tool)
assert_type(moor, Tool)
assert_type(define_tool("real_tool", "runs locally", None, real), Tool)
assert_type(relay_tool("lookup", "look up", {"type": "object"}), Tool)
assert_type(relay_tool("ask", "asks", expires_after=60), Tool)

output = asyncio.run(tide.invoke(b'{"port":"Ames"}', ToolContext("call_1", "tide")))
assert_type(output, ToolOutput | ParkedCall)
if isinstance(output, ToolOutput):
    assert_type(output.text, str)
    assert_type(output.parts, list[dict[str, Any]] | None)
    assert_type(output.is_error, bool)

request = Request.from_json(b'{"id":"req_1","kind":"tool_call","prompt":"p","data":{"calls":[]}}')
assert_type(request, Request)
assert_type(request.data, dict[str, Any] | None)
assert_type(request.expires_at, datetime | None)
assert_type(request.to_json(), bytes)
assert_type(is_relay_request(request), bool)
assert_type(relay_calls_of(request), list[RelayCall])

assert_type(answer_output(request.id, "sunny"), Answer)
assert_type(answer_declined(request.id, "expired").reason, Literal["declined", "cancelled", "expired"] | None)
assert_type(relay_answer(request.id, [RelayResult("call_1", {"free": False}, is_error=True)]), Answer)

error = RateLimitError("slow down", status=429, retryable=True, retry_after=1.5)
assert_type(error.status, int | None)
assert_type(error.retry_after, float | None)
assert_type(error.kind, str)
assert isinstance(error, ProviderError)
assert_type(WaitForError("x").suspensions, tuple[Request, ...])
assert_type(WaitForError("x").cause, BaseException | None)


def frozen(request: Request, tool: Tool) -> None:
    """Assignments that a checker refuses, as Python would."""
    request.id = "other"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    tool.name = "other"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
