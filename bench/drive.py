"""Runs one client on one workload in this process and prints what it cost as one line of JSON.

    python bench/drive.py CLIENT WORKLOAD URL WARM PASSES

CLIENT is a module of `clients` with a class `Client`. Each of the workload's runs in flight makes WARM passes, then
PASSES that are measured.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Protocol

import workload


class Client(Protocol):
    """What a module must offer to be measured. Each run returns the model's last text."""

    async def open(self) -> None: ...
    async def close(self) -> None: ...
    async def tool_run(self) -> str: ...
    async def relay_run(self, document: bytes) -> str: ...
    async def long_run(self) -> str: ...
    async def streamed_run(self) -> str: ...


async def repeat(run: Callable[[], Awaitable[str]], passes: int, expected: str = workload.FINAL_TEXT) -> None:
    """Run one after the other, each checked."""
    for _ in range(passes):
        text = await run()
        if text != expected:
            raise SystemExit(f"the run ended with {text[:100]!r}")


async def measure_runs(
    run: Callable[[], Awaitable[str]], flight: int, warm: int, passes: int, expected: str = workload.FINAL_TEXT
) -> dict[str, float]:
    """CPU and rate of `passes` runs in each of `flight` tasks."""

    async def fly(count: int) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(flight):
                group.create_task(repeat(run, count, expected))

    await fly(warm)
    cpu, wall = workload.cpu_us(), time.perf_counter()
    await fly(passes)
    cpu, wall = workload.cpu_us() - cpu, time.perf_counter() - wall
    runs = passes * flight
    return {"cpu_us": cpu / runs, "per_second": runs / wall}


async def measure_turns(run: Callable[[], Awaitable[str]], warm: int, passes: int) -> dict[str, list[float]]:
    """CPU of each turn of a long run: the mean over `passes` runs."""
    turn_us = [0.0] * workload.TURNS
    await repeat(run, warm)
    for _ in range(passes):
        workload.step_cpu_us.clear()
        start = workload.cpu_us()
        await repeat(run, 1)
        marks = [start, *workload.step_cpu_us]
        if len(marks) != workload.TURNS + 1:
            raise SystemExit(f"the long run took {len(marks) - 1} steps")
        for number, (before, after) in enumerate(pairwise(marks)):
            turn_us[number] += (after - before) / passes
    return {"turn_us": turn_us}


async def measure(client: Client, load: workload.Workload, warm: int, passes: int) -> dict[str, object]:
    """Open the client, measure it on the workload, close it."""
    await client.open()
    try:
        costs: dict[str, float] | dict[str, list[float]]
        if load.name == "long":
            costs = await measure_turns(client.long_run, warm, passes)
        elif load.name in workload.STREAMED:
            expected = workload.STREAMED[load.name]
            costs = await measure_runs(client.streamed_run, load.flight, warm, passes, expected)
        elif load.history:
            document = workload.history_document(load.history)
            costs = await measure_runs(lambda: client.relay_run(document), load.flight, warm, passes)
        else:
            costs = await measure_runs(client.tool_run, load.flight, warm, passes)
    finally:
        await client.close()
    return {**costs, "peak_kb": workload.peak_kb()}


def main() -> None:
    """Read the arguments, measure, print."""
    module, name, url, warm, passes = sys.argv[1:]
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    client: Client = importlib.import_module(f"clients.{module}").Client(url)
    costs = asyncio.run(measure(client, workload.WORKLOADS[name], int(warm), int(passes)))
    print(json.dumps(costs))


if __name__ == "__main__":
    main()
