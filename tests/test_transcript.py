"""Transcripts and results as values: sequences, JSON twins, pickles and copies (contract 1.6, 9.3)."""

import copy
import json
import pickle
import sys
from collections.abc import Sequence

import pytest
from scripted_model import ScriptedModel, call, says
from toolrelay import (
    InProcessResponse,
    PayloadError,
    RunResult,
    Toolkit,
    Transcript,
    TranscriptError,
    answer_output,
    create_in_process_client,
    define_tool,
    relay_tool,
)

MESSAGES = [
    {"role": "system", "content": "be brief"},
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": "hällo \U0001f98a"},
]
TIDE = relay_tool("tide", "high water")


@define_tool
async def tally(n: int = 1) -> int:
    """Counts."""
    return n + 6


@pytest.fixture
def transcript():
    return Transcript.from_json(json.dumps(MESSAGES))


async def halt():
    usage = {"input_tokens": 9, "output_tokens": 4, "cached_tokens": 5, "cache_write_tokens": 2, "reasoning_tokens": 1}
    made = says(call("tally", '{"n": 2}'), call("tide"), text="let me see")
    reply = InProcessResponse(made.content, made.tool_calls, usage=usage, model="parrot-1")
    return await create_in_process_client(generate=ScriptedModel(reply)).run("go", Toolkit([tally, TIDE]))


def test_a_transcript_is_an_immutable_sequence(transcript):
    assert isinstance(transcript, Sequence)
    assert len(transcript) == 3
    assert list(transcript) == MESSAGES
    assert list(reversed(transcript)) == MESSAGES[::-1]
    assert [transcript[0], transcript[-1]] == [MESSAGES[0], MESSAGES[-1]]
    assert [transcript[1:], transcript[::-1], transcript[5:]] == [MESSAGES[1:], MESSAGES[::-1], []]
    assert MESSAGES[1] in transcript
    assert {"role": "user", "content": "ho"} not in transcript
    assert (transcript.index(MESSAGES[1]), transcript.count(MESSAGES[1])) == (1, 1)
    assert transcript.index(MESSAGES[2], 1) == 2
    for at in (3, -4, 2**70):
        with pytest.raises(IndexError):
            transcript[at]
    with pytest.raises(TypeError):
        transcript["role"]
    with pytest.raises(ValueError, match="not in list"):
        transcript.index({"role": "user"})
    with pytest.raises(TypeError):
        transcript[0] = MESSAGES[0]
    with pytest.raises(AttributeError):
        transcript.halted = True
    with pytest.raises(TypeError):
        Transcript()
    match transcript:
        case [{"role": "system"}, *_, {"role": "assistant", "content": text}]:
            assert text == "hällo \U0001f98a"
        case _:
            pytest.fail("a transcript does not match as a sequence")


def test_changing_a_message_that_was_looked_at_changes_nothing(transcript):
    transcript[1]["content"] = "ho"
    for message in transcript:
        message["content"] = "ho"
    assert transcript == MESSAGES


def test_transcripts_compare_and_hash_by_their_messages(transcript):
    other = Transcript.from_json(transcript.to_json())
    assert transcript == other
    assert hash(transcript) == hash(other)
    assert len({transcript, other}) == 1
    assert transcript == MESSAGES
    assert transcript != MESSAGES[:2]
    assert transcript != Transcript.from_json("[]")
    assert transcript != "hi"


def test_a_transcript_has_a_json_twin(transcript):
    form = json.loads(transcript.to_json())
    assert form == {"format": 1, "messages": MESSAGES}
    for text in (transcript.to_json(), transcript.to_json().decode(), json.dumps(MESSAGES), bytearray(b"[]")):
        assert Transcript.from_json(text) in (transcript, [])


def test_the_bytes_of_a_message_are_kept():
    text = '{"format":1,"messages":[{ "role":"user",  "content":"a\\u00e4 \\/ b" }]}'
    assert b'{ "role":"user",  "content":"a\\u00e4 \\/ b" }' in Transcript.from_json(text).to_json()


def test_bytes_are_held_as_long_as_a_transcript_needs_them():
    document = json.dumps(MESSAGES).encode()
    before = sys.getrefcount(document)
    transcript = Transcript.from_json(document)
    assert sys.getrefcount(document) > before
    del transcript
    assert sys.getrefcount(document) == before


def test_bytes_that_change_later_change_no_transcript():
    document = bytearray(json.dumps(MESSAGES).encode())
    transcript = Transcript.from_json(document)
    document[:] = bytes(len(document))
    assert transcript == MESSAGES


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "7",
        "null",
        '"hi"',
        "[7]",
        '[{"role":"pirate","content":"arr"}]',
        '[{"content":"hi"}]',
        '{"messages":[]}x',
        '{"format":2,"messages":[]}',
        '{"format":1}',
        b"\xff\xfe",
        "[" * 100_000,
    ],
    ids=lambda text: repr(text)[:30],
)
def test_what_is_no_transcript_is_a_typed_error(text):
    with pytest.raises(TranscriptError):
        Transcript.from_json(text)


