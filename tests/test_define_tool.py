"""Tools from Python functions: declaration, arguments and schemas (contract 2.1, 2.4, issue faults J1)."""

import asyncio
import dataclasses
import enum
import functools
import json
import subprocess
import sys
from datetime import UTC, datetime
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field
from toolrelay.errors import PayloadError, ToolkitError
from toolrelay.relay import Answer
from toolrelay.tools import ParkedCall, Tool, ToolContext, ToolOutput, define_tool, pending, relay_tool
from typing_extensions import TypedDict


async def call(tool: Tool, arguments: Any = None, context: ToolContext | None = None) -> ToolOutput | ParkedCall:
    text = arguments if isinstance(arguments, bytes) else json.dumps(arguments or {}).encode()
    return await tool.invoke(text, context or ToolContext("call_1", tool.name))


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Address(BaseModel):
    street: str
    number: int = 1


@dataclasses.dataclass
class Point:
    x: float
    y: float = 0.0


class Filter(TypedDict):
    field: str


# Declaring


def test_a_relay_tool_without_a_schema_takes_any_object():
    tool = relay_tool("lookup", "look something up")
    assert (tool.name, tool.description, tool.relay) == ("lookup", "look something up", True)
    assert tool.schema == {"type": "object", "properties": {}}


def test_a_tool_owns_its_schema():
    given = {"type": "object", "properties": {"q": {"type": "string", "default": "\0"}}}
    tool = relay_tool("lookup", "", given)
    given["properties"].clear()
    assert tool.schema["properties"] == {"q": {"type": "string", "default": "\ufffd"}}


@pytest.mark.parametrize("schema", [{"type": "string"}, {"type": "object", "properties": {"q": {1, 2}}}, [], "object"])
def test_a_schema_that_describes_no_object_is_refused(schema):
    with pytest.raises(ToolkitError, match="lookup: ") as caught:
        relay_tool("lookup", "", schema)
    assert caught.value.tool == "lookup"


@pytest.mark.parametrize("name", ["", " ", None, 7])
def test_a_tool_needs_a_name(name):
    with pytest.raises(ToolkitError, match="a tool needs a name"):
        relay_tool(name, "")


async def test_a_relay_tool_never_executes_here():
    tool = relay_tool("lookup", "")
    with pytest.raises(ToolkitError, match="only the host can execute it"):
        tool.invoke(b"{}", ToolContext("call_1", "lookup"))
    with pytest.raises(ToolkitError, match="only the host can execute it"):
        tool()


def test_tools_are_frozen():
    tool = relay_tool("lookup", "")
    with pytest.raises(dataclasses.FrozenInstanceError):
        tool.name = "other"
    assert repr(tool) == "<relay tool lookup>"


async def test_the_reference_form_takes_arguments_and_context():
    seen = []

    async def run(arguments: dict[str, Any], context: ToolContext) -> str:
        seen.append((arguments, context.call_id, context.tool))
        return "real-output"

    tool = define_tool("real_tool", "runs locally", None, run)
    assert tool.schema == {"type": "object", "properties": {}}
    assert await call(tool, {"n": 1}) == ToolOutput("real-output")
    assert await call(define_tool("plain", "", None, lambda arguments, context: arguments["n"]), {"n": 1}) == (
        "1",
        None,
        False,
    )
    assert seen == [({"n": 1}, "call_1", "real_tool")]
    assert tool.function is run


@pytest.mark.parametrize("fn", [lambda arguments: "", lambda: "", "text", int], ids=range(4))
def test_the_reference_form_checks_its_function(fn):
    with pytest.raises(ToolkitError, match=r"real_tool: (the function must take|expected a function)") as caught:
        define_tool("real_tool", "", None, fn)
    assert caught.value.tool == "real_tool"


async def test_bare_decorator_takes_name_description_and_schema_from_the_function():
    @define_tool
    async def tide(port: str, days: int = 1) -> str:
        """High water at a port."""
        return f"{port} {days}"

    assert (tide.name, tide.description, tide.relay) == ("tide", "High water at a port.", False)
    assert tide.schema == {
        "type": "object",
        "properties": {"port": {"type": "string"}, "days": {"type": "integer", "default": 1}},
        "required": ["port"],
        "additionalProperties": False,
    }
    assert await call(tide, {"port": "Ames"}) == ToolOutput("Ames 1")
    assert await tide("Bree", days=2) == "Bree 2"


