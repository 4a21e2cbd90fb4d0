"""What happens in a soak, turn by turn. All of it follows from two numbers, so that nothing has to be remembered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from toolrelay import (
    Answer,
    InProcessRequest,
    InProcessResponse,
    InProcessToolCall,
    RelayResult,
    Request,
    ToolContext,
    Toolkit,
    define_tool,
    relay_answer,
    relay_calls_of,
    relay_tool,
)

import workload

HALTS_EACH = 10
"""Turns of a conversation, each with one halt."""
AT_HOST, HERE = "read_file", "count"
"""The tools: the host has one, this process the other."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A prompt, calls of which some are for the host, their results, and an end."""

    conversation: int
    number: int

    @classmethod
    def of(cls, prompt: str) -> Turn:
        """The turn that a prompt begins."""
        return cls(*map(int, prompt.split(" ")))

    @property
    def prompt(self) -> str:
        """What the user says."""
        return f"{self.conversation} {self.number}"

    @property
    def calls(self) -> list[tuple[str, str]]:
        """Tool and id of each call of the model."""
        mixed = self.conversation + self.number
        tools = [AT_HOST] * (1 + mixed % 3) + [HERE] * (mixed % 5 == 0)
        return [(tool, f"call_{self.conversation}_{self.number}_{at}") for at, tool in enumerate(tools)]

    @property
    def comes_twice(self) -> bool:
        """Whether the answer is delivered twice at the same moment."""
        return self.conversation % 3 == 0

    @property
    def comes_in_parts(self) -> bool:
        """Whether the host sends each result as soon as it has it."""
        return self.conversation % 3 == 1

    @property
    def messages(self) -> list[dict[str, Any]]:
        """What the transcript has to have of it: no more and no less."""
        calls = [
            {"id": id, "type": "function", "function": {"name": tool, "arguments": "{}"}} for tool, id in self.calls
        ]
        return [
            {"role": "user", "content": self.prompt},
            {"role": "assistant", "content": None, "tool_calls": calls},
            *({"role": "tool", "tool_call_id": id, "content": result_of(id)} for _, id in self.calls),
            {"role": "assistant", "content": workload.FINAL_TEXT},
        ]

    def answers(self, request: Request) -> Iterator[Answer]:
        """What the host delivers, one after the other."""
        results = [RelayResult(call.id, result_of(call.id)) for call in relay_calls_of(request)]
        for part in [[result] for result in results] if self.comes_in_parts else [results]:
            yield relay_answer(request.id, part)


def turns(conversation: int) -> list[Turn]:
    """All turns of a conversation."""
    return [Turn(conversation, number) for number in range(HALTS_EACH)]


def result_of(call_id: str) -> str:
    """What a call gives, wherever it is executed."""
    return f"the result of {call_id}"


class Counted:
    """The model and the tools, which count how often they are called."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.toolkit = Toolkit(
            [
                relay_tool(AT_HOST, "Reads a file at the host."),
                define_tool(HERE, "Counts how often it is called.", None, self.count),
            ]
        )

    async def count(self, arguments: dict[str, Any], context: ToolContext) -> str:
        """The local tool."""
        self.calls[HERE] += 1
        return result_of(context.call_id)

    async def generate(self, request: InProcessRequest) -> InProcessResponse | str:
        """The model: calls after a prompt, an end after results."""
        self.calls["model"] += 1
        last = request.messages[-1]
        if last["role"] != "user":
            return workload.FINAL_TEXT
        calls = Turn.of(last["content"]).calls
        return InProcessResponse(tool_calls=[InProcessToolCall(tool, "{}", id) for tool, id in calls])
