"""What tools return and raise, as outputs for the model (contract 1.3, 2.6, 3.4, 9.5)."""

import asyncio
import contextvars
import dataclasses
import enum
import json
import logging
import threading
import time
from collections import OrderedDict, namedtuple
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import PurePosixPath
from types import SimpleNamespace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from toolrelay._render import render
from toolrelay.errors import PayloadError, ToolError
from toolrelay.parts import File, Image, Text
from toolrelay.relay import RelayResult
from toolrelay.tools import ToolContext, ToolOutput, define_tool

HUGE = 10**6_000
URL = "https://example.org/map.png"
MAP = {"type": "image_url", "image_url": {"url": URL}}


class Level(enum.IntEnum):
    LOW = 1


class Colour(str, enum.Enum):  # noqa: UP042 - this spelling has its own traps
    RED = "red"


class Town(BaseModel):
    name: str
    since: date = date(1200, 1, 1)


@dataclasses.dataclass
class Tide:
    metres: float
    town: Town | None = None


Pair = namedtuple("Pair", "a b")

CASES = [
    ("plain text", "plain text"),
    ("", ""),
    (None, "null"),
    (False, "false"),
    (0, "0"),
    ([], "[]"),
    ({}, "{}"),
    (1.5, "1.5"),
    (-HUGE, "-1" + "0" * 6_000),
    ({"a": [HUGE, True]}, '{"a":[1' + "0" * 6_000 + ",true]}"),
    ({"ä": "é", "n": [1, None]}, '{"ä":"é","n":[1,null]}'),
    ((1, "x"), '[1,"x"]'),
    (Pair(1, 2), "[1,2]"),
    (OrderedDict(b=1, a=2), '{"b":1,"a":2}'),
    ({7: "x", None: 1, True: 2, 1.5: 3}, '{"7":"x","null":1,"true":2,"1.5":3}'),
    (Level.LOW, "1"),
    (Colour.RED, "red"),
    ({Colour.RED: [Colour.RED, Level.LOW]}, '{"red":["red",1]}'),
    (Town(name="Ames"), '{"name":"Ames","since":"1200-01-01"}'),
    (
        [Tide(1.5, Town(name="Ames")), Tide(2.0)],
        '[{"metres":1.5,"town":{"name":"Ames","since":"1200-01-01"}},{"metres":2.0,"town":null}]',
    ),
    (datetime(2026, 1, 31, 9, 30, tzinfo=UTC), '"2026-01-31T09:30:00+00:00"'),
    (
        {"d": Decimal("1.10"), "u": UUID(int=7), "p": PurePosixPath("/a")},
        '{"d":"1.10","u":"00000000-0000-0000-0000-000000000007","p":"/a"}',
    ),
]


@pytest.mark.parametrize(("value", "text"), CASES, ids=range(len(CASES)))
def test_values_reach_the_model_as_text_or_json(value, text):
    assert render("tool", value) == ToolOutput(text)


def test_c13_a_tool_that_returns_nothing_gives_null():
    @define_tool
    async def ring() -> None: ...

    assert run(ring) == ToolOutput("null")


def test_c6_a_lone_surrogate_becomes_the_replacement_character():
    assert render("tool", "ok \ud83d") == ToolOutput("ok \ufffd")
    assert render("tool", {"\ud83d": ["\udc00", "\ud83d\ude00"]}) == ToolOutput('{"\ufffd":["\ufffd","\U0001f600"]}')


def test_c7_nul_becomes_the_replacement_character_and_its_spelling_stays():
    assert render("tool", "a\0b") == ToolOutput("a\ufffdb")
    assert render("tool", {"a\0": "b\0", "c": "a\\u0000b", 7: 1}) == ToolOutput(
        '{"a\ufffd":"b\ufffd","c":"a\\\\u0000b","7":1}'
    )
    assert render("tool", ToolOutput("a\0", is_error=True)) == ToolOutput("a\ufffd", is_error=True)


