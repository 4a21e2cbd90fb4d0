"""From JSON arguments to the values that a Python tool receives (contract 2.4)."""

import dataclasses
import enum
import json
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import AfterValidator, BaseModel, Field
from toolrelay.tools import ParkedCall, Tool, ToolContext, ToolOutput, define_tool
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


# Types


async def test_rich_types_have_schemas_and_arrive_as_their_values():
    seen = []

    @define_tool
    async def move(
        address: Address,
        colour: Colour,
        point: Point | None,
        filters: list[Filter],
        when: datetime,
        how: Literal["fast", "slow"] = "fast",
        sizes: Optional[dict[str, float]] = None,  # noqa: UP045 - the old spelling must work too
        tint: Colour = Colour.RED,
    ) -> None:
        seen.append((address, colour, point, filters, when, how, sizes, tint))

    assert move.schema["required"] == ["address", "colour", "point", "filters", "when"]
    assert move.schema["properties"]["tint"] == {"$ref": "#/$defs/Colour", "default": "red"}
    assert move.schema["$defs"]["Colour"]["enum"] == ["red", "blue"]
    arguments = {
        "address": {"street": "Kay"},
        "colour": "blue",
        "point": {"x": 1},
        "filters": [{"field": "a"}],
        "when": "2026-01-31T09:30:00Z",
        "sizes": {"a": 1},
    }
    assert await call(move, arguments) == ToolOutput("null")
    expected = (
        Address(street="Kay"),
        Colour.BLUE,
        Point(1.0),
        [{"field": "a"}],
        datetime(2026, 1, 31, 9, 30, tzinfo=UTC),
        "fast",
        {"a": 1.0},
        Colour.RED,
    )
    assert seen == [expected]


async def test_field_defaults_and_aliases_work_as_in_pydantic():
    @define_tool
    async def find(
        start: Annotated[int, Field(alias="from")],
        limit: int = Field(7, description="At most."),
        tags: list[str] = Field(default_factory=list),  # noqa: B008 - pydantic's way
    ) -> list[Any]:
        return [start, limit, tags]

    assert find.schema["properties"] == {
        "from": {"type": "integer"},
        "limit": {"type": "integer", "default": 7, "description": "At most."},
        "tags": {"type": "array", "items": {"type": "string"}},
    }
    assert find.schema["required"] == ["from"]
    assert await call(find, {"from": 1}) == ToolOutput("[1,7,[]]")


async def test_validators_in_types_run():
    @define_tool
    async def shout(word: Annotated[str, AfterValidator(str.upper)]) -> str:
        return word

    assert await call(shout, {"word": "ho"}) == ToolOutput("HO")


async def test_parameters_may_have_any_name():
    @define_tool
    async def odd(schema: str, copy: int, model_config: bool, _private: str = "p", json: Any = None) -> list[Any]:
        return [schema, copy, model_config, _private, json]

    assert list(odd.schema["properties"]) == ["schema", "copy", "model_config", "_private", "json"]
    arguments = {"schema": "s", "copy": 1, "model_config": True, "json": [None]}
    assert await call(odd, arguments) == ToolOutput('["s",1,true,"p",[null]]')


async def test_numbers_arrive_as_the_type_says():
    """JSON Schema counts 2.0 among the integers, and 2 among the numbers."""

    @define_tool
    async def show(i: int, f: float, many: list[float], named: dict[str, int], maybe: float | None) -> str:
        return repr((i, f, many, named, maybe))

    arguments = {"i": 2.0, "f": 2, "many": [1, 2.5], "named": {"a": 3.0}, "maybe": 4}
    assert await call(show, arguments) == ToolOutput("(2, 2.0, [1.0, 2.5], {'a': 3}, 4.0)")


async def test_integers_of_any_size_arrive_exact():
    """Contract 2.4, 9.5: through plain and through pydantic types."""

    @define_tool
    async def plain(n: int) -> int:
        return n

    @define_tool
    async def typed(n: int, colour: Colour) -> int:
        return n

    for digits in (30, 5_000):
        number = "1" + "0" * digits + "7"
        assert await call(plain, b'{"n":%s}' % number.encode()) == ToolOutput(number)
        assert await call(typed, b'{"n":%s,"colour":"red"}' % number.encode()) == ToolOutput(number)


async def test_c6_c7_bad_characters_in_arguments_become_the_replacement_character():
    @define_tool
    async def plain(text: str) -> str:
        return ascii(text)

    @define_tool
    async def typed(text: str, colour: Colour = Colour.RED) -> str:
        return ascii(text)

    for tool in (plain, typed):
        assert await call(tool, rb'{"text":"\ud83d \u0000 \ud83d\ude00 \\u0000"}') == ToolOutput(
            ascii("\ufffd \ufffd \U0001f600 \\u0000")
        )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (b'{"n":1,"colour":"green"}', "invalid arguments: colour: Input should be 'red' or 'blue'"),
        (b'{"colour":"red"}', "invalid arguments: n: Field required"),
        (b'{"n":1,"colour":"red","x":1}', "invalid arguments: x: Extra inputs are not permitted"),
        (b'{"n":NaN,"colour":"red"}', "invalid arguments: n: Input should be a finite number"),
        (b"[1]", "invalid arguments: arguments: Input should be an object"),
        (b'{"n":1', "invalid arguments: Expecting ',' delimiter: line 1 column 7 (char 6)"),
    ],
)
async def test_arguments_that_pydantic_refuses_are_a_short_error_output(arguments, text):
    ran = []

    @define_tool
    async def paint(n: int, colour: Colour) -> None:
        ran.append(n)

    assert await call(paint, arguments) == ToolOutput(text, is_error=True)
    assert ran == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (b"{}", "missing: n"),
        (b'{"n":[1],"context":"x","m":2}', "unknown: context, m"),
        (b"[1]", "expected an object, got list"),
        (b'{"n":NaN}', "NaN is not JSON"),
        (b'{"n":[1],"f":1%s}' % (b"0" * 400), "f: int too large to convert to float"),
        (b'{"n":1}', "n: 'int' object is not iterable"),
        (b"[" * 200_000, "nested deeper than 100 levels"),
        (b'{"n":"\xff"}', "'utf-8' codec can't decode byte 0xff in position 6: invalid start byte"),
    ],
)
async def test_arguments_that_do_not_fit_plain_types_are_an_error_output(arguments, text):
    ran = []

    @define_tool
    async def paint(n: list[int], context: ToolContext, f: float = 0.0) -> None:
        ran.append(n)

    assert await call(paint, arguments) == ToolOutput(f"invalid arguments: {text}", is_error=True)
    assert ran == []


async def test_many_errors_are_told_in_part():
    @define_tool
    async def paint(colours: list[Colour]) -> None: ...

    output = await call(paint, {"colours": ["x"] * 8})
    assert output.text.count("Input should be") == 5
    assert output.text.endswith("; and 3 more")
    assert "http" not in output.text
