"""That what is written is kept: whole, in order, byte for byte; and what is refused changes nothing."""

from __future__ import annotations

import json
from dataclasses import replace

from toolrelay.errors import StoreConflict
from toolrelay.stores import Lease, Slot, StoredConversation, StoredRequest, Write
from toolrelay.testing._case import Place, StoreCase, append, asked, asking, known, refused, same, touch, version_of


async def an_unknown_conversation_is_none(place: Place) -> None:
    """What nobody wrote is None, and a write that expects it to be there is refused."""
    store = await place.store()
    same(await store.load("nobody"), None, "load of a conversation that nobody wrote")
    same(await store.request("nobody", "req"), None, "request of a conversation that nobody wrote")
    await store.commit("c", touch(0))
    same(await store.request("c", "req"), None, "a request that nobody wrote")
    same(await store.request("c", ""), None, "a request without a name")
    await refused(store.commit("nobody", touch(3)), StoreConflict, "a commit to a conversation that nobody wrote")
    same(await store.load("nobody"), None, "load after a refused commit")


async def a_conversation_comes_back_as_it_was_written(place: Place) -> None:
    """Every field of every value comes back, in another store on the place too."""
    store, other = await place.store(), await place.store()
    request = StoredRequest(
        "req_1",
        (Slot(2, "a"), Slot(3, 'b "quoted" é')),
        b'{"id":"req_1"}',
        -7,
        -5,
        False,
        (b'{"ok":true}', b"null"),
        b"{}",
    )
    lease = Lease("host:1 ☂", 6, 1_764_500_000_000)
    messages = ((0, b'{"role":"user"}'), (1, b'{"role":"assistant"}'))
    write = Write(0, 1, 1_764_500_000_001, "running", 7, lease, messages, (request,))
    await store.commit("c", write)
    expected = StoredConversation(1, write.at_ms, 7, "running", lease, messages, (request,))
    for seen in (store, other):
        same(await seen.load("c"), expected, "load")
        same(await seen.request("c", "req_1"), request, "request")

    await store.commit("c", replace(touch(1), at_ms=5, epoch=8))
    expected = replace(expected, version=2, written_at_ms=5, epoch=8, state="idle", lease=None)
    for seen in (store, other):
        same(await seen.load("c"), expected, "load after a second commit")


async def a_commit_makes_the_version_what_the_write_says(place: Place) -> None:
    """The caller counts versions; a new conversation may begin at any."""
    store = await place.store()
    first = 2**48 - 1
    await store.commit("c", replace(touch(0), version=first))
    for version in range(first, first + 5):
        same(await version_of(store, "c"), version, "version")
        await store.commit("c", touch(version))
    same(await version_of(store, "c"), first + 5, "version")


async def a_conflict_changes_nothing(place: Place) -> None:
    """A write that expects another version is refused with all that is in it."""
    store = await place.store()
    await store.commit("c", append(0, (0, b"0")))
    before = await store.load("c")
    lost = Write(1, 9, 9, "pending", 9, Lease("me", 9, 1), ((1, b"1"),), (asked("req", 2),))
    for expect in (0, 2, 2**53):
        await refused(store.commit("c", replace(lost, expect=expect)), StoreConflict, f"a commit against {expect}")
    same(await store.load("c"), before, "load after refused commits")
    same(await store.request("c", "req"), None, "a request of a refused commit")


async def a_taken_place_changes_nothing(place: Place) -> None:
    """Messages are only ever added. Of a write with one whose place is taken, nothing is applied."""
    store = await place.store()
    await store.commit("c", append(0, (4, b"4")))
    before = await store.load("c")
    taken = replace(append(1, (3, b"3"), (4, b"44"), (5, b"5")), requests=(asked("req", 2),))
    await refused(store.commit("c", taken), StoreConflict, "a commit with a taken place")
    same(await store.load("c"), before, "load after a refused commit")
    same(await store.request("c", "req"), None, "a request of a refused commit")
    await store.commit("c", append(1, (3, b"3")))
    same((await known(store, "c", "load")).messages, ((3, b"3"), (4, b"4")), "messages")


