"""The six examples that the project was born from, in Python: same names, shapes and outcomes.

Three build an answer with `answer_output`, three relay calls to the host. What they assert is what the originals do.
"""

from typing import Any

import pytest
from toolrelay import (
    RELAY_OUTPUT_KEY,
    Answer,
    InProcessRequest,
    InProcessResponse,
    InProcessToolCall,
    RelayResult,
    Request,
    ResumeError,
    answer_declined,
    answer_output,
    create_in_process_client,
    create_toolkit,
    define_tool,
    is_relay_request,
    relay_answer,
    relay_calls_of,
    relay_tool,
)


def call(call_id: str, name: str, **arguments: Any) -> InProcessToolCall:
    return InProcessToolCall(id=call_id, name=name, arguments=arguments)


def results(request: InProcessRequest) -> list[str]:
    return [message["content"] for message in request.messages if message["role"] == "tool"]


def test_answer_output_puts_the_output_under_its_key():
    ans = answer_output("req-1", "staging")
    assert ans.id == "req-1"
    assert ans.ok
    assert not ans.reason
    assert ans.data is not None
    assert ans.data[RELAY_OUTPUT_KEY] == "staging"
    assert ans.to_dict() == {"id": "req-1", "ok": True, "data": {"output": "staging"}}


async def weather_model(request: InProcessRequest) -> InProcessResponse:
    if outputs := results(request):
        return InProcessResponse(content=f"it is {outputs[-1]}")
    return InProcessResponse(tool_calls=[call("c1", "weather", city="Chennai")])


async def test_a_halt_resumes_with_the_output_of_the_host():
    tk = await create_toolkit(builtins=False, extra_tools=[relay_tool("weather", "look up the weather", None)])
    client = create_in_process_client(generate=weather_model)

    halted = await client.run("what's the weather?", tk)
    assert halted.status == "pending"
    req = halted.pending
    assert req is not None

    # The host ran the real weather lookup itself; it hands the output back.
    resumed = await client.run_with_answer(tk, halted.messages, req, answer_output(req.id, "sunny, 24C"))
    assert resumed.status == "done"
    assert resumed.text == "it is sunny, 24C"


async def test_a_malformed_answer_is_an_error_and_never_a_made_up_result():
    tk = await create_toolkit(builtins=False, extra_tools=[relay_tool("weather", "look up the weather", None)])
    client = create_in_process_client(generate=weather_model)

    halted = await client.run("what's the weather?", tk)
    req = halted.pending
    assert req is not None

    # Built by hand with the wrong key: "value" instead of "output".
    bad = Answer(id=req.id, ok=True, data={"value": "sunny"})
    with pytest.raises(ResumeError, match="cannot resume"):
        await client.run_with_answer(tk, halted.messages, req, bad)


async def test_a_relay_call_reaches_the_host_and_nothing_runs_here():
    lookup = relay_tool("lookup", "look something up", {"type": "object", "properties": {"q": {"type": "string"}}})
    tk = await create_toolkit(builtins=False, extra_tools=[lookup])

    async def model(request: InProcessRequest) -> InProcessResponse:
        if results(request):
            return InProcessResponse(content="it is sunny")
        return InProcessResponse(tool_calls=[call("c1", "lookup", q="weather")])

    got: list[Request] = []

    async def wait_for(req: Request) -> Answer:
        got.append(req)
        return answer_output(req.id, "sunny, 31C")  # the host ran the lookup

    client = create_in_process_client(generate=model, wait_for=wait_for)

    res = await client.run("weather?", tk)
    assert res.status == "done"
    assert res.text == "it is sunny"
    assert len(got) == 1
    assert is_relay_request(got[0])
    calls = relay_calls_of(got[0])
    assert len(calls) == 1
    assert (calls[0].id, calls[0].name) == ("c1", "lookup")
    assert calls[0].input["q"] == "weather"
    assert res.tool_calls[0].output == "sunny, 31C"
    assert not res.tool_calls[0].is_error


async def test_three_relay_calls_of_a_turn_ride_one_request():
    async def model(request: InProcessRequest) -> InProcessResponse:
        if outs := results(request):
            return InProcessResponse(content=",".join(outs))
        return InProcessResponse(tool_calls=[call("c1", "alpha"), call("c2", "beta"), call("c3", "gamma")])

    names = ["alpha", "beta", "gamma"]
    tk = await create_toolkit(
        builtins=False, extra_tools=[relay_tool(name, "relayed to the caller", None) for name in names]
    )
    client = create_in_process_client(generate=model)

    halted = await client.run("do all three", tk)
    assert halted.status == "pending"
    req = halted.pending
    assert req is not None
    calls = relay_calls_of(req)
    assert [c.name for c in calls] == names

    # The host executes each call and answers them together, by the id of the call.
    outputs = [RelayResult(id=c.id, output=f"{c.name}-done", is_error=False) for c in calls]
    done = await client.run_with_answer(tk, halted.messages, req, relay_answer(req.id, outputs))
    assert done.text == "alpha-done,beta-done,gamma-done"


async def test_a_real_tool_runs_beside_a_relay_tool_and_a_declined_call_does_not_abort_the_run():
    async def model(request: InProcessRequest) -> InProcessResponse:
        match len(results(request)):
            case 0:
                return InProcessResponse(tool_calls=[call("c1", "real_tool")])
            case 1:
                return InProcessResponse(tool_calls=[call("c2", "relayed_tool")])
            case _:
                return InProcessResponse(content="handled the decline")

    real_ran = False

    @define_tool
    async def real_tool() -> str:
        """Runs locally."""
        nonlocal real_ran
        real_ran = True
        return "real-output"

    tk = await create_toolkit(
        builtins=False, extra_tools=[real_tool, relay_tool("relayed_tool", "runs at the host", None)]
    )

    async def wait_for(req: Request) -> Answer:
        return answer_declined(req.id, "")

    client = create_in_process_client(generate=model, wait_for=wait_for)

    res = await client.run("do both", tk)
    assert real_ran
    assert res.status == "done"
    assert res.text == "handled the decline"
    assert res.tool_calls[1].is_error
