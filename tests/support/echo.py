"""Replies that go back to their provider in the next request, over a halt that another process resumes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from scripted_server import (
    Reply,
    ScriptedServer,
    anthropic_reply,
    gemini_reply,
    openai_reply,
    responses_reply,
    responses_text,
)

WORKER = Path(__file__).with_name("echo_worker.py")


class Echo(NamedTuple):
    """What a style has in every such dialogue."""

    end: Reply
    """What the model says after the result."""
    messages: str
    """The key of a request's messages."""
    around: bytes
    """What stands around the reply when it goes back."""


ECHOES = {
    "anthropic": Echo(
        anthropic_reply('[{"type":"text","text":"4 m"}]'), "messages", b'{"role":"assistant","content":[%b]}'
    ),
    "openai": Echo(openai_reply("4 m"), "messages", b",%b,"),
    "openai-responses": Echo(responses_reply(responses_text("4 m")), "input", b',%b,{"type":"function_call_output"'),
    "gemini": Echo(gemini_reply('[{"text":"4 m"}]'), "contents", b'{"role":"model","parts":[%b]}'),
}


def sent_back(replies: list[tuple[str, Reply]], is_streamed: bool) -> list[bytes]:
    """The request of each resume. The saved transcripts went through another program's JSON, keys in its order."""
    with ScriptedServer() as server:
        server.script(*[reply for _, reply in replies])
        tasks = [{"style": style, "url": server.url, "is_streamed": is_streamed} for style, _ in replies]
        halts = _in_another_process(tasks)
        assert {halt["status"] for halt in halts} == {"pending"}

        server.script(*[ECHOES[style].end for style, _ in replies])
        for halt in halts:
            halt["transcript"] = json.dumps(json.loads(halt["transcript"]), sort_keys=True, indent=1)
        ends = _in_another_process([{**task, **halt} for task, halt in zip(tasks, halts, strict=True)])
        assert {one["status"] for one in ends} == {"done"}
        return [request.body for request in server.requests[len(replies) :]]


def check_echo(body: bytes, style: str, made: str) -> None:
    """That a request has what the provider made, as it made it, between the prompt and the result."""
    messages = json.loads(body)[ECHOES[style].messages]
    assert "tide?" in str(messages[0])
    assert "4 m" in str(messages[-1])
    assert b"toolrelay" not in body
    assert ECHOES[style].around % made.encode() in body


def _in_another_process(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    done = subprocess.run([sys.executable, WORKER], input=json.dumps(tasks), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
