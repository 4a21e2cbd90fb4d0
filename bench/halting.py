"""One halt and one resume of a stored conversation: what the benchmarks of stores repeat.

The model is in this process and costs next to nothing: what is measured is the loop and the store. One client halts and
another resumes, each with a store of its own.
"""

from __future__ import annotations

from toolrelay import (
    InProcessRequest,
    InProcessResponse,
    InProcessToolCall,
    MemoryStore,
    Request,
    RunResult,
    Toolkit,
    Transcript,
    answer_output,
    create_in_process_client,
    relay_tool,
)

import workload
from support import open_store

MEMORY = "memory"
"""The place of a store that both clients share."""

TOOLKIT = Toolkit([relay_tool("read_file", workload.READ_FILE_DESCRIPTION, workload.READ_FILE_SCHEMA)])


async def call(request: InProcessRequest) -> InProcessResponse:
    """A model that calls the relay tool."""
    return InProcessResponse(tool_calls=[InProcessToolCall("read_file", {"path": "notes/today.txt"})])


async def finish(request: InProcessRequest) -> str:
    """A model that has what it needs."""
    return workload.FINAL_TEXT


def request_of(halted: RunResult) -> Request:
    """What a halt waits for."""
    assert halted.pending is not None, halted
    return halted.pending


class Workers:
    """Two workers on one place for conversations."""

    def __init__(self, place: str, output: str = workload.RELAY_OUTPUT) -> None:
        self.output = output
        self._opened = [MemoryStore()] * 2 if place == MEMORY else [open_store(place) for _ in range(2)]
        halting, resuming = self._opened
        self.halting = create_in_process_client(generate=call, store=halting)
        self.resuming = create_in_process_client(generate=finish, store=resuming)

    async def close(self) -> None:
        """Writes what is under way, and lets go of the place."""
        for store in self._opened:
            if not isinstance(store, MemoryStore):
                await store.close()

    async def halt(self, id: str) -> str:
        """A prompt, up to the halt; the id of the request."""
        halted = await self.halting.ask(workload.PROMPT, TOOLKIT, id=id)
        return request_of(halted).id

    async def resume(self, id: str, request: str) -> None:
        """The answer, up to the end."""
        done = await self.resuming.ask_with_answer(TOOLKIT, id, request, answer_output(request, self.output))
        assert done.text == workload.FINAL_TEXT, done

    async def halt_and_resume(self, id: str) -> None:
        """Both."""
        await self.resume(id, await self.halt(id))


async def without_store(workers: Workers, history: Transcript) -> int:
    """The same, with the transcript in the hands of the host; the number of bytes that are new."""
    halted = await workers.halting.run(workload.PROMPT, TOOLKIT, history=history)
    request = request_of(halted)
    answer = answer_output(request.id, workers.output)
    done = await workers.resuming.run_with_answer(TOOLKIT, halted.messages, request, answer)
    assert done.text == workload.FINAL_TEXT, done
    before, after = len(history.to_json()), len(done.messages.to_json())
    return after - before + len(request.to_json()) + len(answer.to_json())
