"""Measures a store with many conversations that wait for answers, and prints what it found as one line of JSON.

    python bench/parked.py make PLACE CONVERSATIONS
    python bench/parked.py measure PLACE

The first parks so many. The second, a process that made none of them, measures memory, and time to list and to resume.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

import workload
from halting import Workers

AT_ONCE = 64
"""Halts in flight while they are made."""
PAGE = 100
"""Requests that a page has if nobody says otherwise."""
RESUMED = 50


async def make(place: str, count: int) -> dict[str, float]:
    """Parks so many conversations."""
    workers = Workers(place)
    numbers = iter(range(count))

    async def halt() -> None:
        for number in numbers:
            await workers.halt(f"c-{number}")

    start = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(halt())
    wall = time.perf_counter() - start
    await workers.close()
    return {"halts_per_second": count / wall}


async def measure(place: str) -> dict[str, float]:
    """What it takes to look and to go on."""
    workers = Workers(place)
    client = workers.resuming
    figures: dict[str, float] = {"fresh_kb": workload.resident_kb()}

    watch = Watch()
    page = await client.pending(limit=PAGE)
    figures |= watch.read("first_page")
    figures["open_kb"] = workload.resident_kb()
    watch = Watch()
    again = await client.pending(limit=PAGE)
    figures |= watch.read("page")
    assert again == page, again

    watch = Watch()
    found = len(page.requests)
    while page.next is not None:
        page = await client.pending(limit=PAGE, after=page.next)
        found += len(page.requests)
    figures |= watch.read("all")
    figures["requests"] = found

    watch = Watch()
    for waiting in again.requests[:RESUMED]:
        await workers.resume(waiting.conversation, waiting.request.id)
    figures |= {name: value / RESUMED for name, value in watch.read("resume").items()}
    figures["end_kb"] = workload.resident_kb()
    await workers.close()
    return figures


class Watch:
    """CPU and time since it was made."""

    def __init__(self) -> None:
        self._cpu, self._wall = workload.cpu_us(), time.perf_counter()

    def read(self, name: str) -> dict[str, float]:
        """Both, in milliseconds."""
        wall = (time.perf_counter() - self._wall) * 1e3
        return {f"{name}_cpu_ms": (workload.cpu_us() - self._cpu) / 1e3, f"{name}_ms": wall}


def main() -> None:
    """Read the arguments, do it, print."""
    verb, place, *rest = sys.argv[1:]
    print(json.dumps(asyncio.run(make(place, int(rest[0])) if verb == "make" else measure(place))))


if __name__ == "__main__":
    main()
