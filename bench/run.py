"""Runs the benchmarks in one go and prints one table.

    python bench/run.py [--rivals] [--json FILE] [--rounds N] [--workloads NAME,...] [--clients NAME,...]

It needs a C compiler, the packages of `bench/requirements.txt` and an installed toolrelay. The model server runs on one
core and whatever is measured on another. Figures are CPU time, user and system, of the client process for one operation
after a warm-up; each is the median of several rounds in which all contestants take turns. The floors send the very
bytes that toolrelay sent: its requests are recorded first.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import awaits
import imports
import server
import store_costs
import store_table
import table
import workload
from script import Script

CLIENTS = {table.HAND: "hand", table.LIBRARY: "library"}
RIVALS = {
    "pydantic-ai": "rival_pydantic_ai",
    "openai-agents": "rival_openai_agents",
    "langgraph": "rival_langgraph",
}
BRIDGE, IMPORT, STORES = "bridge", "import", "stores"

PASSES = {"tool": (200, 1500), "flight": (2, 6), "relay-4": (200, 1500), "relay-1000": (20, 150), "long": (1, 8)} | {
    "chunks": (20, 200),
    "pieces": (1, 5),
    "event": (2, 20),
}
"""Passes of a client: to warm up, and measured; of each of the runs in flight."""
RIVAL_PASSES = {"tool": (5, 50), "flight": (0, 1), "relay-4": (5, 50), "relay-1000": (1, 5), "long": (0, 1)}
NOT_STREAMED = {"rival_langgraph", "rival_openai", "rival_openai_agents", "rival_pydantic_ai"}
"""Clients without streamed runs."""


@dataclass(frozen=True, slots=True)
class Bench:
    """Where the programs and the recordings are."""

    folder: Path

    def floor_command(self, name: str) -> list[str]:
        """How a floor is started, without its arguments."""
        if name == table.FLOOR:
            return [str(self.folder / "floor")]
        return [sys.executable, str(server.HERE / "floor_asyncio.py")]

    def script(self, load: workload.Workload) -> Path:
        """What the floors send for a workload."""
        return self.folder / f"{load.name}.script"

    def record(self, load: workload.Workload, module: str) -> int:
        """Make the floors' script from one run of a client; the number of bytes that it sent."""
        recording = self.folder / "recording"
        with server.model_server(self.folder, record=recording) as port:
            self.drive(module, "tool" if load.flight > 1 else load.name, load.scenario, port, (0, 1))
        Script.of_recording(recording).write(self.script(load))
        return recording.stat().st_size

    def drive(self, module: str, name: str, scenario: str, port: int, passes: tuple[int, int]) -> table.Figures:
        """The figures of one client on one workload."""
        url = f"http://127.0.0.1:{port}/{scenario}/v1"
        return server.run_json([sys.executable, str(server.HERE / "drive.py"), module, name, url, *map(str, passes)])

    def replay(self, name: str, load: workload.Workload, port: int) -> table.Figures:
        """The figures of a floor on one workload."""
        arguments = [port, self.script(load), load.flight, *PASSES[load.name]]
        return server.run_json([*self.floor_command(name), *map(str, arguments)])


def measure(bench: Bench, loads: Iterable[workload.Workload], clients: dict[str, str], rounds: int) -> table.Costs:
    """All figures of all contestants."""
    costs: dict[str, dict[str, list[table.Figures]]] = {}
    for load in loads:
        rows = costs[load.name] = {name: [] for name in (table.FLOOR, table.ASYNCIO, *clients)}
        recorded = table.LIBRARY if table.LIBRARY in clients else next(iter(clients))
        sent = bench.record(load, clients[recorded])
        server.note(f"{load.name}: {recorded} sends {sent:,} bytes a run")
        for _ in range(rounds):
            with server.model_server(bench.folder, load.latency_ms) as port:
                for name in (table.FLOOR, table.ASYNCIO):
                    rows[name].append(bench.replay(name, load, port))
                for name, module in clients.items():
                    if load.name in workload.STREAMED and module in NOT_STREAMED:
                        continue
                    passes = (RIVAL_PASSES if name in RIVALS else PASSES)[load.name]
                    rows[name].append(bench.drive(module, load.name, load.scenario, port, passes))
    return costs


def describe_machine() -> str:
    """Where this ran, in one line."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine()
    )
    versions = f"Linux {platform.release()}, Python {platform.python_version()}"
    return f"{model}, {versions}, client on core {server.CLIENT_CORE}, model server on core {server.SERVER_CORE}"


def names_among(known: Iterable[str]) -> dict[str, Any]:
    """An option that takes some of these names, by default all of them."""
    names = list(known)

    def parse(text: str) -> list[str]:
        for name in text.split(","):
            if name not in names:
                raise argparse.ArgumentTypeError(f"no {name!r} among {', '.join(names)}")
        return text.split(",")

    return {"type": parse, "default": names, "metavar": "NAME,...", "help": f"some of {', '.join(names)}; default: all"}


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Measure toolrelay beside floors and peers.")
    parser.add_argument("--rivals", action="store_true", help="also measure the packages of requirements-rivals.txt")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures of every round to this file")
    parser.add_argument("--rounds", type=int, default=3, help="how often every contestant has its turn (default 3)")
    parser.add_argument("--workloads", **names_among([*workload.WORKLOADS, BRIDGE, IMPORT, STORES]))
    parser.add_argument("--clients", **names_among(CLIENTS))
    return parser.parse_args()


def main() -> None:
    """Build, measure, print."""
    options = parse_arguments()
    chosen = options.workloads
    loads = [workload.WORKLOADS[name] for name in chosen if name in workload.WORKLOADS]
    clients = {name: CLIENTS[name] for name in options.clients} | (RIVALS if options.rivals else {})
    contestants = [table.FLOOR, table.ASYNCIO, *clients]
    figures: dict[str, Any] = {"machine": describe_machine()}
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        server.build(Path(folder))
        figures["rounds"] = measure(Bench(Path(folder)), loads, clients, options.rounds)
    lines = table.rows_of(figures["rounds"], contestants)
    if BRIDGE in chosen:
        server.note("await across the bridge")
        figures[BRIDGE] = awaits.measure()
        lines += awaits.rows_of(figures[BRIDGE], contestants)
    if IMPORT in chosen:
        server.note("import")
        figures[IMPORT] = imports.measure(contestants)
        lines += imports.rows_of(figures[IMPORT], contestants)
    print(figures["machine"])
    if lines:
        print(table.render(["work", *contestants, "x floor", "aim", "met"], lines))
    if STORES in chosen:
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            figures[STORES] = store_costs.measure(Path(folder), options.rounds)
        print(f"\n{store_table.render(figures[STORES])}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
