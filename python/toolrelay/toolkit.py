"""The tools of a run, checked as one: no two share a name, and nothing captures the name of a relay tool."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from toolrelay._core import NativeToolkit
from toolrelay._json import encode
from toolrelay.errors import ToolkitError
from toolrelay.tools import Tool

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

BUILTIN_NAMES: tuple[str, ...] = tuple(NativeToolkit.BUILTIN_NAMES)
"""The names of the builtin tools. A relay tool may have none of them, even with builtins off (contract 2.1)."""


class Toolkit:
    """The tools that a model may call.

    >>> from toolrelay import Toolkit, relay_tool
    >>> Toolkit([relay_tool("click", "click a button in the user's tab")])
    <Toolkit: click (relay)>

    A `ToolkitError` names the tool whose name is taken, is a builtin's (relay tools only), or whose schema is none.
    """

    __slots__ = ("_native", "_tools")

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: tuple[Tool, ...] = ()
        self._native = NativeToolkit([])
        self._replace(tuple(tools))

    def register(self, tool: Tool) -> None:
        """Adds a tool under the same checks; a refused one changes nothing. Runs under way keep what they have."""
        self._replace((*self._tools, tool))

    def _replace(self, tools: tuple[Tool, ...]) -> None:
        for tool in tools:
            if not isinstance(tool, Tool):
                raise ToolkitError(f"a toolkit takes tools, not {type(tool).__name__}: use define_tool or relay_tool")
        self._native = NativeToolkit([(tool, encode(tool.schema)) for tool in tools])
        self._tools = tools

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Toolkit holds functions of this process: make one of the same tools where it is used")

    def __repr__(self) -> str:
        names = ", ".join(f"{tool.name} (relay)" if tool.relay else tool.name for tool in self._tools)
        return f"<Toolkit: {names or 'no tools'}>"


async def create_toolkit(*, extra_tools: Iterable[Tool] = (), builtins: bool = False) -> Toolkit:
    """A toolkit of these tools.

    It is a coroutine because tools that have to be asked for their schema first will come in here. Builtin tools
    (`BUILTIN_NAMES`) are off unless asked for; this version has none yet, and says so with a `ToolkitError`.

    >>> import asyncio
    >>> from toolrelay import create_toolkit, relay_tool
    >>> asyncio.run(create_toolkit(extra_tools=[relay_tool("click", "click a button")]))
    <Toolkit: click (relay)>
    """
    toolkit = Toolkit(extra_tools)
    if builtins:
        raise ToolkitError("the builtin tools are not part of this version yet: leave builtins=False")
    return toolkit
