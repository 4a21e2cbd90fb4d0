"""What an await across the bridge costs: runs `bridge.py` and makes rows of what it prints."""

from __future__ import annotations

import json
import sys
from typing import Any

import server
import table

AIM = table.at_most(5)
_FLOOR, _CROSSING = "floor", "yield"
"""Of the futures of `bridge.py`: one that the loop settles by itself, and one that a thread of the runtime settles."""


def measure() -> list[dict[str, Any]]:
    """Each kind of future, on each event loop, with few and with many in flight."""
    command = [sys.executable, str(server.HERE / "bridge.py"), "--json"]
    with server.start(command, server.CLIENT_CORE) as python:
        output, _ = python.communicate()
    if python.returncode != 0:
        raise SystemExit("bench/bridge.py failed")
    return [json.loads(line) for line in output.splitlines()]


def rows_of(measured: list[dict[str, Any]], contestants: list[str]) -> list[list[str]]:
    """A row for each event loop and number in flight; the aim is for the largest one."""
    costs = {(one["loop"], one["in_flight"], one["future"]): float(one["cpu_us"]) for one in measured}
    most = max(one["in_flight"] for one in measured)
    lines = []
    for loop, in_flight in dict.fromkeys((one["loop"], one["in_flight"]) for one in measured):
        cells = {table.ASYNCIO: costs[loop, in_flight, _FLOOR], table.LIBRARY: costs[loop, in_flight, _CROSSING]}
        value = cells[table.LIBRARY]
        verdict = table.verdict(AIM if in_flight == most else None, value, None)
        figures = (table.number(cells.get(contestant)) for contestant in contestants)
        lines.append([f"(e) await on {loop}, {in_flight:,} in flight: us", *figures, "", *verdict])
    return lines
