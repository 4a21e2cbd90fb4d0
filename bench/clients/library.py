"""toolrelay itself, through its public names."""

from __future__ import annotations

from toolrelay import Answer, Request, Transcript, answer_output, create_client, create_toolkit, define_tool, relay_tool
from toolrelay.events import TextDelta

import workload


class Client:
    """Runs the workloads; a halt is resumed by a second client that shares nothing with the first."""

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url

    async def open(self) -> None:
        self._client = self._new_client()
        self._elsewhere = self._new_client()
        self._adding = await create_toolkit(extra_tools=[define_tool(workload.add)])
        self._stepping = await create_toolkit(extra_tools=[define_tool(workload.step)])
        self._keeping = await create_toolkit(extra_tools=[define_tool(workload.keep)])
        read_file = relay_tool("read_file", workload.READ_FILE_DESCRIPTION, workload.READ_FILE_SCHEMA)
        self._relaying = await create_toolkit(extra_tools=[read_file])
        self._relaying_elsewhere = await create_toolkit(extra_tools=[read_file])

    async def close(self) -> None:
        pass

    async def tool_run(self) -> str:
        return (await self._client.run(workload.PROMPT, self._adding)).text

    async def long_run(self) -> str:
        return (await self._client.run(workload.PROMPT, self._stepping)).text

    async def relay_run(self, document: bytes) -> str:
        halt = await self._client.run(workload.PROMPT, self._relaying, history=document)
        assert halt.pending is not None
        saved, asked = halt.messages.to_json(), halt.pending.to_json()

        request = Request.from_json(asked)
        answer = Answer.from_json(answer_output(request.id, workload.RELAY_OUTPUT).to_json())
        transcript = Transcript.from_json(saved)
        result = await self._elsewhere.run_with_answer(self._relaying_elsewhere, transcript, request, answer)
        return result.text

    async def streamed_run(self) -> str:
        pieces: list[str] = []
        async for event in self._client.stream(workload.PROMPT, self._keeping):
            match event:
                case TextDelta(text):
                    pieces.append(text)
        return "".join(pieces)

    def _new_client(self) -> object:
        return create_client(
            base_url=self._base_url, style="openai", model=workload.MODEL, api_key="x", max_turns=workload.TURNS + 1
        )
