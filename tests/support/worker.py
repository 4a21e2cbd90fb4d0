"""One worker process of the tests: it does what its argument says, and prints what came of it as JSON.

It says `ready` first and waits for a line, so that several workers can be let go at once. `do` is `ask`, `answer`,
`run` or `resume`; the last two keep the transcript in a file instead of a store.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from places import open_store
from toolrelay import (
    Answer,
    Request,
    RunResult,
    ToolContext,
    Toolkit,
    ToolRelayError,
    create_client,
    define_tool,
    relay_tool,
)


def count_up(arguments: dict[str, Any], context: ToolContext) -> str:
    """Leaves a trace that it ran."""
    with Path(arguments["file"]).open("a", encoding="utf-8") as trace:
        trace.write("x")
    return "counted"


def crash(arguments: dict[str, Any], context: ToolContext) -> str:
    """Kills its process."""
    os._exit(9)


# With schemas of their own: making them from hints would load pydantic in every worker.
TOOLS = [define_tool(function.__name__, function.__doc__ or "", None, function) for function in (count_up, crash)]
TOOLKIT = Toolkit([relay_tool("tide", "high water"), relay_tool("moor", "moors a boat"), *TOOLS])


async def work(task: dict[str, str], history: bytes) -> RunResult:
    store = open_store(task["store"]) if "store" in task else None
    client = create_client(
        style=task["style"],  # type: ignore[arg-type]
        model="m-1",
        base_url=task["url"],
        api_key="",
        retries=0,
        store=store,
        lease=float(task.get("lease", "30")),
    )
    prompt = task.get("prompt")
    match task["do"]:
        case "ask":
            return await client.ask(prompt, TOOLKIT, id="c-1")
        case "run":
            return await client.run(prompt, TOOLKIT)
    request, answer = Request.from_json(task["request"]), Answer.from_json(task["answer"])
    if task["do"] == "answer":
        return await client.ask_with_answer(TOOLKIT, "c-1", request, answer)
    return await client.run_with_answer(TOOLKIT, history, request, answer)


def main() -> None:
    print("ready", flush=True)
    sys.stdin.readline()
    task = json.loads(sys.argv[1])
    kept = Path(task.get("transcript", "none"))
    try:
        result = asyncio.run(work(task, kept.read_bytes() if task["do"] == "resume" else b""))
        if task["do"] == "run":
            kept.write_bytes(result.messages.to_json())
    except ToolRelayError as error:
        told = {"error": type(error).__name__, "says": str(error)}
    else:
        request = None if result.pending is None else result.pending.to_json().decode()
        told = {"status": result.status, "text": result.text, "request": request}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
