"""Measures what a conversation of 1,000 messages takes on disk with SQLite, and prints it as one line of JSON.

    python bench/sizes.py FOLDER

One conversation is put into the store as a whole; another grows there by 250 halts and resumes, whose requests and
answers the store keeps too.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import workload
from halting import Workers

MESSAGES = 1000
ID = "c-1"


async def restore(path: Path) -> int:
    """Puts in a transcript that was made elsewhere; the length of its JSON."""
    workers = Workers(f"sqlite {path}")
    restored = await workers.halting.restore(ID, workload.history_document(MESSAGES))
    await workers.close()
    return len(restored.messages.to_json())


async def grow(path: Path) -> int:
    """Makes one here, turn by turn; the length of its JSON."""
    workers = Workers(f"sqlite {path}")
    for _ in range(MESSAGES // 4):
        await workers.halt_and_resume(ID)
    grown = await workers.halting.get(ID)
    await workers.close()
    assert len(grown.messages) == MESSAGES, grown
    return len(grown.messages.to_json())


def measure(folder: Path) -> dict[str, dict[str, int]]:
    """Both, each in a file of its own, which is closed: nothing is left in the log beside it."""
    sizes = {}
    for name, make in {"restored": restore, "grown": grow}.items():
        path = folder / f"{name}.db"
        json_bytes = asyncio.run(make(path))
        sizes[name] = {"json_bytes": json_bytes, "disk_bytes": path.stat().st_size}
    return sizes


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]))))