async def a_place_twice_in_one_write_changes_nothing(place: Place) -> None:
    """A write that has one place twice is refused."""
    store = await place.store()
    twice = append(0, (1, b"1"), (2, b"2"), (1, b"3"))
    await refused(store.commit("c", twice), StoreConflict, "a commit with one place twice")
    same(await store.load("c"), None, "load after a refused commit")


async def gaps_stay_gaps_until_they_are_filled(place: Place) -> None:
    """The result of a parked call comes later than what stands behind it; messages are loaded in ascending order."""
    store = await place.store()
    await store.commit("c", append(0, (0, b"0"), (3, b"3")))
    same((await known(store, "c", "load")).messages, ((0, b"0"), (3, b"3")), "messages")
    await store.commit("c", append(1, (2, b"2"), (1, b"1"), (9, b"9")))
    expected = ((0, b"0"), (1, b"1"), (2, b"2"), (3, b"3"), (9, b"9"))
    same((await known(store, "c", "load")).messages, expected, "messages")


async def requests_are_replaced_by_id(place: Place) -> None:
    """The last write of a request's id is what stands; ids are a conversation's own."""
    store = await place.store()
    first = asked("req", 2)
    await store.commit("c", asking(0, first))
    await store.commit("other", asking(0, first))

    answered = replace(first, answers=(b"1",), expires_at_ms=1)
    await store.commit("c", asking(1, answered))
    same((await known(store, "c", "load")).requests, (answered,), "open requests")

    settled = replace(first, settled=True, answers=(b"1", b"2"), outcome=b"{}")
    await store.commit("c", asking(2, settled))
    same((await known(store, "c", "load")).requests, (), "open requests after it was settled")
    same(await store.request("c", "req"), settled, "the settled request")
    same(await store.request("other", "req"), first, "the request of another conversation")

    await store.commit("c", asking(3, answered, first))
    same((await known(store, "c", "load")).requests, (first,), "open requests after two of one id in one write")
    same(await store.request("c", "req"), first, "the request")


async def only_open_requests_are_loaded_in_call_order(place: Place) -> None:
    """A load gives the unsettled requests, by the place of their first slot."""
    store = await place.store()
    late, early, settled = asked("a", 7), asked("z", 5), replace(asked("m", 6), settled=True)
    await store.commit("c", asking(0, late, settled, early))
    same((await known(store, "c", "load")).requests, (early, late), "open requests")
    same(await store.request("c", "m"), settled, "the settled request")


async def json_comes_back_byte_for_byte(place: Place) -> None:
    """Blanks, key order, spellings of numbers, escapes, large texts: a store looks into nothing."""
    store = await place.store()
    odd = ' {"b":1.0, "a" : 1e5,\r\n\t"n":12345678901234567890123,"u":"\\u0000 \\ud800 é ☂ \U0010ffff"} '.encode()
    large = json.dumps("x" * (4 << 20)).encode()
    request = replace(asked("req", 2), body=odd, answers=(odd, large, b"0"), outcome=odd)
    messages = ((0, odd), (1, b"0"), (2, large))
    await store.commit("c", replace(append(0, *messages), requests=(request,)))
    found = await known(store, "c", "load")
    same(found.messages, messages, "messages")
    same(found.requests, (request,), "requests")
    same(await store.request("c", "req"), request, "the request")


async def odd_ids_are_ids_of_their_own(place: Place) -> None:
    """Ids are told apart by every byte, and mean nothing to the store."""
    store = await place.store()
    odd = ["a", "A", " a", "a ", "á", "a\u0301", "☂", "%", "a%", "_", "*", "a:b", "{a}", "}{", "\U0010ffff\n"]
    odd += ["é" * 512, "'; DROP TABLE message; --"]
    for name in odd:
        await store.commit(name, append(0, (0, json.dumps(name).encode())))
    for name in odd:
        same((await known(store, name, "load")).messages, ((0, json.dumps(name).encode()),), f"messages of {name!r}")
    requests = [replace(asked("r", 5), id=name) for name in odd]
    await store.commit("a", asking(1, *requests))
    for request in requests:
        same(await store.request("a", request.id), request, f"the request {request.id!r}")