async def test_given_name_description_and_schema_win():
    schema = {"type": "object", "properties": {"port": {"enum": ["Ames"]}}, "required": ["port"]}

    @define_tool(name="high_water", description="Told.", schema=schema)
    async def tide(port: str) -> str:
        """Not told."""
        return port

    assert (tide.name, tide.description, tide.schema) == ("high_water", "Told.", schema)
    assert await call(tide, {"port": "Ames"}) == ToolOutput("Ames")
    assert define_tool(tide.function, "Other.").description == "Other."


@pytest.mark.parametrize("schema", [{}, {"type": "object"}, {"type": "object", "properties": {}}])
def test_j1_a_given_schema_stays_as_it_is(schema):
    """What each provider wants instead is the wire's business."""
    assert define_tool(name="ring", schema=schema)(lambda: "").schema == schema


def test_a_function_without_parameters_has_an_object_schema():
    @define_tool
    def ring() -> None:
        """Rings."""

    assert ring.schema == {"type": "object", "properties": {}, "additionalProperties": False}


# Docstrings

GOOGLE = """Finds a street.

    Looks in every town.

    Args:
        street: The street's
            name.
        number (int): The house.

    Returns:
        str: where it is
    """
NUMPY = """Finds a street.

    Looks in every town.

    Parameters
    ----------
    street : str
        The street's name.
    number : int, optional
        The house.
    """
SPHINX = """Finds a street.

    Looks in every town.

    :param street: The street's name.
    :param int number: The house.
    :returns: where it is
    """


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, SPHINX])
def test_docstrings_describe_tool_and_parameters(docstring, capfd):
    def find(street: str, number: Annotated[int, Field(ge=1)] = 1) -> str:
        return ""

    find.__doc__ = docstring
    tool = define_tool(find)
    assert tool.description == "Finds a street.\n\nLooks in every town."
    assert tool.schema["properties"] == {
        "street": {"type": "string", "description": "The street's name."},
        "number": {"type": "integer", "minimum": 1, "default": 1, "description": "The house."},
    }
    assert capfd.readouterr() == ("", "")


def test_a_description_in_the_type_beats_the_docstring():
    @define_tool
    def find(street: Annotated[str, Field(description="From the type.")]) -> str:
        """Finds.

        Args:
            street: From the docstring.
        """
        return street

    assert find.schema["properties"]["street"]["description"] == "From the type."


# What cannot be a tool


def _star(*args): ...
def _star_star(**kwargs): ...
def _positional(a, /): ...
def _unknown_type(a: int, b: "Nowhere"): ...  # noqa: F821


class _Opaque: ...


def _no_schema(a: int, b: _Opaque): ...


class _Methods:
    def ring(self, times: int) -> str:
        """Rings."""
        return "ding" * times

    async def __call__(self, times: int) -> str:
        """Calls."""
        return "dong" * times


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (_star, r"_star: \*args has no schema, name each parameter"),
        (_star_star, r"_star_star: \*\*kwargs has no schema, name each parameter"),
        (_positional, "_positional: a is positional-only, arguments come by name"),
        (_unknown_type, "_unknown_type: the type of b cannot be read: name 'Nowhere' is not defined"),
        (_no_schema, "_no_schema: the type of b has no schema: "),
        (_Methods.ring, "ring: self is not bound"),
        (_Methods, "_Methods: a class is no tool"),
        (functools.partial(_star), "a tool needs a name"),
    ],
)
def test_functions_that_no_schema_can_describe_are_refused(function, text):
    with pytest.raises(ToolkitError, match=text) as caught:
        define_tool(function)
    assert "pydantic.dev" not in str(caught.value)


def test_types_local_to_a_function_are_found_through_their_text():
    class Local(BaseModel):
        n: int

    @define_tool
    def take(local: "Local", context: "ToolContext | None" = None) -> str:
        return ""

    assert take.schema["properties"] == {"local": {"$ref": "#/$defs/Local"}}


