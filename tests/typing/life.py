"""What a type checker makes of looking after conversations. Checked, and run as a program."""

import asyncio
from datetime import datetime, timedelta
from typing import assert_type

from toolrelay import (
    Conversation,
    Request,
    RunResult,
    Toolkit,
    answer_output,
    create_in_process_client,
    relay_calls_of,
    relay_tool,
)
from toolrelay.conversations import PendingPage, PendingRequest, RunningConversation, RunningPage, Swept

toolkit = Toolkit([relay_tool("tide", "high water")])
client = create_in_process_client(
    generate=lambda request: {"content": None, "tool_calls": [{"function": {"name": "tide", "arguments": "{}"}}]}
)


async def main() -> None:
    """Each call once."""
    await client.ask("go", toolkit, id="c-1", wait=True)
    conversation = await client.get("c-1")
    assert_type(conversation, Conversation)
    assert_type(conversation.version, int)
    assert_type(conversation.written_at, datetime)
    assert_type(conversation.worker, str | None)
    assert_type(conversation.lease_until, datetime | None)
    page = await client.pending("age", limit=10)
    assert_type(page, PendingPage)
    assert_type(page.requests, tuple[PendingRequest, ...])
    assert_type(page.next, str | None)
    request = page.requests[0].request
    assert_type(request, Request)
    assert_type([request.idempotency_key(call) for call in relay_calls_of(request)], list[str])
    assert_type(page.requests[0].age, timedelta)
    running = await client.running(limit=10)
    assert_type(running, RunningPage)
    assert_type(running.conversations, tuple[RunningConversation, ...])
    assert_type(running.next, str | None)
    assert_type(await client.fork("c-1", "c-2"), Conversation)
    exported = await client.export("c-2")
    assert_type(exported, bytes)
    assert_type(await client.restore("c-3", exported), Conversation)
    assert_type(await client.cancel("c-2"), Conversation)
    assert_type(await client.delete("c-2"), bool)
    halted = await client.get("c-3")
    answer = answer_output(halted.suspensions[0].id, "4 m")
    await client.submit_answer(toolkit, "c-3", halted.suspensions[0], answer, "wait")
    await client.submit("go", toolkit, id="c-4", on_pending="supersede")
    assert_type(await client.recover(toolkit, "c-4"), RunResult)
    swept = await client.sweep(toolkit, limit=10, at_once=2)
    assert_type(swept, Swept)
    assert_type(swept.recovered, dict[str, RunResult])
    assert_type(swept.failed, dict[str, Exception])
    async with client.sweeping(toolkit, every=60.0):
        pass


asyncio.run(main())
