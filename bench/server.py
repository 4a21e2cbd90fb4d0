"""Builds the two C programs of the benchmarks and runs the model server on the other core."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CORES = sorted(os.sched_getaffinity(0))
CLIENT_CORE = CORES[0]
SERVER_CORE = CORES[-1]


def build(folder: Path) -> None:
    """Compile `server` and `floor` into the folder."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise SystemExit("the benchmarks need a C compiler for the model server and the floor: no `cc` on the path")
    for name in ("server", "floor"):
        subprocess.run([compiler, "-O2", "-o", str(folder / name), str(HERE / f"{name}.c")], check=True)


def start(command: list[str], core: int) -> subprocess.Popen[str]:
    """Start a program that stays on one core: it inherits ours."""
    os.sched_setaffinity(0, {core})
    try:
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    finally:
        os.sched_setaffinity(0, CORES)


def run_json(command: list[str]) -> Any:
    """Run a program on the client's core and read the one line that it prints."""
    with start(command, CLIENT_CORE) as process:
        output, _ = process.communicate()
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed")
    return json.loads(output)


def note(text: str) -> None:
    """Say on stderr what is going on."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr)


def busy_seconds() -> float:
    """What all processes of the machine together have used of its cores so far."""
    user, nice, system, _, _, *interrupts = map(int, Path("/proc/stat").read_text(encoding="ascii").split()[1:8])
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


@contextmanager
def model_server(folder: Path, latency_ms: int = 0, record: Path | None = None) -> Iterator[int]:
    """The port of a model server that answers after this latency and records what it was sent."""
    command = [str(folder / "server"), str(latency_ms), *([str(record)] if record else [])]
    with start(command, SERVER_CORE) as server:
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline())
        finally:
            server.terminate()
