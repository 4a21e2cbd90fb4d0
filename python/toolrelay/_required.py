"""Names that a schema requires and does not describe: mostly a property that was renamed or forgotten (fault J3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolrelay.errors import ToolkitError

if TYPE_CHECKING:
    from collections.abc import Iterator


def check(tool: str, schema: dict[str, Any]) -> None:
    """Tells of such names through the logger `toolrelay.tools`; where no call could have them, by a `ToolkitError`."""
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
        properties, required = here.get("properties"), here.get("required")
        if isinstance(properties, dict):
            for name in required if isinstance(required, list) else []:
                if isinstance(name, str) and name not in properties:
                    yield place, name, here.get("additionalProperties") is False
            waiting += [(f" in {name!r}", found) for name, found in properties.items()]
        waiting.append((place, here.get("items")))


_TOGETHER = frozenset(("allOf", "anyOf", "oneOf", "not", "if", "$ref", "$dynamicRef", "patternProperties"))
