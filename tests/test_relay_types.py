"""Requests, answers, relay calls and results as values and as JSON (contract 1.1 to 1.6)."""

import copy
import dataclasses
import json
import pickle
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolrelay.errors import PayloadError, ToolRelayError
from toolrelay.relay import (
    RELAY_KIND,
    RELAY_OUTPUT_KEY,
    Answer,
    RelayCall,
    RelayResult,
    Request,
    answer_declined,
    answer_output,
    is_relay_request,
    relay_answer,
    relay_calls_of,
)

CALL = RelayCall("call_1", "lookup", {"q": "tide"}, '{ "q":"tide" }')
RELAY = Request("req_1", RELAY_KIND, "waiting", data={"calls": [CALL.to_dict()]})

text = st.text(st.characters(exclude_categories=()), max_size=20)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3))
objects = st.dictionaries(text, values, max_size=3)
zones = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
instants = st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=zones)  # noqa: DTZ001 - the zones come beside
requests = st.builds(
    Request,
    text,
    text,
    text,
    url=st.none() | text,
    data=st.none() | objects,
    expires_at=st.none() | instants,
)
answers = st.builds(Answer, text, ok=st.just(True), data=st.none() | objects) | st.builds(
    Answer, text, ok=st.just(False), data=st.none() | objects, reason=st.sampled_from([None, "declined", "expired"])
)
calls = st.builds(RelayCall, text, text, objects, text)
results = st.builds(RelayResult, text, values, st.booleans(), st.none() | st.lists(objects, max_size=2))


@given(requests | answers | calls | results)
def test_every_value_round_trips_through_json(value):
    assert type(value).from_json(value.to_json()) == value
    assert type(value).from_dict(value.to_dict()) == value
    assert json.loads(value.to_json()) == value.to_dict()


@given(requests | answers | calls | results)
def test_every_value_pickles_and_copies(value):
    assert pickle.loads(pickle.dumps(value)) == value
    assert copy.deepcopy(value) == value
    assert hash(copy.copy(value)) == hash(value)


def test_request_has_exactly_the_keys_of_the_contract():
    full = Request("req_1", "approval", "Pay?", "https://pay.example", {"sum": 30}, datetime(2026, 1, 31, tzinfo=UTC))
    assert full.to_dict() == {
        "id": "req_1",
        "kind": "approval",
        "prompt": "Pay?",
        "url": "https://pay.example",
        "data": {"sum": 30},
        "expiresAt": "2026-01-31T00:00:00Z",
    }
    assert Request("req_1", "approval", "Pay?").to_dict() == {"id": "req_1", "kind": "approval", "prompt": "Pay?"}


def test_answers_have_exactly_the_keys_of_the_contract():
    assert answer_output("req_1", "sunny").to_dict() == {"id": "req_1", "ok": True, "data": {"output": "sunny"}}
    assert answer_declined("req_1").to_dict() == {"id": "req_1", "ok": False}
    assert answer_declined("req_1", "cancelled").to_dict() == {"id": "req_1", "ok": False, "reason": "cancelled"}
    assert relay_answer("req_1", [RelayResult("a", "x"), RelayResult("b", [1], is_error=True)]).to_dict() == {
        "id": "req_1",
        "ok": True,
        "data": {
            "results": [
                {"id": "a", "output": "x", "isError": False},
                {"id": "b", "output": [1], "isError": True},
            ]
        },
    }
    assert RELAY_OUTPUT_KEY == "output"


def test_unknown_keys_are_ignored_on_input():
    assert Answer.from_dict({"id": "a", "ok": True, "from": "tomorrow"}) == Answer("a", ok=True)


def test_null_optionals_count_as_absent():
    request = Request.from_dict({"id": "a", "kind": "k", "prompt": "p", "url": None, "data": None, "expiresAt": None})
    assert request.to_dict() == {"id": "a", "kind": "k", "prompt": "p"}
    assert Answer.from_dict({"id": "a", "ok": False, "reason": ""}) == answer_declined("a")


@pytest.mark.parametrize("output", [False, 0, "", [], {}, None])
def test_falsy_outputs_are_answers(output):
    """Contract 6.9."""
    answer = Answer.from_json(answer_output("a", output).to_json())
    assert answer.data == {"output": output}
    assert type(answer.data["output"]) is type(output)
    assert RelayResult.from_json(RelayResult("c", output).to_json()).output == output


def test_an_absent_output_is_no_result():
    with pytest.raises(PayloadError, match="output: missing") as caught:
        RelayResult.from_dict({"id": "c"})
    assert caught.value.key == "output"


