"""Halts or resumes one run after the other, as its standard input says, and prints what each left."""

import asyncio
import json
import sys
from typing import Any

from toolrelay import RelayResult, Request, Toolkit, create_client, relay_answer, relay_calls_of, relay_tool

TOOLKIT = Toolkit([relay_tool("tide", "high water")])


async def work(task: dict[str, Any]) -> dict[str, Any]:
    client = create_client(style=task["style"], model="m-1", base_url=task["url"], api_key="k", retries=0)
    watched = {"on_event": lambda event: None} if task["is_streamed"] else {}
    if "transcript" not in task:
        result = await client.run("tide?", TOOLKIT, **watched)
    else:
        request = Request.from_json(task["request"])
        answer = relay_answer(request.id, [RelayResult(call.id, "4 m") for call in relay_calls_of(request)])
        result = await client.run_with_answer(TOOLKIT, task["transcript"], request, answer, **watched)
    request = None if result.pending is None else result.pending.to_json().decode()
    return {"status": result.status, "transcript": result.messages.to_json().decode(), "request": request}


async def main() -> None:
    print(json.dumps([await work(task) for task in json.load(sys.stdin)]))


if __name__ == "__main__":
    asyncio.run(main())
