"""That a process may be killed at any commit, and another goes on: nothing that was acknowledged is lost, nothing is
half, no tool runs twice.

Processes are forked off one that has loaded the package and done nothing else, so that a life costs little. Each life
notes what it does in a file, a line each, which is there as soon as it was written.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from toolrelay.errors import ConversationNotFound, PendingError
from toolrelay.relay import Request
from toolrelay.stores import Store, Write
from toolrelay.testing._case import OpenStore, Place, StoreCase, append, asked, known, same, sure
from toolrelay.testing._stage import CLICK, TALLY, Model, Over, clicked, late, toolkit

Moment = Literal["before", "during", "after"]

_MOMENTS: tuple[Moment, ...] = ("before", "during", "after")
_MANY = 1_000
"""More commits than any life makes."""


@dataclass(frozen=True)
class _Life:
    """What one process does, and when it is killed."""

    work: Callable[[OpenStore, _Life], Any]
    conversation: str
    notes: str
    pending: bytes | None = None
    commits: int = 0
    moment: Moment = "before"
    after: float | None = None

    def note(self, what: str) -> None:
        """Leaves a line that outlives the process."""
        with Path(self.notes).open("a", encoding="utf-8") as notes:
            notes.write(f"{what}\n")

    def noted(self) -> list[str]:
        """What was noted in all lives that share the file."""
        notes = Path(self.notes)
        return notes.read_text(encoding="utf-8").splitlines() if notes.exists() else []


class _Deadly(Over):
    """A store whose process is killed at one of its commits."""

    def __init__(self, inner: Store, life: _Life) -> None:
        super().__init__(inner)
        self.left = life.commits
        self.moment = life.moment

    async def commit(self, id: str, write: Write, /) -> None:
        """Commits, unless it is the last one."""
        self.left -= 1
        if self.left >= 0:
            return await self.inner.commit(id, write)
        if self.moment == "during":
            under_way = asyncio.ensure_future(super().commit(id, write))
            for _ in range(write.expect % 4):  # as far as it comes
                await asyncio.sleep(0)
            under_way.cancel()
        elif self.moment == "after":
            await self.inner.commit(id, write)
        os.kill(os.getpid(), signal.SIGKILL)
        return None


async def _converse(open_store: OpenStore, life: _Life) -> None:
    """Asks, or answers, as a worker that may be killed."""
    client = _model(life).client(_Deadly(await Place(open_store).store(), life))
    if life.pending is None:
        await client.ask("go", toolkit(life.note), id=life.conversation)
    else:
        pending = Request.from_json(life.pending)
        await client.ask_with_answer(toolkit(life.note), life.conversation, pending, clicked(pending))


def _model(life: _Life) -> Model:
    class Noting(Model):
        async def __call__(self, request: Any) -> Any:
            life.note("model")
            return await super().__call__(request)

    return Noting([CLICK, TALLY], "the end")


def _step(expect: int) -> Write:
    """The write that brings a conversation from one version to the next: two messages and a request."""
    messages = ((2 * expect, b'"%0700d"' % expect), (2 * expect + 1, b'"%0700d"' % expect))
    request = replace(asked(f"req_{expect:09}", 2 * expect), body=b'"%0300d"' % expect)
    return replace(append(expect, *messages), epoch=expect + 1, requests=(request,))


async def _write_on(open_store: OpenStore, life: _Life) -> None:
    """Commits without end, and notes what was acknowledged."""
    store = await Place(open_store).store()

    async def write(id: str) -> None:
        found = await store.load(id)
        version = 0 if found is None else found.version
        while True:
            await store.commit(id, _step(version))
            version += 1
            life.note(f"{id} {version}")

    await asyncio.gather(*(write(f"c-{n}") for n in range(4)))


async def a_process_killed_at_any_commit_is_gone_on_with(place: Place) -> None:
    """A worker halts and another resumes; either may be killed before, during and after any of its commits."""
    store = await place.store()
    with _processes(place.open_store) as live, tempfile.TemporaryDirectory() as folder:
        for step, least in (("ask", 3), ("answer", 2)):
            commits, killed = 0, True
            while killed:
                for moment in _MOMENTS:
                    id = f"{step}-{commits}-{moment}"
                    life = _Life(_converse, id, str(Path(folder, id)), None, commits, moment)
                    if step == "answer":
                        await live(replace(life, commits=_MANY))
                        pending = (await Model().client(store).get(id)).suspensions[0]
                        life = replace(life, pending=pending.to_json())
                    killed = await live(life)
                    await _check(store, life)
                commits += 1
            sure(commits > least, f"a life of {step} made only {commits - 1} commits")


async def _check(store: Store, life: _Life) -> None:
    """Another worker brings the conversation to its end, and finds everything in order."""
    about, id, tools = f"after a kill at {life.conversation}", life.conversation, toolkit(life.note)
    client = _model(life).client(late(store))
    pending = None if life.pending is None else Request.from_json(life.pending)
    if pending is None:
        waiting: tuple[Request, ...]
        try:
            waiting = (await client.ask(None, tools, id=id)).suspensions
        except ConversationNotFound:
            waiting = (await client.ask("go", tools, id=id)).suspensions
        except PendingError as error:
            waiting = tuple(error.suspensions)
        # A claim that was killed before its reply came goes on to the halt; one with a reply may be at its end.
        pending = waiting[0] if waiting else None
    if pending is not None:
        done = await client.ask_with_answer(tools, id, pending, clicked(pending))
        again = await client.ask_with_answer(tools, id, pending, clicked(pending))
        same((again.text, again.messages), (done.text, done.messages), f"{about}, the same answer again")
    transcript = (await client.get(id)).messages
    said = [(message["role"], message["content"]) for message in transcript]
    same([role for role, _ in said], ["user", "assistant", "tool", "tool", "assistant"], f"{about}, the transcript")
    same((said[0][1], said[4][1]), ("go", "the end"), f"{about}, its first and last words")
    sure(said[2][1] == "clicked", f"{about}, the answer is not there: {said}")
    sure(said[3][1] == "counted" or said[3][1].startswith("interrupted"), f"{about}, the result of a tool: {said}")
    notes = life.noted()
    sure(notes.count("tally k2") <= 1, f"{about}, a tool ran more than once: {notes}")
    sure(2 <= notes.count("model") <= 3, f"{about}, the model was asked more often than once more: {notes}")
    stored = await known(store, id, about)
    same([place for place, _ in stored.messages], [0, 1, 2, 3, 4], f"{about}, places of messages")
    same((stored.state, stored.lease, stored.requests), ("idle", None, ()), f"{about}, what is stored")


async def a_killed_writer_leaves_all_it_acknowledged_and_nothing_half(place: Place) -> None:
    """A process that commits without rest is killed again and again."""
    store = await place.store()
    with _processes(place.open_store) as live, tempfile.TemporaryDirectory() as folder:
        acknowledged: dict[str, int] = {f"c-{n}": 0 for n in range(4)}
        for kill in range(10):
            life = _Life(_write_on, "", str(Path(folder, "notes")), after=0.1 + 0.013 * kill)
            await live(life)
            for line in life.noted():
                id, told = line.split()
                acknowledged[id] = int(told)
            for id, version in acknowledged.items():
                found = await store.load(id)
                if found is None:
                    same(version, 0, f"acknowledged of {id}, which is not there")
                    continue
                sure(found.version >= version, f"{id} is at {found.version}, acknowledged was {version}")
                steps = [_step(expect) for expect in range(found.version)]
                whole = (tuple(m for s in steps for m in s.append), tuple(r for s in steps for r in s.requests))
                same((found.messages, found.requests), whole, f"what is stored of {id}")
        sure(sum(acknowledged.values()) > 0, "nothing was ever acknowledged")


@contextmanager
def _processes(open_store: OpenStore) -> Iterator[Callable[[_Life], Any]]:
    """A way to have lives lived, each in a process of its own, which ends with it: whether it was killed."""
    command = [sys.executable, "-c", "from toolrelay.testing._kills import _serve; _serve()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:  # noqa: S603 - our own

        def ask(what: object) -> Any:
            if server.stdin is None or server.stdout is None:
                return None
            pickle.dump(what, server.stdin)
            server.stdin.flush()
            return pickle.load(server.stdout)  # noqa: S301 - our own

        ask([path for path in sys.path if path])
        ask(open_store)
        try:
            yield lambda life: asyncio.to_thread(ask, life)
        finally:
            if server.stdin is not None:
                server.stdin.close()


def _serve() -> None:
    """Lives lives, until nobody asks any more."""
    said, told = sys.stdin.buffer, sys.stdout.buffer
    sys.path[:0] = pickle.load(said)  # noqa: S301 - what comes is of the parent
    pickle.dump(None, told)
    told.flush()
    open_store = pickle.load(said)  # noqa: S301
    pickle.dump(None, told)
    told.flush()
    while True:
        try:
            life = pickle.load(said)  # noqa: S301
        except EOFError:
            return
        pickle.dump(_live(open_store, life), told)
        told.flush()


def _live(open_store: OpenStore, life: _Life) -> bool:
    """Lives one life in a child: whether it was killed."""
    child = os.fork()
    if child == 0:
        if life.after is not None:
            threading.Thread(target=_end, args=(life.after,), daemon=True).start()
        status = 1
        try:
            asyncio.run(life.work(open_store, life))
            status = 0
        finally:
            sys.stderr.flush()
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status not in (0, -signal.SIGKILL):
        raise AssertionError(f"the process of {life.conversation or 'a writer'} ended with {status}")
    return status != 0


def _end(after: float) -> None:
    time.sleep(after)
    os.kill(os.getpid(), signal.SIGKILL)


CASES = [
    StoreCase(check)
    for check in (
        a_process_killed_at_any_commit_is_gone_on_with,
        a_killed_writer_leaves_all_it_acknowledged_and_nothing_half,
    )
]
