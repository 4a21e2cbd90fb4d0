"""The soak of the benchmarks, for a moment: nothing is lost, and what is lost is seen."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "bench"

FORGETFUL = """
import asyncio
from dataclasses import replace
from soak import Soak
from toolrelay import MemoryStore

class Forgetful:
    def __init__(self):
        self.inner = MemoryStore()

    def __getattr__(self, method):
        return getattr(self.inner, method)

    async def commit(self, id, write):
        if id == "c-1" and write.state == "{state}":
            write = replace(write, {kept})
        await self.inner.commit(id, write)

store = Forgetful()
soak = Soak(2, 2, lambda: store)
asyncio.run(soak.run())
assert soak.losses
"""


def test_a_short_soak_loses_nothing() -> None:
    done = subprocess.run([sys.executable, BENCH / "soak.py", "300"], capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("\n30 conversations read, 0 losses\n")


@pytest.mark.parametrize(
    ("state", "kept", "told"),
    [
        ("idle", "append=write.append[:-1]", "conversation 1 is idle with "),
        ("running", "append=()", "conversation 1"),
        ("pending", "requests=()", "conversation 1: ResumeError"),
    ],
    ids=["the last message", "a result", "a request"],
)
def test_a_store_that_forgets_is_found_out(state: str, kept: str, told: str) -> None:
    program = FORGETFUL.format(state=state, kept=kept)
    done = subprocess.run([sys.executable, "-c", program], cwd=BENCH, capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stderr) == (0, "")
    assert told in done.stdout
