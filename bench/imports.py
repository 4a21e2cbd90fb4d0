"""What importing a package costs beyond `import asyncio`, each time in a new interpreter."""

from __future__ import annotations

import statistics
import sys

import server
import table

AIM = table.at_most(15, "ms")
TIMES = 15
MODULES = {
    table.HAND: "aiohttp",
    table.LIBRARY: "toolrelay",
    "pydantic-ai": "pydantic_ai",
    "openai-agents": "agents",
    "langgraph": "langgraph.prebuilt",
}

_TIMED = """
import asyncio, time
before = time.perf_counter()
import {module}
print((time.perf_counter() - before) * 1e3)
"""


def measure(contestants: list[str]) -> dict[str, list[float]]:
    """Milliseconds of each import for each contestant, who take turns; a first one, which may compile, is left out."""
    costs: dict[str, list[float]] = {name: [] for name in contestants if name in MODULES}
    for number in range(TIMES + 1):
        for name, values in costs.items():
            # -P keeps the working directory off the path: what is measured is what is installed.
            command = [sys.executable, "-P", "-c", _TIMED.format(module=MODULES[name])]
            with server.start(command, server.CLIENT_CORE) as python:
                output, _ = python.communicate()
            if python.returncode != 0:
                raise SystemExit(f"cannot import {MODULES[name]}")
            if number > 0:
                values.append(float(output))
    return costs


def rows_of(measured: dict[str, list[float]], contestants: list[str]) -> list[list[str]]:
    """The one row."""
    medians = {name: statistics.median(values) for name, values in measured.items()} | {table.ASYNCIO: 0.0}
    verdict = table.verdict(AIM, medians.get(table.LIBRARY), None)
    figures = (table.number(medians.get(contestant)) for contestant in contestants)
    return [["(f) import beyond asyncio: ms", *figures, "", *verdict]]