LOOP: list[object] = []
LOOP.append(LOOP)
REFUSED = [
    (float("nan"), "result: nan is not a JSON number"),
    ({"score": float("nan")}, "result.score: nan is not a JSON number"),
    ([1, {"a": float("-inf")}], "result[1].a: -inf is not a JSON number"),
    (Tide(float("inf")), "result.metres: inf is not a JSON number"),
    ({float("nan"): 1}, "result[nan]: nan is not a JSON number"),
    ({1, 2}, "result: set is not a JSON value"),
    (b"raw", "result: bytes is not a JSON value"),
    ({"a": {"b": object()}}, "result.a.b: object is not a JSON value"),
    ({(1, 2): "x"}, "result[(1, 2)]: the key is not a string"),
    (SimpleNamespace(), "result: SimpleNamespace is not a JSON value"),
    ([Image(url=URL), 7], "result[1]: int beside parts, only Text, Image, File and str go"),
]


@pytest.mark.parametrize(("value", "text"), REFUSED, ids=range(len(REFUSED)))
def test_c8_what_is_not_json_is_an_error_that_says_which(value, text):
    assert render("tool", value) == ToolOutput(f"the tool's result is not JSON: {text}", is_error=True)


@pytest.mark.parametrize("depth", [200_000, None])
def test_values_too_deep_or_in_themselves_are_an_error(depth):
    value = LOOP if depth is None else []
    for _ in range(depth or 0):
        value = [value]
    output = render("tool", value)
    assert output.is_error
    assert output.text.endswith("nested deeper than 100 levels, or holds itself")


def test_a_value_whose_own_code_raises_is_an_error():
    class Broken(dict):
        def items(self):
            raise RuntimeError("gone")

    assert render("tool", {"a": Broken(b="\0")}) == ToolOutput("RuntimeError: gone", is_error=True)


text = st.text(st.characters(exclude_categories=()))
lists_and_dicts = st.recursive(
    st.lists(st.none() | st.booleans() | st.integers() | text),
    lambda inner: st.lists(inner) | st.dictionaries(text, inner),
    max_leaves=10,
)


@given(lists_and_dicts)
def test_every_json_value_is_its_json_text(value):
    output = render("tool", value)
    assert not output.is_error
    assert json.loads(output.text.encode()) == RelayResult("a", value).output


# Parts


def test_a_list_with_parts_is_text_with_parts_beside():
    items = [Text("seen\0"), Image(b"\x89PNG", "image/png"), "at noon", File(b"a", "text/csv", name="t.csv")]
    assert render("tool", items) == ToolOutput(
        "seen\ufffd\nat noon",
        [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
            {"type": "file", "file": {"filename": "t.csv", "file_data": "data:text/csv;base64,YQ=="}},
        ],
    )
    assert render("tool", Image(url=URL)) == ToolOutput("", [MAP])
    assert render("tool", Text("just text")) == ToolOutput("just text")
    assert render("tool", File(url=URL)).parts == [{"type": "file", "file": {"file_url": URL}}]


def test_parts_are_never_guessed_from_a_shape():
    assert render("tool", [MAP]) == ToolOutput(json.dumps([MAP], separators=(",", ":")))


def test_parts_ride_in_relay_results_too():
    assert RelayResult("call_1", "seen", parts=[Image(url=URL), MAP]).parts == [MAP, MAP]


@pytest.mark.parametrize(
    ("make", "arguments", "key"),
    [
        (Text, {"text": 7}, "text"),
        (Image, {}, "data"),
        (Image, {"data": b"x", "mime": "image/png", "url": URL}, "data"),
        (Image, {"data": b"x"}, "mime"),
        (Image, {"data": "x", "mime": "image/png"}, "data"),
        (Image, {"url": b"x"}, "url"),
        (File, {"data": b"x", "mime": "csv"}, "mime"),
        (File, {"url": URL, "name": 7}, "name"),
    ],
)
def test_parts_are_checked_when_made(make, arguments, key):
    with pytest.raises(PayloadError) as caught:
        make(**arguments)
    assert caught.value.key == key


