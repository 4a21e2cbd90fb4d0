"""Runs on the queues of DBOS, by several processes, of which one is killed (contract 7.2, 7.3, 7.6)."""

import asyncio
import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from dbos import DBOSClient
from dbos_places import DATABASES, new_database
from dbos_worker import Trace, toolkit
from toolrelay import AnswerInProgress, ConversationBusy, answer_output, create_in_process_client
from toolrelay.dbos import DbosStore

WORKER = Path(__file__).parent / "support" / "dbos_worker.py"
TURNS = [
    [["tide", "look"], ["charge"]],
    [["charge", "look"]],
    [["charge", "tide", "sign"]],
    [["look"], ["sign", "look"], ["charge", "tide"]],
]
RESULTS = {"tide": "4 m", "charge": "charged", "look": "seen", "sign": "signed"}
INTERRUPTED = "interrupted: the call had started and may have run; its result is not known"


class Workers:
    """Processes that work on one queue."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.trace = Trace(folder)
        self.running: list[subprocess.Popen[str]] = []

    def start(self, *executors: str) -> list[subprocess.Popen[str]]:
        """Starts them together, and waits until they are ready."""
        started = []
        for executor in executors:
            command = [sys.executable, WORKER, self.url, str(self.folder), executor]
            started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        self.running += started
        for worker in started:
            assert worker.stdout.readline() == "ready\n"
        return started

    def leases_are_over(self, process: int) -> None:
        """Spares the test the minute that the leases of a dead process last."""
        engine = sa.create_engine(self.url.replace("postgresql:", "postgresql+psycopg:"))
        over = "UPDATE toolrelay_conversation SET lease_until_ms = 0 WHERE lease_owner LIKE :owner"
        with engine.begin() as connection:
            connection.execute(sa.text(over), {"owner": f"%:{process}:%"})
        engine.dispose()

    def end(self) -> None:
        for worker in self.running:
            worker.kill()
            worker.communicate()


@pytest.fixture
def workers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Workers]:
    # The workers make the tables of DBOS in a file that is not there yet.
    made = Workers(f"sqlite:///{tmp_path}/agents.db", tmp_path)
    if request.param == "postgres":
        made = Workers(new_database("postgres", tmp_path), tmp_path)
    yield made
    made.end()


def unasked(request: Any) -> str:
    raise AssertionError("a process that submits asks no model")


async def until(holds: Callable[[], Any]) -> Any:
    """What it gives once it is true."""
    while not (found := await asyncio.to_thread(holds)):  # noqa: ASYNC110 - it comes about in another process
        await asyncio.sleep(0.02)
    return found


async def deliver(client, tools, waiting):
    """Answers a request, twice at once; one that comes while the turn goes on is not taken."""
    answer = answer_output(waiting.request.id, "4 m")
    twice = [client.submit_answer(tools, waiting.conversation, waiting.request, answer) for _ in range(2)]
    ended = await asyncio.gather(*twice, return_exceptions=True)
    assert {type(one) for one in ended} <= {bool, AnswerInProgress, ConversationBusy}, ended


async def answered_until_idle(client, tools, ids):
    """Answers whatever waits, until every conversation is at its end; gives them as they are then."""
    found = {}
    while len(found) < len(ids):
        for waiting in (await client.pending(limit=1000)).requests:
            await deliver(client, tools, waiting)
        for id in ids:
            if id not in found and (conversation := await client.get(id)).state == "idle":
                found[id] = conversation
        await asyncio.sleep(0.05)
    return found


def results_of(conversation):
    """The calls of a conversation with the result of each: name, call, result."""
    messages = [dict(message) for message in conversation.messages]
    assert messages[-1] == {"role": "assistant", "content": "done"}
    calls = [call for message in messages for call in message.get("tool_calls") or ()]
    results = {message["tool_call_id"]: message["content"] for message in messages if message["role"] == "tool"}
    assert len(results) == len(calls) == sum(message["role"] == "tool" for message in messages)
    return [(call["function"]["name"], f"{conversation.id}:{call['id']}", results[call["id"]]) for call in calls]


@pytest.mark.timeout(150)
@pytest.mark.parametrize("workers", DATABASES, indirect=True)
async def test_a_hundred_conversations_finish_though_a_worker_is_killed_and_every_tool_runs_once(workers):
    tools = toolkit(workers.trace)
    workers.start("one", "two")
    store = DbosStore(workers.url)
    client = create_in_process_client(generate=unasked, store=store, lease=600)
    prompts = {f"c-{at}": TURNS[at % len(TURNS)] for at in range(92)}
    prompts |= {f"held-{at}": [["charge", "look"], ["tide"]] for at in range(8)}
    for id, turns in prompts.items():
        await client.submit(json.dumps(turns), tools, id=id)

    def in_the_middle():
        began = Counter(process for what, call, process in workers.trace.lines() if call.startswith("held"))
        return sum(began.values()) == 16 and began.most_common(1)[0][0]

    killed = await until(in_the_middle)
    (victim,) = [worker for worker in workers.running if worker.pid == killed]
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    workers.leases_are_over(killed)
    workers.trace.let_go()
    # DBOS has whoever comes back under the executor's name run its workflows again, beside the sweepers.
    workers.start(victim.args[-1])

    found = await answered_until_idle(client, tools, prompts)
    lines = workers.trace.lines()
    marked, again = set(), set()
    for id, conversation in found.items():
        calls = results_of(conversation)
        assert [name for name, _, _ in calls] == [name for turn in prompts[id] for name in turn]
        for name, call, result in calls:
            began = [process for what, which, process in lines if (what, which) == ("began", call)]
            ended = [process for what, which, process in lines if (what, which) == ("ended", call)]
            if result == INTERRUPTED:
                assert began in ([], [killed])  # it may have been about to begin
                assert name == "charge"
                marked.add(call)
                continue
            assert result == RESULTS[name]
            if name in ("look", "sign") and began[0] == killed and len(began) > 1:
                again.add(call)
                began, ended = began[1:], [process for process in ended if process != killed]
            assert (len(began), began) == (name != "tide", ended), (call, name)
    held = {call.split(":")[0] for what, call, process in lines if call.startswith("held") and process == killed}
    assert held
    assert held <= {call.split(":")[0] for call in marked}
    assert held <= {call.split(":")[0] for call in again}

    # One workflow for each start, whatever was delivered twice, and none of them waits for anything.
    dbos = DBOSClient(system_database_url=workers.url)
    await until(lambda: {one.status for one in dbos.list_workflows(load_input=False)} == {"SUCCESS"})
    runs = Counter(one.workflow_id.rpartition(":")[0] for one in dbos.list_workflows(name="toolrelay.run"))
    assert runs == {id: 1 + sum(map(bool, halts(turns))) for id, turns in prompts.items()}
    dbos.destroy()
    await store.close()


def halts(turns):
    """How many answers each turn waits for."""
    return [len({"tide", "sign"} & set(turn)) for turn in turns]
