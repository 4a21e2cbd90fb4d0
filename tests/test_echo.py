"""What a provider made goes back to it byte for byte, over a halt that another process resumes (contract 8.2)."""

from collections.abc import Callable
from typing import NamedTuple

import pytest
from echo import check_echo, sent_back
from made import ANTHROPIC, GEMINI, OPENAI, RESPONSES
from scripted_server import Reply, anthropic_reply, gemini_reply, responses_reply


class Wire(NamedTuple):
    """What a style's provider makes, and how it says so."""

    made: dict[str, str]
    reply: Callable[[str], Reply]


WIRES = {
    "anthropic": Wire(ANTHROPIC, lambda made: anthropic_reply(f"[{made}]", "tool_use")),
    "openai": Wire(
        OPENAI, lambda made: Reply(f'{{"choices":[{{"index":0,"message":{made},"finish_reason":"tool_calls"}}]}}')
    ),
    "openai-responses": Wire(RESPONSES, lambda made: responses_reply(f"[{made}]")),
    "gemini": Wire(GEMINI, lambda made: gemini_reply(f"[{made}]")),
}
CASES = [(style, name) for style, wire in WIRES.items() for name in wire.made]


@pytest.fixture(scope="module")
def sent() -> dict[tuple[str, str], bytes]:
    replies = [(style, WIRES[style].reply(WIRES[style].made[name])) for style, name in CASES]
    return dict(zip(CASES, sent_back(replies, is_streamed=False), strict=True))


@pytest.mark.parametrize(("style", "name"), CASES, ids=[f"{style}-{name}" for style, name in CASES])
def test_a_reply_goes_back_byte_for_byte(sent, style, name):
    check_echo(sent[style, name], style, WIRES[style].made[name])
