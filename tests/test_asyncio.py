"""The client under asyncio and its kin: loops, threads, context variables, odd values (contract 9)."""

import asyncio
import contextvars
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import anyio
import pytest
import trio
import uvloop
from scripted_model import ScriptedModel, call, says
from scripted_server import ScriptedServer, openai_reply
from toolrelay import (
    EventLoopError,
    InProcessResponse,
    RelayResult,
    SqliteStore,
    Toolkit,
    ToolOutput,
    ToolRelayError,
    Transcript,
    answer_output,
    create_client,
    create_in_process_client,
    define_tool,
    relay_answer,
    relay_tool,
)

NO_TOOLS = Toolkit()
TIDE = relay_tool("tide", "high water")
NAME = contextvars.ContextVar("name", default="none")


@define_tool
async def tally(n: int = 1) -> int:
    """Counts."""
    return n + 6


@define_tool
def weigh(n: int = 1) -> int:
    """Counts in a thread."""
    return n + 1


async def converse(tmp_path, server):
    """The basic life of a client: HTTP, tools of both kinds, a host inline, a halt and a resume in a store."""
    server.script(openai_reply(calls=[("k1", "tally", "{}"), ("k2", "weigh", "{}")]), openai_reply("fine"))
    http = await create_client(model="m-1", base_url=server.url, api_key="").run("go", Toolkit([tally, weigh]))
    inline = create_in_process_client(
        generate=ScriptedModel(says(call("tide")), "inline"),
        wait_for=lambda request: answer_output(request.id, "4.2 m"),
    )
    texts = [http.text, *(made.output for made in http.tool_calls), (await inline.run("go", Toolkit([TIDE]))).text]
    store = SqliteStore(tmp_path / "c.db")
    client = create_in_process_client(generate=ScriptedModel(says(call("tide")), "resumed"), store=store)
    halt = await client.ask("go", Toolkit([TIDE]), id="c-1")
    answer = answer_output(halt.pending.id, "4.2 m")
    texts.append((await client.ask_with_answer(Toolkit([TIDE]), "c-1", halt.pending, answer)).text)
    await store.close()
    return texts


def on_asyncio(main, *args):
    return asyncio.run(main(*args))


def on_asyncio_in_debug_mode(main, *args):
    return asyncio.run(main(*args), debug=True)


def on_uvloop(main, *args):
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main(*args))


def on_anyio(main, *args):
    return anyio.run(main, *args)


def on_anyio_with_uvloop(main, *args):
    return anyio.run(main, *args, backend_options={"use_uvloop": True})


RUNNERS = [on_asyncio, on_asyncio_in_debug_mode, on_uvloop, on_anyio, on_anyio_with_uvloop]


@pytest.mark.parametrize("run", RUNNERS, ids=lambda run: run.__name__)
def test_i12_a_client_lives_on_every_loop_of_asyncio(run, tmp_path):
    with ScriptedServer() as server:
        assert run(converse, tmp_path, server) == ["fine", "7", "2", "inline", "resumed"]


def test_i12_under_trio_there_is_a_typed_error_at_once():
    client = create_in_process_client(generate=ScriptedModel())

    async def main():
        with trio.fail_after(1), pytest.raises(EventLoopError, match="run_sync"):
            await client.run("go", NO_TOOLS)
        with trio.fail_after(1), pytest.raises(RuntimeError, match="no running event loop"):
            await client.get("c-1")

    trio.run(main)


def test_i1_one_client_on_one_loop_after_another():
    with ScriptedServer(*(openai_reply(str(number)) for number in range(4))) as server:
        client = create_client(model="m-1", base_url=server.url, api_key="")
        assert asyncio.run(client.run("go", NO_TOOLS)).text == "0"
        assert on_uvloop(client.run, "go", NO_TOOLS).text == "1"
        assert client.run_sync("go", NO_TOOLS).text == "2"
        assert asyncio.run(client.run("go", NO_TOOLS)).text == "3"


