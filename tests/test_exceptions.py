"""Exceptions of the host's code: nothing of them is lost, and no run waits for ever (contract 2.6, 4.5, 9.3)."""

import asyncio
import logging
import traceback
from typing import Any

import pytest
from scripted_model import ScriptedModel, call, says
from toolrelay import GenerateError, Toolkit, WaitForError, create_in_process_client, define_tool, relay_tool

TIDE = relay_tool("tide", "high water")


@define_tool
async def tally() -> int:
    """Counts."""
    return 7


def reef():
    raise ValueError("reef")


def lines(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


async def test_i10_the_exception_of_a_tool_is_logged_with_its_traceback(caplog):
    caplog.set_level(logging.DEBUG, logger="toolrelay.tools")

    @define_tool
    async def sails() -> str:
        """Hits something."""
        reef()
        return "never"

    @define_tool
    def sails_in_a_thread() -> str:
        """Hits something too."""
        reef()
        return "never"

    model = ScriptedModel(says(call("sails"), call("sails_in_a_thread")), "done")
    await create_in_process_client(generate=model).run("go", Toolkit([sails, sails_in_a_thread]))

    assert [record.getMessage() for record in caplog.records] == ["tool sails raised", "tool sails_in_a_thread raised"]
    assert all(type(record.exc_info[1]) is ValueError for record in caplog.records)
    assert caplog.text.count("in reef") == 2
    assert caplog.text.count("in sails") == 2


@pytest.mark.parametrize("kind", ["async", "sync"])
@pytest.mark.parametrize("where", ["generate", "wait_for"])
async def test_i10_the_exception_of_the_hosts_code_is_the_cause_with_its_own_lines(kind, where):
    raised = ValueError("reef")

    async def in_task(request):
        raise raised

    def in_thread(request):
        raise raised

    function: Any = in_task if kind == "async" else in_thread
    model = function if where == "generate" else ScriptedModel(says(call("tide")))
    client = create_in_process_client(generate=model, wait_for=function)
    with pytest.raises(GenerateError if where == "generate" else WaitForError) as caught:
        await client.run("go", Toolkit([TIDE]))
    assert caught.value.__cause__ is raised
    assert f"in {function.__name__}" in lines(caught.value)
    assert "ValueError: reef" in lines(caught.value)
    assert caught.value.transcript is not None


class Interrupting(BaseException):
    """What passes by `except Exception`."""


RAISED = [Interrupting("no"), asyncio.CancelledError(), StopIteration("over")]


@pytest.mark.parametrize("kind", ["async", "sync"])
@pytest.mark.parametrize("raised", RAISED, ids=lambda raised: type(raised).__name__)
async def test_i10_whatever_the_hosts_code_raises_ends_its_call_and_no_run_waits_for_ever(raised, kind):
    async def in_task(request):
        raise raised

    def in_thread(request):
        raise raised

    function: Any = in_task if kind == "async" else in_thread
    async with asyncio.timeout(5):
        with pytest.raises(GenerateError):
            await create_in_process_client(generate=function).run("go", Toolkit())
        with pytest.raises(WaitForError):
            await create_in_process_client(generate=ScriptedModel(says(call("tide"))), wait_for=function).run(
                "go", Toolkit([TIDE])
            )
        tool = define_tool("raises", "Raises.", None, lambda arguments, context: function(None))
        model = ScriptedModel(says(call("raises"), call("tally")), "done")
        result = await create_in_process_client(generate=model).run("go", Toolkit([tool, tally]))
    assert (result.status, result.tool_calls[0].is_error, result.tool_calls[1].output) == ("done", True, "7")
