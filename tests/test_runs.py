"""Runs from a prompt to the end: tools, turns, limits, failures, cancellation (contract 2, 3, 6.10, 9.1)."""

import asyncio
import contextvars
import copy
import json
import threading

import pytest
from scripted_model import ScriptedModel, call, results, says
from toolrelay import (
    ConfigurationError,
    GenerateError,
    Image,
    InProcessResponse,
    InProcessToolCall,
    ModelReplyError,
    PayloadError,
    Text,
    ToolContext,
    ToolError,
    Toolkit,
    ToolkitError,
    ToolRelayError,
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


async def test_the_model_is_asked_in_the_shape_of_chat_completions():
    model = ScriptedModel(says(call("tally", '{"n": 2}')), "8")
    client = create_in_process_client(generate=model, system_prompt="be brief")

    await client.run("count", Toolkit([tally]))

    schema = {"additionalProperties": False, "properties": {"n": {"default": 1, "type": "integer"}}, "type": "object"}
    function = {"name": "tally", "description": "Counts.", "parameters": schema}
    assert [request.tools for request in model.requests] == [[{"type": "function", "function": function}]] * 2
    assert model.requests[1].messages == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "count"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "k1", "type": "function", "function": {"name": "tally", "arguments": '{"n": 2}'}}],
        },
        {"role": "tool", "tool_call_id": "k1", "content": "8"},
    ]


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


async def test_a_failed_model_call_keeps_the_transcript_and_the_exception():
    """G7; contract 6.10: nothing that was done is done again."""
    counted = []

    @define_tool
    async def save() -> str:
        """Saves."""
        counted.append(1)
        return "saved"

    broken = OSError("no route")
    model = ScriptedModel(says(call("save")), broken, "done")
    client = create_in_process_client(generate=model)

    with pytest.raises(GenerateError, match="no route") as caught:
        await client.run("save", Toolkit([save]))

    assert caught.value.__cause__ is broken
    assert caught.value.transcript is not None
    result = await client.run(None, Toolkit([save]), history=caught.value.transcript)
    assert (result.text, counted, model.results) == ("done", [1], ["saved"])


@pytest.mark.parametrize("made", [None, 7, ["a"], InProcessResponse(content=None), {"tool_calls": [{}]}])
async def test_what_is_no_reply_is_an_error_that_says_so(made):
    with pytest.raises(GenerateError) as caught:
        await create_in_process_client(generate=lambda request: made).run("hi", NO_TOOLS)
    assert caught.value.__cause__ is not None
    assert caught.value.kind == "generate"


async def test_a_dict_in_the_shape_of_chat_completions_is_a_reply():
    function = {"name": "tally", "arguments": '{"n":  2}'}
    message = {"role": "assistant", "content": None, "tool_calls": [{"id": "k1", "function": function}]}
    model = ScriptedModel(message, {"role": "assistant", "content": "8"})

    result = await create_in_process_client(generate=model).run("count", Toolkit([tally]))

    assert (result.text, result.tool_calls[0].arguments) == ("8", '{"n":  2}')


async def test_a_plain_function_may_be_the_model_and_runs_in_a_thread_with_the_context_of_the_caller():
    request_id = contextvars.ContextVar("request_id", default="none")
    seen = []

    def generate(request):
        seen.append((request_id.get(), threading.current_thread() is threading.main_thread()))
        return "ok"

    client = create_in_process_client(generate=generate)

    async def run(name):
        request_id.set(name)
        await client.run("hi", NO_TOOLS)

    await asyncio.gather(run("r1"), run("r2"))
    assert sorted(seen) == [("r1", False), ("r2", False)]


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


HISTORY = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
FORMS = {
    "list": HISTORY,
    "tuple": tuple(HISTORY),
    "transcript": Transcript.from_json(json.dumps(HISTORY)),
    "json text": json.dumps(HISTORY),
    "json bytes": json.dumps(HISTORY).encode(),
    "json of a transcript": Transcript.from_json(json.dumps(HISTORY)).to_json(),
    "dict of a transcript": {"format": 1, "messages": HISTORY},
}


@pytest.mark.parametrize("history", FORMS.values(), ids=FORMS)
async def test_a_history_goes_on_in_whatever_form_it_comes(history):
    before = copy.deepcopy(history)
    model = ScriptedModel("fine")

    result = await create_in_process_client(generate=model).run("how are you?", NO_TOOLS, history=history)

    assert history == before
    assert model.requests[0].messages == [*HISTORY, {"role": "user", "content": "how are you?"}]
    assert len(result.messages) == 4


@pytest.mark.parametrize("history", ["{", "7", [7], [{"role": "pirate", "content": "arr"}], b"\xff", 7, {"a": 1}])
async def test_what_is_no_history_is_an_error_of_this_library(history):
    with pytest.raises(ToolRelayError):
        await create_in_process_client(generate=ScriptedModel()).run("hi", NO_TOOLS, history=history)


async def test_a_result_passed_as_a_history_is_refused_with_a_hint():
    client = create_in_process_client(generate=ScriptedModel("one"))
    result = await client.run("hi", NO_TOOLS)
    with pytest.raises(PayloadError, match="got RunResult: pass its messages"):
        await client.run("hi", NO_TOOLS, history=result)


MAP = "https://example.org/map.png"
PARTS = [{"type": "text", "text": "what is this?"}, {"type": "image_url", "image_url": {"url": MAP}}]