@pytest.mark.parametrize("value", [None, 7, MESSAGES])
def test_what_is_no_json_is_refused_by_its_type(value):
    with pytest.raises(TypeError):
        Transcript.from_json(value)


def test_a_format_of_a_newer_version_says_so():
    with pytest.raises(TranscriptError, match="2"):
        Transcript.from_json('{"format":2,"messages":[]}')


@pytest.mark.parametrize("twin", [lambda value: pickle.loads(pickle.dumps(value)), copy.deepcopy, copy.copy])
async def test_transcripts_and_results_pickle_and_copy(transcript, twin):
    """I11."""
    assert twin(transcript) == transcript

    halted = await halt()
    same = twin(halted)
    assert isinstance(same, RunResult)
    assert same == halted
    assert (same.status, same.text, same.turns, same.limit) == ("pending", "let me see", 1, None)
    assert (same.model, same.finish_reason, same.usage) == ("parrot-1", "tool_calls", halted.usage)
    assert (same.pending, same.suspensions) == (halted.pending, halted.suspensions)
    assert same.messages.to_json() == halted.messages.to_json()
    assert same.tool_calls == halted.tool_calls
    assert (twin(halted.usage), twin(halted.tool_calls)) == (halted.usage, halted.tool_calls)
    assert (repr(same), repr(same.tool_calls)) == (repr(halted), repr(halted.tool_calls))
    resumed = await create_in_process_client(generate=ScriptedModel("done")).run_with_answer(
        Toolkit([tally, TIDE]), same.messages, same.pending, answer_output(same.pending.id, "4 m")
    )
    assert resumed.status == "done"


async def test_results_compare_whole():
    first, second = await halt(), await halt()
    assert first == first
    assert first != second  # their requests have ids of their own
    assert first.tool_calls == second.tool_calls
    assert first.usage == second.usage
    assert first.usage != "usage"


async def test_a_result_cannot_be_changed():
    halted = await halt()
    record = halted.tool_calls[0]
    record.input["n"] = 3
    assert record.input == {"n": 2}
    for value, name in ((halted, "text"), (record, "output"), (halted.usage, "input_tokens")):
        with pytest.raises(AttributeError):
            setattr(value, name, "x")
        with pytest.raises(TypeError):
            type(value)()
    assert isinstance(halted.tool_calls, tuple)
    assert isinstance(halted.suspensions, tuple)


async def test_results_show_what_helps():
    halted = await halt()
    assert repr(halted).startswith("<RunResult pending: 'let me see', turns=1, waits for tool_call tide [req_")
    assert repr(halted.tool_calls) == "(<ToolCallRecord tally [k1]: ok>, <ToolCallRecord tide [k2]: pending>)"
    assert repr(halted.usage) == "<Usage: 9 in (5 cached), 4 out>"
    long = await create_in_process_client(generate=lambda request: "ä" * 500).run("hi", Toolkit())
    assert len(repr(long)) < 120
    assert "…" in repr(long)
    limited = create_in_process_client(generate=lambda request: says(call("tally", call_id="k1")), max_turns=1)
    assert repr(await limited.run("hi", Toolkit([tally]))) == "<RunResult incomplete (max_turns): '', turns=1>"


def test_a_transcript_reads_the_anthropic_shape():
    """Contract 6.11."""
    history = [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "look"},
                {"type": "tool_use", "id": "t1", "name": "tide", "input": {"port": "Ames"}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "4 m", "is_error": True}]},
    ]
    read = Transcript.from_json(json.dumps(history))
    assert [message["role"] for message in read] == ["user", "assistant", "tool"]
    function = read[1]["tool_calls"][0]["function"]
    assert (function["name"], json.loads(function["arguments"])) == ("tide", {"port": "Ames"})
    assert (read[2]["tool_call_id"], read[2]["content"], read[2]["toolrelay"]["outcome"]) == ("t1", "4 m", "error")


async def test_a_transcript_survives_any_json_library(transcript):
    """C7, C11: sorted, re-spaced and re-escaped, it is the same conversation."""
    halted = await halt()
    again = json.dumps(json.loads(halted.messages.to_json()), sort_keys=True, indent=2, ensure_ascii=True)
    resumed = await create_in_process_client(generate=ScriptedModel("done")).run_with_answer(
        Toolkit([tally, TIDE]), again, halted.pending, answer_output(halted.pending.id, "4 m")
    )
    assert resumed.status == "done"
    assert resumed.messages[1]["tool_calls"][0]["function"]["arguments"] == '{"n": 2}'


async def test_a_dict_that_json_cannot_hold_is_refused_by_its_place():
    with pytest.raises(PayloadError, match=r"history\[0\].content"):
        await create_in_process_client(generate=ScriptedModel()).run(
            "hi", Toolkit(), history=[{"role": "user", "content": {1}}]
        )
