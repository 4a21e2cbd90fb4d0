"""What a provider streamed goes back to it byte for byte, in another process (contract 8.2, 8.7)."""

import json
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from echo import check_echo, sent_back
from made import ANTHROPIC, GEMINI, RESPONSES
from scripted_server import sse, stream


class Streamed(NamedTuple):
    """The data of some events, and what goes back."""

    events: list[str]
    made: str


def elements(made: str) -> Iterator[str]:
    """The elements of an array whose inside is given, as they stand."""
    at = 0
    while at < len(made):
        start = at + len(made[at:]) - len(made[at:].lstrip(" ,"))
        _, at = json.JSONDecoder().raw_decode(made, start)
        yield made[start:at]


def blocks(*all_deltas: list[str]) -> list[str]:
    """Events of blocks, each given as its start and its deltas."""
    events = []
    for index, (start, *deltas) in enumerate(all_deltas):
        events.append(f'{{"type":"content_block_start","index":{index},"content_block":{start}}}')
        events += [f'{{"type":"content_block_delta","index":{index},"delta":{delta}}}' for delta in deltas]
        events.append(f'{{"type":"content_block_stop","index":{index}}}')
    return events


def anthropic(*all_deltas: list[str]) -> list[str]:
    return [
        '{"type":"message_start","message":{"model":"claude-test-1","usage":{"input_tokens":9}}}',
        *blocks(*all_deltas),
        '{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":4}}',
        '{"type":"message_stop"}',
    ]


def openai(*deltas: str) -> list[str]:
    choices = [f'{{"choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}' for delta in deltas]
    return [*choices, '{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}', "[DONE]"]


def responses(*events: str, output: str = "") -> list[str]:
    return [*events, f'{{"type":"response.completed","response":{{"status":"completed","output":[{output}]}}}}']


def done(item: str) -> str:
    return f'{{"type":"response.output_item.done","item":{item}}}'


def gemini(*parts: str) -> list[str]:
    candidates = [f'{{"candidates":[{{"content":{{"role":"model","parts":[{part}]}}}}]}}' for part in parts]
    return [*candidates, '{"candidates":[{"finishReason":"STOP"}]}']


def whole(made: dict[str, str], events: Callable[[list[str]], list[str]]) -> dict[str, Streamed]:
    """Replies whose elements come whole, one after the other."""
    split = {name: list(elements(text)) for name, text in made.items()}
    return {name: Streamed(events(each), ",".join(each)) for name, each in split.items()}


USE = ['{"type":"tool_use","id":"toolu_1","name":"tide","input":{}}', '{"type":"input_json_delta","partial_json":"{}"}']
USED = '{"type":"tool_use","id":"toolu_1","name":"tide","input":{}}'
CALL = (
    '{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"tide","arguments":""}}]}',
    '{"tool_calls":[{"index":0,"function":{"arguments":"{ \\"port\\""}}]}',
    '{"tool_calls":[{"index":0,"function":{"arguments":": 1.0 }"}}]}',
)
CALLED = '"tool_calls":[{"id":"call_1","type":"function","function":{"name":"tide","arguments":"{ \\"port\\": 1.0 }"}}]'
REASONING = '{"encrypted_content":"ZW5j\\/==","id":"rs_1","type":"reasoning","summary":[{"text":"h\\u006d"}]}'
ITEM = '{"id":"fc_1","type":"function_call","call_id":"call_1","name":"tide","arguments":"{}"}'
TIDE = '{"functionCall":{"name":"tide","args":{ "z":1.0 }},"thoughtSignature":"c2ln"}'