def test_i1_one_client_on_several_loops_in_several_threads_at_once():
    async def generate(request):
        await asyncio.sleep(0.001)
        said = [message["content"] for message in request.messages]
        return said[0] if said[-1] == "7" else says(call("tally"))

    client = create_in_process_client(generate=generate)
    toolkit = Toolkit([tally])

    async def main(thread):
        results = await asyncio.gather(*(client.run(f"{thread}-{number}", toolkit) for number in range(25)))
        return [result.text for result in results]

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda thread: (on_uvloop if thread % 2 else on_asyncio)(main, thread), range(6)))
    assert found == [[f"{thread}-{number}" for number in range(25)] for thread in range(6)]


async def test_i2_the_sync_twins_work_inside_a_running_loop():
    client = create_in_process_client(generate=ScriptedModel(says(call("tide")), "done", says(call("tide")), "done"))
    toolkit = Toolkit([TIDE])
    halt = client.run_sync("go", toolkit)
    assert client.run_with_answer_sync(toolkit, halt.messages, halt.pending, answer_output(halt.pending.id, "4")).text
    halt = client.ask_sync("go", toolkit, id="c-1")
    answered = client.ask_with_answer_sync(toolkit, "c-1", halt.pending, answer_output(halt.pending.id, "4"))
    assert answered.text == "done"


async def test_i2_cancelling_a_task_that_is_inside_a_sync_twin_stops_its_run():
    stopped = threading.Event()

    async def generate(request):
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    client = create_in_process_client(generate=generate)

    async def blocks():
        threading.Timer(0.1, running.cancel).start()
        client.run_sync("go", NO_TOOLS)

    running = asyncio.create_task(blocks())
    with pytest.raises(asyncio.CancelledError) as caught:
        await running
    assert stopped.is_set()
    assert caught.value.transcript == [{"role": "user", "content": "go"}]


def test_i5_threads_whose_tools_call_other_clients_while_all_log(caplog):
    """8 threads, 25 runs each; every one of them runs another client inside, and everything logs."""
    caplog.set_level(logging.DEBUG)
    log = logging.getLogger("tests")
    inner = create_in_process_client(generate=lambda request: log.info("inner %s", request.messages) or "inner")

    @define_tool
    def consult() -> str:
        """Asks another client."""
        log.info("consulting")
        return inner.run_sync("hi", NO_TOOLS).text

    @define_tool
    def fails() -> str:
        """Raises, and its traceback is logged."""
        raise ValueError("reef")

    async def generate(request):
        results = [message["content"] for message in request.messages if message["role"] == "tool"]
        return " ".join(results) if results else says(call("consult"), call("fails"))

    outer = create_in_process_client(generate=generate)
    toolkit = Toolkit([consult, fails])
    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(lambda _: [outer.run_sync("go", toolkit).text for _ in range(25)], range(8)))
    assert texts == [["inner ValueError: reef"] * 25] * 8


async def test_i7_context_variables_reach_tools_hosts_and_models_of_their_own_run():
    seen: dict[str, list[str]] = {"ada": [], "bob": []}
    both = asyncio.Barrier(2)

    def note(who):
        seen[NAME.get()].append(who)
        return who

    @define_tool
    async def in_task() -> str:
        """Looks, sets, and looks at its own."""
        name = NAME.get()
        note("async tool")
        NAME.set("leaked")
        await both.wait()
        assert NAME.get() == "leaked"
        return name

    @define_tool
    def in_thread() -> str:
        """Looks and sets, in a thread."""
        name = NAME.get()
        note("sync tool")
        NAME.set("leaked")
        return name

    async def wait_for(request):
        note("wait_for")
        return answer_output(request.id, NAME.get())

    def generate(request):
        note("generate")
        results = [message["content"] for message in request.messages if message["role"] == "tool"]
        return " ".join(results) if results else says(call("in_task"), call("in_thread"), call("tide"))

    client = create_in_process_client(generate=generate, wait_for=wait_for)

    async def run(name):
        NAME.set(name)
        result = await client.run("go", Toolkit([in_task, in_thread, TIDE]))
        assert NAME.get() == name
        return result.text

    assert await asyncio.gather(run("ada"), run("bob")) == ["ada ada ada", "bob bob bob"]
    each = ["async tool", "generate", "generate", "sync tool", "wait_for"]
    assert {name: sorted(calls) for name, calls in seen.items()} == {"ada": each, "bob": each}


