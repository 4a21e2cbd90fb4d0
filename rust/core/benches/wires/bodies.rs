//! Replies as providers write them, of the sizes that providers send.

use toolrelay_core::wire::{Head, Style};

/// Events of a streamed answer.
pub(crate) const CHUNKS: u32 = 500;

/// What one wire is measured with.
pub(crate) struct Bodies {
    pub(crate) style: Style,
    /// A plain reply: text and two calls.
    pub(crate) plain: String,
    /// A streamed answer.
    pub(crate) text: String,
    /// A streamed call of 800 KB in 40,000 pieces.
    pub(crate) call: String,
    /// A streamed answer of 5 MB in one event.
    pub(crate) large: String,
}

pub(crate) fn all() -> Vec<Bodies> {
    vec![openai(), responses(), anthropic(), gemini()]
}

pub(crate) fn head() -> Head<'static> {
    Head { model: "m", system: None, tools: &[], params: &[], stream: true, ..Head::default() }
}

/// Turns of a prompt, a call, its result and an answer.
pub(crate) fn history(turns: usize) -> String {
    let text = "The tide turns at nine; the boats are moored by then. ".repeat(10);
    let turn = |at| {
        format!(
            r#"{{"role":"user","content":"{text}"}},{{"role":"assistant","content":"{text}","tool_calls":[{{"id":"call_{at}","type":"function","function":{{"name":"tally","arguments":"{{\"harbour\":\"north\",\"n\":{at}}}"}}}}]}},{{"role":"tool","tool_call_id":"call_{at}","content":"{text}\n{text}"}},{{"role":"assistant","content":"{text}"}}"#
        )
    };
    let turns: Vec<String> = (0..turns).map(turn).collect();
    format!(r#"[{},{{"role":"user","content":"go on"}}]"#, turns.join(","))
}

const PROSE: &str = "The tide turns at nine; the boats are moored by then. ";
const INPUT: &str = r#"{\"harbour\":\"north\",\"boats\":[\"Anna\",\"Berta\"],\"n\":7}"#;
const PIECE: &str = r#"0123456789 \"n\": 7,"#;

fn events<'a>(named: bool, data: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let event = |(name, data): (&str, String)| {
        if named { format!("event: {name}\ndata: {data}\n\n") } else { format!("data: {data}\n\n") }
    };
    data.into_iter().map(event).collect::<Vec<_>>().concat()
}

fn large() -> String {
    "0123456789abcdef".repeat(5 << 16)
}

