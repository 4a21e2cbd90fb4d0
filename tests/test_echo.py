"""What a provider made goes back to it byte for byte, over a halt that another process resumes (contract 8.2)."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from scripted_server import (
    Reply,
    ScriptedServer,
    anthropic_reply,
    gemini_reply,
    openai_reply,
    responses_reply,
    responses_text,
)

WORKER = Path(__file__).parent / "support" / "echo_worker.py"
USE = '{"type":"tool_use","id":"toolu_1","name":"tide","input":{"port": "Ames"}}'
CALL = '"tool_calls":[{"id":"call_1","type":"function","function":{"name":"tide","arguments":"{ \\"port\\": 1.0 }"}}]'

# The inside of a content array. Spacing, escapes, order of keys and spelling of numbers are the provider's.
ANTHROPIC = {
    "signed thinking": '{"type":"thinking","thinking":"h\\u00e4 \\/ hm ","signature":"c2ln\\/bmVk=="}, ' + USE,
    "thinking without text": '{"signature":"c2ln","thinking":"","type":"thinking"},' + USE,
    "thinking between texts": (
        '{"type":"thinking","thinking":"first a","signature":"c2ln"},{"type":"text","text":"x "},'
        '{"type":"thinking","thinking":"then b","signature":"c2lnMg=="} , ' + USE
    ),
    "redacted thinking": '{"type":"redacted_thinking","data":"ZW5j"},{"type":"redacted_thinking","data":""},' + USE,
    "a search of the server": (
        '{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query" :"tide"}},'
        '{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result",'
        '"url":"https:\\/\\/example.org","title":"T","encrypted_content":"ZW5j","page_age":null}]},' + USE
    ),
    "a failed search": (
        '{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}},{"type":"web_search_tool_result",'
        '"tool_use_id":"srvtoolu_1","content":{"type":"web_search_tool_result_error","error_code":"unavailable"}},'
        + USE
    ),
    "citations": (
        '{"citations":[{"type":"char_location","cited_text":"it is","document_index":0,"document_title":null,'
        '"start_char_index":0,"end_char_index":5}],"type":"text","text":"it is"},'
        '{"type":"text","text":" high","citations":null},' + USE
    ),
    "code that ran there": (
        '{"type":"server_tool_use","id":"srvtoolu_1","name":"bash_code_execution","input":{"command":"ls"}},'
        '{"type":"bash_code_execution_tool_result","tool_use_id":"srvtoolu_1","content":{"type":'
        '"bash_code_execution_result","stdout":"a\\n","stderr":"","return_code":0,"content":[]}},'
        '{"type":"container_upload","file_id":"file_1"},' + USE
    ),
    "a block of a type to come": '{"type":"mystery","data":[1.0,1e2,{"b":1,"a":2}]},' + USE,
    "fields of a call": (
        '{"type":"tool_use","id":"toolu_1","name":"tide","caller":{"type":"direct"},'
        '"input":{"z":1.0,"a":12345678901234567890,"port":"A\\u006des"},"odd":null}'
    ),
}
# A message.
OPENAI = {
    "reasoning": '{"role":"assistant","reasoning_content":"h\\u00e4 ","content":"",' + CALL + "}",
    "reasoning without text": '{"role":"assistant","content":null,"reasoning_content":"",' + CALL + "}",
    "signed reasoning": (
        '{ "content" : null,"role":"assistant",' + CALL + ',"reasoning_details":[{"type":"reasoning.encrypted",'
        '"data":"ZW5j","id":"rs_1","format":"x-v1","index":0}] }'
    ),
    "a signature on a call": (
        '{"role":"assistant","tool_calls":[{"extra_content":{"google":{"thought_signature":"c2ln\\/"}},"id":"call_1",'
        '"type":"function","function":{"arguments":"{}","name":"tide"}}]}'
    ),
    "citations": (
        '{"role":"assistant","content":"so","annotations":[{"type":"url_citation","url_citation":{"url":"https://x",'
        '"title":"T","start_index":0,"end_index":2}}],' + CALL + "}"
    ),
    "content in parts": (
        '{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},'
        '{"type":"text","text":"so"}],' + CALL + "}"
    ),
    "audio": '{"role":"assistant","content":null,"audio":{"id":"audio_1"},' + CALL + "}",
    "fields to come": '{"role":"assistant","content":"so","x_vendor":{"b":1.0,"a":[]},"prefix":false,' + CALL + "}",
}
ITEM = (
    '{"id":"fc_1","type":"function_call","status":"completed","call_id":"call_1","name":"tide",'
    '"arguments":"{ \\"port\\": 1.0 }"}'
)
# The inside of an output array.
RESPONSES = {
    "encrypted reasoning": (
        '{"id":"rs_1","type":"reasoning","encrypted_content":"ZW5j\\/==","summary":[{"type":"summary_text",'
        '"text":"h\\u00e4 "}],"content":[]}, ' + ITEM
    ),
    "reasoning in the open": (
        '{"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"hm "}]},' + ITEM
    ),
    "reasoning between": (
        '{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"YQ=="},{"id":"msg_1","type":"message",'
        '"role":"assistant","status":"completed","phase":"commentary","content":[{"type":"output_text","text":"so ",'
        '"annotations":[],"logprobs":[]}]},{"id":"rs_2","type":"reasoning","summary":[],"encrypted_content":"Yg=="} , '
        + ITEM
    ),
    "citations": (
        '{"id":"msg_1","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text",'
        '"annotations":[{"type":"url_citation","url":"https:\\/\\/x","title":"T","start_index":0,"end_index":2.0}],'
        '"text":"so"},{"type":"output_text","text":" be it","annotations":[]}]},' + ITEM
    ),
    "tools of the server": (
        '{"id":"ws_1","type":"web_search_call","status":"completed","action":{"type":"search","query":"tide"}},'
        '{"id":"fs_1","type":"file_search_call","status":"completed","queries":["tide"],"results":null},'
        '{"id":"ci_1","type":"code_interpreter_call","status":"completed","code":"1\\n","container_id":"cntr_1",'
        '"outputs":[{"type":"logs","logs":""}]},{"id":"ig_1","type":"image_generation_call","status":"completed",'
        '"result":"iVBORw0KGgo="},' + ITEM
    ),
    "an mcp server": (
        '{"id":"mcpl_1","type":"mcp_list_tools","server_label":"docks","tools":[{"name":"list","input_schema":{}}]},'
        '{"id":"mcp_1","type":"mcp_call","server_label":"docks","name":"list","arguments":"{ }","error":null,'
        '"output":"Ames"},' + ITEM
    ),
    "calls without ids of their own": ITEM.replace('"id":"fc_1",', "") + ', {"type":"mystery","data":[1e2,{"b":1}]}',
    "fields of a call": ITEM.replace(
        '"name":"tide"', '"namespace":"docks","caller":{"type":"direct"},"odd":null,"name":"tide"'
    ),
}
FUNCTION_CALL = '{"functionCall":{"args":{ "z":1.0,"a": 12345678901234567890},"name":"tide"}}'
# The inside of a list of parts.
GEMINI = {
    "a signed thought": (
        '{"text":"h\\u00e4 \\/","thought":true,"thoughtSignature":"c2ln\\/bmVk+A=="}, '
        '{"thoughtSignature":"Zmlyc3Q=","functionCall":{"name":"tide","args":{"port": "Ames"}}}'
    ),
    "a signature on a text that is empty": (
        '{"text":"it is"},{"text":"","thoughtSignature":"ZW1wdHk="},{"functionCall":{"name":"tide","args":{}},'
        '"thoughtSignature":"c2ln"}'
    ),
    "a signature on the first of two calls": (
        '{"functionCall":{"name":"tide","args":{"n":1}},"thoughtSignature":"c2ln"},' + FUNCTION_CALL
    ),
    "an id": '{"functionCall":{"id":"fc \\u0031","name":"tide","args":{}},"thoughtSignature":"c2ln"}',
    "code that ran there": (
        '{"executableCode":{"language":"PYTHON","code":"1+1"},"thoughtSignature":"Y29kZQ=="},'
        '{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"2\\n"}},'
        '{"thoughtSignature":"c2ln","functionCall":{"name":"tide","args":{}}}'
    ),
    "parts of a type to come": (
        '{"mystery":[1.0,{"b":1,"a":2}]},{"thoughtSignature":"c2ln","odd":null,'
        '"functionCall":{"name":"tide","args":{},"unknown":{"b":1,"a":2}}}'
    ),
}


class Wire(NamedTuple):
    """How a style carries a reply to and fro."""

    made: dict[str, str]
    reply: Callable[[str], Reply]
    end: Reply
    messages: str
    """The key of a request's messages."""
    around: bytes
    """What stands around a reply when it goes back."""


