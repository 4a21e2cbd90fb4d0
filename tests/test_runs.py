"""Runs from a prompt to the end: turns, tools and their arguments, loops and contexts (contract 2, 3, 9.1)."""

import asyncio
import contextvars

import pytest
from scripted_model import ScriptedModel, call, says
from toolrelay import (
    InProcessResponse,
    InProcessToolCall,
    ToolContext,
    ToolError,
    Toolkit,
    Transcript,
    create_in_process_client,
    define_tool,
    relay_tool,
)

NO_TOOLS = Toolkit()


@define_tool
async def tally(n: int = 1) -> int:
    """Counts."""
    return n + 6


async def test_a_prompt_gets_the_reply_of_the_model():
    usage = {"input_tokens": 9, "output_tokens": 4, "cached_tokens": 5, "reasoning_tokens": 1}
    client = create_in_process_client(
        generate=ScriptedModel(InProcessResponse("hello", usage=usage, model="parrot-1")), system_prompt="be brief"
    )

    result = await client.run("hi", NO_TOOLS)

    assert (result.status, result.text, result.turns, result.limit) == ("done", "hello", 1, None)
    assert (result.model, result.finish_reason) == ("parrot-1", "stop")
    assert (result.pending, result.suspensions, result.tool_calls) == (None, (), ())
    used = result.usage
    assert (used.input_tokens, used.output_tokens, used.cached_tokens, used.reasoning_tokens) == (9, 4, 5, 1)
    assert result.messages == [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]


async def test_usage_adds_up_over_the_turns():
    first = InProcessResponse(
        tool_calls=[call("tally", call_id="k1")], usage={"prompt_tokens": 10, "completion_tokens": 2}
    )
    client = create_in_process_client(
        generate=ScriptedModel(first, InProcessResponse("7", usage={"input_tokens": 20, "output_tokens": 3}))
    )

    result = await client.run("count", Toolkit([tally]))

    assert (result.turns, result.usage.input_tokens, result.usage.output_tokens) == (2, 30, 5)


async def test_calls_of_a_turn_start_together_and_their_results_stand_in_call_order():
    """Contract 3.1, 3.2."""
    both, last_first = asyncio.Barrier(2), asyncio.Event()

    @define_tool
    async def slow() -> str:
        """Ends last."""
        await both.wait()
        await last_first.wait()
        return "slow"

    @define_tool
    async def quick() -> str:
        """Ends first."""
        await both.wait()
        last_first.set()
        return "quick"

    model = ScriptedModel(says(call("slow"), call("quick")), "done")
    result = await create_in_process_client(generate=model).run("both", Toolkit([slow, quick]))

    assert model.results == ["slow", "quick"]
    assert [record.output for record in result.tool_calls] == ["slow", "quick"]


async def test_a_tool_that_raises_leaves_its_siblings_alone():
    """Contract 2.6."""

    @define_tool
    def reef() -> str:
        """Raises."""
        raise ValueError("reef")

    @define_tool
    def refuse() -> str:
        """Raises a text for the model."""
        raise ToolError("no such city")

    model = ScriptedModel(says(call("reef"), call("tally"), call("refuse")), "done")
    result = await create_in_process_client(generate=model).run("all", Toolkit([reef, tally, refuse]))

    assert model.results == ["ValueError: reef", "7", "no such city"]
    assert [record.is_error for record in result.tool_calls] == [True, False, True]
    assert result.status == "done"


async def test_an_unknown_tool_is_an_error_result_that_lists_the_known_ones_and_reaches_no_host():
    """J10; contract 2.5."""
    model = ScriptedModel(says(call("tallly"), call("tally")), "done")
    toolkit = Toolkit([tally, relay_tool("moor", "moors a boat")])

    result = await create_in_process_client(generate=model).run("count", toolkit)

    assert result.status == "done"
    unknown, known = result.tool_calls
    assert unknown.is_error
    assert 'unknown tool "tallly": the tools are tally, moor' in unknown.output
    assert (known.output, known.is_error) == ("7", False)


@pytest.mark.parametrize("arguments", ["", "  ", "null", "{}"])
async def test_empty_arguments_are_an_empty_object(arguments):
    """C1."""
    model = ScriptedModel(says(call("tally", arguments)), "done")
    await create_in_process_client(generate=model).run("count", Toolkit([tally]))
    assert model.results == ["7"]


