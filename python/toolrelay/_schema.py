"""JSON Schema for a function's parameters, and the way from JSON arguments to its values.

This module owns the use of pydantic, which loads when a schema is made or a type asks for it. Plain
JSON types are converted here: the arguments already fit the schema, so only numbers need a look.
"""

# JSON values are any value, and callers without a type checker are checked here:
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnnecessaryIsInstance=false
from __future__ import annotations

import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from toolrelay._json import decode, encode, plain
from toolrelay.errors import ToolkitError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from toolrelay._signature import Parameter

    Convert = Callable[[Any], Any]
    Read = Callable[[bytes], dict[str, Any]]


class InvalidArgumentsError(Exception):
    """Arguments that the function cannot take; the text is for the model."""


def schema_of(tool: str, parameters: list[Parameter]) -> dict[str, Any]:
    """The JSON Schema of an object with these parameters. It allows no others."""
    from pydantic.json_schema import GenerateJsonSchema

    class Untitled(GenerateJsonSchema):
        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

    try:
        schema = _adapter(parameters).json_schema(schema_generator=Untitled)
    except Exception as error:
        raise ToolkitError(f"{tool}: {_blame(parameters, error)}", tool=tool) from error
    schema.pop("title", None)
    schema.setdefault("properties", {})
    return schema


def reader_of(tool: str, parameters: list[Parameter]) -> Read:
    """The function that makes the parameters' values of JSON arguments.

    It raises `InvalidArgumentsError`.
    """
    try:
        return _plain_reader(parameters)
    except _NeedsPydanticError:
        pass
    try:
        return _typed_reader(_adapter(parameters))
    except Exception as error:
        raise ToolkitError(f"{tool}: {_blame(parameters, error)}", tool=tool) from error


def read_object(arguments: bytes) -> dict[str, Any]:
    """The arguments as a dict: integers of any size exact, text clean."""
    try:
        values = decode(arguments)
        if b"\\u" in arguments:
            values = plain(values, "arguments")
    except ValueError as error:
        raise InvalidArgumentsError(str(error)) from None
    if not isinstance(values, dict):
        raise InvalidArgumentsError(f"expected an object, got {type(values).__name__}")
    return values


def _plain_reader(parameters: list[Parameter]) -> Read:
    known = frozenset(item.name for item in parameters)
    required = frozenset(item.name for item in parameters if item.required)
    steps = [(item.name, _conversion(item.hint)) for item in parameters]
    conversions = [(name, convert) for name, convert in steps if convert is not None]
    if any(_is_field(item.default) for item in parameters):
        raise _NeedsPydanticError

    def read(arguments: bytes) -> dict[str, Any]:
        values = read_object(arguments)
        given = values.keys()
        if not known >= given:
            raise InvalidArgumentsError(f"unknown: {', '.join(sorted(given - known))}")
        if not required <= given:
            raise InvalidArgumentsError(f"missing: {', '.join(sorted(required - given))}")
        for name, convert in conversions:
            if name in values:
                try:
                    values[name] = convert(values[name])
                except (TypeError, ValueError, OverflowError) as error:
                    raise InvalidArgumentsError(f"{name}: {error}") from None
        return values

    return read


def _typed_reader(adapter: TypeAdapter[Any]) -> Read:
    from pydantic import ValidationError

    def read(arguments: bytes) -> dict[str, Any]:
        try:
            values: dict[str, Any] = validated(arguments)
            return values
        except ValidationError as error:
            found = error.errors(include_url=False, include_context=False, include_input=False)
            told = [f"{'.'.join(map(str, item['loc'])) or 'arguments'}: {item['msg']}" for item in found]
            more = f"; and {len(told) - _ERRORS} more" if len(told) > _ERRORS else ""
            raise InvalidArgumentsError("; ".join(told[:_ERRORS]) + more) from None

    def validated(arguments: bytes) -> Any:
        if b"\\u" in arguments:
            arguments = encode(read_object(arguments)).encode()
        try:
            return adapter.validate_json(arguments)
        except ValidationError as error:
            if error.errors()[0]["type"] != "json_invalid":
                raise
        return adapter.validate_python(read_object(arguments))  # an integer too long for pydantic's parser

    return read