async def test_methods_partials_and_callable_objects_are_tools():
    bound = _Methods()
    assert await call(define_tool(bound.ring), {"times": 2}) == ToolOutput("dingding")
    called = define_tool(name="dong")(bound)
    assert (called.description, await call(called, {"times": 2})) == ("Calls.", ToolOutput("dongdong"))

    async def both(a: int, b: int) -> list[int]:
        return [a, b]

    fixed = define_tool(name="fixed")(functools.partial(both, b=2))
    assert list(fixed.schema["properties"]) == ["a"]
    assert await call(fixed, {"a": 1}) == ToolOutput("[1,2]")


# Context and parking


async def test_the_context_is_given_and_not_in_the_schema():
    seen = []

    @define_tool
    async def pay(amount: int, context: ToolContext) -> str:
        seen.append(context)
        return "paid"

    assert list(pay.schema["properties"]) == ["amount"]
    context = ToolContext("call_7", "pay", Answer("req_1", ok=True), "key_1")
    assert await call(pay, {"amount": 30}, context) == ToolOutput("paid")
    assert seen == [context]
    assert (context.call_id, context.tool, context.idempotency_key) == ("call_7", "pay", "key_1")
    assert context.answer == Answer("req_1", ok=True)
    assert not context.cancelled


@pytest.mark.parametrize("raises", [True, False])
@pytest.mark.parametrize("in_thread", [True, False])
async def test_a_tool_parks_its_call_by_returning_or_raising_pending(raises, in_thread):
    until = datetime(2026, 1, 31, tzinfo=UTC)

    def ask() -> ParkedCall:
        parked = pending("approval", "Pay?", {"sum": 30}, url="https://pay.example", expires_at=until)
        if raises:
            raise parked
        return parked

    async def ask_on_loop() -> ParkedCall:
        return ask()

    parked = await call(define_tool(ask if in_thread else ask_on_loop))
    assert isinstance(parked, ParkedCall)
    assert parked.to_dict() == {
        "kind": "approval",
        "prompt": "Pay?",
        "data": {"sum": 30},
        "url": "https://pay.example",
        "expiresAt": "2026-01-31T00:00:00Z",
    }
    assert json.loads(parked.to_json()) == parked.to_dict()
    assert (parked.kind, parked.prompt, parked.data) == ("approval", "Pay?", {"sum": 30})
    assert (parked.url, parked.expires_at) == ("https://pay.example", until)
    with pytest.raises(AttributeError):
        parked.kind = "other"


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        ({"kind": "tool_call", "prompt": "x"}, "kind"),
        ({"kind": "approval", "prompt": 1}, "prompt"),
        ({"kind": "approval", "prompt": "x", "data": {"a": {1}}}, "data.a"),
        ({"kind": "approval", "prompt": "x", "expires_at": "soon"}, "expires_at"),
    ],
)
def test_pending_checks_what_it_is_given(arguments, key):
    with pytest.raises(PayloadError) as caught:
        pending(**arguments)
    assert caught.value.key == key


# Cost


def test_plain_tools_with_a_schema_never_load_pydantic():
    program = """
import sys, asyncio
from toolrelay.tools import ToolContext, define_tool
@define_tool(schema={"type": "object"})
async def f(x: int, y: list[str] = []) -> str:
    "One line."
    return "ok"
print(asyncio.run(f.invoke(b'{"x":1}', ToolContext("c", "f"))).text)
loaded = {"pydantic", "pydantic_core", "griffe"} & set(sys.modules)
assert not loaded, loaded
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("ok\n", "")


async def test_a_thousand_calls_run_at_once():
    @define_tool
    async def wait(n: int) -> int:
        await asyncio.sleep(0.01)
        return n

    outputs = await asyncio.gather(*(call(wait, {"n": n}) for n in range(1_000)))
    assert [output.text for output in outputs] == [str(n) for n in range(1_000)]


def test_a_tool_is_safe_to_retry_only_where_it_says_so():
    def count() -> int:
        """Counts."""
        return 1

    declared = [
        define_tool(count),
        define_tool(count, retry_safe=True),
        define_tool(retry_safe=True)(count),
        define_tool("count", "counts", None, lambda arguments, context: 1, retry_safe=True),
    ]
    assert [tool.retry_safe for tool in declared] == [False, True, True, True]
