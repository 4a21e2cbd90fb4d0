"""What every client of the benchmarks does: the prompts, the tools and the histories.

The model server (`server.c`) knows the same names: a scenario is the first segment of its path.
"""

from __future__ import annotations

import json
import resource
from dataclasses import dataclass
from pathlib import Path

MODEL = "bench"
PROMPT = "Add 2 and 3, and tell me what you get."
TURNS = 200
CHUNKS = 500
FINAL_TEXT = "The work is done."
STREAMED = {"chunks": "word " * CHUNKS, "event": "x" * (5 << 20), "pieces": FINAL_TEXT}
"""The last text of each streamed run."""
RELAY_OUTPUT = "Buy bread. Call the plumber. " * 8

_RESULT = "".join(f"line {number:03}: the ledger holds one more entry than before\n" for number in range(70))[:4096]


@dataclass(frozen=True, slots=True)
class Workload:
    """One row of the table."""

    name: str
    scenario: str
    flight: int = 1
    """Runs in flight at once."""
    latency_ms: int = 0
    history: int = 0
    """Messages in the history that a run starts from."""


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("tool", "tool"),
        Workload("flight", "tool", flight=1000, latency_ms=50),
        Workload("relay-4", "relay", history=4),
        Workload("relay-1000", "relay", history=1000),
        Workload("long", "long"),
        Workload("chunks", "chunks"),
        Workload("pieces", "pieces"),
        Workload("event", "event"),
    )
}

step_cpu_us: list[float] = []
"""CPU time of this process at the start of each call of `step`: the difference of two is the cost of one turn."""


def cpu_us() -> float:
    """Microseconds of CPU, user and system, that all threads of this process have used."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return (usage.ru_utime + usage.ru_stime) * 1e6


def peak_kb() -> int:
    """Largest resident size of this program so far, in KiB.

    Not `ru_maxrss`: that one begins with the size of the process that forked this one.
    """
    return _status("VmHWM")


def resident_kb() -> int:
    """Resident size of this program, in KiB."""
    return _status("VmRSS")


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1])
    raise RuntimeError(f"/proc/self/status has no {field} line")


async def add(a: int, b: int) -> str:
    """Add two integers."""
    return str(a + b)


async def step(number: int, note: str) -> str:
    """Take one step.

    Called 200 times by the model of the long run, each time with 1 KB of arguments; returns 4 KB.
    """
    step_cpu_us.append(cpu_us())
    return _RESULT


def schema(**properties: str) -> dict[str, object]:
    """A JSON Schema of an object with these properties, all required."""
    return {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": list(properties),
    }


async def keep(note: str) -> str:
    """Keep a note."""
    return str(len(note))


ADD_SCHEMA = schema(a="integer", b="integer")
STEP_SCHEMA = schema(number="integer", note="string")
READ_FILE_SCHEMA = schema(path="string")
READ_FILE_DESCRIPTION = "Read a file on the user's machine."


def history_document(count: int) -> bytes:
    """A settled conversation of `count` messages (an even number) as a JSON array, about 240 bytes a message."""
    messages: list[dict[str, object]] = []
    for number in range(-(-count // 4)):
        call = f"call_history_{number}"
        question = f"Question {number}: what does the report for week {number % 52} say about open orders? "
        messages += [
            {"role": "user", "content": question + "Please look it up before you answer. " * 4},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": call,
                        "type": "function",
                        "function": {"name": "read_file", "arguments": json.dumps({"path": f"reports/{number}.txt"})},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": call, "content": f"week {number % 52}: open orders 12, late 3\n" * 5},
            {"role": "assistant", "content": "Twelve orders are open and three of them are late. " * 4},
        ]
    if count % 4:
        del messages[-3:-1]  # the last question was answered without a look
    return json.dumps(messages, separators=(",", ":")).encode()
