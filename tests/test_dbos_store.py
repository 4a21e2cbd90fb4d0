"""The store in the database of DBOS: its promises, and what is dispatched in the transaction of a commit."""

import asyncio
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa
from dbos import DBOSClient
from dbos_places import DATABASES, new_database
from harbour import HARBOUR
from scripted_model import call, client_for, says
from toolrelay import (
    AnswerInProgress,
    ConfigurationError,
    ConversationNotFound,
    StoreConflict,
    StoreLocked,
    StoreReadOnly,
    StoreSchemaError,
    StoreUnavailable,
    ToolContext,
    Toolkit,
    answer_output,
    define_tool,
    pending,
)
from toolrelay.dbos import DbosStore
from toolrelay.stores import Lease, Write
from toolrelay.testing import StoreCase, store_conformance

SOON = datetime.now(UTC) + timedelta(days=1)
CASES = [
    *(("sqlite", case) for case in store_conformance(processes=True)),
    *(("postgres", case) for case in store_conformance()),
]


@pytest.mark.parametrize(("kind", "case"), CASES, ids=str)
def test_a_store_in_the_database_of_dbos_keeps_its_promises(kind: str, case: StoreCase, tmp_path: Path) -> None:
    case(partial(DbosStore, new_database(kind, tmp_path)))


