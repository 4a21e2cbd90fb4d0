"""One worker process of the tests of `toolrelay.dbos`, and what the conversations of those tests are.

A prompt is a list of turns, each a list of tool names; the model calls one turn after the other. Each tool leaves a
line when it begins and when it ends. Those whose conversation's id begins with `held` wait in between, until there is a
file `go`. The worker says `ready`, and works until its input ends: then it shuts down.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from dbos import DBOS
from toolrelay import (
    InProcessRequest,
    InProcessResponse,
    InProcessToolCall,
    ToolContext,
    Toolkit,
    create_in_process_client,
    define_tool,
    pending,
    relay_tool,
)
from toolrelay.dbos import DbosStore


class Trace:
    """What ran, told by every worker in one file."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "trace"
        self._go = folder / "go"

    def lines(self) -> list[tuple[str, str, int]]:
        """What happened, to which call, in which process."""
        told = self._file.read_text().splitlines() if self._file.exists() else []
        return [(what, call, int(process)) for what, call, process in map(str.split, told)]

    def note(self, what: str, context: ToolContext) -> None:
        conversation, _, call = context.idempotency_key.split(":")
        with self._file.open("a") as file:
            file.write(f"{what} {conversation}:{call} {os.getpid()}\n")

    async def run(self, context: ToolContext) -> None:
        self.note("began", context)
        while context.idempotency_key.startswith("held") and not self._go.exists():  # noqa: ASYNC110 - it comes about in another process
            await asyncio.sleep(0.01)
        self.note("ended", context)

    def let_go(self) -> None:
        self._go.touch()


def toolkit(trace: Trace) -> Toolkit:
    """With schemas of their own: making them from hints would load pydantic in every worker."""

    async def charge(arguments: dict[str, Any], context: ToolContext) -> str:
        await trace.run(context)
        return "charged"

    async def look(arguments: dict[str, Any], context: ToolContext) -> str:
        await trace.run(context)
        return "seen"

    async def sign(arguments: dict[str, Any], context: ToolContext) -> object:
        if context.answer is None:
            return pending("approval", "Sign?")
        await trace.run(context)
        return "signed"

    return Toolkit(
        [
            relay_tool("tide", "high water"),
            define_tool("charge", "has an effect", None, charge),
            define_tool("look", "has none", None, look, retry_safe=True),
            define_tool("sign", "asks somebody first", None, sign, retry_safe=True),
        ]
    )


def generate(request: InProcessRequest) -> InProcessResponse | str:
    turns = json.loads(request.messages[0]["content"])
    at = sum(message["role"] == "assistant" for message in request.messages)
    if at == len(turns):
        return "done"
    return InProcessResponse(tool_calls=[InProcessToolCall(name, {}) for name in turns[at]])


async def serve(url: str, folder: str, executor: str) -> None:
    tools = toolkit(Trace(Path(folder)))
    store = DbosStore(url)
    client = create_in_process_client(generate=generate, store=store, lease=60)
    DBOS(
        config={
            "name": "agents",
            "system_database_url": url,
            "executor_id": executor,
            "application_version": "1",
            "log_level": "WARNING",
        }
    )
    store.register(client, tools)
    await asyncio.to_thread(DBOS.launch)
    await DBOS.register_queue_async("toolrelay", polling_interval_sec=0.1)
    async with client.sweeping(tools, every=0.5):
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)
    await asyncio.to_thread(DBOS.destroy)
    await store.close()


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
