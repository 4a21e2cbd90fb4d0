"""pydantic-ai: relay calls are its external tools, a halt is its `DeferredToolRequests`."""

from __future__ import annotations

from pydantic_ai import (
    Agent,
    DeferredToolRequests,
    DeferredToolResults,
    ExternalToolset,
    ModelMessagesTypeAdapter,
    ToolDefinition,
    UsageLimits,
)
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

import workload
from clients.rival_openai import new_openai


class Client:
    """Runs the workloads on agents that share one model."""

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url
        self._histories: dict[bytes, bytes] = {}

    async def open(self) -> None:
        self._openai = new_openai(self._base_url)
        model = OpenAIChatModel(workload.MODEL, provider=OpenAIProvider(openai_client=self._openai))
        read_file = ToolDefinition(
            name="read_file",
            description=workload.READ_FILE_DESCRIPTION,
            parameters_json_schema=workload.READ_FILE_SCHEMA,
        )
        self._adding = Agent(model, tools=[workload.add])
        self._stepping = Agent(model, tools=[workload.step])
        self._relaying = Agent(model, toolsets=[ExternalToolset([read_file])], output_type=[str, DeferredToolRequests])

    async def close(self) -> None:
        await self._openai.close()

    async def tool_run(self) -> str:
        return (await self._adding.run(workload.PROMPT)).output

    async def long_run(self) -> str:
        limits = UsageLimits(request_limit=workload.TURNS + 1)
        return (await self._stepping.run(workload.PROMPT, usage_limits=limits)).output

    async def relay_run(self, document: bytes) -> str:
        if document not in self._histories:
            self._histories[document] = _converted(document)
        history = ModelMessagesTypeAdapter.validate_json(self._histories[document])
        halt = await self._relaying.run(workload.PROMPT, message_history=history)
        assert isinstance(halt.output, DeferredToolRequests)
        call = halt.output.calls[0].tool_call_id
        saved = halt.all_messages_json()

        results = DeferredToolResults(calls={call: workload.RELAY_OUTPUT})
        transcript = ModelMessagesTypeAdapter.validate_json(saved)
        result = await self._relaying.run(message_history=transcript, deferred_tool_results=results)
        assert isinstance(result.output, str)
        return result.output


def _converted(document: bytes) -> bytes:
    """The history in this package's own JSON; not measured, a store would hold it so."""
    import json

    from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart

    messages: list[ModelRequest | ModelResponse] = []
    for message in json.loads(document):
        if message["role"] == "user":
            messages.append(ModelRequest(parts=[UserPromptPart(message["content"])]))
        elif message["role"] == "tool":
            part = ToolReturnPart("read_file", message["content"], tool_call_id=message["tool_call_id"])
            messages.append(ModelRequest(parts=[part]))
        elif message["content"] is None:
            call = message["tool_calls"][0]
            function = call["function"]
            messages.append(ModelResponse(parts=[ToolCallPart(function["name"], function["arguments"], call["id"])]))
        else:
            messages.append(ModelResponse(parts=[TextPart(message["content"])]))
    return ModelMessagesTypeAdapter.dump_json(messages)