async def test_three_thousand_runs_at_once_each_get_their_own_answer():
    """Contract 9.1."""

    async def generate(request):
        await asyncio.sleep(0.01)
        said = [message["content"] for message in request.messages]
        return said[0] if said[-1] == "7" else says(call("tally"))

    client = create_in_process_client(generate=generate)
    toolkit = Toolkit([tally])
    texts = [f"prompt {number}" for number in range(3_000)]
    results = await asyncio.gather(*(client.run(text, toolkit) for text in texts))
    assert [result.text for result in results] == texts


DIGITS = "7" * 5_000
ODD = {
    "a lone surrogate": ("a\ud800b", "a\ufffdb"),
    "a NUL": ("a\0b", "a\ufffdb"),
    "five thousand digits": (DIGITS, DIGITS),
    "ten megabytes": ("x" * 10_000_000, "x" * 10_000_000),
}


@pytest.mark.parametrize(("text", "kept"), ODD.values(), ids=ODD)
async def test_odd_text_from_prompt_model_tool_and_host_leaves_a_transcript_that_goes_on(text, kept):
    """Contract 9.5."""

    @define_tool
    async def odd() -> str:
        """Returns it."""
        return text

    @define_tool
    async def raises() -> str:
        """Raises it."""
        raise ValueError(text)

    async def wait_for(request):
        return relay_answer(request.id, [RelayResult("k3", text)])

    model = ScriptedModel(says(call("odd"), call("raises"), call("tide"), text=text), InProcessResponse(text), "again")
    client = create_in_process_client(generate=model, wait_for=wait_for)
    result = await client.run(text, Toolkit([odd, raises, TIDE]))

    assert result.text == kept
    found = [message["content"] for message in result.messages]
    assert [found[at] for at in (0, 1, 2, 4, 5)] == [kept] * 5
    assert found[3].startswith(f"ValueError: {kept[:100]}")
    again = await client.run(text, NO_TOOLS, history=Transcript.from_json(result.messages.to_json()))
    assert again.text == "again"


async def test_integers_and_arguments_of_any_size_go_all_the_way():
    """Contract 2.4, 9.5."""
    seen = []

    @define_tool
    async def large(n: int) -> int:
        """Returns it."""
        seen.append(n)
        return n

    async def wait_for(request):
        seen.append(request.data["calls"][0]["input"]["n"])
        return answer_output(request.id, seen[-1])

    model = ScriptedModel(says(call("large", f'{{"n":{DIGITS}}}'), call("tide", f'{{"n":{DIGITS}}}')), "done")
    result = await create_in_process_client(generate=model, wait_for=wait_for).run("go", Toolkit([large, TIDE]))

    assert [number - 7 == (seen[0] // 10) * 10 for number in seen] == [True, True]
    assert [made.output for made in result.tool_calls] == [DIGITS, DIGITS]
    assert Transcript.from_json(result.messages.to_json()) == result.messages


async def test_parts_that_a_tool_makes_by_hand_may_be_odd_too():
    @define_tool
    async def odd() -> ToolOutput:
        """Returns parts."""
        return ToolOutput("a\ud800", [{"type": "text", "text": "b\ud800\0"}])

    model = ScriptedModel(says(call("odd")), "done")
    result = await create_in_process_client(generate=model).run("go", Toolkit([odd]))
    assert result.tool_calls[0].output == "a\ufffd"
    assert b"\\u0000" not in result.messages.to_json()


async def test_the_time_of_a_run_is_counted_from_its_start():
    began = time.monotonic()
    client = create_in_process_client(generate=lambda request: time.sleep(0.3) or "late", timeout=0.1)
    result = await client.run("go", NO_TOOLS)
    assert (result.status, result.limit, time.monotonic() - began < 0.3) == ("incomplete", "timeout", True)
    with pytest.raises(ToolRelayError, match="timeout"):
        create_in_process_client(generate=lambda request: "", timeout=0)
