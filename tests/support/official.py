"""What a model says, in no provider's form, and what a provider's own Python package must offer to put it into that."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from pydantic import BaseModel
from scripted_server import Reply, sse, stream


class SaidCall(NamedTuple):
    """A call that a model makes; `arguments` is its text."""

    id: str
    name: str
    arguments: str = "{}"


@dataclass(frozen=True)
class Said:
    """One reply. `stop` is empty where the calls tell why it ended."""

    text: str = ""
    calls: tuple[SaidCall, ...] = ()
    thought: str = ""
    stop: Literal["", "length", "refusal"] = ""


class Package(Protocol):
    """The official package of a style. Models are its own response types, made by its own constructors."""

    style: str
    refused: str
    """The finish reason of a refusal."""

    def problems(self, body: dict[str, Any]) -> list[str]:
        """What its request types have against a body, but for what a server gave and gets back as it came."""
        ...

    def reply(self, said: Said) -> BaseModel: ...
    def events(self, said: Said) -> Iterator[tuple[str | None, BaseModel | str]]:
        """The name and the data of each event."""
        ...

    async def read(self, url: str) -> Said:
        """What the package's own client reads of one plain reply."""
        ...

    async def read_stream(self, url: str) -> Said: ...


WAYS = ("plain", "nulls", "streamed", "streamed nulls")
"""How a reply travels: in one piece or streamed, without what is not set or with an explicit null for it."""


def scripted(package: Package, said: Said, way: str) -> Reply:
    """The reply of a server that says this."""
    if way.startswith("streamed"):
        events = [sse(_json(data, way), event) for event, data in package.events(said)]
        return stream(*events)
    return Reply(_json(package.reply(said), way))


def _json(data: BaseModel | str, way: str) -> str:
    return (
        data if isinstance(data, str) else data.model_dump_json(by_alias=True, exclude_none=not way.endswith("nulls"))
    )


def pieces(text: str) -> Iterator[str]:
    """A text in pieces of three characters, at least one."""
    yield from (text[at : at + 3] for at in range(0, max(len(text), 1), 3))
