"""The exception tree (contract 9.3)."""

import copy
import inspect
import pickle
import threading
from datetime import UTC, datetime

import pytest
from toolrelay import errors
from toolrelay.errors import (
    PayloadError,
    ProviderConnectionError,
    ProviderError,
    ProviderTimeoutError,
    RateLimitError,
    ResumeError,
    ToolRelayError,
    WaitForError,
)
from toolrelay.relay import Request

REQUEST = Request("req_1", "approval", "Pay?")
SAMPLES = {
    "transcript": [{"role": "user", "content": "hi"}],
    "variable": "OPENAI_API_KEY",
    "tool": "bash",
    "key": "data.output",
    "pending": REQUEST,
    "calls": ("call_1",),
    "suspensions": (REQUEST,),
    "cause": ValueError("no"),
    "finish_reason": "length",
    "kind": "other",
    "status": 429,
    "error_type": "rate_limit_error",
    "code": "rate_limited",
    "request_id": "req_9",
    "worker": "host:7/1",
    "lease_until": datetime(2030, 1, 1, tzinfo=UTC),
    "retryable": True,
    "retry_after": 1.5,
    "partial_text": "Hel",
    "conversation": "c-1",
    "reason": "expired",
}
TREE = [item for item in vars(errors).values() if inspect.isclass(item) and issubclass(item, ToolRelayError)]


def full(kind):
    fields = {name: SAMPLES[name] for name in list(inspect.signature(kind).parameters)[1:]}
    return kind("cannot resume: some text", **fields), fields


def state(error):
    cause = error.__cause__
    return type(error), str(error), error.args, vars(error), type(cause), str(cause), error.transcript


@pytest.mark.parametrize("kind", TREE)
def test_i11_every_error_survives_pickle_and_deepcopy(kind):
    error, fields = full(kind)
    error.add_note("seen in the nightly run")
    for twin in (pickle.loads(pickle.dumps(error)), copy.deepcopy(error), copy.copy(error)):
        assert state(twin) == state(error)
        for name in fields.keys() - {"cause"}:
            assert getattr(twin, name) == SAMPLES[name]


@pytest.mark.parametrize("kind", TREE)
def test_every_error_can_be_made_from_its_message_alone(kind):
    error = kind("cannot resume: x")
    assert str(error) == "cannot resume: x"
    assert error.transcript is None


def test_the_tree_in_the_docstring_is_the_tree():
    drawn, above = [], {0: "Exception"}
    for line in errors.__doc__.splitlines():
        name = line.strip("│├└─ ").partition(" ")[0]
        if name in vars(errors):
            depth = line.index(name) // 4 + 1
            above[depth] = name
            drawn.append((name, above[depth - 1]))
    assert sorted(drawn) == sorted((kind.__name__, kind.__bases__[0].__name__) for kind in TREE)


def test_unknown_fields_are_refused():
    with pytest.raises(TypeError):
        RateLimitError("slow down", stats=429)


def test_resume_errors_begin_with_cannot_resume():
    assert str(ResumeError("expected req_1, got req_2")) == "cannot resume: expected req_1, got req_2"
    assert str(ResumeError("cannot resume: stale")) == "cannot resume: stale"


def test_kinds_label_every_provider_error_differently():
    kinds = [kind("x").kind for kind in TREE if issubclass(kind, ProviderError)]
    assert len(set(kinds)) == len(kinds) >= 13


def test_builtin_handlers_catch_their_kin():
    assert isinstance(ProviderTimeoutError("x", status=504), TimeoutError)
    assert isinstance(ProviderConnectionError("x"), ConnectionError)
    assert isinstance(PayloadError("x"), TypeError)
    assert isinstance(PayloadError("x"), ValueError)


class PickyError(Exception):
    def __init__(self, *, response):
        super().__init__("picky")
        self.response = response


@pytest.mark.parametrize("cause", [PickyError(response=1), ValueError(threading.Lock())])
def test_a_cause_that_cannot_be_pickled_leaves_its_text(cause):
    twin = pickle.loads(pickle.dumps(WaitForError("host failed", suspensions=[REQUEST], cause=cause)))
    assert twin.suspensions == (REQUEST,)
    assert str(twin.cause) == f"{type(cause).__name__}: {cause}"


def test_cause_and_traceback_are_kept():
    origin = ValueError("no")
    with pytest.raises(WaitForError) as caught:
        raise WaitForError("host failed", cause=origin)
    assert caught.value.cause is caught.value.__cause__ is origin
    assert caught.value.__traceback__ is not None
