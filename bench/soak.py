"""Halts and resumes for a long time, and looks whether anything was lost and whether memory grows.

    python bench/soak.py [HALTS] [--store sqlite|memory|postgres|redis] [--at-once N]

Many conversations at once, ten halts each. Two workers with stores of their own share them: one halts what the other
resumes. A halt has one to three calls for the host and, now and then, a local tool beside them; the host's results
come together, one by one, or twice at the same moment. In the end a third worker reads every conversation: it must have
ended with exactly one result for each call, and all counts must agree. The exit code is 1 if anything was lost.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from itertools import chain
from pathlib import Path

from toolrelay import Answer, AnswerInProgress, Client, MemoryStore, RunResult, create_in_process_client
from toolrelay.stores import Store

import workload
from soak_turns import HALTS_EACH, HERE, Counted, Turn, turns
from support import NoServerError, open_store, start

STORES = ["sqlite", "memory", "postgres", "redis"]
SAMPLES = 100
"""How often memory is looked at."""
NOISE_KB = 2048
"""Growth that says nothing: what an allocator keeps."""
FEWEST = 10_000
"""Halts below which memory is not judged: it grows at first, while pools and caches fill."""
SHOWN = 20
"""Losses that are told one by one."""


class Soak:
    """The workers, and what went wrong."""

    def __init__(self, conversations: int, at_once: int, open_one: Callable[[], Store]) -> None:
        self.conversations = conversations
        self.at_once = at_once
        self.open_one = open_one
        self.counted = Counted()
        self.done = 0
        self.losses: list[str] = []

    async def run(self) -> None:
        """Halts and resumes, then the look at what is there."""
        halting, resuming = self.open_client(), self.open_client()
        memory = Memory(self.conversations * HALTS_EACH)

        async def play(number: int) -> None:
            for turn in turns(number):
                await self.play(turn, halting, resuming)
                self.done += 1
                memory.look(self.done)

        await self.each(play)
        print(memory.verdict())

        reading = self.open_client()
        await self.each(lambda number: self.read(number, reading))
        self.compare("requests that still wait", len((await reading.pending()).requests), 0)
        planned = list(chain.from_iterable(map(turns, range(self.conversations))))
        self.compare("halts", self.done, len(planned))
        self.compare("model calls", self.counted.calls["model"], 2 * len(planned))
        here = sum(tool == HERE for turn in planned for tool, _ in turn.calls)
        self.compare("runs of the local tool", self.counted.calls[HERE], here)
        print(f"{self.conversations:,} conversations read, {len(self.losses):,} losses")
        for loss in self.losses[:SHOWN]:
            print(f"  {loss}")

    def open_client(self) -> Client:
        """A worker with a store of its own."""
        return create_in_process_client(generate=self.counted.generate, store=self.open_one())

    async def each(self, work: Callable[[int], Awaitable[None]]) -> None:
        """Does it with every conversation, some at a time; what goes wrong with one is a loss."""
        numbers = iter(range(self.conversations))

        async def work_on() -> None:
            for number in numbers:
                try:
                    await work(number)
                except Exception as error:  # noqa: BLE001 - whatever it is, it is told
                    self.losses.append(f"conversation {number}: {type(error).__name__}: {error}")

        async with asyncio.TaskGroup() as group:
            for _ in range(self.at_once):
                group.create_task(work_on())

    async def play(self, turn: Turn, halting: Client, resuming: Client) -> None:
        """One halt and its resumes."""
        id = id_of(turn.conversation)
        tools = self.counted.toolkit
        result = await halting.ask(turn.prompt, tools, id=id)
        assert result.pending is not None, result
        for answer in turn.answers(result.pending):

            async def deliver(answer: Answer = answer) -> RunResult:
                return await resuming.ask_with_answer(tools, id, answer.id, answer, missing="wait")

            if turn.comes_twice:
                told = await asyncio.gather(deliver(), deliver(), return_exceptions=True)
                result = winner(told)
            else:
                result = await deliver()
        assert (result.status, result.text) == ("done", workload.FINAL_TEXT), result

    async def read(self, number: int, reading: Client) -> None:
        """Compares what is stored with what must be there."""
        found = await reading.get(id_of(number))
        expected = [message for turn in turns(number) for message in turn.messages]
        if found.state != "idle" or list(found.messages) != expected:
            self.losses.append(f"conversation {number} is {found.state} with {len(found.messages)} messages")

    def compare(self, what: str, count: int, expected: int) -> None:
        """A count that must agree."""
        if count != expected:
            self.losses.append(f"{what}: {count:,}, not {expected:,}")


class Memory:
    """The resident size of this process over time."""

    def __init__(self, halts: int) -> None:
        self._halts = halts
        self._every = max(1, halts // SAMPLES)
        self._start = time.perf_counter()
        self._kb: list[int] = []

    def look(self, done: int) -> None:
        """Takes a sample now and then, and says every tenth."""
        if done % self._every:
            return
        self._kb.append(workload.resident_kb())
        if len(self._kb) % (SAMPLES // 10) == 0:
            rate = done / (time.perf_counter() - self._start)
            print(f"{done:>9,} halts and resumes, {rate:>7,.0f}/s, {self._kb[-1]:>9,} KiB", flush=True)

    def verdict(self) -> str:
        """How the last tenth compares with the first one of the second half."""
        if self._halts < FEWEST:
            return f"memory is judged from {FEWEST:,} halts on"
        middle, end = statistics.median(self._kb[50:60]), statistics.median(self._kb[90:])
        growth = end - middle
        judged = "no growth" if growth <= NOISE_KB else "GROWS"
        return f"memory: {judged}, {growth:+,.0f} KiB over the second half"


def id_of(conversation: int) -> str:
    """Its id in the store."""
    return f"c-{conversation}"


def winner(told: list[RunResult | BaseException]) -> RunResult:
    """The result of the one that was let through; the other was told so, or came when it was over."""
    results = [one for one in told if isinstance(one, RunResult)]
    others = [one for one in told if not isinstance(one, RunResult)]
    for other in others:
        if not isinstance(other, AnswerInProgress):
            raise other
    assert results, told
    return results[0]


def opener(kind: str, folder: Path) -> Callable[[], Store]:
    """How each worker gets its store."""
    if kind == "memory":
        store = MemoryStore()
        return lambda: store
    place = f"sqlite {folder / 'soak.db'}" if kind == "sqlite" else f"{kind} {start(kind)} soak_{secrets.token_hex(8)}"
    return lambda: open_store(place)


def main() -> None:
    """Soak, and say whether something was lost."""
    parser = argparse.ArgumentParser(description="Many halts and resumes: nothing is lost, memory does not grow.")
    parser.add_argument("halts", nargs="?", type=int, default=100_000, help="how many (default 100,000)")
    parser.add_argument("--store", choices=STORES, default="sqlite")
    parser.add_argument("--at-once", type=int, default=64, help="conversations in flight (default 64)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        try:
            open_one = opener(options.store, Path(folder))
        except NoServerError as missing:
            raise SystemExit(str(missing)) from missing
        soak = Soak(-(-options.halts // HALTS_EACH), options.at_once, open_one)
        asyncio.run(soak.run())
    sys.exit(1 if soak.losses else 0)


if __name__ == "__main__":
    main()
