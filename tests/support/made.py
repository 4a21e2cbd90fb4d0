"""What providers make, as texts of JSON. Spacing, escapes, order of keys and spelling of numbers are theirs."""

USE = '{"type":"tool_use","id":"toolu_1","name":"tide","input":{"port": "Ames"}}'
CALL = '"tool_calls":[{"id":"call_1","type":"function","function":{"name":"tide","arguments":"{ \\"port\\": 1.0 }"}}]'

# The inside of a content array.
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
