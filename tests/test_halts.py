"""Halts: what a run without `wait_for` leaves behind (contract 2.1, 2.3, 5)."""

import json

import pytest
from scripted_model import ScriptedModel, call, says
from toolrelay import (
    BUILTIN_NAMES,
    InProcessResponse,
    Request,
    ToolContext,
    Toolkit,
    ToolkitError,
    Transcript,
    answer_output,
    create_in_process_client,
    create_toolkit,
    define_tool,
    is_relay_request,
    pending,
    relay_calls_of,
    relay_tool,
)

TIDE = relay_tool("tide", "high water", {"type": "object", "properties": {"port": {"type": "string"}}})
MOOR = relay_tool("moor", "moors a boat")


@define_tool
async def tally() -> int:
    """Counts."""
    return 7


@define_tool
async def pay(context: ToolContext) -> object:
    """Pays when somebody agrees."""
    return pending("approval", "Pay 30 EUR?", {"amount": 30}, url="https://example.org/pay")


async def halt(*calls, tools=(TIDE, MOOR, tally, pay), text=""):
    client = create_in_process_client(generate=ScriptedModel(says(*calls, text=text)))
    return await client.run("go", Toolkit(tools))


async def test_all_relay_calls_of_a_turn_ride_one_request_in_call_order():
    """Contract 5.1, 1.2."""
    halted = await halt(call("tide", '{ "port" :"Ames"}'), call("tally"), call("moor"), call("tide", '{"port":"Bree"}'))

    assert (halted.status, halted.turns, halted.limit) == ("pending", 1, None)
    assert halted.suspensions == (halted.pending,)
    assert is_relay_request(halted.pending)
    assert halted.pending.data == {
        "calls": [
            {"id": "k1", "name": "tide", "input": {"port": "Ames"}, "arguments": '{ "port" :"Ames"}'},
            {"id": "k3", "name": "moor", "input": {}, "arguments": "{}"},
            {"id": "k4", "name": "tide", "input": {"port": "Bree"}, "arguments": '{"port":"Bree"}'},
        ]
    }


async def test_every_outstanding_request_is_shown_in_call_order():
    """Contract 5.1, 5.2: an approval beside relay calls hides nothing."""
    halted = await halt(call("pay"), call("tide"), call("pay"), call("moor"))

    first, relayed, second = halted.suspensions
    assert halted.pending == first
    assert (first.kind, first.prompt, first.data, first.url) == (
        "approval",
        "Pay 30 EUR?",
        {"amount": 30},
        "https://example.org/pay",
    )
    assert second.kind == "approval"
    assert [made.id for made in relay_calls_of(relayed)] == ["k2", "k4"]
    assert relay_calls_of(first) == []
    assert len({request.id for request in halted.suspensions}) == 3


async def test_results_before_and_behind_the_first_parked_call_are_kept():
    """Contract 5.3, 5.4."""
    halted = await halt(call("tally"), call("tide"), call("tally"))

    results = [message for message in halted.messages if message["role"] == "tool"]
    assert [message["tool_call_id"] for message in results] == ["k1", "k2", "k3"]
    assert [result["content"] for result in results if "toolrelay" not in result] == ["7", "7"]
    placeholder = results[1]
    assert placeholder["toolrelay"]["pending"]["id"] == halted.pending.id
    assert placeholder["toolrelay"]["pending"]["request"] == halted.pending.to_dict()
    assert isinstance(placeholder["content"], str)
    assert placeholder["content"]


async def test_a_parked_call_is_recorded_and_is_no_error():
    """Contract 5.5."""
    halted = await halt(call("tally"), call("tide", '{"port":"Ames"}'))
    seen = [
        (record.id, record.name, record.input, record.arguments, record.output, record.is_error, record.pending)
        for record in halted.tool_calls
    ]
    assert seen == [
        ("k1", "tally", {}, "{}", "7", False, False),
        ("k2", "tide", {"port": "Ames"}, '{"port":"Ames"}', "", False, True),
    ]


async def test_the_halted_transcript_alone_is_enough_to_resume():
    halted = await halt(call("tide"), text="let me look")
    saved = halted.messages.to_json()
    assert (halted.text, halted.messages.halted) == ("let me look", True)

    placeholder = json.loads(saved)["messages"][-1]
    request = Request.from_dict(placeholder["toolrelay"]["pending"]["request"])
    assert request == halted.pending
    resumed = await create_in_process_client(generate=ScriptedModel("done")).run_with_answer(
        Toolkit([TIDE]), saved, request, answer_output(request.id, "4.2 m")
    )
    assert (resumed.text, resumed.messages.halted) == ("done", False)


async def test_request_ids_are_long_random_and_never_the_same():
    """Contract 1.5."""
    ids = {(await halt(call("tide"))).pending.id for _ in range(20)}
    assert len(ids) == 20
    assert all(len(request_id) >= 22 for request_id in ids)


@pytest.mark.parametrize("arguments", ['{"big":12345678901234567890123}', '{ "z": 1,\t"a": 1.0 }', '{"p":"\\u00e4ö"}'])
async def test_the_argument_text_is_the_models_own_byte_for_byte(arguments):
    """C3, C4, C11; contract 1.2."""
    halted = await halt(call("moor", arguments))
    (made,) = relay_calls_of(Request.from_json(halted.pending.to_json()))
    assert made.arguments == arguments
    assert made.input == json.loads(arguments)
    again = Transcript.from_json(halted.messages.to_json())
    assert again[1]["tool_calls"][0]["function"]["arguments"] == arguments