@pytest.fixture(params=DATABASES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return new_database(request.param, tmp_path)


def dispatched(url):
    """The workflows by name: what they are to do, their state, and until when they are put off."""
    dbos = DBOSClient(system_database_url=url)
    found = {
        one.workflow_id: (one.name, one.status, one.input["args"], one.delay_until_epoch_ms)
        for one in dbos.list_workflows()
    }
    dbos.destroy()
    return found


async def test_each_start_is_one_workflow_whatever_is_delivered_twice(url):
    store = DbosStore(url)
    client, _ = client_for(says(call("tide")), store=store)
    await client.submit("go", HARBOUR, id="c-1")
    prompted = (await client.get("c-1")).version
    halted = await client.recover(HARBOUR, "c-1")
    answer = answer_output(halted.pending.id, "4 m")
    await client.submit_answer(HARBOUR, "c-1", halted.pending, answer)
    with pytest.raises(AnswerInProgress):
        await client.submit_answer(HARBOUR, "c-1", halted.pending, answer)
    answered = (await client.get("c-1")).version
    assert dispatched(url) == {
        f"c-1:{version}": ("toolrelay.run", "ENQUEUED", ("c-1",), None) for version in (prompted, answered)
    }
    await store.close()


async def test_many_starts_at_once_are_dispatched_once_each(url):
    store = DbosStore(url)
    client, _ = client_for(store=store)
    ids = [f"c-{at}" for at in range(30)]
    await asyncio.gather(*(client.submit("go", HARBOUR, id=id) for id in ids))
    versions = [f"{id}:{(await client.get(id)).version}" for id in ids]
    assert sorted(dispatched(url)) == sorted(versions)
    await store.close()


async def test_a_run_that_its_caller_makes_is_not_dispatched(url):
    store = DbosStore(url)
    client, _ = client_for(says(call("tide")), "picked up", store=store)
    halted = await client.ask("go", HARBOUR, id="c-1")
    await client.ask_with_answer(HARBOUR, "c-1", halted.pending, answer_output(halted.pending.id, "4 m"))
    assert dispatched(url) == {}
    await store.close()


@define_tool
async def ask_first(context: ToolContext) -> object:
    """Asks somebody who has until tomorrow."""
    return pending("approval", "Agree?", expires_at=SOON)


async def test_a_request_that_expires_goes_with_a_workflow_that_is_put_off_until_then(url):
    store = DbosStore(url)
    client, _ = client_for(says(call("ask_first")), store=store)
    halted = await client.ask("go", Toolkit([ask_first]), id="c-1")
    ((name, (work, status, arguments, until)),) = dispatched(url).items()
    assert (name, work, status, arguments) == (f"c-1:{halted.pending.id}", "toolrelay.expire", "DELAYED", ("c-1",))
    assert 0 <= until / 1000 - halted.pending.expires_at.timestamp() < 60
    await store.close()


async def test_a_write_that_is_refused_dispatches_nothing(url):
    store = DbosStore(url)
    lease = Lease("", 1, 2**40)
    await store.commit("c-1", Write(0, 1, 0, "idle", 0, None, ((0, b"{}"),), ()))
    with pytest.raises(StoreConflict):
        await store.commit("c-1", Write(0, 1, 0, "running", 1, lease, (), ()))
    with pytest.raises(StoreConflict):
        await store.commit("c-1", Write(1, 2, 0, "running", 1, lease, ((0, b"{}"),), ()))
    assert dispatched(url) == {}
    await store.close()


async def test_what_cannot_be_dispatched_is_not_written(tmp_path):
    """The tables of DBOS are not there."""
    store = DbosStore(f"sqlite:///{tmp_path}/agents.db")
    client, _ = client_for(store=store)
    with pytest.raises(StoreSchemaError, match=r"agents.db> has no tables of DBOS: run `dbos migrate`") as caught:
        await client.submit("a secret", HARBOUR, id="c-1")
    assert "secret" not in str(caught.value.__cause__)
    assert "no such table: main.workflow_status" in str(caught.value.__cause__)
    with pytest.raises(ConversationNotFound):
        await client.get("c-1")
    await store.close()


async def test_tables_of_a_newer_version_are_left_alone(url):
    store = DbosStore(url)
    assert await store.load("c-1") is None
    await store.close()
    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE toolrelay_schema SET version = 2"))
    engine.dispose()
    later = DbosStore(url)
    with pytest.raises(StoreSchemaError, match="schema 2, and this toolrelay knows schema 1"):
        await later.load("c-1")
    await later.close()


async def test_a_database_that_cannot_be_written_is_told_by_its_kind_and_nothing_is_lost(url, tmp_path):
    store = DbosStore(url)
    client, _ = client_for(store=store)
    await client.submit("go", HARBOUR, id="c-1")
    await store.close()
    before = dispatched(url)
    if "sqlite" in url:
        read_only = f"{url.replace('///', '///file:')}?mode=ro&uri=true"
    else:
        read_only = f"{url}?options=-cdefault_transaction_read_only%3Don"
    (tmp_path / "notes.txt").write_text("no database\n" * 100)
    for at, kind in ((read_only, StoreReadOnly), (f"sqlite:///{tmp_path}/notes.txt", StoreSchemaError)):
        store = DbosStore(at)
        client, _ = client_for(store=store)
        with pytest.raises(kind) as caught:
            await client.submit("go", HARBOUR, id="c-2")
        assert (type(caught.value), caught.value.conversation) == (kind, "c-2")
        await store.close()
    assert dispatched(url) == before


async def test_a_database_that_somebody_holds_is_locked(tmp_path, monkeypatch):
    url = new_database("sqlite", tmp_path)
    store = DbosStore(url)
    client, _ = client_for(store=store)
    await client.submit("go", HARBOUR, id="c-1")
    with closing(sqlite3.connect(tmp_path / "agents.db", isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        monkeypatch.setattr("toolrelay._sql._PATIENCE_MS", 1)
        impatient = DbosStore(url)
        client, _ = client_for(store=impatient)
        with pytest.raises(StoreLocked):
            await client.submit("go", HARBOUR, id="c-2")
    await impatient.close()
    await store.close()


async def test_a_database_that_is_not_there_is_told_with_its_place_and_the_reason():
    store = DbosStore("postgresql://somebody:secret@127.0.0.1:1/agents")
    assert repr(store) == "<DbosStore postgresql://127.0.0.1:1/agents>"
    client, _ = client_for(store=store)
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1/agents> cannot be used: .*refused") as caught:
        await client.get("c-1")
    assert "secret" not in str(caught.value)
    await store.close()


@pytest.mark.parametrize("url", ["agents.db", "mysql://localhost/agents"])
def test_a_url_that_cannot_be_used_is_said(url):
    with pytest.raises(ConfigurationError):
        DbosStore(url)


def test_a_child_of_a_process_that_used_the_store_is_told_so(tmp_path):
    program = """
import asyncio, os, sys
from toolrelay import StoreUnavailable
from toolrelay.dbos import DbosStore
used, unused = DbosStore(sys.argv[1]), DbosStore(sys.argv[1])
assert asyncio.run(used.load("c-1")) is None
if child := os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
assert asyncio.run(unused.load("c-1")) is None
try:
    asyncio.run(used.load("c-1"))
except StoreUnavailable as error:
    os._exit("forked" not in str(error))
os._exit(2)
"""
    url = new_database("sqlite", tmp_path)
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, url], capture_output=True, text=True, timeout=30
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_without_the_extra_the_module_says_what_to_install_and_the_package_works():
    program = """
import sys
import toolrelay
assert not {"dbos", "sqlalchemy"} & set(sys.modules)
sys.modules["dbos"] = None
import toolrelay.dbos
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.stderr.endswith(
        "ModuleNotFoundError: toolrelay.dbos needs DBOS, and there is no module dbos: pip install 'toolrelay[dbos]'\n"
    )
