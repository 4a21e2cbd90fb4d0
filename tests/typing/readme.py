"""The first program of the README, which is held to this file. Checked, and run as a program."""

import asyncio

from toolrelay import (
    InProcessRequest,
    InProcessResponse,
    InProcessToolCall,
    Toolkit,
    answer_output,
    create_in_process_client,
    relay_calls_of,
    relay_tool,
)


def generate(request: InProcessRequest) -> InProcessResponse | str:  # stands in for a model; see below for a real one
    results = [message["content"] for message in request.messages if message["role"] == "tool"]
    if results:
        return f"The folder holds {results[0]}."
    return InProcessResponse(tool_calls=[InProcessToolCall("shell", {"command": "ls"})])


async def main() -> None:
    toolkit = Toolkit([relay_tool("shell", "Runs a command on the user's machine.")])
    client = create_in_process_client(generate=generate)

    halted = await client.ask("What is in the folder?", toolkit, id="c-1")
    (request,) = halted.suspensions  # all relay calls of a turn ride one request
    for call in relay_calls_of(request):
        print(halted.status, call.name, call.input)  # pending shell {'command': 'ls'}

    answer = answer_output(request.id, "a.txt and b.txt")  # the host ran it
    done = await client.ask_with_answer(toolkit, "c-1", request, answer)
    print(done.status, done.text)  # done The folder holds a.txt and b.txt.


asyncio.run(main())
