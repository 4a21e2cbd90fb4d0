"""A coding client: the model asks for shell commands, and they run here once you have agreed.

What the model says is shown while it says it. The client answers inline: `wait_for` gets each call while the run waits,
shows the command, asks for consent, runs it, and gives back what it printed. What you do not allow is declined, and the
model reads that. Control-C stops it at any time; with `--keep` the next start goes on from there.

    python examples/coding_client.py
    python examples/coding_client.py --keep conversations.db --folder .
    python examples/coding_client.py --folder . --base-url https://api.openai.com/v1 --model gpt-5-mini "What is here?"
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from threading import Thread

from toolrelay import (
    Answer,
    Client,
    ConversationNotFound,
    InProcessRequest,
    InProcessToolCall,
    MemoryStore,
    RelayCall,
    RelayResult,
    Request,
    SqliteStore,
    Stream,
    Toolkit,
    create_client,
    create_in_process_client,
    relay_answer,
    relay_calls_of,
    relay_tool,
)
from toolrelay.events import TextDelta, UsageReported

SHELL = relay_tool(
    "shell",
    "Runs a shell command in the user's folder and returns what it printed.",
    {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
)
TOOLKIT = Toolkit([SHELL])
CONVERSATION = "coding"
LONGEST = 60.0
MOST_CHARACTERS = 20_000


class Terminal:
    """The user's side: asks for consent, one question at a time, and runs what is allowed."""

    def __init__(self, folder: Path, allow_all: bool) -> None:
        self.folder = folder
        self.allow_all = allow_all
        self._asking = asyncio.Lock()

    async def wait_for(self, request: Request) -> Answer:
        """Answers a call, at the same time as the others of its turn; or, after an interruption, all that were left."""
        return relay_answer(request.id, [await self._result(call) for call in relay_calls_of(request)])

    async def _result(self, call: RelayCall) -> RelayResult:
        if not await self._allows(call.input["command"]):
            return RelayResult(call.id, "declined by the user", is_error=True)
        return await self._run(call)

    async def _allows(self, command: str) -> bool:
        async with self._asking:
            print(f"$ {command}")
            if self.allow_all:
                return True
            return (await line("  run it? [y/N] ")).strip().lower() == "y"

    async def _run(self, call: RelayCall) -> RelayResult:
        process = await asyncio.create_subprocess_shell(
            call.input["command"], cwd=self.folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        try:
            async with asyncio.timeout(LONGEST):
                printed, _ = await process.communicate()
        except TimeoutError:
            return RelayResult(call.id, f"still running after {LONGEST:.0f} s, and ended", is_error=True)
        finally:
            # The run was cancelled or the time is over: nothing is left behind.
            if process.returncode is None:
                process.kill()
                await process.wait()
        text = printed.decode(errors="replace")[:MOST_CHARACTERS]
        failed = process.returncode != 0
        return RelayResult(call.id, f"{text}[exit code {process.returncode}]" if failed else text, is_error=failed)


async def line(question: str) -> str:
    """What the user types; empty at the end of the input.

    A daemon thread reads it, past Python's buffers: neither Control-C nor the end of the program waits for it.
    """
    print(question, end="", flush=True)
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[str] = loop.create_future()

    def tell(text: str) -> None:
        if not typed.done():
            typed.set_result(text)

    def read() -> None:
        with open(0, "rb", buffering=0, closefd=False) as terminal:
            text = terminal.readline().decode(errors="replace")
        with suppress(RuntimeError):  # the loop was closed while nobody typed
            loop.call_soon_threadsafe(tell, text)

    Thread(target=read, daemon=True).start()
    return await typed


async def generate(request: InProcessRequest) -> AsyncIterator[str | InProcessToolCall]:
    """A model that needs no network: it writes a file and wants to know your machine in one turn, then it runs it."""
    results = [message["content"] for message in request.messages if message["role"] == "tool"]
    if not results:
        yield InProcessToolCall("shell", {"command": "echo 'print(6 * 7)' > answer.py"})
        yield InProcessToolCall("shell", {"command": "cat /etc/hostname"})
    elif len(results) == 2:
        yield InProcessToolCall("shell", {"command": "ls; python3 answer.py"})
    else:
        yield "This is what I got:"
        for result in results:
            yield f"\n- {result.strip()}"


def client(arguments: argparse.Namespace, terminal: Terminal) -> Client:
    """The in-process model, or the endpoint that the command line names."""
    store = MemoryStore() if arguments.keep is None else SqliteStore(arguments.keep)
    if arguments.base_url is None:
        return create_in_process_client(generate=generate, wait_for=terminal.wait_for, store=store)
    return create_client(
        base_url=arguments.base_url,
        style=arguments.style,
        model=arguments.model,
        system_prompt="You are a careful programmer. Use the shell tool to look before you speak.",
        max_turns=50,
        wait_for=terminal.wait_for,
        store=store,
    )


async def begin(agent: Client, terminal: Terminal, prompt: str) -> Stream:
    """The prompt; or first what an earlier start left of the conversation."""
    try:
        left = await agent.get(CONVERSATION)
    except ConversationNotFound:
        return agent.stream(prompt, TOOLKIT, id=CONVERSATION)
    if left.suspensions:
        request = left.suspensions[0]  # the only one: relay calls that are left of a turn ride one request
        answer = await terminal.wait_for(request)
        return agent.stream_with_answer(TOOLKIT, None, request, answer, id=CONVERSATION)
    is_over = left.messages[-1]["role"] == "assistant"
    return agent.stream(prompt if is_over else None, TOOLKIT, id=CONVERSATION)


async def work(arguments: argparse.Namespace, folder: Path) -> None:
    """One run in one folder."""
    terminal = Terminal(folder, arguments.yes)
    async with await begin(client(arguments, terminal), terminal, arguments.prompt) as stream:
        is_speaking = False
        async for event in stream:
            match event:
                case TextDelta(text):
                    print(text, end="", flush=True)
                    is_speaking = True
                case UsageReported() if is_speaking:  # the reply has ended
                    print()
                    is_speaking = False
                case _:
                    pass
    if stream.result.status == "incomplete":
        print(f"(ended by its limit: {stream.result.limit})")


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prompt", nargs="?", default="Write a program that prints the answer, and run it.")
    parser.add_argument("--folder", type=Path, help="where commands run; a temporary folder when left out")
    parser.add_argument("--keep", type=Path, help="a file for the conversation: started again, it goes on")
    parser.add_argument("--yes", action="store_true", help="allow every command without asking")
    parser.add_argument("--base-url", help="a real endpoint instead of the in-process model")
    styles = ["openai", "openai-responses", "anthropic", "gemini"]
    parser.add_argument("--style", choices=styles, default="openai")
    parser.add_argument("--model", help="the model's name at the endpoint")
    arguments = parser.parse_args()
    if arguments.base_url is not None and arguments.model is None:
        parser.error("--base-url needs --model")
    try:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(work(arguments, arguments.folder or Path(folder)))
    except KeyboardInterrupt:
        sys.exit("\nstopped" if arguments.keep is None else "\nstopped; start it again to go on")


if __name__ == "__main__":
    main()
