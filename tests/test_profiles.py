"""How servers differ from their style, and what is marked for the prompt cache."""

import copy
import dataclasses
import pickle

import pytest
from harbour import NO_TOOLS, tally
from scripted_server import anthropic_reply, client_of, openai_reply
from toolrelay import ConfigurationError, Profile, Toolkit, ToolkitError, create_client, relay_tool
from toolrelay._core import _known_servers

DONE = '[{"type":"text","text":"done"}]'


async def test_a_server_gets_the_ids_that_it_takes_and_the_caller_keeps_the_models(server):
    """B3."""
    server.script(openai_reply(None, [("call_9f_A-2", "tally", "{}")]), openai_reply("7"))
    result = await client_of(server, profile="mistral").run("count", Toolkit([tally]))
    assert [record.id for record in result.tool_calls] == ["call_9f_A-2"]
    call, answered = server.bodies[1]["messages"][1:]
    (sent,) = (made["id"] for made in call["tool_calls"])
    assert sent == answered["tool_call_id"]
    assert len(sent) == 9
    assert sent.isalnum()


async def test_a_profile_of_ones_own_is_data(server):
    """F8, F11."""
    server.script(openai_reply(None, [("call_1", "tally", "{}")], reasoning_content="hm"), openai_reply("7"))
    profile = Profile(call_content="absent", refused_fields=["reasoning_content"], call_fields={"weight": 1})
    await client_of(server, profile=profile).run("count", Toolkit([tally]))
    call = server.bodies[1]["messages"][1]
    assert call.keys() == {"role", "tool_calls", "weight"}
    assert call["weight"] == 1


async def test_too_many_tools_are_a_toolkit_error_before_anything_is_sent(server):
    """J11."""
    many = Toolkit([relay_tool(f"t{at}", "") for at in range(129)])
    with pytest.raises(ToolkitError, match="there are 129 tools, and this server takes at most 128"):
        await client_of(server, profile="openai").run("count", many)
    assert server.requests == []


async def test_prompts_are_marked_where_it_is_asked_for(server):
    server.script(*[anthropic_reply(DONE) for _ in range(3)])
    toolkit = Toolkit([tally])
    await client_of(server, "anthropic").run("count", toolkit)
    await client_of(server, "anthropic", profile="anthropic", system_prompt="be brief").run("count", toolkit)
    await client_of(server, "anthropic", profile="anthropic", prompt_cache=False).run("count", toolkit)
    assert [request.body.count(b"cache_control") for request in server.requests] == [0, 2, 0]
    marked = server.bodies[1]
    assert marked["cache_control"] == marked["system"][0]["cache_control"] == {"type": "ephemeral"}


async def test_a_gateway_that_is_asked_to_gets_its_marks_in_the_blocks(server):
    server.script(anthropic_reply(DONE))
    await client_of(server, "anthropic", prompt_cache=True).run("count", NO_TOOLS)
    (body,) = server.bodies
    assert body["messages"][-1]["content"][-1]["cache_control"] == {"type": "ephemeral"}
    assert "cache_control" not in body


@pytest.mark.parametrize("name", [name for name, _, _ in _known_servers()])
def test_every_known_server_has_a_profile_that_can_be_varied_and_copied(name):
    profile = Profile.named(name)
    assert profile != Profile()
    assert dataclasses.replace(profile, max_tools=3).max_tools == 3
    for twin in (pickle.loads(pickle.dumps(profile)), copy.deepcopy(profile)):
        assert twin == profile
        assert hash(twin) == hash(profile)


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ({"profile": "acme"}, "unknown profile 'acme': use a Profile, or one of openai, mistral"),
        ({"profile": "anthropic"}, "the profile 'anthropic' is one of style 'anthropic', not 'openai'"),
        ({"profile": {}}, "profile must be a Profile or the name of one, not dict"),
        ({"profile": Profile(cache_control="blocks")}, "the profile's cache_control is for style 'anthropic'"),
        ({"profile": Profile(call_id_length=9), "style": "anthropic"}, "the profile's call_id_length is for style"),
        ({"prompt_cache": 1}, "prompt_cache must be True, False or None, not 1"),
    ],
)
def test_a_profile_that_cannot_be_meant_is_refused(setting, says):
    with pytest.raises(ConfigurationError) as caught:
        create_client(**{"model": "m", "api_key": "", **setting})
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({"call_id_length": 5}, "call_id_length must be a whole number from 6 to 64, or None, not 5"),
        ({"call_content": "nil"}, "call_content must be one of null, empty, absent, or None, not 'nil'"),
        ({"refused_fields": "reasoning"}, "refused_fields must be a list of names, not 'reasoning'"),
        ({"call_fields": {"x": {1}}}, "call_fields.x"),
        ({"call_fields": []}, "call_fields must be a dict, not list"),
        ({"developer_role": None}, "developer_role must be True or False, not None"),
        ({"max_tools": 0}, "max_tools must be a whole number from 1 on, or None, not 0"),
        ({"output_limit": 5}, "output_limit must be text or None, not 5"),
    ],
)
def test_a_fact_that_cannot_be_one_is_refused(facts, says):
    with pytest.raises(ConfigurationError) as caught:
        Profile(**facts)
    assert says in str(caught.value)
