"""Resumes what waits in a store, in this process, and prints what it took as one line of JSON.

    python bench/resuming.py PLACE PART PARTS AT_ONCE

This worker takes every PARTS-th request that waits, from PART on, and has AT_ONCE resumes in flight. It says `ready`
first and waits for a line, so that several workers can be let go at once.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

import workload
from halting import Workers


async def work(place: str, part: int, parts: int, at_once: int) -> dict[str, float]:
    """Resumes its part, and when it began and ended by the clock that all processes share."""
    workers = Workers(place)
    client = workers.resuming
    page = await client.pending(limit=1000)
    waiting = list(page.requests)
    while page.next is not None:
        page = await client.pending(limit=1000, after=page.next)
        waiting += page.requests
    mine = iter(waiting[part::parts])

    async def resume() -> None:
        for one in mine:
            await workers.resume(one.conversation, one.request.id)

    print("ready", flush=True)
    sys.stdin.readline()
    begun, cpu = time.monotonic(), workload.cpu_us()
    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(resume())
    ended, cpu = time.monotonic(), workload.cpu_us() - cpu
    await workers.close()
    return {"resumes": len(waiting[part::parts]), "cpu_s": cpu / 1e6, "begun": begun, "ended": ended}


def main() -> None:
    """Read the arguments, work, print."""
    place, *numbers = sys.argv[1:]
    print(json.dumps(asyncio.run(work(place, *map(int, numbers)))))


if __name__ == "__main__":
    main()
