"""The published suite for stores, run against those of the package and against one of a user's own (contract 7.10)."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from dict_store import DictStore
from places import DURABLE, new_place, open_store
from toolrelay import MemoryStore, StoreConflict
from toolrelay.stores import Store, StoredConversation
from toolrelay.testing import StoreCase, store_conformance

WITHIN = store_conformance()
ACROSS = store_conformance(processes=True)


def same_each_time(store: Store) -> Callable[[], Store]:
    return lambda: store


@pytest.mark.parametrize("case", WITHIN, ids=str)
@pytest.mark.parametrize("kind", [MemoryStore, DictStore])
def test_a_store_of_one_process_keeps_its_promises(kind: type[Store], case: StoreCase) -> None:
    case(same_each_time(kind()))


@pytest.mark.parametrize("case", WITHIN, ids=str)
def test_the_store_that_the_documents_show_keeps_its_promises(case, blocks, repository):
    (code,) = [
        block.code for block in blocks(repository / "docs" / "conversations.md") if "class DictStore" in block.code
    ]
    names: dict[str, type[Store]] = {}
    exec(code.partition("\nown: Store")[0], names)
    case(same_each_time(names["DictStore"]()))


@pytest.mark.parametrize("case", ACROSS, ids=str)
@pytest.mark.parametrize("kind", DURABLE)
def test_a_durable_store_keeps_its_promises(kind: str, case: StoreCase, tmp_path: Path) -> None:
    case(partial(open_store, new_place(kind, tmp_path)))


@pytest.mark.parametrize("case", WITHIN, ids=str)
@pytest.mark.parametrize("kind", ["pgbouncer", "cluster"])
def test_so_it_does_behind_a_pooler_and_in_a_cluster(kind: str, case: StoreCase, tmp_path: Path) -> None:
    case(partial(open_store, new_place(kind, tmp_path)))


def test_a_case_is_found_by_its_name() -> None:
    names = [str(case) for case in ACROSS]
    assert len(set(names)) == len(names) > len(WITHIN)
    assert all(case.promise for case in ACROSS)
    assert repr(ACROSS[0]) == f"<StoreCase {names[0]}>"


class Forgetful(DictStore):
    """Loses every second message."""

    async def commit(self, id, write):
        await super().commit(id, write)
        if len(write.append) > 1:
            self.conversations.pop(id)


class Hasty(DictStore):
    """Looks at the version, and writes a moment later."""

    async def commit(self, id, write):
        found = self.conversations.get(id, StoredConversation(0, 0, 0, "idle", None, (), ()))
        if found.version != write.expect:
            raise StoreConflict(id)
        await asyncio.sleep(0)
        found = self.conversations.get(id, found)
        messages = found.messages + write.append
        self.conversations[id] = replace(found, version=write.version, epoch=write.epoch, messages=messages)


@pytest.mark.parametrize(
    ("kind", "case"),
    [
        (Forgetful, "a_conversation_comes_back_as_it_was_written"),
        (Hasty, "of_many_racers_exactly_one_wins"),
        (Hasty, "increments_under_contention_are_never_lost"),
    ],
)
def test_a_store_that_breaks_a_promise_is_found_out(kind: type[DictStore], case: str) -> None:
    (found,) = [one for one in WITHIN if str(one) == case]
    with pytest.raises(AssertionError, match="found"):
        found(same_each_time(kind()))
