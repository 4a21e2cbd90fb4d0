"""The dialogues that every driver plays, here through an in-process client."""

import json
from pathlib import Path

import pytest
from stage import Stage

SCENARIOS = sorted((Path(__file__).parent / "scenarios").glob("*.json"))

# What a program cannot do through an in-process client; the machine's own tests play these.
CLOCK, KIND = "the clock is the machine's own", "pending() refuses the kind itself"
REASONED, STOP = "its model has no reasoning", "its model has no such word for why a reply ended"
ELSEWHERE = {
    "answer_after_expiry_is_refused_and_expiry_settles": CLOCK,
    "call_cannot_park_as_a_relay_call": KIND,
    "full_context_window_is_a_typed_error": STOP,
    "pause_of_the_provider_goes_on_and_costs_no_turn": STOP,
    "reply_of_reasoning_only_is_no_silent_success": REASONED,
    "request_that_expires_inline_is_told_apart": CLOCK,
    "third_reply_in_a_row_with_stop_malformed_call_is_a_typed_error": STOP,
    "unknown_stop_word_is_a_plain_end": STOP,
}


def test_the_dialogues_are_there():
    assert len(SCENARIOS) > 70
    assert set(ELSEWHERE) < {file.stem for file in SCENARIOS}


@pytest.mark.parametrize("file", [file for file in SCENARIOS if file.stem not in ELSEWHERE], ids=lambda file: file.stem)
@pytest.mark.parametrize("is_streamed", [False, True], ids=["plain", "streamed"])
async def test_a_dialogue_ends_as_written(file, is_streamed, caplog):
    def warnings():
        texts = [record.getMessage() for record in caplog.records if record.name == "toolrelay.history"]
        caplog.clear()
        return texts

    await Stage(json.loads(file.read_text(encoding="utf-8")), warnings, is_streamed).play()
