"""The loop that a user would write on aiohttp: what a library has to be better than."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp

import workload

Message = dict[str, Any]


def _tool(name: str, description: str, parameters: dict[str, object]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


_ADD = _tool("add", "Add two integers.", workload.ADD_SCHEMA)
_STEP = _tool("step", "Take one step.", workload.STEP_SCHEMA)
_KEEP = _tool("keep", "Keep a note.", workload.schema(note="string"))
_READ_FILE = _tool("read_file", workload.READ_FILE_DESCRIPTION, workload.READ_FILE_SCHEMA)

_FUNCTIONS: dict[str, Callable[..., Awaitable[str]]] = {"add": workload.add, "step": workload.step}


class Client:
    """Runs the workloads over two HTTP sessions: one for a run, one for its resume elsewhere."""

    def __init__(self, base_url: str) -> None:
        self._url = base_url + "/chat/completions"

    async def open(self) -> None:
        self._session = self._new_session()
        self._elsewhere = self._new_session()

    async def close(self) -> None:
        await self._session.close()
        await self._elsewhere.close()

    async def tool_run(self) -> str:
        return await self._finish(self._session, [{"role": "user", "content": workload.PROMPT}], [_ADD])

    async def long_run(self) -> str:
        return await self._finish(self._session, [{"role": "user", "content": workload.PROMPT}], [_STEP])

    async def relay_run(self, document: bytes) -> str:
        messages: list[Message] = json.loads(document)
        messages.append({"role": "user", "content": workload.PROMPT})
        reply = await self._complete(self._session, messages, [_READ_FILE])
        messages.append(reply)
        halted = json.dumps(messages)

        messages = json.loads(halted)
        call = messages[-1]["tool_calls"][0]
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": workload.RELAY_OUTPUT})
        return await self._finish(self._elsewhere, messages, [_READ_FILE])

    async def streamed_run(self) -> str:
        messages: list[Message] = [{"role": "user", "content": workload.PROMPT}]
        while True:
            text, call, pieces = "", {}, []
            async for delta in self._deltas(messages):
                text += delta.get("content") or ""
                for piece in delta.get("tool_calls") or ():
                    call = call or piece
                    pieces.append(piece["function"]["arguments"])
            if not call:
                return text
            call["function"]["arguments"] = "".join(pieces)
            output = await workload.keep(**json.loads(call["function"]["arguments"]))
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": output})

    async def _deltas(self, messages: list[Message]) -> AsyncIterator[dict[str, Any]]:
        body = {"model": workload.MODEL, "messages": messages, "tools": [_KEEP], "stream": True}
        async with self._session.post(self._url, json=body) as response:
            response.raise_for_status()
            async for line in response.content:
                if not line.startswith(b"data: ") or line == b"data: [DONE]\n":
                    continue
                for choice in json.loads(line[6:])["choices"]:
                    yield choice["delta"]

    async def _finish(
        self, session: aiohttp.ClientSession, messages: list[Message], tools: list[dict[str, Any]]
    ) -> str:
        while True:
            reply = await self._complete(session, messages, tools)
            messages.append(reply)
            if not reply.get("tool_calls"):
                return str(reply["content"])
            for call in reply["tool_calls"]:
                arguments = json.loads(call["function"]["arguments"])
                output = await _FUNCTIONS[call["function"]["name"]](**arguments)
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": output})

    async def _complete(
        self, session: aiohttp.ClientSession, messages: list[Message], tools: list[dict[str, Any]]
    ) -> Message:
        body = {"model": workload.MODEL, "messages": messages, "tools": tools}
        async with session.post(self._url, json=body) as response:
            response.raise_for_status()
            reply: Message = (await response.json())["choices"][0]["message"]
            return reply

    @staticmethod
    def _new_session() -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(limit=0)
        return aiohttp.ClientSession(connector=connector, headers={"authorization": "Bearer x"}, read_bufsize=16 << 20)