STREAMS = {
    "anthropic": {
        **whole(ANTHROPIC, lambda blocks: anthropic(*[[block] for block in blocks])),
        "signed thinking in pieces": Streamed(
            anthropic(
                [
                    '{"type":"thinking","thinking":"","signature":""}',
                    '{"type":"thinking_delta","thinking":"h\\u00e4 \\ud83d"}',
                    '{"type":"thinking_delta","thinking":"\\ude00 \\/ hm "}',
                    '{"type":"signature_delta","signature":"c2ln\\/bmVk=="}',
                ],
                [
                    '{"type":"tool_use","id":"toolu_1","name":"tide","input":{},"caller":{"type":"direct"}}',
                    '{"type":"input_json_delta","partial_json":"{\\"z\\":1.0"}',
                    '{"type":"input_json_delta","partial_json":", \\"a\\": 12345678901234567890}"}',
                ],
            ),
            '{"type":"thinking","thinking":"h\\u00e4 \\ud83d\\ude00 \\/ hm ","signature":"c2ln\\/bmVk=="},'
            '{"type":"tool_use","id":"toolu_1","name":"tide","input":{"z":1.0, "a": 12345678901234567890},'
            '"caller":{"type":"direct"}}',
        ),
        "thinking that is not shown": Streamed(
            anthropic(
                [
                    '{"signature":"","thinking":"","type":"thinking"}',
                    '{"type":"signature_delta","signature":"c2ln\\/bmVk=="}',
                ],
                USE,
            ),
            '{"signature":"c2ln\\/bmVk==","thinking":"","type":"thinking"},' + USED,
        ),
        "citations in pieces": Streamed(
            anthropic(
                [
                    '{"type":"text","text":"","citations":[]}',
                    '{"type":"text_delta","text":"it "}',
                    '{"type":"citations_delta","citation":{"cited_text":"it is","start_char_index":0.0}}',
                    '{"type":"text_delta","text":"is"}',
                    '{"type":"citations_delta","citation":{ "cited_text":"so"}}',
                ],
                USE,
            ),
            '{"type":"text","text":"it is","citations":[{"cited_text":"it is","start_char_index":0.0},'
            '{ "cited_text":"so"}]},' + USED,
        ),
        "a search of the server in pieces": Streamed(
            anthropic(
                [
                    '{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}',
                    '{"type":"input_json_delta","partial_json":"{\\"query\\" :"}',
                    '{"type":"input_json_delta","partial_json":"\\"tide\\"}"}',
                ],
                ['{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"page_age": null}]}'],
                USE,
            ),
            '{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query" :"tide"}},'
            '{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"page_age": null}]},' + USED,
        ),
        "a delta of a type to come": Streamed(
            anthropic(
                ['{"type":"mystery","data":1.0}', '{"type":"mystery_delta","seal":"c2ln\\/"}'],
                USE,
            ),
            '{"type":"mystery","data":1.0,"seal":"c2ln\\/"},' + USED,
        ),
    },
    "openai": {
        "reasoning in pieces": Streamed(
            openai(
                '{"role":"assistant","content":null,"reasoning_content":"h\\u00e4 "}',
                '{"reasoning_content":"\\/ hm "}',
                '{"content":"so"}',
                *CALL,
            ),
            '{"role":"assistant","content":"so","reasoning_content":"h\\u00e4 \\/ hm ",' + CALLED + "}",
        ),
        "signed reasoning in pieces": Streamed(
            openai(
                '{"role":"assistant","content":"","reasoning_details":[{"type":"reasoning.text","text":"h\\u00e4 ",'
                '"format":"x-v1","index":0}]}',
                '{"content":"","reasoning_details":[{"type":"reasoning.text","text":"\\/ hm","index":0}]}',
                '{"content":"","reasoning_details":[{"type":"reasoning.text","signature":"c2ln\\/","index":0}]}',
                '{"content":"","reasoning_details":[{"type":"reasoning.encrypted","data":"ZW5j\\/","id":"rs_1",'
                '"index":1}]}',
                *CALL,
            ),
            '{"role":"assistant","content":"","reasoning_details":[{"type":"reasoning.text","text":"h\\u00e4 \\/ hm",'
            '"format":"x-v1","index":0,"signature":"c2ln\\/"},{"type":"reasoning.encrypted","data":"ZW5j\\/",'
            '"id":"rs_1","index":1}],' + CALLED + "}",
        ),
        "a signature on a call": Streamed(
            openai(
                '{"role":"assistant","tool_calls":[{"index":0,"extra_content":{"google":{"thought_signature":'
                '"c2ln\\/"}},"id":"call_1","type":"function","function":{"name":"tide","arguments":"{}"}}]}'
            ),
            '{"role":"assistant","tool_calls":[{"id":"call_1","type":"function","function":{"name":"tide",'
            '"arguments":"{}"},"extra_content":{"google":{"thought_signature":"c2ln\\/"}}}]}',
        ),
        "content in parts": Streamed(
            openai(
                '{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"h"}]}]}',
                '{"content":[{"type":"thinking","thinking":[{"type":"text","text":"m"}]}]}',
                '{"content":"s"}',
                '{"content":"o"}',
                *CALL,
            ),
            '{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},'
            '{"type":"text","text":"so"}],' + CALLED + "}",
        ),
        "fields to come": Streamed(
            openai(
                '{"role":"assistant","content":"so","x_vendor":{"b":1.0, "a":[]}}',
                '{"annotations":[{"url":"https:\\/\\/x"}]}',
                *CALL,
                '{"audio":{"id":"audio_1"}}',
            ),
            '{"role":"assistant","content":"so","x_vendor":{"b":1.0, "a":[]},"annotations":[{"url":"https:\\/\\/x"}],'
            + CALLED
            + ',"audio":{"id":"audio_1"}}',
        ),
    },
    "openai-responses": {
        **whole(RESPONSES, lambda items: responses(*map(done, items))),
        **whole(
            {f"{name}, at the end": made for name, made in RESPONSES.items()},
            lambda items: responses(output=", ".join(items)),
        ),
        "reasoning in pieces": Streamed(
            responses(
                '{"type":"response.output_item.added","output_index":0,"item":{"id":"rs_1","type":"reasoning",'
                '"encrypted_content":"YQ==","summary":[]}}',
                '{"type":"response.reasoning_summary_text.delta","item_id":"rs_1","summary_index":0,"delta":"h"}',
                '{"type":"response.reasoning_summary_text.delta","item_id":"rs_1","summary_index":0,"delta":"m"}',
                done(REASONING),
                done(ITEM),
            ),
            f"{REASONING},{ITEM}",
        ),
    },
    "gemini": {
        **whole(GEMINI, lambda parts: gemini(*parts)),
        "texts in pieces": Streamed(
            gemini(
                '{"text":"h\\u00e4 ","thought":true}',
                '{"text":"\\/","thought":true}',
                '{"text":"it "}',
                '{"text":"is"}',
                '{"text":"","thoughtSignature":"c2ln\\/bmVk+A=="}',
                TIDE,
            ),
            '{"text":"h\\u00e4 \\/","thought":true},{"text":"it is"},{"text":"","thoughtSignature":"c2ln\\/bmVk+A=="},'
            + TIDE,
        ),
        "a call in pieces": Streamed(
            gemini(
                '{"functionCall":{"name":"tide","willContinue":true},"thoughtSignature":"c2ln\\/"}',
                '{"functionCall":{"partialArgs":[{"jsonPath":"$.port","stringValue":"A","willContinue":true}],'
                '"willContinue":true}}',
                '{"functionCall":{"partialArgs":[{"jsonPath":"$.port","stringValue":"mes"}],"willContinue":true}}',
                '{"functionCall":{}}',
            ),
            '{"functionCall":{"name":"tide","args":{"port":"Ames"}},"thoughtSignature":"c2ln\\/"}',
        ),
    },
}
CASES = [(style, name) for style, streams in STREAMS.items() for name in streams]


@pytest.fixture(scope="module")
def sent() -> dict[tuple[str, str], bytes]:
    replies = [(style, stream(*map(sse, STREAMS[style][name].events))) for style, name in CASES]
    return dict(zip(CASES, sent_back(replies, is_streamed=True), strict=True))


@pytest.mark.parametrize(("style", "name"), CASES, ids=[f"{style}-{name}" for style, name in CASES])
def test_a_streamed_reply_goes_back_byte_for_byte(sent, style, name):
    check_echo(sent[style, name], style, STREAMS[style][name].made)