WIRES = {
    "anthropic": Wire(
        ANTHROPIC,
        lambda made: anthropic_reply(f"[{made}]", "tool_use"),
        anthropic_reply('[{"type":"text","text":"4 m"}]'),
        "messages",
        b'{"role":"assistant","content":[%b]}',
    ),
    "openai": Wire(
        OPENAI,
        lambda made: Reply(f'{{"choices":[{{"index":0,"message":{made},"finish_reason":"tool_calls"}}]}}'),
        openai_reply("4 m"),
        "messages",
        b",%b,",
    ),
    "openai-responses": Wire(
        RESPONSES,
        lambda made: responses_reply(f"[{made}]"),
        responses_reply(responses_text("4 m")),
        "input",
        b',%b,{"type":"function_call_output"',
    ),
    "gemini": Wire(
        GEMINI,
        lambda made: gemini_reply(f"[{made}]"),
        gemini_reply('[{"text":"4 m"}]'),
        "contents",
        b'{"role":"model","parts":[%b]}',
    ),
}
CASES = [(style, name) for style, wire in WIRES.items() for name in wire.made]


def in_another_process(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    done = subprocess.run([sys.executable, WORKER], input=json.dumps(tasks), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def sent() -> dict[tuple[str, str], bytes]:
    """The request of each resume. The saved transcripts went through another program's JSON, keys in its order."""
    with ScriptedServer() as server:
        server.script(*[WIRES[style].reply(WIRES[style].made[name]) for style, name in CASES])
        tasks = [{"style": style, "url": server.url} for style, _ in CASES]
        halts = in_another_process(tasks)
        assert {halt["status"] for halt in halts} == {"pending"}

        server.script(*[WIRES[style].end for style, _ in CASES])
        for halt in halts:
            halt["transcript"] = json.dumps(json.loads(halt["transcript"]), sort_keys=True, indent=1)
        ends = in_another_process([{**task, **halt} for task, halt in zip(tasks, halts, strict=True)])
        assert {one["status"] for one in ends} == {"done"}
        return {case: request.body for case, request in zip(CASES, server.requests[len(CASES) :], strict=True)}


@pytest.mark.parametrize(("style", "name"), CASES, ids=[f"{style}-{name}" for style, name in CASES])
def test_a_reply_goes_back_byte_for_byte(sent, style, name):
    body, wire = sent[style, name], WIRES[style]
    messages = json.loads(body)[wire.messages]
    assert "tide?" in str(messages[0])
    assert "4 m" in str(messages[-1])
    assert b"toolrelay" not in body
    assert wire.around % wire.made[name].encode() in body
