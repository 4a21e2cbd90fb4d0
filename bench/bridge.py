"""CPU (user + system) of one await across the bridge, with 1, 100 and 1,000 of them in flight.

Each task awaits one Rust future after another. `floor` is the same program with a future that the loop settles by
itself: what asyncio costs with no bridge at all. Each number is that of the quickest of several runs, in microseconds
per await; `wall` is the time that passed.

    python bench/bridge.py [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import platform
import resource
import time
from collections.abc import Awaitable, Callable
from typing import Any

from toolrelay._core import _bridge_probe

AWAITS = 40_000
FEWER_AWAITS_ALONE = 5_000
RUNS = 7

Make = Callable[[], Awaitable[Any]]


def floor() -> Awaitable[Any]:
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    loop.call_soon(future.set_result, 0.0)
    return future


KINDS: dict[str, Make] = {
    "floor": floor,
    "ready": lambda: _bridge_probe("ready"),
    "yield": lambda: _bridge_probe("yield"),
    "sleep 1 ms": lambda: _bridge_probe("sleep", 0.001),
}


async def one_after_another(make: Make, times: int) -> None:
    for _ in range(times):
        await make()


async def measure(make: Make, in_flight: int) -> tuple[float, float]:
    """CPU and wall time of one await, in microseconds."""
    times = max(1, (FEWER_AWAITS_ALONE if in_flight == 1 else AWAITS) // in_flight)
    await asyncio.gather(*(one_after_another(make, 2) for _ in range(in_flight)))
    gc.collect()
    wall, cpu = time.perf_counter(), cpu_seconds()
    await asyncio.gather(*(one_after_another(make, times) for _ in range(in_flight)))
    awaits = times * in_flight
    return (cpu_seconds() - cpu) / awaits * 1e6, (time.perf_counter() - wall) / awaits * 1e6


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def loops() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    found: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
    try:
        import uvloop
    except ImportError:
        return found
    return found | {"uvloop": uvloop.new_event_loop}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object per line instead of a table")
    arguments = parser.parse_args()
    if not arguments.json:
        print(f"Python {platform.python_version()}, us per await, the quickest of {RUNS} runs")
        print(f"{'loop':8} {'future':12} {'in flight':>9} {'cpu':>8} {'wall':>8}")
    for loop_name, loop_factory in loops().items():
        for kind, make in KINDS.items():
            for in_flight in (1, 100, 1_000):
                with asyncio.Runner(loop_factory=loop_factory) as runner:
                    runs = [runner.run(measure(make, in_flight)) for _ in range(RUNS)]
                cpu, wall = min(runs)
                if arguments.json:
                    line = {"loop": loop_name, "future": kind, "in_flight": in_flight, "cpu_us": cpu, "wall_us": wall}
                    print(json.dumps(line))
                else:
                    print(f"{loop_name:8} {kind:12} {in_flight:9,} {cpu:8.2f} {wall:8.2f}", flush=True)


if __name__ == "__main__":
    main()
