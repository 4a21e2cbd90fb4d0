"""The rows of the benchmark's table: which figure of which workload, what it is held to, and how it is printed."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import workload

Figures = Mapping[str, Any]
"""What a contestant printed: numbers, and `turn_us`, the cost of each turn."""
Costs = Mapping[str, Mapping[str, Sequence[Figures]]]
"""Per workload and per contestant, the figures of each round."""

FLOOR, ASYNCIO, HAND, LIBRARY = "C floor", "asyncio floor", "hand", "toolrelay"


@dataclass(frozen=True, slots=True)
class Aim:
    """What a figure is held to."""

    text: str
    holds: Callable[[float, float | None], bool]
    """Given toolrelay's figure and the floor's: whether it is met."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    title: str
    workload: str
    read: Callable[[Figures], float]
    aim: Aim | None = None


def at_most(limit: float, unit: str = "us") -> Aim:
    """The figure itself is bounded."""
    return Aim(f"<= {limit:,g} {unit}", lambda value, floor: value <= limit)


def at_least(limit: float, unit: str) -> Aim:
    """The figure itself is bounded from below."""
    return Aim(f">= {limit:,g} {unit}", lambda value, floor: value >= limit)


def times_floor(limit: float) -> Aim:
    """The figure is bounded by a multiple of the floor of the same run."""
    return Aim(f"<= {limit:g}x floor", lambda value, floor: floor is not None and value <= limit * floor)


def turns(first: int, last: int) -> Callable[[Figures], float]:
    """The mean cost of these turns, counted from 1, which stands for the one that the row names."""
    return lambda figures: statistics.fmean(figures["turn_us"][first - 1 : last])


CPU, RATE, PEAK = itemgetter("cpu_us"), itemgetter("per_second"), itemgetter("peak_kb")

ROWS = (
    Row("(a) prompt, tool, answer: us", "tool", CPU, at_most(200)),
    Row("(b) 1,000 in flight: us a run", "flight", CPU, at_most(90)),
    Row("(b) 1,000 in flight: runs/s", "flight", RATE, at_least(6000, "/s")),
    Row("(c) halt, resume, 4 messages: us", "relay-4", CPU, at_most(300)),
    Row("(c) 1,000 messages: us", "relay-1000", CPU, at_most(1000)),
    Row("(d) turn 10 of 200: us", "long", turns(8, 12)),
    Row("(d) turn 200 of 200: us", "long", turns(196, 200), times_floor(1.5)),
    Row("(g) a chunk of a streamed text: us", "chunks", lambda figures: CPU(figures) / workload.CHUNKS, at_most(4)),
    Row("(h) a call in 40,000 pieces: ms", "pieces", lambda figures: CPU(figures) / 1e3, at_most(500, "ms")),
    Row("(i) an event of 5 MB: ms", "event", lambda figures: CPU(figures) / 1e3),
    Row("peak memory (a): KiB", "tool", PEAK),
    Row("peak memory (b): KiB", "flight", PEAK),
    Row("peak memory (c) 4: KiB", "relay-4", PEAK),
    Row("peak memory (c) 1,000: KiB", "relay-1000", PEAK),
    Row("peak memory (d): KiB", "long", PEAK),
)


def median_of(costs: Costs, row: Row, contestant: str) -> float | None:
    """The median over the rounds, or None where the contestant was not measured."""
    rounds = costs.get(row.workload, {}).get(contestant, ())
    return statistics.median(map(row.read, rounds)) if rounds else None


def number(value: float | None) -> str:
    """A figure as it stands in the table."""
    if value is None:
        return "-"
    return f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def verdict(aim: Aim | None, value: float | None, floor: float | None) -> list[str]:
    """The last two cells: the aim, and whether it is met."""
    if aim is None:
        return ["", ""]
    return [aim.text, "" if value is None else "yes" if aim.holds(value, floor) else "NO"]


def rows_of(costs: Costs, contestants: Sequence[str]) -> list[list[str]]:
    """The cells of every row that was measured."""
    lines = []
    for row in ROWS:
        if row.workload not in costs:
            continue
        values = {contestant: median_of(costs, row, contestant) for contestant in contestants}
        value, floor = values.get(LIBRARY), values[FLOOR]
        ratio = f"{value / floor:.2f}" if value and floor else ""
        lines.append([row.title, *map(number, values.values()), ratio, *verdict(row.aim, value, floor)])
    return lines


def render(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table with aligned columns."""
    table = [list(header), *map(list, lines)]
    widths = [max(len(line[column]) for line in table) for column in range(len(header))]

    def join(cells: Sequence[str]) -> str:
        first = cells[0].ljust(widths[0])
        rest = (cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True))
        return "| " + " | ".join([first, *rest]) + " |"

    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join(map(join, [table[0], rule, *table[1:]]))
