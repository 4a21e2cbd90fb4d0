"""What a function says of itself: its parameters, their types and its docstring.

This module owns reading; `_schema` makes JSON Schema and conversions of it.
"""

from __future__ import annotations

import inspect
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, get_args, get_type_hints

from toolrelay.errors import ToolkitError
from toolrelay.tools import ToolContext

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Parameter(NamedTuple):
    """One argument of a tool."""

    name: str
    hint: Any
    default: Any
    description: str | None

    @property
    def required(self) -> bool:
        """Whether a call must give it."""
        return self.default is MISSING


class Signature(NamedTuple):
    """What a function takes and says."""

    description: str
    parameters: list[Parameter]
    contexts: list[str]
    is_async: bool


def read_signature(tool: str, function: Callable[..., Any], scope: Mapping[str, Any]) -> Signature:
    """Reads a function, method, partial or callable object; `scope` are the locals where it was defined.

    Raises `ToolkitError` naming the tool, and the parameter where one is to blame.
    """
    if inspect.isclass(function):
        raise ToolkitError(f"{tool}: a class is no tool, give a function or an object with __call__", tool=tool)
    source: Any = source_of(function)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        raise ToolkitError(f"{tool}: its parameters cannot be read, wrap it in a function", tool=tool) from None
    bound: Mapping[str, Any] = function.keywords if isinstance(function, partial) else {}
    taken = [item for item in signature.parameters.values() if item.name not in bound]
    hints = _hints(tool, source, scope)
    description, told = _docstring(source, inspect.getdoc(source) or "")
    parameters: list[Parameter] = []
    contexts: list[str] = []
    for item in taken:
        _check(tool, source, item)
        hint = hints.get(item.name, Any)
        if hint is ToolContext or ToolContext in get_args(hint):
            contexts.append(item.name)
            continue
        default = MISSING if item.default is inspect.Parameter.empty else item.default
        parameters.append(Parameter(item.name, hint, default, told.get(item.name)))
    return Signature(description, parameters, contexts, inspect.iscoroutinefunction(source))


def source_of(function: Any) -> Any:
    """The function whose code, hints and docstring count."""
    while isinstance(function, partial):
        function = function.func
    if inspect.isroutine(function):
        return function
    return type(function).__call__


def _check(tool: str, source: Any, item: inspect.Parameter) -> None:
    if item.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
        stars = "*" if item.kind is inspect.Parameter.VAR_POSITIONAL else "**"
        raise ToolkitError(f"{tool}: {stars}{item.name} has no schema, name each parameter", tool=tool)
    if item.kind is inspect.Parameter.POSITIONAL_ONLY:
        raise ToolkitError(f"{tool}: {item.name} is positional-only, arguments come by name", tool=tool)
    if item.name in ("self", "cls") and "." in source.__qualname__:
        raise ToolkitError(f"{tool}: {item.name} is not bound, define the tool from an object's method", tool=tool)


def _hints(tool: str, source: Any, scope: Mapping[str, Any]) -> dict[str, Any]:
    names = {"ToolContext": ToolContext, **scope}
    try:
        return get_type_hints(source, localns=names, include_extras=True)
    except Exception as error:
        raise ToolkitError(_blame(tool, source, names, error), tool=tool) from error


def _blame(tool: str, source: Any, names: Mapping[str, Any], error: Exception) -> str:
    """Which annotation cannot be read: each is tried on its own."""
    for name, annotation in inspect.get_annotations(source).items():
        holder = type("holder", (), {"__annotations__": {name: annotation}, "__module__": source.__module__})
        try:
            get_type_hints(holder, localns=dict(names))
        except Exception as reason:  # noqa: BLE001 - as above
            return f"{tool}: the type of {name} cannot be read: {reason}"
    return f"{tool}: its types cannot be read: {error}"


def _docstring(source: Any, text: str) -> tuple[str, dict[str, str]]:
    """The text of a docstring and what it says of each parameter (Google, NumPy or Sphinx style)."""
    if "\n" not in text:
        return text, {}
    import griffe

    quiet = {style: {"warnings": False} for style in ("google", "numpy", "sphinx")}
    sections = griffe.parse_auto(griffe.Docstring(text, lineno=1), per_style_options=quiet)  # type: ignore[arg-type]
    texts: list[str] = []
    told: dict[str, str] = {}
    for section in sections:
        if isinstance(section, griffe.DocstringSectionText):
            texts.append(section.value)
        elif isinstance(section, griffe.DocstringSectionParameters | griffe.DocstringSectionOtherParameters):
            told.update({item.name: " ".join(item.description.split()) for item in section.value})
    return "\n\n".join(texts), told


MISSING = inspect.Parameter.empty
