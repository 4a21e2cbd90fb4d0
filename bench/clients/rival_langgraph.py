"""LangGraph: a relay call is a tool that interrupts, a halt is a checkpoint (in memory, through its serialiser)."""

from __future__ import annotations

import itertools
import json

from langchain_core.messages import convert_to_messages
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import create_react_agent
from langgraph.types import Command, interrupt

import workload
from clients.rival_openai import new_openai


@tool
async def read_file(path: str) -> str:
    """Read a file on the user's machine."""
    return str(interrupt({"path": path}))


class Client:
    """Runs the workloads on graphs that share one model; two graphs share the checkpoints."""

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url
        self._threads = itertools.count()

    async def open(self) -> None:
        self._openai = new_openai(self._base_url)
        model = ChatOpenAI(
            model=workload.MODEL,
            base_url=self._base_url,
            api_key="x",
            async_client=self._openai.chat.completions,
            root_async_client=self._openai,
        )
        self._saver = InMemorySaver()
        self._adding = create_react_agent(model, [tool(workload.add)])
        self._stepping = create_react_agent(model, [tool(workload.step)])
        self._relaying = create_react_agent(model, [read_file], checkpointer=self._saver)
        self._elsewhere = create_react_agent(model, [read_file], checkpointer=self._saver)

    async def close(self) -> None:
        await self._openai.close()

    async def tool_run(self) -> str:
        return _text(await self._adding.ainvoke({"messages": [("user", workload.PROMPT)]}))

    async def long_run(self) -> str:
        config = {"recursion_limit": 3 * workload.TURNS}
        return _text(await self._stepping.ainvoke({"messages": [("user", workload.PROMPT)]}, config))

    async def relay_run(self, document: bytes) -> str:
        thread = str(next(self._threads))
        config = {"configurable": {"thread_id": thread}}
        messages = convert_to_messages(json.loads(document))
        await self._relaying.ainvoke({"messages": [*messages, ("user", workload.PROMPT)]}, config)
        result = await self._elsewhere.ainvoke(Command(resume=workload.RELAY_OUTPUT), config)
        await self._saver.adelete_thread(thread)
        return _text(result)


def _text(state: dict) -> str:
    return str(state["messages"][-1].content)
