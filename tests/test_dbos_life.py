"""What becomes of requests that expire and of workers that are shut down, on the queues of DBOS (contract 7.6, 7.8)."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from dbos import DBOS
from dbos_places import DATABASES, new_database
from harbour import RAN
from scripted_model import call, client_for, says
from toolrelay import ConversationNotFound, GenerateError, ToolContext, Toolkit, define_tool, pending
from toolrelay.dbos import DbosStore

# While DBOS ends it may take one more from its queue, and forget it. Whoever comes back under its name runs it.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine 'execute_dequeued_workflow:RuntimeWarning")


@define_tool
async def hurry(context: ToolContext) -> object:
    """Asks somebody who has a moment."""
    return pending("approval", "Agree?", expires_at=datetime.now(UTC) + timedelta(milliseconds=10))


class Harbour:
    """A worker in this process, and a tool that holds it up."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.store = DbosStore(url)
        self.may_end = False
        self.toolkit = Toolkit([hurry, define_tool("load", "takes its time", None, self.load)])

    async def load(self, arguments: dict[str, object], context: ToolContext) -> str:
        RAN.append("load")
        while not self.may_end:  # noqa: ASYNC110 - the test is on another loop
            await asyncio.sleep(0.01)
        return "loaded"

    async def work(self, *replies):
        """Works on the queue, with a model that gives these replies."""
        client, model = client_for(*replies, store=self.store)
        DBOS(config={"name": "agents", "system_database_url": self.url, "log_level": "CRITICAL"})
        self.store.register(client, self.toolkit)
        await beside(DBOS.launch)  # so that the runs are made on a loop of DBOS
        await DBOS.register_queue_async("toolrelay", polling_interval_sec=0.02)
        return client, model

    async def shut_down(self) -> None:
        await beside(partial(DBOS.destroy, destroy_registry=True))

    async def workflows(self) -> list[tuple[str, str, object]]:
        """What was dispatched, by age: name, status, output."""
        found = await DBOS.list_workflows_async()
        return [(one.name, one.status, one.output) for one in sorted(found, key=lambda one: one.created_at)]


@pytest.fixture(params=DATABASES)
async def harbour(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harbour]:
    made = Harbour(new_database(request.param, tmp_path))
    yield made
    await made.shut_down()
    await made.store.close()


async def beside(work: Callable[[], None]) -> None:
    """In a thread, and none of the loop's, which are DBOS's once it is asked something."""
    with ThreadPoolExecutor(1) as thread:
        await asyncio.get_running_loop().run_in_executor(thread, work)


async def until(holds) -> None:
    while not await holds():  # noqa: ASYNC110 - it comes about in a database
        await asyncio.sleep(0.01)


async def test_a_request_whose_time_is_over_is_settled_by_its_workflow(harbour):
    client, model = await harbour.work(says(call("hurry")))
    await client.ask("go", harbour.toolkit, id="c-1")

    async def has_ended():
        return await harbour.workflows() == [("toolrelay.expire", "SUCCESS", True)]

    await until(has_ended)
    settled = await client.get("c-1")
    assert (settled.state, settled.messages[-1]["content"].split(":")[0]) == ("idle", "expired")
    assert len(model.requests) == 1


async def test_one_whose_time_is_over_while_the_run_goes_on_is_settled_at_its_end(harbour):
    client, _ = await harbour.work(says(call("hurry"), call("load")))
    await client.submit("go", harbour.toolkit, id="c-1")

    async def was_too_early():
        return ("toolrelay.expire", "SUCCESS", False) in await harbour.workflows()

    await until(was_too_early)
    assert (await client.get("c-1")).state == "running"
    harbour.may_end = True

    async def is_idle():
        return (await client.get("c-1")).state == "idle"

    await until(is_idle)
    expired, loaded = (message["content"] for message in (await client.get("c-1")).messages[2:])
    assert (expired.split(":")[0], loaded) == ("expired", "loaded")


async def test_a_worker_that_is_shut_down_hands_on_what_it_worked_on(harbour):
    client, _ = await harbour.work(says(call("load")))
    await client.submit("go", harbour.toolkit, id="c-1")

    async def has_begun():
        return RAN == ["load"]

    await until(has_begun)
    await harbour.shut_down()
    left = await client.get("c-1")
    assert (left.state, left.worker) == ("running", None)

    client, model = await harbour.work("on it")

    async def is_idle():
        return (await client.get("c-1")).state == "idle"

    await until(is_idle)
    assert (RAN, [text.split(":")[0] for text in model.results]) == (["load"], ["interrupted"])
    assert (await client.get("c-1")).messages[-1]["content"] == "on it"


async def test_tools_that_are_steps_of_dbos_are_no_steps_of_the_run(harbour):
    """Steps are told apart by their number, and a run that goes on does not begin with the first."""

    async def tell(arguments: dict[str, object], context: ToolContext) -> str:
        return await stepping(str(arguments["word"]))

    harbour.toolkit = Toolkit([define_tool("tell", "says it again", None, tell)])
    client, model = await harbour.work(says(call("tell", {"word": "one"}), call("tell", {"word": "two"})), "told")

    @DBOS.step()
    async def stepping(word: str) -> str:
        return word

    await client.submit("go", harbour.toolkit, id="c-1")

    async def is_idle():
        return (await client.get("c-1")).state == "idle"

    await until(is_idle)
    assert model.results == ["one", "two"]
    (run,) = await DBOS.list_workflows_async()
    assert await DBOS.list_workflow_steps_async(run.workflow_id) == []


async def test_what_was_called_off_is_left_alone_and_a_failure_is_told_without_the_transcript(harbour):
    client, _ = client_for(store=harbour.store)
    for id in ("deleted", "cancelled", "failing"):
        await client.submit("go", harbour.toolkit, id=id)
    await client.delete("deleted")
    await client.cancel("cancelled")
    client, model = await harbour.work(OSError("overloaded"), "try again")

    async def all_ended():
        return sorted(status for _, status, _ in await harbour.workflows()) == ["ERROR", "SUCCESS", "SUCCESS"]

    await until(all_ended)
    assert {output for _, status, output in await harbour.workflows() if status == "SUCCESS"} == {"left alone"}
    (failed,) = await DBOS.list_workflows_async(status="ERROR")
    assert (type(failed.error), failed.error.transcript) == (GenerateError, None)
    with pytest.raises(ConversationNotFound):
        await client.get("deleted")
    assert len((await client.get("cancelled")).messages) == len(model.requests) == 1

    await client.submit(None, harbour.toolkit, id="failing")

    async def has_gone_on():
        return (await client.get("failing")).messages[-1]["content"] == "try again"

    await until(has_gone_on)
