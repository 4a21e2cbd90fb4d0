"""What a type checker makes of functions that are annotated with the names of `toolrelay.types`. Checked, and run."""

import asyncio
from collections.abc import AsyncIterator

from toolrelay import Answer, Client, InProcessRequest, Request, RunResult, Text, Toolkit, create_in_process_client
from toolrelay.conversations import PendingPage, RunningPage, Swept
from toolrelay.events import Event
from toolrelay.types import (
    Generate,
    Generated,
    History,
    Missing,
    OnEvent,
    OnPending,
    Pieces,
    Prompt,
    Sweeper,
    ToolChoice,
    WaitFor,
)


async def pieces(request: InProcessRequest) -> Pieces:
    async def spoken() -> AsyncIterator[str]:
        yield "hello"

    return spoken()


def generated(request: InProcessRequest) -> Generated:
    return "hello"


async def waiting(request: Request) -> Answer | None:
    return None


def client(generate: Generate, wait_for: WaitFor | None) -> Client:
    return create_in_process_client(generate=generate, wait_for=wait_for)


async def run(client: Client, prompt: Prompt | None, history: History | None, on_event: OnEvent) -> RunResult:
    on_pending: OnPending = "supersede"
    return await client.run(prompt, Toolkit(), history, on_pending=on_pending, on_event=on_event)


async def translated(client: Client, tool_choice: ToolChoice) -> None:
    await client.translate(messages=[{"role": "user", "content": "hi"}], tool_choice=tool_choice)


async def looked_after(client: Client) -> tuple[PendingPage, RunningPage, Swept]:
    sweeper: Sweeper = client.sweeping(every=60.0)
    async with sweeper:
        return await client.pending(), await client.running(), await client.sweep()


async def main() -> None:
    """Each name once."""
    events: list[Event] = []
    missing: Missing = "wait"
    agent = client(generated, waiting)
    assert (await run(client(pieces, None), [Text("hi")], "[]", events.append)).text == "hello"
    assert (await run(agent, "hi", None, events.append)).text == "hello"
    assert (events != [], missing) == (True, "wait")
    await translated(agent, "none")
    assert await looked_after(agent) == (PendingPage((), None), RunningPage((), None), Swept())


asyncio.run(main())
