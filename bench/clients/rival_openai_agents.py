"""openai-agents: a relay call is a tool that needs approval, a halt is its `RunState`."""

from __future__ import annotations

import json

from agents import Agent, OpenAIChatCompletionsModel, Runner, RunState, function_tool, set_tracing_disabled

import workload
from clients.rival_openai import new_openai


@function_tool(needs_approval=True)
async def read_file(path: str) -> str:
    """Read a file on the user's machine."""
    return workload.RELAY_OUTPUT


class Client:
    """Runs the workloads on agents that share one model."""

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url

    async def open(self) -> None:
        set_tracing_disabled(True)
        self._openai = new_openai(self._base_url)
        model = OpenAIChatCompletionsModel(workload.MODEL, openai_client=self._openai)
        self._adding = Agent("adding", model=model, tools=[function_tool(workload.add)])
        self._stepping = Agent("stepping", model=model, tools=[function_tool(workload.step)])
        self._relaying = Agent("relaying", model=model, tools=[read_file])

    async def close(self) -> None:
        await self._openai.close()

    async def tool_run(self) -> str:
        return str((await Runner.run(self._adding, workload.PROMPT)).final_output)

    async def long_run(self) -> str:
        result = await Runner.run(self._stepping, workload.PROMPT, max_turns=workload.TURNS + 1)
        return str(result.final_output)

    async def relay_run(self, document: bytes) -> str:
        items = _converted(document)
        items.append({"role": "user", "content": workload.PROMPT})
        halt = await Runner.run(self._relaying, items)
        saved = halt.to_state().to_string()

        state = await RunState.from_string(self._relaying, saved)
        state.approve(state.get_interruptions()[0])
        return str((await Runner.run(self._relaying, state)).final_output)


def _converted(document: bytes) -> list:
    """The history as this package's input items."""
    items = []
    for message in json.loads(document):
        if message["role"] == "tool":
            output = {"call_id": message["tool_call_id"], "output": message["content"]}
            items.append({"type": "function_call_output", **output})
        elif message.get("tool_calls"):
            call = message["tool_calls"][0]
            items.append({"type": "function_call", "call_id": call["id"], **call["function"]})
        elif message["role"] == "assistant":
            content = [{"type": "output_text", "text": message["content"], "annotations": []}]
            identity = {"id": f"msg_{len(items)}", "type": "message", "status": "completed"}
            items.append({**identity, "role": "assistant", "content": content})
        else:
            items.append({"role": "user", "content": message["content"]})
    return items