fn openai() -> Bodies {
    let chunk = |delta: &str, reason: &str| {
        let head = r#""id":"chatcmpl-9f8e7d6c5b4a39281706","object":"chat.completion.chunk","created":1790000000,"model":"m-1-2026-01-01","service_tier":"default","system_fingerprint":"fp_0123456789""#;
        format!(
            r#"{{{head},"choices":[{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{reason}}}],"usage":null}}"#
        )
    };
    let stream = |deltas: Vec<String>| {
        let chunks = deltas.iter().map(|delta| ("", chunk(delta, "null")));
        events(false, chunks.chain([("", chunk("{}", "\"stop\"")), ("", "[DONE]".to_owned())]))
    };
    let call =
        |at| format!(r#"{{"id":"call_{at}","type":"function","function":{{"name":"tally","arguments":"{INPUT}"}}}}"#);
    let start =
        r#"{"tool_calls":[{"index":0,"id":"call_0","type":"function","function":{"name":"tally","arguments":""}}]}"#;
    let piece = format!(r#"{{"tool_calls":[{{"index":0,"function":{{"arguments":"{PIECE}"}}}}]}}"#);
    Bodies {
        style: Style::OpenAi,
        plain: format!(
            r#"{{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m-1","choices":[{{"index":0,"message":{{"role":"assistant","content":"{}","refusal":null,"annotations":[],"tool_calls":[{},{}]}},"logprobs":null,"finish_reason":"tool_calls"}}],"usage":{{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_tokens_details":{{"cached_tokens":4}},"completion_tokens_details":{{"reasoning_tokens":2}}}}}}"#,
            PROSE.repeat(50),
            call(0),
            call(1)
        ),
        text: stream(vec![r#"{"content":" harbour"}"#.to_owned(); CHUNKS as usize]),
        call: stream([vec![start.to_owned()], vec![piece; 40_000]].concat()),
        large: stream(vec![format!(r#"{{"content":"{}"}}"#, large())]),
    }
}

fn anthropic() -> Bodies {
    let usage = r#"{"input_tokens":10,"cache_creation_input_tokens":0,"cache_read_input_tokens":4,"output_tokens":5,"service_tier":"standard"}"#;
    let message = |content: &str, reason: &str| {
        format!(
            r#"{{"id":"msg_1","type":"message","role":"assistant","model":"m-1","content":[{content}],"stop_reason":{reason},"stop_sequence":null,"usage":{usage}}}"#
        )
    };
    let stream = |block: &str, deltas: Vec<String>| {
        let start = [
            ("message_start", format!(r#"{{"type":"message_start","message":{}}}"#, message("", "null"))),
            ("content_block_start", format!(r#"{{"type":"content_block_start","index":0,"content_block":{block}}}"#)),
        ];
        let delta = |delta: &String| {
            ("content_block_delta", format!(r#"{{"type":"content_block_delta","index":0,"delta":{delta}}}"#))
        };
        let end = [
            ("content_block_stop", r#"{"type":"content_block_stop","index":0}"#.to_owned()),
            (
                "message_delta",
                format!(r#"{{"type":"message_delta","delta":{{"stop_reason":"tool_use"}},"usage":{usage}}}"#),
            ),
            ("message_stop", r#"{"type":"message_stop"}"#.to_owned()),
        ];
        events(true, start.into_iter().chain(deltas.iter().map(delta)).chain(end))
    };
    let call = |at, input: &str| format!(r#"{{"type":"tool_use","id":"toolu_{at}","name":"tally","input":{input}}}"#);
    let input = INPUT.replace('\\', "");
    let text = |text: &str| format!(r#"{{"type":"text","text":"{text}"}}"#);
    let piece = format!(r#"{{"type":"input_json_delta","partial_json":"{PIECE}"}}"#);
    Bodies {
        style: Style::Anthropic,
        plain: message(&[text(&PROSE.repeat(50)), call(0, &input), call(1, &input)].join(","), r#""tool_use""#),
        text: stream(&text(""), vec![r#"{"type":"text_delta","text":" harbour"}"#.to_owned(); CHUNKS as usize]),
        call: stream(&call(0, "{}"), vec![piece; 40_000]),
        large: stream(&text(""), vec![format!(r#"{{"type":"text_delta","text":"{}"}}"#, large())]),
    }
}

fn responses() -> Bodies {
    let response = |status: &str, output: &str| {
        format!(
            r#"{{"id":"resp_1","object":"response","created_at":1,"status":"{status}","error":null,"incomplete_details":null,"instructions":null,"model":"m-1","output":[{output}],"parallel_tool_calls":true,"usage":{{"input_tokens":10,"input_tokens_details":{{"cached_tokens":4}},"output_tokens":5,"output_tokens_details":{{"reasoning_tokens":2}}}}}}"#
        )
    };
    let typed =
        |kind: &'static str, fields: &str| (kind, format!(r#"{{"type":"{kind}","sequence_number":7,{fields}}}"#));
    let stream = |begun: &str, kind: &'static str, deltas: Vec<String>, done: &str| {
        let start = [
            typed("response.created", &format!(r#""response":{}"#, response("in_progress", ""))),
            typed("response.output_item.added", &format!(r#""output_index":0,"item":{begun}"#)),
        ];
        let delta = |delta: &String| {
            typed(
                kind,
                &format!(
                    r#""item_id":"it_1","output_index":0,"content_index":0,"delta":"{delta}","logprobs":[],"obfuscation":"kd93hs""#
                ),
            )
        };
        let end = [
            typed("response.output_item.done", &format!(r#""output_index":0,"item":{done}"#)),
            typed("response.completed", &format!(r#""response":{}"#, response("completed", done))),
        ];
        events(true, start.into_iter().chain(deltas.iter().map(delta)).chain(end))
    };
    let text = |text: &str| {
        format!(
            r#"{{"id":"it_1","type":"message","status":"completed","role":"assistant","content":[{{"type":"output_text","annotations":[],"logprobs":[],"text":"{text}"}}]}}"#
        )
    };
    let call = |at, input: &str| {
        format!(
            r#"{{"id":"it_1","type":"function_call","status":"completed","arguments":"{input}","call_id":"call_{at}","name":"tally"}}"#
        )
    };
    let (said, asked) = ("response.output_text.delta", "response.function_call_arguments.delta");
    let words = vec![" harbour".to_owned(); CHUNKS as usize];
    let pieces = vec![PIECE.to_owned(); 40_000];
    Bodies {
        style: Style::OpenAiResponses,
        plain: response("completed", &[text(&PROSE.repeat(50)), call(0, INPUT), call(1, INPUT)].join(",")),
        text: stream(&text(""), said, words.clone(), &text(&words.concat())),
        call: stream(&call(0, ""), asked, pieces.clone(), &call(0, &pieces.concat())),
        large: stream(&text(""), said, vec![large()], &text(&large())),
    }
}

fn gemini() -> Bodies {
    let reply = |parts: &str, more: &str| {
        format!(
            r#"{{"candidates":[{{"content":{{"parts":[{parts}],"role":"model"}}{more},"index":0}}],"usageMetadata":{{"promptTokenCount":10,"candidatesTokenCount":5,"totalTokenCount":22,"cachedContentTokenCount":4,"promptTokensDetails":[{{"modality":"TEXT","tokenCount":10}}],"thoughtsTokenCount":7}},"modelVersion":"m-1","responseId":"r-1"}}"#
        )
    };
    let stop = r#","finishReason":"STOP""#;
    let stream = |parts: Vec<String>| {
        let pieces = parts.iter().map(|part| ("", reply(part, "")));
        events(false, pieces.chain([("", reply(r#"{"text":""}"#, stop))]))
    };
    let call =
        |input: &str| format!(r#"{{"functionCall":{{"name":"tally","args":{input}}},"thoughtSignature":"c2ln"}}"#);
    let input = INPUT.replace('\\', "");
    let text = |text: &str| format!(r#"{{"text":"{text}"}}"#);
    let begun = r#"{"functionCall":{"name":"tally","willContinue":true}}"#.to_owned();
    let piece = format!(
        r#"{{"functionCall":{{"partialArgs":[{{"jsonPath":"$.harbour","stringValue":"{PIECE}","willContinue":true}}],"willContinue":true}}}}"#
    );
    let ended = r#"{"functionCall":{"partialArgs":[{"jsonPath":"$.harbour","stringValue":""}]}},{"functionCall":{}}"#;
    Bodies {
        style: Style::Gemini,
        plain: reply(&[text(&PROSE.repeat(50)), call(&input), call(&input)].join(","), stop),
        text: stream(vec![text(" harbour"); CHUNKS as usize]),
        call: stream([vec![begun], vec![piece; 40_000], vec![ended.to_owned()]].concat()),
        large: stream(vec![text(&large())]),
    }
}
