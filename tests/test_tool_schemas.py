"""Schemas that a host gives: what is told when a tool is defined (fault J3)."""

import pytest
from toolrelay import ToolkitError, define_tool, relay_tool

GHOST = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a", "ghost"]}


def test_j3_a_required_name_that_is_no_property_is_told(caplog):
    nested = {"type": "object", "properties": {"boats": {"type": "array", "items": GHOST}}}
    for schema, place in ((GHOST, ""), (nested, " in 'boats'")):
        assert relay_tool("moor", "", schema).schema == schema
        (record,) = caplog.records
        caplog.clear()
        text = f"moor: the schema requires 'ghost'{place}, which is none of the properties there"
        assert (record.name, record.getMessage()) == ("toolrelay.tools", f"{text}: a model is not told what it is")


def test_j3_a_required_name_that_no_call_can_have_is_an_error():
    with pytest.raises(ToolkitError, match=r"requires 'ghost'.*no call could ever fit it") as caught:
        relay_tool("moor", "", {**GHOST, "additionalProperties": False})
    assert caught.value.tool == "moor"


@pytest.mark.parametrize(
    "more",
    [
        {"allOf": [{"properties": {"ghost": {}}}]},
        {"patternProperties": {"^gh": {}}, "additionalProperties": False},
        {"required": ["a"]},
        {"required": None},
    ],
)
def test_j3_a_name_that_is_described_elsewhere_is_no_ghost(more, caplog):
    relay_tool("moor", "", {**GHOST, **more})
    assert caplog.records == []


@pytest.mark.parametrize("more", [{}, {"properties": {}}])
def test_a_required_name_without_any_properties_is_told(more, caplog):
    relay_tool("ask", "", {"type": "object", "required": ["q"], **more})
    assert [record.getMessage()[:30] for record in caplog.records] == ["ask: the schema requires 'q', "]
    caplog.clear()
    relay_tool("ask", "", {"type": "object", "required": ["q"], "additionalProperties": {"type": "string"}})
    assert caplog.records == []


@pytest.mark.parametrize(
    "properties",
    [
        {"command": {"type": "string"}},
        {"title": {"type": "string"}, "description": {"type": "string"}},
        {"x-order": ["a"]},
    ],
)
def test_properties_in_place_of_a_schema_are_an_error(properties):
    with pytest.raises(ToolkitError, match='properties go under "properties"') as caught:
        relay_tool("shell", "", properties)
    assert (caught.value.tool, repr(next(iter(properties))) in str(caught.value)) == ("shell", True)
    with pytest.raises(ToolkitError):
        define_tool("shell", "", properties, lambda arguments, context: "")


@pytest.mark.parametrize(
    "schema", [{}, {"type": "object"}, {"title": "Shell"}, {"$ref": "#/$defs/a", "$defs": {"a": {}}}]
)
def test_a_schema_that_says_little_is_one(schema):
    assert relay_tool("shell", "", schema).schema == schema