WRONG = [
    (lambda: answer_output(7, "x"), "id"),
    (lambda: answer_output("a", {1, 2}), "data.output"),
    (lambda: answer_output("a", b"raw"), "data.output"),
    (lambda: answer_output("a", float("nan")), "data.output"),
    (lambda: answer_output("a", {"x": [1, {"y": float("-inf")}]}), "data.output.x[1].y"),
    (lambda: answer_output("a", {1: "x"}), "data.output[1]"),
    (lambda: answer_output("a", object()), "data.output"),
    (lambda: Answer("a", ok="yes"), "ok"),
    (lambda: Answer("a", ok=True, data=["output"]), "data"),
    (lambda: Answer("a", ok=True, reason="declined"), "reason"),
    (lambda: answer_declined("a", "busy"), "reason"),
    (lambda: Answer.from_dict({"ok": True}), "id"),
    (lambda: Answer.from_dict(["a"]), ""),
    (lambda: Answer.from_json("{"), ""),
    (lambda: Answer.from_json(b'{"id":"a","ok":true,"data":{"output":NaN}}'), ""),
    (lambda: Answer.from_json(b"\xff"), ""),
    (lambda: Answer.from_json("[" * 100_000), ""),
    (lambda: Request("a", "k", None), "prompt"),
    (lambda: Request("a", "k", "p", url=1), "url"),
    (lambda: Request("a", "k", "p", expires_at="2026-01-01T00:00:00Z"), "expires_at"),
    (lambda: Request("a", "k", "p", expires_at=datetime(2026, 1, 1)), "expires_at"),  # noqa: DTZ001
    (lambda: Request("a", "k", "p", expires_at=datetime.min.replace(tzinfo=timezone.max)), "expires_at"),
    (lambda: RelayCall("a", "n", [], "[]"), "input"),
    (lambda: RelayResult("a", "x", is_error=0), "isError"),
    (lambda: RelayResult("a", "x", parts={"type": "text"}), "parts"),
    (lambda: RelayResult("a", "x", parts=["text"]), "parts[0]"),
    (lambda: relay_answer("a", ["x"]), "results[0]"),
    (lambda: relay_answer("a", RelayResult("a", "x")), "results"),
]


@pytest.mark.parametrize(("make", "key"), WRONG, ids=range(len(WRONG)))
def test_wrong_values_raise_at_once_and_name_the_key(make, key):
    with pytest.raises(PayloadError) as caught:
        make()
    assert caught.value.key == key
    assert str(caught.value).startswith(f"{key}: " if key else ("expected", "not JSON"))
    assert isinstance(caught.value, ToolRelayError)


@pytest.mark.parametrize(
    "bad", ["2026-01-31", "2026-01-31T09:30:00", "2026-W01-1T00:00:00Z", "20260131T093000Z", "soon"]
)
def test_expires_at_takes_rfc_3339_only(bad):
    with pytest.raises(PayloadError, match="expiresAt: not an RFC 3339 time"):
        Request.from_dict({"id": "a", "kind": "k", "prompt": "p", "expiresAt": bad})


@pytest.mark.parametrize(
    "good",
    ["2026-01-31T09:30:00Z", "2026-01-31t09:30:00z", "2026-01-31 11:30:00+02:00", "2026-01-31T09:30:00.000000001Z"],
)
def test_expires_at_is_one_instant_in_every_spelling(good):
    request = Request.from_dict({"id": "a", "kind": "k", "prompt": "p", "expiresAt": good})
    assert request.expires_at == datetime(2026, 1, 31, 9, 30, tzinfo=UTC)
    assert request.to_dict()["expiresAt"] == "2026-01-31T09:30:00Z"


def test_c6_lone_surrogates_and_c7_nul_become_the_replacement_character():
    answer = answer_output("a", {"k\0": ["ok \ud83d", "\ud83d\ude00", "a\\u0000b"]})
    assert answer.data == {"output": {"k\ufffd": ["ok \ufffd", "\U0001f600", "a\\u0000b"]}}
    assert Answer.from_json(rb'{"id":"\u0000","ok":true,"data":{"output":"\ud83d"}}') == answer_output("\0", "\ud83d")
    assert b"\\u0000" not in answer_output("\0", "\0").to_json()


def test_integers_of_any_size_round_trip_exact():
    huge = -(10**6000) - 7
    answer = answer_output("a", [huge, {"n": huge}, True])
    assert Answer.from_json(answer.to_json()) == answer
    assert answer.data["output"][1]["n"] == huge


def test_values_nested_too_deep_or_in_themselves_are_refused():
    loop = []
    loop.append(loop)
    deep = [[]]
    for _ in range(5000):
        deep = [deep]
    for value in (loop, deep):
        with pytest.raises(PayloadError, match="nested deeper than 100 levels, or holds itself"):
            answer_output("a", value)


def test_values_are_frozen_and_own_their_data():
    given_data = {"calls": [{"id": "x"}]}
    request = Request("a", "k", "p", data=given_data)
    given_data["calls"].clear()
    request.to_dict()["data"].clear()
    assert request.data == {"calls": [{"id": "x"}]}
    with pytest.raises(dataclasses.FrozenInstanceError):
        request.id = "b"
    assert dataclasses.replace(request, id="b") == Request("b", "k", "p", data=request.data)
    assert len({request, Request("a", "k", "p", data=request.data), answer_output("a", 1)}) == 2


def test_relay_calls_are_read_in_order():
    other = RelayCall("call_2", "lookup", {}, "")
    request = dataclasses.replace(RELAY, data={"calls": [CALL.to_dict(), other.to_dict()]})
    assert is_relay_request(request)
    assert relay_calls_of(request) == [CALL, other]


def test_other_kinds_have_no_relay_calls():
    approval = Request("req_1", "approval", "Pay?", data={"calls": [CALL.to_dict()]})
    assert not is_relay_request(approval)
    assert relay_calls_of(approval) == []


@pytest.mark.parametrize(
    ("data", "key"),
    [
        (None, "data.calls"),
        ({"calls": {}}, "data.calls"),
        ({"calls": [CALL.to_dict(), {"id": "x", "name": "n", "input": {}}]}, "data.calls[1].arguments"),
        ({"calls": ["x"]}, "data.calls[0]"),
    ],
)
def test_a_relay_request_that_cannot_be_read_is_an_error(data, key):
    with pytest.raises(PayloadError) as caught:
        relay_calls_of(dataclasses.replace(RELAY, data=data))
    assert caught.value.key == key