async def test_the_same_id_from_a_provider_twice_is_two_calls_for_the_host():
    """B10."""
    halted = await halt(call("tide", '{"port":"Ames"}', "k1"), call("tide", '{"port":"Bree"}', "k1"))
    first, second = relay_calls_of(halted.pending)
    assert first.id == "k1"
    assert second.id != "k1"
    assert (first.input["port"], second.input["port"]) == ("Ames", "Bree")


async def test_a_relay_tool_that_is_not_called_changes_nothing():
    """Contract 2.3."""

    def model():
        return ScriptedModel(says(call("tally")), InProcessResponse("seven"))

    with_it, without_it = model(), model()
    inert = await create_in_process_client(generate=with_it).run("count", Toolkit([tally, TIDE]))
    plain = await create_in_process_client(generate=without_it).run("count", Toolkit([tally]))

    assert inert.messages.to_json() == plain.messages.to_json()
    assert (inert.text, inert.status, inert.turns) == (plain.text, plain.status, plain.turns)
    assert [request.messages for request in with_it.requests] == [request.messages for request in without_it.requests]


@pytest.mark.parametrize("name", BUILTIN_NAMES)
async def test_a_relay_tool_with_the_name_of_a_builtin_is_refused_on_every_path(name):
    """Contract 2.1, even with builtins off."""
    taken = relay_tool(name, "mine")
    toolkit = Toolkit([TIDE])
    for build in (lambda: Toolkit([taken]), lambda: toolkit.register(taken)):
        with pytest.raises(ToolkitError, match=name) as caught:
            build()
        assert caught.value.tool == name
    with pytest.raises(ToolkitError, match=name):
        await create_toolkit(builtins=False, extra_tools=[taken])
    with pytest.raises(ToolkitError, match=name):
        await create_toolkit(builtins=True, extra_tools=[taken])
    assert list(toolkit) == [TIDE]


def test_the_builtin_names_are_these():
    assert BUILTIN_NAMES == (
        "bash",
        "read",
        "write",
        "edit",
        "grep",
        "glob",
        "webfetch",
        "question",
        "apply_patch",
        "todowrite",
    )


async def test_an_ordinary_tool_may_have_the_name_of_a_builtin():
    """Contract 2.2."""

    @define_tool(name="bash")
    async def safe_shell() -> str:
        """A shell of our own."""
        return "safe"

    model = ScriptedModel(says(call("bash")), "done")
    await create_in_process_client(generate=model).run("go", Toolkit([safe_shell]))
    assert model.results == ["safe"]


@pytest.mark.parametrize("second", [TIDE, define_tool("tide", "local", None, lambda arguments, context: "x")])
def test_two_tools_with_one_name_are_refused_and_nothing_changes(second):
    """J7; contract 2.1, 2.2."""
    with pytest.raises(ToolkitError, match="tide"):
        Toolkit([TIDE, second])
    toolkit = Toolkit([TIDE, MOOR])
    with pytest.raises(ToolkitError, match="tide") as caught:
        toolkit.register(second)
    assert caught.value.tool == "tide"
    assert list(toolkit) == [TIDE, MOOR]


async def test_a_tool_that_is_registered_late_is_seen_by_the_next_run_and_not_by_the_one_under_way():
    toolkit = Toolkit([tally])

    def late(request):
        toolkit.register(MOOR)
        return says(call("moor", call_id="m1"))

    client = create_in_process_client(generate=ScriptedModel(late, "unknown", says(call("moor", call_id="m2"))))
    under_way = await client.run("go", toolkit)
    assert (under_way.status, under_way.tool_calls[0].is_error) == ("done", True)
    assert (await client.run("go", toolkit)).status == "pending"


async def test_builtins_are_off_and_asking_for_them_says_that_they_come_later():
    """Contract 2.7."""
    assert len(await create_toolkit()) == 0
    with pytest.raises(ToolkitError, match="builtin"):
        await create_toolkit(builtins=True)


@pytest.mark.parametrize("wrong", [None, "bash", {"name": "bash"}, print])
def test_what_is_no_tool_is_refused_by_its_type(wrong):
    with pytest.raises(ToolkitError, match=type(wrong).__name__):
        Toolkit([wrong])


def test_a_schema_that_is_none_is_refused_when_the_toolkit_is_built():
    broken = relay_tool("tide", "high water", {"type": "object", "properties": {"port": {"type": "strinng"}}})
    with pytest.raises(ToolkitError, match="tide") as caught:
        Toolkit([broken])
    assert caught.value.tool == "tide"


async def test_a_tool_may_not_park_as_if_it_were_the_host():
    halted = await halt(call("pay"))
    assert not is_relay_request(halted.pending)
    assert halted.pending.expires_at is None


async def test_a_result_says_what_it_waits_for():
    halted = await halt(call("tide"), call("pay"))
    shown = repr(halted)
    assert "pending" in shown
    assert "tool_call tide" in shown
    assert "approval" in shown
    assert repr(halted.messages) == "<Transcript: 4 messages, halted>"
    assert repr(halted.tool_calls[0]) == "<ToolCallRecord tide [k1]: pending>"
