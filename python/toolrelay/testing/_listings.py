"""That leases and open requests are found over all conversations, page by page, in the order of `Cursor`."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from toolrelay.stores import Cursor, Lease, Order, Store, StoredRequest
from toolrelay.testing._case import Place, StoreCase, asked, asking, same, touch


async def leases_are_listed_by_their_end(place: Place) -> None:
    """The conversations with a lease, by when it ends and then by the bytes of their ids."""
    store = await place.store()
    same(list(await store.leases(None, 5)), [], "leases of an empty place")
    for name, until in [("late", 900), ("b", 20), ("early", -3), ("a", 20), ("á", 20)]:
        await store.commit(name, replace(touch(0), state="running", lease=Lease(name, 3, until)))
    await store.commit("idle", touch(0))

    async def listed(after: Cursor | None, limit: int) -> list[tuple[str, int]]:
        return [(id, lease.until_ms) for id, lease in await store.leases(after, limit)]

    all_of_them = [("early", -3), ("a", 20), ("b", 20), ("á", 20), ("late", 900)]
    same(await listed(None, 9), all_of_them, "leases")
    same(await listed(None, 2), all_of_them[:2], "the first two")
    same(await listed(Cursor(20, "a", ""), 2), all_of_them[2:4], "two behind a")
    same(await listed(Cursor(20, "gone", ""), 9), all_of_them[3:], "those behind a place where nothing is")
    same(await listed(Cursor(900, "late", ""), 9), [], "those behind the last")
    same(list(await store.leases(None, 1)), [("early", Lease("early", 3, -3))], "the first")

    await store.commit("early", replace(touch(1), state="running", lease=Lease("early", 3, 1_000)))
    await store.commit("b", touch(1))
    left = [("a", 20), ("á", 20), ("late", 900), ("early", 1_000)]
    same(await listed(None, 9), left, "leases after one was renewed and one given back")


async def _names(store: Store, order: Order, after: Cursor | None, limit: int) -> list[str]:
    return [f"{id}/{request.id}" for id, request in await store.open_requests(order, after, limit)]


async def open_requests_are_listed_by_age_and_by_expiry(place: Place) -> None:
    """The unsettled requests of all conversations; those that never expire are in one listing only."""
    store = await place.store()
    same(list(await store.open_requests("age", None, 5)), [], "open requests of an empty place")
    old, young = asked("old", 5, 1, 900), asked("young", 6, 30, 50)
    never, other = asked("never", 5, 20), asked("other", 6, 10, -1)
    settled = replace(asked("settled", 7, 5, 60), settled=True)
    await store.commit("c", asking(0, young, settled, old))
    await store.commit("d", asking(0, never, other))

    by_age = [("c", old), ("d", other), ("d", never), ("c", young)]
    same(list(await store.open_requests("age", None, 9)), by_age, "open requests by age")
    by_expiry = [("d", other), ("c", young), ("c", old)]
    same(list(await store.open_requests("expiry", None, 9)), by_expiry, "open requests by expiry")
    same(await _names(store, "age", Cursor(10, "d", "other"), 1), ["d/never"], "one behind another, by age")
    same(await _names(store, "expiry", Cursor(50, "c", "young"), 9), ["c/old"], "those behind one, by expiry")
    same(await _names(store, "expiry", Cursor(900, "c", "old"), 9), [], "those behind the last, by expiry")

    await store.commit("d", asking(1, replace(other, settled=True)))
    same(await _names(store, "expiry", None, 9), ["c/young", "c/old"], "after one was settled")
    await store.commit("d", asking(2, replace(other, expires_at_ms=70)))
    same(await _names(store, "expiry", None, 9), ["c/young", "d/other", "c/old"], "after it was opened again")
    same(await _names(store, "age", None, 2), ["c/old", "d/other"], "the first two by age")


async def requests_of_one_instant_are_listed_by_their_ids(place: Place) -> None:
    """Where the times are the same, the bytes of the ids decide, not some language's alphabet."""
    store = await place.store()
    for name in ("b", "á", "a", "B", "a b"):
        requests: list[StoredRequest] = [asked(id, 5, 7, 7) for id in ("z", "é", "Z", "y")]
        await store.commit(name, asking(0, *requests))
    expected = [f"{name}/{id}" for name in ("B", "a", "a b", "b", "á") for id in ("Z", "y", "z", "é")]
    orders: list[Order] = ["age", "expiry"]
    for order in orders:
        same(await _names(store, order, None, 99), expected, f"by {order}")
        same(await _names(store, order, Cursor(7, "b", "z"), 2), expected[15:17], f"two behind b/z by {order}")
        same(await _names(store, order, Cursor(7, "b", "zz"), 2), expected[15:17], f"two behind b/zz by {order}")
        same(await _names(store, order, Cursor(6, "zzz", ""), 1), expected[:1], f"the first by {order}")


async def pages_give_each_open_request_once(place: Place) -> None:
    """Page by page, each behind the last of the one before, all of them are seen."""
    store = await place.store()
    writes = [asking(0, asked("r", 5, n % 3, -(n % 3))) for n in range(600)]
    await asyncio.gather(*(store.commit(f"c-{n}", write) for n, write in enumerate(writes)))
    orders: list[Order] = ["age", "expiry"]
    for order in orders:
        for limit in (1_000, 97):
            seen: list[tuple[int, str]] = []
            after = None
            while page := list(await store.open_requests(order, after, limit)):
                for id, request in page:
                    time = request.made_at_ms if order == "age" else request.expires_at_ms
                    seen.append((0 if time is None else time, id))
                after = Cursor(seen[-1][0], seen[-1][1], "r")
                same(len(page), min(limit, len(page) if len(seen) == 600 else limit), "length of a page")
            same(len(seen), 600, f"number of entries by {order}")
            same(seen, sorted(set(seen), key=lambda entry: (entry[0], entry[1].encode())), f"entries by {order}")


CASES = [
    StoreCase(check)
    for check in (
        leases_are_listed_by_their_end,
        open_requests_are_listed_by_age_and_by_expiry,
        requests_of_one_instant_are_listed_by_their_ids,
        pages_give_each_open_request_once,
    )
]
