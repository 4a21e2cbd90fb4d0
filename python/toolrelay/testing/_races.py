"""That of several that write at once exactly one wins, and nothing of the others is there. Each writer has a store of
its own on the place.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from toolrelay.errors import StoreConflict
from toolrelay.stores import Store
from toolrelay.testing._case import Place, StoreCase, append, asked, known, refused, same, sure, touch, version_of


async def _race(place: Place, expect: int) -> list[int]:
    """Lets 32 writers, over two stores, commit against one version, each with a message of its own: the winners."""
    stores = [await place.store(), await place.store()]
    start = asyncio.Event()

    async def run(racer: int) -> bool:
        await start.wait()
        try:
            await stores[racer % 2].commit("c", append(expect, (100 + racer, b"%d" % racer)))
        except StoreConflict:
            return False
        return True

    running = [asyncio.create_task(run(racer)) for racer in range(32)]
    start.set()
    return [racer for racer, won in enumerate(await asyncio.gather(*running)) if won]


async def of_many_racers_exactly_one_wins(place: Place) -> None:
    """Of all that commit against one version, one wins and the others are told so."""
    store = await place.store()
    await store.commit("c", touch(0))
    winners = await _race(place, 1)
    same(len(winners), 1, "number of winners")
    found = await known(store, "c", "load")
    same((found.version, found.messages), (2, ((100 + winners[0], b"%d" % winners[0]),)), "what is stored")


async def of_many_creators_exactly_one_wins(place: Place) -> None:
    """The same for a conversation that is not there yet."""
    store = await place.store()
    winners = await _race(place, 0)
    same(len(winners), 1, "number of winners")
    same(len((await known(store, "c", "load")).messages), 1, "number of messages")


async def increments_under_contention_are_never_lost(place: Place) -> None:
    """Eight workers over two stores load and commit until each came through twelve times."""
    stores = [await place.store(), await place.store()]

    async def work(worker: int) -> None:
        store, done = stores[worker % 2], 0
        while done < 12:
            version = await version_of(store, "c")
            try:
                await store.commit("c", append(version, (worker * 12 + done, b"%d" % version)))
            except StoreConflict:
                continue
            done += 1

    await asyncio.gather(*(work(worker) for worker in range(8)))
    found = await known(stores[0], "c", "load")
    same(found.version, 96, "version")
    same(sorted(int(body) for _, body in found.messages), list(range(96)), "versions that commits were made from")


async def a_load_is_a_snapshot(place: Place) -> None:
    """Each commit adds a message and a request and raises the epoch: every load sees as many of one as of the other."""
    writer, reader = await place.store(), await place.store()

    async def write() -> None:
        for expect in range(40):
            request = asked(f"req_{expect}", expect)
            await writer.commit("c", replace(append(expect, (expect, b"0")), epoch=expect + 1, requests=(request,)))

    writing = asyncio.create_task(write())
    while not writing.done():
        found = await reader.load("c")
        if found is not None:
            seen = (found.epoch, len(found.messages), len(found.requests))
            same(seen, (found.version,) * 3, "epoch, messages and requests")
        await asyncio.sleep(0)
    await writing


async def conversations_do_not_disturb_each_other(place: Place) -> None:
    """Refused writes of some conversations are no matter to writes of others at the same time."""
    store = await place.store()

    async def converse(n: int) -> None:
        name = f"c-{n}"
        for expect in range(4):
            await refused(store.commit(name, append(expect + 1, (expect, b"0"))), StoreConflict, "a wrong version")
            if expect:
                twice = append(expect, (90, b"0"), (expect - 1, b"0"))
                await refused(store.commit(name, twice), StoreConflict, "a taken place")
            await store.commit(name, append(expect, (expect, b"%d" % (10 * n + expect))))

    await asyncio.gather(*(converse(n) for n in range(30)))
    for n in range(30):
        found = await known(store, f"c-{n}", "load")
        expected = tuple((seq, b"%d" % (10 * n + seq)) for seq in range(4))
        same((found.version, found.messages), (4, expected), f"what is stored of c-{n}")


async def a_cancelled_commit_is_whole_or_absent(place: Place) -> None:
    """Whatever comes of a commit whose task is cancelled, it is all of it or nothing."""
    store = await place.store()
    for n in range(30):
        name = f"c-{n}"
        commit = asyncio.ensure_future(_commit(store, name))
        for _ in range(n % 6):
            await asyncio.sleep(0)
        commit.cancel()
        await asyncio.gather(commit, return_exceptions=True)
        # It may still be on its way: until the next one came through there are two possible worlds.
        version = 0
        while True:
            found = await store.load(name)
            version = 0 if found is None else found.version
            if found is not None:
                same((version, len(found.messages), len(found.requests)), (1, 2, 1), "what is stored of it")
            try:
                await store.commit(name, touch(version))
            except StoreConflict:
                continue
            break
        after = await known(store, name, "load")
        same(len(after.messages), 2 * version, "messages")


async def _commit(store: Store, name: str) -> None:
    await store.commit(name, replace(append(0, (0, b"0"), (1, b"1")), requests=(asked("req", 3),)))


async def of_a_write_and_a_deletion_one_wins(place: Place) -> None:
    """A commit and a deletion against one version: one is done, the other is refused."""
    writer, deleter = await place.store(), await place.store()
    for n in range(20):
        name = f"c-{n}"
        await writer.commit(name, append(0, (0, b"0")))
        ended = await asyncio.gather(
            writer.commit(name, append(1, (1, b"1"))), deleter.delete(name, 1), return_exceptions=True
        )
        lost = [isinstance(end, StoreConflict) for end in ended]
        sure(sorted(lost) == [False, True], f"one of both must win: {ended}")
        found = await writer.load(name)
        same(None if found is None else len(found.messages), 2 if lost[1] else None, "messages of what is left")


CASES = [
    StoreCase(check)
    for check in (
        of_many_racers_exactly_one_wins,
        of_many_creators_exactly_one_wins,
        increments_under_contention_are_never_lost,
        a_load_is_a_snapshot,
        conversations_do_not_disturb_each_other,
        a_cancelled_commit_is_whole_or_absent,
        of_a_write_and_a_deletion_one_wins,
    )
]
