"""A program that a server loads once and then forks: its client, its store and a run were there before.

`TOOLRELAY_PLACE` names the place of its conversations.
"""

import json
import multiprocessing
import os
from collections.abc import Callable, Iterable
from typing import Any

from places import open_store
from scripted_model import call, says
from toolrelay import InProcessRequest, Toolkit, answer_output, create_in_process_client, relay_tool


def generate(request: InProcessRequest) -> Any:
    """Has the host look once, and tells what it saw."""
    said = request.messages[-1]
    return said["content"] if said["role"] == "tool" else says(call("tide"))


TOOLKIT = Toolkit([relay_tool("tide", "high water")])
CLIENT = create_in_process_client(generate=generate, store=open_store(os.environ["TOOLRELAY_PLACE"]))
LOADED_BY = os.getpid()
WORKERS = 2
ALL_THERE = multiprocessing.get_context("fork").Barrier(WORKERS)
CLIENT.ask_sync("warm", TOOLKIT, id="warm")


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """`/halt?id`, `/answer?id`, and `/meet`, where all workers are at once."""
    id = environ["QUERY_STRING"]
    match environ["PATH_INFO"]:
        case "/meet":
            ALL_THERE.wait(20)
            told = CLIENT.run_sync("go", TOOLKIT).status
        case "/halt":
            told = CLIENT.ask_sync("go", TOOLKIT, id=id).status
        case _:
            (request,) = CLIENT.get_sync(id).suspensions
            answer = answer_output(request.id, f"{id}: 4 m")
            told = CLIENT.ask_with_answer_sync(TOOLKIT, id, request, answer).text
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps({"worker": os.getpid(), "loaded_by": LOADED_BY, "told": told}).encode()]