@pytest.mark.parametrize(
    "arguments",
    [
        "[]",
        "5",
        '"x"',
        '{"n": 1',
        '{"n":1}{"n":2}',
        '{"n": NaN}',
        '{"n": 1e400}',
        '{"n": 1, "n": 2}',
        '{"n": "one"}',
        '{"m": 1}',
        '{"a":' * 5000 + "1" + "}" * 5000,
    ],
    ids=lambda text: text[:20],
)
async def test_bad_arguments_are_an_error_result_and_nothing_runs(arguments):
    """C1, C2, C8, C9, C10, C12; contract 2.4."""
    ran = []

    @define_tool
    async def save(n: int = 1) -> str:
        """Saves."""
        ran.append(n)
        return "saved"

    model = ScriptedModel(says(call("save", arguments), call("moor", arguments)), "done")
    toolkit = Toolkit([save, relay_tool("moor", "moors a boat", save.schema)])

    result = await create_in_process_client(generate=model).run("go", toolkit)

    assert result.status == "done"
    assert ran == []
    assert [record.is_error for record in result.tool_calls] == [True, True]
    assert all("arguments" in record.output for record in result.tool_calls)
    assert [record.arguments for record in result.tool_calls] == [arguments] * 2
    assert all(isinstance(record.input, dict) for record in result.tool_calls)
    assert Transcript.from_json(result.messages.to_json()) == result.messages


async def test_integers_of_any_size_reach_the_tool_exact():
    """Contract 2.4."""
    got = []

    @define_tool
    async def hold(n: int) -> int:
        """Gives the number back."""
        got.append(n)
        return n

    big, digits = 10**5000 + 7, "1" + "0" * 4999 + "7"
    model = ScriptedModel(says(call("hold", f'{{"n": {digits}}}')), "done")
    result = await create_in_process_client(generate=model).run("hold it", Toolkit([hold]))

    assert [value == big for value in got] == [True]
    assert model.requests[-1].messages[-1]["content"] == digits
    assert (result.tool_calls[0].input == {"n": big}) is True


async def test_missing_empty_and_repeated_ids_become_new_ones():
    """B4, B5, B6; contract 1.7."""
    same = [InProcessToolCall("tally", {"n": n}, call_id) for n, call_id in enumerate(["k1", "k1", "", None])]
    model = ScriptedModel(InProcessResponse(tool_calls=same), says(call("tally", {"n": 4})), "done")

    result = await create_in_process_client(generate=model).run("count", Toolkit([tally]))

    ids = [record.id for record in result.tool_calls]
    assert ids[0] == "k1"
    assert len(set(ids)) == 5
    assert [record.output for record in result.tool_calls] == ["6", "7", "8", "9", "10"]
    assert [message["tool_call_id"] for message in result.messages if message["role"] == "tool"] == ids


async def test_a_tool_sees_its_call_and_a_key_that_is_the_same_on_every_run():
    seen = []

    @define_tool
    async def note(context: ToolContext) -> str:
        """Notes."""
        seen.append((context.call_id, context.tool, context.answer, context.cancelled, context.idempotency_key))
        return "noted"

    model = ScriptedModel(says(call("note", call_id="c9")), "done")
    await create_in_process_client(generate=model).run("note", Toolkit([note]))

    ((call_id, tool, answer, cancelled, key),) = seen
    assert (call_id, tool, answer, cancelled) == ("c9", "note", None, False)
    assert "c9" in key


async def test_tools_see_the_context_variables_of_their_run():
    """I7."""
    request_id = contextvars.ContextVar("request_id", default="none")

    @define_tool
    async def on_loop() -> str:
        """On the loop."""
        return request_id.get()

    @define_tool
    def in_thread() -> str:
        """In a thread."""
        return request_id.get()

    async def run(name):
        request_id.set(name)
        model = ScriptedModel(says(call("on_loop"), call("in_thread")), "done")
        await create_in_process_client(generate=model).run("go", Toolkit([on_loop, in_thread]))
        return model.results

    assert await asyncio.gather(run("r1"), run("r2")) == [["r1", "r1"], ["r2", "r2"]]


async def test_a_thousand_runs_at_once_keep_their_own_answers():
    """Contract 9.1."""
    client = create_in_process_client(generate=lambda request: request.messages[-1]["content"])

    async def echo(text):
        return (await client.run(text, NO_TOOLS)).text

    texts = [f"prompt {at}" for at in range(1000)]
    assert await asyncio.gather(*map(echo, texts)) == texts


def test_one_client_works_on_any_number_of_loops_and_without_one():
    """I1."""
    client = create_in_process_client(generate=lambda request: "ok")
    assert asyncio.run(client.run("a", NO_TOOLS)).text == "ok"
    assert asyncio.run(client.run("b", NO_TOOLS)).text == "ok"
    assert client.run_sync("c", NO_TOOLS).text == "ok"


async def test_the_sync_twin_works_inside_a_running_loop():
    """I2."""
    name = contextvars.ContextVar("name", default="none")
    name.set("caller")
    client = create_in_process_client(generate=lambda request: name.get())
    assert client.run_sync("a", NO_TOOLS).text == "caller"
