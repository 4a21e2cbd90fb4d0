"""Conversations in a SQLite file: its size, its end, and paths that hold none (contract 7.5, 7.10)."""

import asyncio

import pytest
from harbour import HARBOUR
from scripted_model import ScriptedModel, call, says
from toolrelay import (
    SqliteStore,
    StoreError,
    StoreSchemaError,
    StoreUnavailable,
    Toolkit,
    answer_output,
    create_in_process_client,
)


def test_conversations_work_without_a_loop(tmp_path):
    client = create_in_process_client(
        generate=ScriptedModel(says(call("tide")), "done"), store=SqliteStore(tmp_path / "c.db")
    )
    halted = client.ask_sync("go", HARBOUR, id="c-1")
    answer = answer_output(halted.pending.id, "4 m")
    assert client.ask_with_answer_sync(HARBOUR, "c-1", halted.pending, answer).text == "done"


async def test_a_conversation_on_disk_is_at_most_twice_its_own_size(tmp_path):
    """Contract 7.5: turns append, nothing is rewritten."""
    store = SqliteStore(tmp_path / "c.db")
    client = create_in_process_client(generate=lambda request: "y" * 500, store=store)
    for at in range(150):
        result = await client.ask(f"{at} " + "x" * 500, Toolkit(), id="c-1")
    await store.close()
    size = sum(file.stat().st_size for file in tmp_path.iterdir())
    assert len(result.messages) == 300
    assert size <= 2 * len(result.messages.to_json())


async def test_a_closed_store_leaves_one_file(tmp_path):
    for at in range(8):
        store = SqliteStore(tmp_path / f"{at}.db")
        client = create_in_process_client(generate=lambda request: "hi", store=store)
        await asyncio.gather(*(client.ask("hi", Toolkit(), id=f"c-{name}") for name in range(8)))
        await store.close()
    assert sorted(file.name for file in tmp_path.iterdir()) == [f"{at}.db" for at in range(8)]


async def test_a_closed_store_says_so_and_names_itself(tmp_path):
    store = SqliteStore(tmp_path / "c.db")
    assert (store.path, repr(store)) == (tmp_path / "c.db", f"<SqliteStore {tmp_path / 'c.db'}>")
    client = create_in_process_client(generate=ScriptedModel("hi"), store=store)
    await client.ask("hi", Toolkit(), id="c-1")
    await store.close()
    for use in (client.ask("hi", Toolkit(), id="c-1"), client.get("c-1")):
        with pytest.raises(StoreUnavailable) as caught:
            await use
        assert caught.value.conversation == "c-1"


def spoiled(folder):
    (folder / "c.db").write_bytes(b"no database, but long enough to look like one " * 100)
    return folder / "c.db"


@pytest.mark.parametrize(
    ("place", "error"),
    [
        (spoiled, StoreSchemaError),
        (lambda folder: folder, StoreUnavailable),
        (lambda folder: folder / "no" / "c.db", StoreUnavailable),
    ],
    ids=["another file", "a folder", "in no folder"],
)
async def test_a_path_that_cannot_hold_a_store_is_refused_at_first_use(tmp_path, place, error):
    store = SqliteStore(place(tmp_path))
    client = create_in_process_client(generate=ScriptedModel(), store=store)
    with pytest.raises(StoreError) as caught:
        await client.ask("hi", Toolkit(), id="c-1")
    assert type(caught.value) is error
    assert str(store.path) in str(caught.value)
