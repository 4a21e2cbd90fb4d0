"""The classes of events: values that compare, match, show themselves, and travel (contract 9.2, 9.3)."""

import copy
import pickle

import pytest
from harbour import NO_TOOLS
from scripted_model import client_for
from toolrelay import Request, events
from toolrelay.events import (
    ArgumentsDelta,
    CallReady,
    CallStarted,
    Done,
    Event,
    Parked,
    ReasoningDelta,
    TextDelta,
    ToolEnded,
    ToolStarted,
    UsageReported,
)

REQUEST = Request("req_1", "approval", "Pay?", data={"amount": 1})
PLAIN = [
    (TextDelta("hi"), "TextDelta(text='hi')"),
    (ReasoningDelta("hm"), "ReasoningDelta(text='hm')"),
    (CallStarted(0, "tide"), "CallStarted(index=0, name='tide')"),
    (ArgumentsDelta(1, '{"n"'), "ArgumentsDelta(index=1, text='{\"n\"')"),
    (CallReady(0, "k1", "tide", "{}"), "CallReady(index=0, id='k1', name='tide', arguments='{}')"),
    (ToolStarted("k1", "tide", {"n": 10**30}), f"ToolStarted(id='k1', name='tide', input={{'n': {10**30}}})"),
    (ToolEnded("k1", "tide", "4.2 m", False), "ToolEnded(id='k1', name='tide', output='4.2 m', is_error=False)"),
    (Parked(REQUEST), f"Parked(request={REQUEST!r})"),
]


@pytest.fixture
async def every_kind():
    client, _ = client_for("hi")
    result = await client.run("go", NO_TOOLS)
    return [event for event, _ in PLAIN] + [UsageReported(result.usage), Done(result)]


def test_an_event_shows_its_fields():
    assert [repr(event) for event, _ in PLAIN] == [shown for _, shown in PLAIN]


def test_the_union_has_every_class(every_kind):
    classes = {vars(events)[name] for name in events.__all__} - {Event}
    assert {type(event) for event in every_kind} == classes == set(Event.__args__)


@pytest.mark.parametrize(
    "twin",
    [lambda event: pickle.loads(pickle.dumps(event)), copy.deepcopy, copy.copy],
    ids=["pickle", "deepcopy", "copy"],
)
def test_i11_an_event_has_an_equal_twin(every_kind, twin):
    for event in every_kind:
        assert (type(twin(event)), twin(event), hash(twin(event))) == (type(event), event, hash(event))


def test_events_are_equal_by_kind_and_value(every_kind):
    for at, event in enumerate(every_kind):
        assert [event == other for other in every_kind] == [at == place for place in range(len(every_kind))]
    assert TextDelta("a") != TextDelta("b")
    assert TextDelta("a") != ReasoningDelta("a")
    assert ToolStarted("k1", "tide", {"a": 1, "b": 2}) == ToolStarted("k1", "tide", {"b": 2, "a": 1})
    assert ToolStarted("k1", "tide", {"a": 1}) != ToolStarted("k1", "tide", {"a": 2})


def test_an_event_cannot_be_changed(every_kind):
    for event in every_kind:
        field = event.__match_args__[0]
        with pytest.raises(AttributeError):
            setattr(event, field, getattr(event, field))
    started = ToolStarted("k1", "tide", {"n": 1})
    started.input["n"] = 2
    assert started.input == {"n": 1}


def test_an_event_matches_by_position_and_by_name(every_kind):
    for event in every_kind:
        fields = [getattr(event, name) for name in event.__match_args__]
        assert type(event)(*fields) == event
        assert type(event)(**dict(zip(event.__match_args__, fields, strict=True))) == event
    match ToolEnded("k1", "tide", "no", True):
        case ToolEnded(_, "tide", is_error=True, output=output):
            assert output == "no"
        case _:
            pytest.fail("it does not match")