@pytest.mark.parametrize("prompt", [PARTS, tuple(PARTS), [Text("what is this?"), Image(url=MAP)]])
async def test_a_prompt_may_be_parts(prompt):
    model = ScriptedModel("a map")
    await create_in_process_client(generate=model).run(prompt, NO_TOOLS)
    assert model.requests[0].messages == [{"role": "user", "content": PARTS}]


@pytest.mark.parametrize(
    "prompt", [7, b"hi", ["hi"], [{"text": "hi"}], {"type": "text", "text": "hi"}, [{"type": "text", "x": {1}}]]
)
async def test_what_is_no_prompt_is_an_error_that_names_the_place(prompt):
    with pytest.raises(PayloadError, match="prompt"):
        await create_in_process_client(generate=ScriptedModel()).run(prompt, NO_TOOLS)


async def test_tools_without_a_toolkit_are_an_error_that_says_what_to_do():
    with pytest.raises(ToolkitError, match=r"got list: make one with Toolkit\(\[...\]\)"):
        await create_in_process_client(generate=ScriptedModel()).run("hi", [tally])


async def test_an_unknown_choice_is_an_error_that_names_its_parameter():
    with pytest.raises(PayloadError, match="on_pending: expected 'error' or 'supersede'"):
        await create_in_process_client(generate=ScriptedModel()).run("hi", NO_TOOLS, on_pending="wait")


async def test_without_a_prompt_there_must_be_something_to_go_on_from():
    client = create_in_process_client(generate=ScriptedModel())
    for history in (None, [], HISTORY):
        with pytest.raises(ToolRelayError, match="nothing to go on from"):
            await client.run(None, NO_TOOLS, history=history)


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


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("ok \ud83d", "ok \ufffd"),
        ("a\0b", "a\ufffdb"),
        ("a\\u0000b", "a\\u0000b"),
        ("\U0001f98a" * 10, "\U0001f98a" * 10),
    ],
    ids=["lone surrogate", "nul", "escaped nul as text", "pairs"],
)
async def test_odd_text_never_poisons_a_transcript(text, kept):
    """C6, C7; contract 9.5: in a prompt, a history, a tool's output and a model's reply."""

    @define_tool
    async def odd() -> str:
        """Returns the text."""
        return text

    model = ScriptedModel(says(call("odd"), text=text), InProcessResponse(text))
    history = [{"role": "user", "content": text}, {"role": "assistant", "content": text}]

    result = await create_in_process_client(generate=model).run(text, Toolkit([odd]), history=history)

    assert result.text == kept
    assert [message["content"] for message in result.messages] == [kept] * 6
    assert b"\\u0000" not in result.messages.to_json().replace(rb"\\u0000", b"")
    assert Transcript.from_json(result.messages.to_json()) == result.messages


async def test_ten_megabytes_of_text_are_an_output_like_any_other():
    @define_tool
    async def large() -> str:
        """Returns much."""
        return "ä" * 5_000_000

    model = ScriptedModel(says(call("large")), "done")
    result = await create_in_process_client(generate=model).run("go", Toolkit([large]))
    assert result.tool_calls[0].output == "ä" * 5_000_000


async def test_a_broken_history_is_mended_with_a_warning(caplog):
    """A1, A5; contract 6.12."""
    history = [
        {"role": "tool", "tool_call_id": "k0", "content": "orphan"},
        {"role": "user", "content": "count both"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": name, "type": "function", "function": {"name": "tally", "arguments": "{}"}}
                for name in ("k1", "k2")
            ],
        },
        {"role": "tool", "tool_call_id": "k1", "content": "7"},
        {"role": "user", "content": "carry on"},
    ]
    model = ScriptedModel("done", "done")
    client = create_in_process_client(generate=model)

    once = await client.run(None, Toolkit([tally]), history=history)

    assert [record.name for record in caplog.records] == ["toolrelay.history"] * 2
    assert "k0" in caplog.text
    assert "k2" in caplog.text
    roles = [message["role"] for message in once.messages]
    assert roles == ["user", "assistant", "tool", "tool", "user", "assistant"]
    caplog.clear()
    await client.run("more", Toolkit([tally]), history=once.messages)
    assert not caplog.records


async def test_two_different_results_for_one_call_are_an_error():
    """A11."""
    history = [
        {"role": "user", "content": "count"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "k1", "type": "function", "function": {"name": "tally", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "k1", "content": "7"},
        {"role": "tool", "tool_call_id": "k1", "content": "8"},
    ]
    with pytest.raises(ToolRelayError, match="k1"):
        await create_in_process_client(generate=ScriptedModel()).run("go on", NO_TOOLS, history=history)


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ({"generate": "gpt"}, "generate must be a function, not str"),
        ({"wait_for": 7}, "wait_for must be a function, not int"),
        ({"max_turns": 0}, "max_turns must be a whole number from 1 on, not 0"),
        ({"max_turns": True}, "max_turns must be a whole number from 1 on, not True"),
        ({"timeout": 0}, "timeout must be a positive number of seconds, not 0"),
        ({"timeout": float("nan")}, "timeout must be a positive number of seconds, not NaN"),
        ({"timeout": "soon"}, "timeout must be a positive number of seconds, not 'soon'"),
        ({"lease": -1}, "lease must be a positive number of seconds, not -1"),
        ({"store": "here"}, "store must be a MemoryStore or a SqliteStore"),
        ({"system_prompt": 7}, "system_prompt must be text, not int"),
    ],
)
def test_a_setting_that_cannot_work_is_refused_by_name(setting, says):
    with pytest.raises(ConfigurationError) as caught:
        create_in_process_client(**{"generate": ScriptedModel(), **setting})
    assert says in str(caught.value)
