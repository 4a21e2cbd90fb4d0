"""What ends a run before its time: limits, cut replies, cancellation (contract 3.3 to 3.6, 9.1)."""

import asyncio

import pytest
from scripted_model import ScriptedModel, call, results, says
from toolrelay import (
    ModelReplyError,
    Toolkit,
    create_in_process_client,
    define_tool,
    relay_tool,
)

NO_TOOLS = Toolkit()


@define_tool
async def tally(n: int = 1) -> int:
    """Counts."""
    return n + 6


async def test_the_turn_limit_ends_a_run_that_can_go_on():
    """Contract 3.6."""
    model = ScriptedModel(says(call("tally")), says(call("tally", call_id="k9")), "done")
    client = create_in_process_client(generate=model, max_turns=2)

    result = await client.run("count", Toolkit([tally]))

    assert (result.status, result.limit, result.turns) == ("incomplete", "max_turns", 2)
    gone_on = await client.run(None, Toolkit([tally]), history=result.messages)
    assert (gone_on.status, gone_on.text) == ("done", "done")
    assert [record.id for record in result.tool_calls] == ["k1", "k9"]


async def test_the_time_limit_interrupts_what_runs():
    """Contract 3.4, 3.6."""

    @define_tool
    async def sleeps() -> str:
        """Never ends."""
        await asyncio.Event().wait()
        return "never"

    model = ScriptedModel(says(call("tally"), call("sleeps")), "on time")
    client = create_in_process_client(generate=model, timeout=0.2)

    result = await client.run("go", Toolkit([tally, sleeps]))

    assert (result.status, result.limit) == ("incomplete", "timeout")
    counted, interrupted = result.tool_calls
    assert (counted.output, counted.is_error) == ("7", False)
    assert interrupted.is_error
    assert interrupted.output.startswith("interrupted")
    gone_on = await client.run("once more", NO_TOOLS, history=result.messages)
    assert gone_on.text == "on time"


@pytest.mark.parametrize("stop", ["length", "content_filter", "refusal"])
async def test_calls_of_a_cut_reply_never_run_and_the_third_in_a_row_is_a_typed_error(stop):
    """E3, E6; contract 3.3."""
    ran = []

    @define_tool
    async def save() -> str:
        """Saves."""
        ran.append(1)
        return "saved"

    cut = [says(call("save", call_id=f"k{at}"), call("moor", call_id=f"m{at}"), stop=stop) for at in range(3)]
    toolkit = Toolkit([save, relay_tool("moor", "moors a boat")])
    with pytest.raises(ModelReplyError) as caught:
        await create_in_process_client(generate=ScriptedModel(*cut)).run("go", toolkit)

    assert ran == []
    assert caught.value.finish_reason == stop
    assert caught.value.transcript is not None
    outputs = [message["content"] for message in caught.value.transcript if message["role"] == "tool"]
    assert len(outputs) == 6
    assert all(output.startswith("not run") for output in outputs)


async def test_a_finish_reason_of_stop_does_not_keep_calls_from_running():
    """E1."""
    model = ScriptedModel(says(call("tally"), stop="stop"), "done")
    await create_in_process_client(generate=model).run("count", Toolkit([tally]))
    assert model.results == ["7"]


async def test_an_empty_reply_after_results_is_a_finished_run():
    """Contract 3.5."""
    model = ScriptedModel(says(call("tally")), "")
    result = await create_in_process_client(generate=model).run("count", Toolkit([tally]))
    assert (result.status, result.text) == ("done", "")


async def test_a_cancelled_run_leaves_a_transcript_that_a_prompt_can_follow():
    """A2, A3, A17, G5."""
    started = asyncio.Event()
    cancelled = []

    @define_tool
    async def sleeps() -> str:
        """Never ends."""
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise
        return "never"

    model = ScriptedModel(says(call("tally"), call("sleeps")), "again")
    client = create_in_process_client(generate=model)
    running = asyncio.create_task(client.run("go", Toolkit([tally, sleeps])))
    await started.wait()
    await asyncio.sleep(0.05)
    running.cancel()

    with pytest.raises(asyncio.CancelledError) as caught:
        await running

    assert cancelled == [True]
    transcript = caught.value.transcript
    outputs = [message["content"] for message in transcript if message["role"] == "tool"]
    assert outputs[0] == "7"
    assert outputs[1].startswith("interrupted")
    result = await client.run("again", NO_TOOLS, history=transcript)
    assert result.text == "again"
    assert len(results(model.requests[-1])) == 2


async def test_a_timeout_of_the_host_cancels_the_run():
    async def generate(request):
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await create_in_process_client(generate=generate).run("hi", NO_TOOLS)