async def ten_thousand_messages_come_back_in_order(place: Place) -> None:
    """A long conversation is loaded whole, whatever the order of its writes."""
    store = await place.store()
    messages = tuple((seq, b'{"role":"user","content":"%d"}' % seq) for seq in range(10_000))
    await store.commit("c", append(0, *reversed(messages[3_000:])))
    for expect in range(1, 7):
        await store.commit("c", append(expect, *messages[500 * (expect - 1) : 500 * expect]))
    found = await known(store, "c", "load")
    same(len(found.messages), 10_000, "number of messages")
    same(found.messages, messages, "messages")
    await refused(store.commit("c", append(7, (9_999, b"0"))), StoreConflict, "a commit with a taken place")


async def a_deleted_conversation_is_as_if_it_had_never_been(place: Place) -> None:
    """A deletion takes messages, requests and lease along, and nothing of another conversation."""
    store = await place.store()
    lease = Lease("me", 1, 1)
    for name in ("c", "kept"):
        first = replace(append(0, (0, b'"%s"' % name.encode()), (7, b"7")), state="running", lease=lease)
        await store.commit(name, first)
        closed = replace(asked("closed", 2), settled=True)
        await store.commit(name, replace(asking(1, asked("open", 1), closed), lease=lease))
    await store.delete("c", 2)

    same(await store.load("c"), None, "load of a deleted conversation")
    for request in ("open", "closed"):
        same(await store.request("c", request), None, f"the request {request} of a deleted conversation")
    same(list(await store.leases(None, 9)), [("kept", lease)], "leases")
    same(list(await store.open_requests("age", None, 9)), [("kept", asked("open", 1))], "open requests")
    same((await known(store, "kept", "load")).messages, ((0, b'"kept"'), (7, b"7")), "messages of the other")

    await store.commit("c", append(0, (0, b'"new"')))
    found = await known(store, "c", "load")
    same((found.version, found.messages, found.requests), (1, ((0, b'"new"'),), ()), "a new conversation of that id")
    same(await store.request("c", "open"), None, "a request of its forerunner")


async def a_deletion_that_expects_another_version_changes_nothing(place: Place) -> None:
    """A deletion is a compare-and-set."""
    store = await place.store()
    await store.commit("c", append(0, (0, b"0")))
    before = await store.load("c")
    for expect in (0, 2, 2**53):
        await refused(store.delete("c", expect), StoreConflict, f"a deletion against {expect}")
    same(await store.load("c"), before, "load after refused deletions")
    await refused(store.delete("nobody", 1), StoreConflict, "a deletion of what is not there")
    await store.delete("nobody", 0)


async def who_works_on_a_deleted_conversation_cannot_write_to_the_next_one_of_its_id(place: Place) -> None:
    """New conversations begin at random versions, which nobody else expects."""
    store = await place.store()
    first, second = 0x1111_1111_1111, 0x2222_2222_2222
    await store.commit("c", replace(touch(0), version=first))
    await store.delete("c", first)
    await refused(store.commit("c", touch(first)), StoreConflict, "a commit to a deleted conversation")
    await store.commit("c", replace(touch(0), version=second))
    await refused(store.commit("c", touch(first)), StoreConflict, "a commit against the deleted version")
    await refused(store.delete("c", first), StoreConflict, "a deletion against the deleted version")
    same(await version_of(store, "c"), second, "version")


CASES = [
    StoreCase(check)
    for check in (
        an_unknown_conversation_is_none,
        a_conversation_comes_back_as_it_was_written,
        a_commit_makes_the_version_what_the_write_says,
        a_conflict_changes_nothing,
        a_taken_place_changes_nothing,
        a_place_twice_in_one_write_changes_nothing,
        gaps_stay_gaps_until_they_are_filled,
        requests_are_replaced_by_id,
        only_open_requests_are_loaded_in_call_order,
        json_comes_back_byte_for_byte,
        odd_ids_are_ids_of_their_own,
        ten_thousand_messages_come_back_in_order,
        a_deleted_conversation_is_as_if_it_had_never_been,
        a_deletion_that_expects_another_version_changes_nothing,
        who_works_on_a_deleted_conversation_cannot_write_to_the_next_one_of_its_id,
    )
]
