"""A conversation that halts in one process and finishes in another.

The first process asks a model to describe a folder. In one turn the model lists the folder and reads a file (relay
tools: the host executes them), asks for the date (an ordinary tool), and wants to note something down (a tool that asks
for approval first). The run halts into a SQLite file and the process ends. The second process loads what is pending,
executes the relay calls for real on this machine, approves the note, and finishes the conversation.

    python examples/demo.py
    python examples/demo.py --base-url https://api.openai.com/v1 --style openai --model gpt-5-mini
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path

from rich.console import Console
from rich.panel import Panel
from toolrelay import (
    Answer,
    Client,
    InProcessRequest,
    InProcessResponse,
    InProcessToolCall,
    RelayCall,
    RelayResult,
    Request,
    SqliteStore,
    ToolContext,
    Toolkit,
    Transcript,
    create_client,
    create_in_process_client,
    define_tool,
    is_relay_request,
    pending,
    relay_answer,
    relay_calls_of,
    relay_tool,
)

CONVERSATION = "demo"
PROMPT = (
    "List the folder, read the file README.md, look up today's date, and note down in one line what this project is. "
    "Make these four calls at once. Then tell me what you found."
)
console = Console()


def toolkit(notes: Path) -> Toolkit:
    """The tools: two for the host, one ordinary, one that asks first."""
    path = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}

    @define_tool
    async def today() -> str:
        """The date of today."""
        return date.today().isoformat()

    @define_tool
    async def note(text: str, context: ToolContext) -> object:
        """Writes a line into the notebook, once a person has approved it."""
        if context.answer is None:
            return pending(kind="approval", prompt=f"May I note down: {text!r}?")
        await asyncio.to_thread(notes.write_text, text + "\n")
        return "noted"

    return Toolkit(
        [
            relay_tool("list_folder", "Lists the names in a folder of the user's machine.", path),
            relay_tool("read_file", "Reads the start of a file on the user's machine.", path),
            today,
            note,
        ]
    )


async def generate(request: InProcessRequest) -> InProcessResponse:
    """A model that needs no network: four calls in the first turn, then a summary of their results."""
    results = [message["content"] for message in request.messages if message["role"] == "tool"]
    if results:
        names, text, today, noted = results
        title = text.splitlines()[0].lstrip("# ") if text else "nothing"
        return InProcessResponse(
            f"On {today} the folder holds {len(json.loads(names))} entries, and README.md begins with "
            f"{title!r}. The notebook says: {noted}."
        )
    return InProcessResponse(
        "Let me look.",
        [
            InProcessToolCall("list_folder", {"path": "."}, "call_1"),
            InProcessToolCall("read_file", {"path": "README.md"}, "call_2"),
            InProcessToolCall("today", {}, "call_3"),
            InProcessToolCall("note", {"text": "toolrelay: tools that run at the host"}, "call_4"),
        ],
    )


def client(arguments: argparse.Namespace) -> Client:
    """The in-process model, or the endpoint that the command line names."""
    store = SqliteStore(arguments.store)
    if arguments.base_url is None:
        return create_in_process_client(generate=generate, store=store)
    return create_client(base_url=arguments.base_url, style=arguments.style, model=arguments.model, store=store)


async def ask(arguments: argparse.Namespace) -> None:
    """Process one: from the prompt to the halt."""
    tools = toolkit(arguments.store.with_name("notes.txt"))
    result = await client(arguments).ask(PROMPT, tools, id=CONVERSATION)
    console.print(f"[bold]process one[/] ends with status [bold yellow]{result.status}[/], {result.messages!r}")


def execute(call: RelayCall) -> RelayResult:
    """Executes one relay call on this machine."""
    path = Path(call.input["path"])
    try:
        if call.name == "list_folder":
            return RelayResult(call.id, sorted(entry.name for entry in path.iterdir()))
        return RelayResult(call.id, path.read_text()[:2000])
    except OSError as error:
        return RelayResult(call.id, f"{type(error).__name__}: {error}", is_error=True)


def answer(request: Request) -> Answer:
    """Settles a request: relay calls are executed, an approval is given."""
    if is_relay_request(request):
        return relay_answer(request.id, [execute(call) for call in relay_calls_of(request)])
    return Answer(request.id, ok=True)


async def resume(arguments: argparse.Namespace) -> None:
    """Process two: what is pending, the answers, the end."""
    tools = toolkit(arguments.store.with_name("notes.txt"))
    worker = client(arguments)
    conversation = await worker.get(CONVERSATION)
    console.print(f"[bold]process two[/] finds {conversation!r}, waiting for:")
    waiting = list(conversation.suspensions)
    while waiting:
        request = waiting.pop(0)
        calls = ", ".join(f"{call.name}({call.arguments})" for call in relay_calls_of(request))
        console.print(f"  [yellow]{request.kind}[/] {calls or request.prompt}", highlight=False)
        result = await worker.ask_with_answer(tools, CONVERSATION, request, answer(request))
        console.print(f"    answered, status [bold]{result.status}[/]")
        waiting = list(result.suspensions)
    show((await worker.get(CONVERSATION)).messages)


def show(transcript: Transcript) -> None:
    """Prints a transcript like a play."""
    names = {}
    for message in transcript:
        text = message.get("content") or ""
        title = message["role"]
        for call in message.get("tool_calls", ()):
            names[call["id"]] = call["function"]["name"]
            text += f"\n→ {call['function']['name']}({call['function']['arguments']})"
        if title == "tool":
            title = f"result of {names[message['tool_call_id']]}"
        shown = text if len(text) <= 300 else text[:300] + " …"
        console.print(Panel(shown.strip(), title=title, title_align="left", width=100), highlight=False, markup=False)


def both(arguments: argparse.Namespace) -> None:
    """Runs the two halves in processes of their own, over one file."""
    with tempfile.TemporaryDirectory() as folder:
        for step in ("ask", "resume"):
            command = [sys.executable, __file__, step, "--store", str(Path(folder, "conversations.db"))]
            if arguments.base_url is not None:
                command += ["--base-url", arguments.base_url, "--style", arguments.style, "--model", arguments.model]
            subprocess.run(command, check=True)


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", nargs="?", choices=["ask", "resume"], help="one half alone; both when left out")
    parser.add_argument("--store", type=Path, default=Path("conversations.db"), help="the SQLite file of a half")
    parser.add_argument("--base-url", help="a real endpoint instead of the in-process model")
    styles = ["openai", "openai-responses", "anthropic", "gemini"]
    parser.add_argument("--style", choices=styles, default="openai")
    parser.add_argument("--model", help="the model's name at the endpoint")
    arguments = parser.parse_args()
    if arguments.base_url is not None and arguments.model is None:
        parser.error("--base-url needs --model")
    match arguments.step:
        case "ask":
            asyncio.run(ask(arguments))
        case "resume":
            asyncio.run(resume(arguments))
        case _:
            both(arguments)


if __name__ == "__main__":
    main()
