"""What a run is given: histories, prompts, odd text, settings (contract 6.12, 9.5)."""

import copy
import json

import pytest
from scripted_model import ScriptedModel, call, says
from toolrelay import (
    Answer,
    ConfigurationError,
    Image,
    InProcessResponse,
    MemoryStore,
    PayloadError,
    RelayResult,
    Text,
    Toolkit,
    ToolkitError,
    ToolRelayError,
    Transcript,
    create_in_process_client,
    define_tool,
)
from toolrelay.stores import Lease, Write

NO_TOOLS = Toolkit()


@define_tool
async def tally(n: int = 1) -> int:
    """Counts."""
    return n + 6


HISTORY = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
FORMS = {
    "list": HISTORY,
    "tuple": tuple(HISTORY),
    "transcript": Transcript.from_json(json.dumps(HISTORY)),
    "json text": json.dumps(HISTORY),
    "json bytes": json.dumps(HISTORY).encode(),
    "json in a buffer": bytearray(json.dumps(HISTORY).encode()),
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


async def test_a_warning_about_a_stored_conversation_names_it(caplog):
    call = {"id": "k1", "type": "function", "function": {"name": "tally", "arguments": "{}"}}
    called = {"role": "assistant", "content": None, "tool_calls": [call]}
    rows = [json.dumps(message).encode() for message in ({"role": "user", "content": "count"}, called)]
    store = MemoryStore()
    await store.commit("c-1", Write(0, 1, 0, "running", 1, Lease("dead", 1, 1), tuple(enumerate(rows)), ()))
    client = create_in_process_client(generate=ScriptedModel("done"), store=store)
    await client.recover(Toolkit([tally]), "c-1")
    told = [record.getMessage() for record in caplog.records if record.name == "toolrelay.history"]
    assert [text[:19] for text in told] == ["conversation 'c-1':"]


@pytest.mark.parametrize("prompt", [Image(b"x", "image/png"), ["see", Image(b"x", "image/png")], [Text("see"), "this"]])
async def test_a_prompt_is_a_part_or_parts_and_text_among_them(prompt):
    model = ScriptedModel("fine")
    await create_in_process_client(generate=model).run(prompt, NO_TOOLS)
    parts = prompt if isinstance(prompt, list) else [prompt]
    as_parts = [Text(part).to_dict() if isinstance(part, str) else part.to_dict() for part in parts]
    assert model.requests[0].messages[0]["content"] == as_parts


async def test_what_stands_for_a_request_or_an_answer_is_told_how_to_make_one():
    client = create_in_process_client(generate=ScriptedModel())
    answer = Answer("req_1", True)
    with pytest.raises(PayloadError, match=r"expected an Answer, got dict: Answer\.from_dict makes one"):
        await client.ask_with_answer(NO_TOOLS, "c-1", "req_1", answer.to_dict())
    with pytest.raises(PayloadError, match=r"expected a Request, got dict: Request\.from_dict makes one"):
        await client.run_with_answer(NO_TOOLS, [], {"id": "req_1"}, answer)
    with pytest.raises(PayloadError, match="expected a Request or its id, got int"):
        await client.ask_with_answer(NO_TOOLS, "c-1", 7, answer)
    with pytest.raises(PayloadError, match="Image is not a JSON value: it goes under `parts`"):
        RelayResult("k1", Image(b"x", "image/png"))


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
    "prompt", [7, b"hi", [["hi"]], [{"text": "hi"}], {"type": "text", "text": "hi"}, [{"type": "text", "x": {1}}]]
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


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ({"generate": "gpt"}, "generate must be a function, not str"),
        ({"wait_for": 7}, "wait_for must be a function, not int"),
        ({"max_turns": 0}, "max_turns must be a whole number from 1 on, not 0"),
        ({"max_turns": True}, "max_turns must be a whole number from 1 on, not True"),
        ({"timeout": 0}, "timeout must be a positive number of seconds, not 0"),
        ({"timeout": float("nan")}, "timeout must be a positive number of seconds, not nan"),
        ({"timeout": "soon"}, "timeout must be a positive number of seconds, not 'soon'"),
        ({"lease": -1}, "lease must be a positive number of seconds, not -1"),
        ({"store": "here"}, "store must have the methods of toolrelay.stores.Store"),
        ({"system_prompt": 7}, "system_prompt must be text, not int"),
    ],
)
def test_a_setting_that_cannot_work_is_refused_by_name(setting, says):
    with pytest.raises(ConfigurationError) as caught:
        create_in_process_client(**{"generate": ScriptedModel(), **setting})
    assert says in str(caught.value)
