"""Measures halts and resumes through one store in this process and prints what one of each cost as one line of JSON.

    python bench/halts.py PLACE MESSAGES RESULT_BYTES PASSES

PLACE is `none` (the host keeps the transcript), `memory`, or a place of `places.py`. Each pass is a conversation of its
own that has MESSAGES to begin with; the host's result has RESULT_BYTES, which no database can compress much.
"""

from __future__ import annotations

import asyncio
import json
import random
import string
import sys
import time
from dataclasses import replace

from toolrelay import Transcript

import workload
from halting import MEMORY, Workers, without_store
from tap import Passed, tapped
from written import bytes_written

NONE = "none"
WARM, COUNTED = 10, 10
"""Passes before those that are measured, and those that are made behind them to count round trips."""


async def measure_none(history: Transcript, output: str, passes: int) -> dict[str, float]:
    """CPU of a halt and a resume that no store sees, and the bytes of what is new by them."""
    workers = Workers(MEMORY, output)
    for _ in range(WARM):
        await without_store(workers, history)
    cpu = workload.cpu_us()
    new = [await without_store(workers, history) for _ in range(passes)]
    return {"cpu_us": (workload.cpu_us() - cpu) / passes, "new_bytes": sum(new) / passes}


async def measure(place: str, history: Transcript, output: str, passes: int) -> dict[str, float]:
    """CPU, time and bytes written; with a server also round trips."""
    ids = [f"c-{number}" for number in range(WARM + passes + COUNTED)]
    workers = Workers(place, output)
    for id in ids:
        await workers.halting.restore(id, history)
    for id in ids[:WARM]:
        await workers.halt_and_resume(id)
    if place.startswith("sqlite "):
        # So that what is written from here on, up to the end, is what the measured passes write.
        await workers.close()
        workers = Workers(place, output)
    await asyncio.gather(workers.halting.get(ids[0]), workers.resuming.get(ids[0]))

    written = 0 if place == MEMORY else bytes_written(place)
    cpu, wall = workload.cpu_us(), time.perf_counter()
    for id in ids[WARM:-COUNTED]:
        await workers.halt_and_resume(id)
    cpu, wall = workload.cpu_us() - cpu, time.perf_counter() - wall
    await workers.close()
    figures = {"cpu_us": cpu / passes, "wall_us": wall * 1e6 / passes}
    if place != MEMORY:
        figures["bytes_written"] = (bytes_written(place) - written) / passes
    if place.startswith(("postgres ", "redis ")):
        passed = await count(place, ids[-COUNTED:], output)
        figures["round_trips"] = passed.round_trips / COUNTED
        figures["bytes_sent"] = passed.bytes_sent / COUNTED
        figures["bytes_received"] = passed.bytes_received / COUNTED
    return figures


async def count(place: str, ids: list[str], output: str) -> Passed:
    """What passes between the workers and their server."""
    _, url, _ = place.split(" ")
    async with tapped(url) as (address, passed):
        workers = Workers(place.replace(url, address), output)
        await asyncio.gather(workers.halting.get(ids[0]), workers.resuming.get(ids[0]))
        before = replace(passed)
        for id in ids:
            await workers.halt_and_resume(id)
        after = Passed(
            passed.round_trips - before.round_trips,
            passed.bytes_sent - before.bytes_sent,
            passed.bytes_received - before.bytes_received,
        )
        await workers.close()
    return after


def main() -> None:
    """Read the arguments, measure, print."""
    place, messages, result_bytes, passes = sys.argv[1:]
    history = Transcript.from_json(workload.history_document(int(messages)))
    output = "".join(random.Random(0).choices(string.ascii_letters + string.digits, k=int(result_bytes)))
    if place == NONE:
        figures = asyncio.run(measure_none(history, output, int(passes)))
    else:
        figures = asyncio.run(measure(place, history, output, int(passes)))
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
