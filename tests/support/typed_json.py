"""Strict check of JSON against the request types that the providers' packages publish.

These are `TypedDict`s. pydantic checks them less strictly than is wanted here: it takes unknown keys, and it does not
look into an `Iterable`.
"""

import types
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin

from pydantic import BaseModel
from typing_extensions import get_type_hints, is_typeddict

LISTS = (list, Iterable, Sequence)
PLAIN = {str: (str,), int: (int,), float: (int, float), bool: (bool,), datetime: (str,)}


def problems(value: Any, kind: Any, at: str = "$") -> list[str]:
    """What keeps a JSON value from being of this type; nothing if it is. A key that the type lacks is one."""
    kind = _inner(kind)
    origin = get_origin(kind)
    if kind in (Any, object):
        return []
    if origin in (Union, types.UnionType):
        return _union(value, get_args(kind), at)
    if origin is Literal:
        return [] if value in get_args(kind) else [f"{at}: {value!r} is none of {get_args(kind)}"]
    if kind is None or kind is types.NoneType:
        return [] if value is None else [f"{at}: not null"]
    if is_typeddict(kind):
        return _object(value, kind, at)
    if origin in LISTS:
        if not isinstance(value, list):
            return [f"{at}: {type(value).__name__} is no list"]
        (item,) = get_args(kind)
        return [problem for place, one in enumerate(value) for problem in problems(one, item, f"{at}[{place}]")]
    if origin in (dict, Mapping):
        if not isinstance(value, dict):
            return [f"{at}: {type(value).__name__} is no object"]
        item = get_args(kind)[1]
        return [problem for key, one in value.items() for problem in problems(one, item, f"{at}.{key}")]
    if kind in PLAIN:
        fits = isinstance(value, PLAIN[kind]) and (kind is bool or not isinstance(value, bool))
        return [] if fits else [f"{at}: {value!r} is no {kind.__name__}"]
    if isinstance(kind, type) and not issubclass(kind, BaseModel):
        return [f"{at}: no JSON is a {kind.__name__}"]
    # A reply's own class beside the types of a request: its JSON must fit one of these.
    return [f"{at}: not a request type: {kind}"]


def _union(value: Any, kinds: Sequence[Any], at: str) -> list[str]:
    found = []
    for kind in kinds:
        told = problems(value, kind, at)
        if not told:
            return []
        # The member that is meant is the one whose `type` and `role` fit.
        is_other = any(problem.startswith((f"{at}.type:", f"{at}.role:", f"{at}: ")) for problem in told)
        found.append((is_other, len(told), told))
    return min(found, key=lambda one: one[:2])[2]


def _object(value: Any, kind: Any, at: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{at}: {type(value).__name__} is no object"]
    fields = _fields(kind)
    told = [f"{at}.{key}: no key of {kind.__name__}" for key in value if key not in fields]
    told += [f"{at}.{key}: missing" for key, (is_needed, _) in fields.items() if is_needed and key not in value]
    for key, one in value.items():
        if key in fields:
            told += problems(one, fields[key][1], f"{at}.{key}")
    return told


@cache
def _fields(kind: Any) -> dict[str, tuple[bool, Any]]:
    """The type of each key, and whether it must be there. `__required_keys__` does not see hints that are text."""
    hints = get_type_hints(kind, include_extras=True)
    return {
        key: (
            get_origin(hint) is Required or (key in kind.__required_keys__ and get_origin(hint) is not NotRequired),
            hint,
        )
        for key, hint in hints.items()
    }


def _inner(kind: Any) -> Any:
    while True:
        if hasattr(kind, "__value__"):
            kind = kind.__value__
        elif get_origin(kind) in (Annotated, Required, NotRequired):
            kind = get_args(kind)[0]
        else:
            return kind