def test_parts_are_frozen_values_whose_repr_shows_no_bytes():
    image = Image(b"secret bytes", "image/png")
    assert image == Image(b"secret bytes", "image/png") != File(b"secret bytes", "image/png")
    assert repr(image) == "Image(data=<12 bytes>, mime='image/png')"
    assert repr(File(url=URL)) == f"File(url={URL!r})"
    with pytest.raises(dataclasses.FrozenInstanceError):
        image.mime = "image/gif"


# Raising


class UnspeakableError(Exception):
    def __str__(self):
        raise RuntimeError


RAISED = [
    (ValueError("no such town"), "ValueError: no such town"),
    (KeyError("Ames"), "KeyError: 'Ames'"),
    (ToolError("try the English name\0"), "try the English name\ufffd"),
    (ToolError(), "the tool failed"),
    (TimeoutError(), "TimeoutError"),
    (StopIteration(7), "StopIteration: 7"),
    (UnspeakableError(), "UnspeakableError"),
    (ValueError("x" * 10_000), "ValueError: " + "x" * 1_988 + "…"),
]


@pytest.mark.parametrize(("error", "text"), RAISED, ids=range(len(RAISED)))
def test_an_exception_is_an_error_output(error, text):
    @define_tool
    async def on_loop() -> None:
        raise error

    @define_tool
    def in_thread() -> None:
        raise error

    if isinstance(error, StopIteration):
        assert run(on_loop) == ToolOutput("RuntimeError: coroutine raised StopIteration", is_error=True)
    else:
        assert run(on_loop) == ToolOutput(text, is_error=True)
    assert run(in_thread) == ToolOutput(text, is_error=True)


def test_the_traceback_goes_to_the_log_at_debug_level(caplog):
    @define_tool
    async def fail() -> None:
        raise ValueError("no")

    with caplog.at_level(logging.DEBUG, "toolrelay.tools"):
        run(fail)
    (record,) = caplog.records
    assert (record.levelname, record.getMessage()) == ("DEBUG", "tool fail raised")
    assert record.exc_info[1].__traceback__.tb_next is not None


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_what_stops_a_program_passes_through(error):
    @define_tool
    async def stop() -> None:
        raise error

    coroutine = stop.invoke(b"{}", ToolContext("call_1", "stop"))
    with pytest.raises(error):
        coroutine.send(None)


# Threads


async def test_plain_functions_run_in_a_thread_with_the_callers_context():
    """Fault I7."""
    user = contextvars.ContextVar("user")

    @define_tool
    def who() -> list[object]:
        seen = user.get()
        user.set("thread's own")
        return [seen, threading.current_thread() is threading.main_thread()]

    user.set("ann")
    assert await invoke(who) == ToolOutput('["ann",false]')
    assert user.get() == "ann"


async def test_a_plain_function_may_return_an_awaitable():
    async def later(fail: bool) -> str:
        await asyncio.sleep(0)
        if fail:
            raise ValueError("late")
        return "done"

    assert await invoke(define_tool("later", "", None, lambda arguments, context: later(False))) == ToolOutput("done")
    failed = await invoke(define_tool("later", "", None, lambda arguments, context: later(True)))
    assert failed == ToolOutput("ValueError: late", is_error=True)


async def test_cancelling_tells_a_function_in_a_thread():
    seen = threading.Event()
    started = threading.Event()

    @define_tool
    def work(context: ToolContext) -> None:
        started.set()
        while not context.cancelled:
            time.sleep(0.001)
        seen.set()

    task = asyncio.ensure_future(invoke(work))
    await asyncio.to_thread(started.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(seen.wait, 5)


async def test_cancelling_reaches_a_coroutine():
    cleaned = []

    @define_tool
    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.append(True)

    task = asyncio.ensure_future(invoke(work))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaned == [True]


def invoke(tool):
    return tool.invoke(b"{}", ToolContext("call_1", tool.name))


def run(tool):
    return asyncio.run(invoke(tool))