def _adapter(parameters: list[Parameter]) -> TypeAdapter[Any]:
    """An adapter for a dict of the parameters: unlike a model's, its keys may have any name."""
    from typing import NotRequired, Required

    from pydantic import ConfigDict, TypeAdapter
    from typing_extensions import TypedDict

    fields: dict[str, Any] = {}
    for item in parameters:
        optional = not item.required and not _is_field(item.default)
        fields[item.name] = (NotRequired if optional else Required)[_annotated(item)]
    arguments = TypedDict("arguments", fields)  # type: ignore[misc]
    setattr(arguments, "__pydantic_config__", ConfigDict(extra="forbid"))  # noqa: B010 - a TypedDict declares no attributes
    return TypeAdapter(arguments)


def _annotated(item: Parameter) -> Any:
    """The hint with what the docstring and the default say; what the hint says itself comes last and wins."""
    from pydantic import Field
    from pydantic_core import to_jsonable_python

    extra: dict[str, Any] | None = None
    if not item.required and not _is_field(item.default):
        try:
            extra = {"default": plain(to_jsonable_python(item.default), item.name)}
        except ValueError:
            extra = None
    ours = Field(description=item.description, json_schema_extra=extra)
    hint, metadata = (item.hint.__origin__, item.hint.__metadata__) if _is_annotated(item.hint) else (item.hint, ())
    if _is_field(item.default):
        metadata = (*metadata, item.default)
    return Annotated[(hint, ours, *metadata)]


def _blame(parameters: list[Parameter], error: Exception) -> str:
    """Which parameter has no schema: each is tried on its own."""
    for item in parameters:
        try:
            _adapter([item]).json_schema()
        except Exception as reason:  # noqa: BLE001 - as above
            return f"the type of {item.name} has no schema: {str(reason).partition(_NOISE)[0].strip()}"
    return f"its types have no schema: {str(error).partition(_NOISE)[0].strip()}"


class _NeedsPydanticError(Exception):
    """A type that is more than plain JSON."""


def _conversion(hint: Any) -> Convert | None:
    """How a JSON value becomes a value of the hint; None where it is one already."""
    if hint in _AS_IS:
        return None
    if hint is int:
        return _to_int
    if hint is float:
        return _to_float
    origin, inner = get_origin(hint), get_args(hint)
    if _is_annotated(hint) and all(map(_is_only_schema, hint.__metadata__)):
        return _conversion(hint.__origin__)
    if origin is Literal and all(type(value) is str for value in inner):
        return None
    if origin is list:
        return _each(_conversion(inner[0]))
    if origin is dict and inner[0] is str:
        return _each_value(_conversion(inner[1]))
    if origin in (Union, types.UnionType):
        rest = [_conversion(item) for item in inner if item is not type(None)]
        if not any(rest):
            return None
        if len(rest) == 1 and (convert := rest[0]) is not None:
            return lambda value: None if value is None else convert(value)
    raise _NeedsPydanticError


def _each(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    return lambda values: [convert(value) for value in values]


def _each_value(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    return lambda values: {name: convert(value) for name, value in values.items()}


def _to_int(value: Any) -> Any:
    """JSON Schema counts 2.0 among the integers."""
    return int(value) if type(value) is float and value.is_integer() else value


def _to_float(value: Any) -> Any:
    return float(value) if type(value) is int else value


def _is_annotated(hint: Any) -> bool:
    return get_origin(hint) is Annotated


def _is_field(value: object) -> bool:
    """Whether it is pydantic's `Field(...)`, told without importing pydantic."""
    return type(value).__module__ == "pydantic.fields"


def _is_only_schema(metadata: Any) -> bool:
    """Whether it only describes or bounds, which the schema has enforced; an alias or a default does more."""
    if not _is_field(metadata):
        return isinstance(metadata, str)
    names = metadata.alias, metadata.validation_alias
    return names == (None, None) and metadata.is_required()


_AS_IS = (Any, object, str, bool, list, dict, None, type(None))
_ERRORS = 5
_NOISE = "\n\nFor further information"
