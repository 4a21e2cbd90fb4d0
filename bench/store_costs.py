"""Measures what conversations cost in the stores: runs `halts.py`, its floors, `sizes.py`, `parked.py`, `resuming.py`.

Servers are started from the machine's packages and end with this program; without them their rows are left out, and a
line says so.
"""

from __future__ import annotations

import json
import secrets
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import server
import support
from halting import MEMORY
from halts import NONE

Figures = Mapping[str, Any]

LENGTHS = {10: 100, 100: 100, 1000: 40}
"""Messages that a conversation has to begin with, and passes of a measurement."""
RESULT_BYTES, LARGE_RESULT_BYTES = 232, 65536
PARKED = 10_000
RESUMES = 5_000
WORKERS, AT_ONCE = (1, 2), 32
SERVERS = {"postgres": ("-c", "fsync=on"), "redis": ("--auto-aof-rewrite-percentage", "0")}
"""Servers, durable as they should be; Redis does not shorten its file while we look how it grows."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where conversations can be kept on this machine."""

    folder: Path
    urls: Mapping[str, str]
    absent: list[str]
    """What could not be started, and why."""

    @classmethod
    def found(cls, folder: Path) -> Places:
        """Starts the servers that are there."""
        urls, absent = {}, []
        for kind, options in SERVERS.items():
            try:
                urls[kind] = support.start(kind, *options)
            except support.NoServerError as missing:
                absent.append(f"{kind} is not measured: {missing}")
        return cls(folder, urls, absent)

    @property
    def kinds(self) -> list[str]:
        """Kinds of stores that can be measured."""
        return [MEMORY, "sqlite", *self.urls]

    def new(self, kind: str) -> str:
        """A place that nobody has used."""
        name = f"bench_{secrets.token_hex(8)}"
        if kind == "sqlite":
            return f"sqlite {self.folder / name}.db"
        return f"{kind} {self.urls[kind]} {name}" if kind in self.urls else kind


def measure(folder: Path, rounds: int) -> dict[str, Any]:
    """All figures of the stores."""
    found = Places.found(folder)
    figures = {
        "absent": found.absent,
        "halts": list(measure_halts(found, rounds)),
        "sizes": run("sizes.py", folder),
        "parked": measure_parked(found.new("sqlite")),
    }
    if "postgres" in found.urls:
        figures["resumes"] = [measure_resumes(found.new("postgres"), workers) for workers in WORKERS]
    return figures


def run(script: str, *arguments: object) -> Any:
    """What a script of this folder prints."""
    return server.run_json([sys.executable, str(server.HERE / script), *map(str, arguments)])


def measure_halts(found: Places, rounds: int) -> Iterator[dict[str, Any]]:
    """Each kind at each length, beside its floor and beside the same without a store; all take turns."""
    for messages, result in [*((length, RESULT_BYTES) for length in LENGTHS), (100, LARGE_RESULT_BYTES)]:
        passes = LENGTHS[messages]
        server.note(f"halts and resumes at {messages:,} messages, results of {result:,} bytes")
        turns: dict[str, list[Figures]] = {}
        for _ in range(rounds):
            without = run("halts.py", NONE, messages, result, passes)
            turns.setdefault(NONE, []).append(without)
            for kind in found.kinds:
                turns.setdefault(kind, []).append(run("halts.py", found.new(kind), messages, result, passes))
                if kind != MEMORY:
                    floor = run("floor_stores.py", found.new(kind), messages, round(without["new_bytes"]), passes)
                    turns.setdefault(f"{kind} floor", []).append(floor)
        medians = {name: median(figures) for name, figures in turns.items()}
        for kind in found.kinds:
            yield {
                "kind": kind,
                "messages": messages,
                "result_bytes": result,
                "without": medians[NONE],
                "store": medians[kind],
                "floor": medians.get(f"{kind} floor"),
            }


def median(rounds: list[Figures]) -> Figures:
    """Each figure's own median."""
    return {name: statistics.median(figures[name] for figures in rounds) for name in rounds[0]}


def measure_parked(place: str) -> Figures:
    """Many conversations that wait, made by one process and looked at by another."""
    server.note(f"{PARKED:,} parked conversations")
    run("parked.py", "make", place, PARKED)
    _, path = place.split(" ")
    return {**run("parked.py", "measure", place), "disk_bytes": Path(path).stat().st_size}


def measure_resumes(place: str, workers: int) -> Figures:
    """Resumes per second of so many processes, and who used the cores meanwhile."""
    server.note(f"{RESUMES:,} resumes by {workers}")
    run("parked.py", "make", place, RESUMES)
    command = [sys.executable, str(server.HERE / "resuming.py"), place]
    with ExitStack() as stack:
        started = [
            stack.enter_context(
                subprocess.Popen(
                    [*command, str(part), str(workers), str(AT_ONCE)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for part in range(workers)
        ]
        for process in started:
            assert process.stdout is not None
            process.stdout.readline()
        machine = server.busy_seconds()
        for process in started:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        told = [json.loads(process.communicate()[0]) for process in started]
        machine = server.busy_seconds() - machine
    assert sum(one["resumes"] for one in told) == RESUMES, told
    wall = max(one["ended"] for one in told) - min(one["begun"] for one in told)
    own = sum(one["cpu_s"] for one in told)
    return {
        "workers": workers,
        "per_second": RESUMES / wall,
        "worker_cores": own / wall,
        "other_cores": (machine - own) / wall,
    }
