"""A service whose tools run in the user's browser: any worker takes any answer, and takes it twice without harm.

Two workers are processes of their own, as they would be behind a load balancer, and share one SQLite file. `Service` is
what their HTTP handlers would call: JSON in, a status and JSON out. The browser knows nothing but this JSON, and its
network is bad: each answer arrives at both workers at the same moment. Each turn still asks the model once.

    python examples/browser_service.py
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import tempfile
import time
from collections.abc import Awaitable, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from toolrelay import (
    AlreadyAnswered,
    Answer,
    AnswerInProgress,
    Client,
    ConversationBusy,
    ConversationNotFound,
    InProcessRequest,
    InProcessResponse,
    InProcessToolCall,
    PayloadError,
    PendingError,
    ProviderError,
    Request,
    ResumeError,
    RunResult,
    SqliteStore,
    Toolkit,
    create_in_process_client,
    relay_tool,
)

TOOLKIT = Toolkit(
    [
        relay_tool("read_page", "Returns the text of the page that the user looks at."),
        relay_tool(
            "click",
            "Clicks a button of that page.",
            {"type": "object", "properties": {"button": {"type": "string"}}, "required": ["button"]},
        ),
    ]
)


class Reply(NamedTuple):
    """What an HTTP handler sends back."""

    status: int
    body: dict[str, Any]


class Service:
    """The handlers. They keep nothing: all state is in the store."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def prompt(self, conversation: str, body: Mapping[str, Any]) -> Reply:
        """POST /conversations/{conversation}/prompts with `{"text": …}`."""
        return await self._reply(self.client.ask(body["text"], TOOLKIT, id=conversation))

    async def answer(self, conversation: str, body: Mapping[str, Any]) -> Reply:
        """POST /conversations/{conversation}/answers with `{"request": …, "answer": …}`, the request as it was sent.

        Nobody has to trust it: it is compared with the stored one.
        """
        try:
            request, answer = Request.from_dict(body["request"]), Answer.from_dict(body["answer"])
        except (KeyError, PayloadError) as error:
            return Reply(400, {"error": str(error)})
        return await self._reply(self.client.ask_with_answer(TOOLKIT, conversation, request, answer))

    async def _reply(self, run: Awaitable[RunResult]) -> Reply:
        try:
            result = await run
        except (ConversationBusy, AnswerInProgress) as error:
            return Reply(503, {"error": str(error), "retry": True})
        except ProviderError as error:  # the answer is kept: the same one again goes on from it
            return Reply(503, {"error": error.kind, "retry": True})
        except PendingError as error:
            return Reply(409, {"error": str(error), "requests": [request.to_dict() for request in error.suspensions]})
        except AlreadyAnswered as error:
            return Reply(409, {"error": str(error)})
        except ConversationNotFound as error:
            return Reply(404, {"error": str(error)})
        except ResumeError as error:
            return Reply(422, {"error": str(error)})
        requests = [request.to_dict() for request in result.suspensions]
        return Reply(200, {"status": result.status, "text": result.text, "requests": requests})


async def generate(request: InProcessRequest) -> InProcessResponse:
    """A model that needs no network: it reads the page, closes the banner, reads again and reports."""
    results = [message["content"] for message in request.messages if message["role"] == "tool"]
    # One write: the lines of several processes must not mix.
    print(f"  worker {os.getpid()} asks the model, which has {len(results)} results\n", end="", flush=True)
    await asyncio.sleep(0.3)
    if not results:
        return InProcessResponse(tool_calls=[InProcessToolCall("read_page")])
    if "[Accept]" in results[-1]:
        return InProcessResponse(
            "A banner.", [InProcessToolCall("click", {"button": "Accept"}), InProcessToolCall("read_page")]
        )
    return InProcessResponse(f"The headline is {results[-1]!r}.")


class Worker:
    """One process of the service, and the way to it."""

    service: ClassVar[Service]

    def __init__(self, store: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self.process = ProcessPoolExecutor(1, context, initializer=Worker.start, initargs=(store,))

    @staticmethod
    def start(store: Path) -> None:
        """Runs in the process, once."""
        Worker.service = Service(create_in_process_client(generate=generate, store=SqliteStore(store)))

    @staticmethod
    def handle(handler: str, conversation: str, body: dict[str, Any]) -> Reply:
        """Runs in the process, for each request."""
        reply: Reply = asyncio.run(getattr(Worker.service, handler)(conversation, body))
        return reply

    async def post(self, handler: str, conversation: str, body: dict[str, Any]) -> Reply:
        """Posts until the reply is final."""
        while True:
            reply = await asyncio.wrap_future(self.process.submit(Worker.handle, handler, conversation, body))
            if not reply.body.get("retry"):
                return reply
            print(f"  a worker says {reply.status}: {reply.body['error']}\n", end="")
            await asyncio.sleep(0.2)


class Browser:
    """The user's side, in reality a page's script. It executes calls and never sees toolrelay."""

    def __init__(self) -> None:
        self.banner = True

    def execute(self, call: dict[str, Any]) -> dict[str, Any]:
        """Executes one call."""
        match call["name"], call["input"]:
            case "read_page", _:
                output = "We value your privacy. [Accept]" if self.banner else "Boats for sale"
                return {"id": call["id"], "output": output}
            case "click", {"button": "Accept"}:
                self.banner = False
                return {"id": call["id"], "output": {"clicked": True}}
            case _:
                return {"id": call["id"], "output": "no such button", "isError": True}


async def main() -> None:
    """The conversation: a prompt, then every answer to both workers at once."""
    browser = Browser()
    with tempfile.TemporaryDirectory() as folder:
        workers = [Worker(Path(folder, "conversations.db")) for _ in range(2)]
        reply = await workers[0].post("prompt", "user-7", {"text": "What is the headline?"})
        while reply.body["requests"]:
            (request,) = reply.body["requests"]
            print(f"browser: {request['prompt']}")
            results = [browser.execute(call) for call in request["data"]["calls"]]
            body = {"request": request, "answer": {"id": request["id"], "ok": True, "data": {"results": results}}}
            started = time.monotonic()
            reply, twin = await asyncio.gather(*(worker.post("answer", "user-7", body) for worker in workers))
            print(f"  both have their reply after {time.monotonic() - started:.1f} s, the same: {reply == twin}")
        print(f"{reply.status} {reply.body['status']}: {reply.body['text']}")
        for worker in workers:
            worker.process.shutdown()


if __name__ == "__main__":
    asyncio.run(main())
