"""What a schema of the host leaves out: a name that it requires and does not describe, mostly a property that was
renamed or forgotten (fault J3), or all but the properties."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolrelay.errors import ToolkitError

if TYPE_CHECKING:
    from collections.abc import Iterator


def check(tool: str, schema: dict[str, Any]) -> None:
    """Tells of such names through the logger `toolrelay.tools`; where no call could have them, by a `ToolkitError`.

    One that has no keyword of JSON Schema is a `ToolkitError`: it says nothing, and its keys are mostly properties.
    """
    if schema and not any(_is_keyword(key, value) for key, value in schema.items()):
        raise ToolkitError(
            f"{tool}: the schema has no keyword of JSON Schema, only {', '.join(map(repr, list(schema)[:_SHOWN]))}: "
            'properties go under "properties", as in {"type": "object", "properties": {...}, "required": [...]}',
            tool=tool,
        )
    for place, name, is_closed in _unknown(schema):
        text = f"{tool}: the schema requires {name!r}{place}, which is none of the properties there"
        if is_closed:
            raise ToolkitError(f"{text}, and it takes no others: no call could ever fit it", tool=tool)
        from logging import getLogger

        getLogger("toolrelay.tools").warning("%s: a model is not told what it is", text)


def _unknown(schema: dict[str, Any]) -> Iterator[tuple[str, str, bool]]:
    """Where, which name, and whether it is forbidden there. What is made of several schemas is not looked at."""
    waiting: list[tuple[str, Any]] = [("", schema)]
    while waiting:
        place, here = waiting.pop()
        if not isinstance(here, dict) or not _TOGETHER.isdisjoint(here):
            continue
        others = here.get("additionalProperties")
        properties, required = here.get("properties", None if isinstance(others, dict) else {}), here.get("required")
        if isinstance(properties, dict):
            for name in required if isinstance(required, list) else []:
                if isinstance(name, str) and name not in properties:
                    yield place, name, others is False
            waiting += [(f" in {name!r}", found) for name, found in properties.items()]
        waiting.append((place, here.get("items")))


def _is_keyword(key: str, value: Any) -> bool:
    return key in _OF_ANY or (key in _OF_NO_OBJECT and not isinstance(value, dict))


_OF_ANY = frozenset(
    (
        *("properties", "patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames"),
        *("items", "contains", "dependentSchemas", "dependentRequired", "dependencies", "$defs", "definitions"),
        *("not", "if", "then", "else", "const", "default"),
    )
)
_OF_NO_OBJECT = frozenset(
    (
        *("type", "required", "minProperties", "maxProperties", "allOf", "anyOf", "oneOf"),
        *("enum", "examples", "example"),
        *("title", "description", "deprecated", "readOnly", "writeOnly", "nullable"),
        *("$schema", "$id", "$ref", "$anchor", "$dynamicRef", "$dynamicAnchor", "$comment", "$vocabulary"),
    )
)
_SHOWN = 5
_TOGETHER = frozenset(("allOf", "anyOf", "oneOf", "not", "if", "$ref", "$dynamicRef", "patternProperties"))
