//! The work that a stream makes grows with its bytes and no faster, and so does the memory: shown by counting
//! what is allocated, as whatever is copied has to be put somewhere.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(unsafe_code, reason = "an allocator that counts is one that hands on")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use toolrelay_core::reply::Reply;
use toolrelay_core::wire::Style;

struct Counting;

static TOTAL: AtomicUsize = AtomicUsize::new(0);
static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn taken(size: usize) {
    TOTAL.fetch_add(size, Relaxed);
    PEAK.fetch_max(LIVE.fetch_add(size, Relaxed) + size, Relaxed);
}

// SAFETY: every call is handed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    /// A block that grows counts anew, as it may have to be copied.
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        taken(size);
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What a stream cost beside its own bytes, which are given in pieces of this size.
struct Cost {
    /// Bytes allocated, ever.
    total: usize,
    /// Bytes held, at most.
    peak: usize,
}

fn cost(style: Style, body: &str, piece: usize) -> (Reply, Cost) {
    let (total, live) = (TOTAL.load(Relaxed), LIVE.load(Relaxed));
    PEAK.store(live, Relaxed);
    let mut decoder = style.stream(1 << 24);
    for piece in body.as_bytes().chunks(piece) {
        decoder.feed(piece, &mut drop).unwrap();
    }
    let reply = decoder.finish().unwrap();
    (reply, Cost { total: TOTAL.load(Relaxed) - total, peak: PEAK.load(Relaxed) - live })
}

/// A stream: events at the start, an event for each of `count`, events at the end.
fn stream(start: &[&str], count: usize, event: impl Fn(usize) -> String, end: &[&str]) -> String {
    let start = start.iter().map(ToString::to_string);
    let all = start.chain((0..count).map(event)).chain(end.iter().map(ToString::to_string));
    all.flat_map(|data| ["data: ".to_owned(), data, "\n\n".to_owned()]).collect()
}

const OPENAI_END: &[&str] = &[r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#, "[DONE]"];
const ANTHROPIC_START: &[&str] =
    &[r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"k","name":"n","input":{}}}"#];
const ANTHROPIC_END: &[&str] = &[r#"{"type":"message_stop"}"#];
const RESPONSES_START: &[&str] = &[
    r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"fc","type":"function_call","call_id":"k","name":"n","arguments":""}}"#,
];
const RESPONSES_END: &[&str] = &[r#"{"type":"response.completed","response":{"status":"completed","output":[]}}"#];

const GEMINI_START: &[&str] =
    &[r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"n","willContinue":true}}]}}]}"#];
const GEMINI_END: &[&str] = &[r#"{"candidates":[{"finishReason":"STOP"}]}"#];

/// A call whose arguments come in so many pieces of 18 bytes.
fn call(style: Style, count: usize) -> String {
    let openai = |at: usize| {
        let named = if at == 0 { r#""id":"k","# } else { "" };
        let name = if at == 0 { r#""name":"n","# } else { "" };
        format!(
            r#"{{"choices":[{{"delta":{{"tool_calls":[{{"index":0,{named}"function":{{{name}"arguments":"0123456789\"'\n\\😀"}}}}]}}}}]}}"#
        )
    };
    let anthropic = |_| {
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"0123456789\"'\n\\😀"}}"#
            .to_owned()
    };
    let responses = |_| {
        r#"{"type":"response.function_call_arguments.delta","output_index":0,"item_id":"fc","delta":"0123456789\"'\n\\😀"}"#
            .to_owned()
    };
    let gemini = |_| {
        let argument = r#"{"jsonPath":"$.a","stringValue":"0123456789\"'\n\\😀"}"#;
        format!(
            r#"{{"candidates":[{{"content":{{"parts":[{{"functionCall":{{"partialArgs":[{argument}],"willContinue":true}}}}]}}}}]}}"#
        )
    };
    match style {
        Style::OpenAi => stream(&[], count, openai, OPENAI_END),
        Style::OpenAiResponses => stream(RESPONSES_START, count, responses, RESPONSES_END),
        Style::Anthropic => stream(ANTHROPIC_START, count, anthropic, ANTHROPIC_END),
        Style::Gemini => stream(GEMINI_START, count, gemini, GEMINI_END),
    }
}

/// So many calls, or content blocks, or parts, or fields within fields: whatever a stream may have many of.
fn many(count: usize) -> Vec<(Style, String)> {
    let chunk = |delta: String| format!(r#"{{"choices":[{{"delta":{delta}}}]}}"#);
    let calls = |at| {
        chunk(format!(
            r#"{{"tool_calls":[{{"index":{at},"id":"k{at}","function":{{"name":"n","arguments":"{{}}"}}}}]}}"#
        ))
    };
    let unnumbered =
        |at| chunk(format!(r#"{{"tool_calls":[{{"id":"k{at}","function":{{"name":"n","arguments":"{{}}"}}}}]}}"#));
    let repeated =
        |_| chunk(r#"{"tool_calls":[{"index":0,"function":{"name":"n","arguments":"{\"a\":"}}]}"#.to_owned());
    let parts = |at| {
        let kind = if at % 2 == 0 { "text" } else { "thinking" };
        chunk(format!(r#"{{"content":[{{"type":"{kind}","text":"x","thinking":[{{"type":"text","text":"x"}}]}}]}}"#))
    };
    let inner =
        |at| chunk(format!(r#"{{"content":[{{"type":"thinking","thinking":[{{"type":"{at}","text":"x"}}]}}]}}"#));
    let details = |at| chunk(format!(r#"{{"reasoning_details":[{{"type":"t","index":{},"text":"x"}}]}}"#, at / 2));
    let fields = |at| chunk(format!(r#"{{"mystery":{{"f{at}":{{"a":[1]}}}}}}"#));
    let blocks =
        |at| format!(r#"{{"type":"content_block_start","index":{at},"content_block":{{"type":"text","text":"x"}}}}"#);
    let cited = |_| {
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{"a":1}}}"#.to_owned()
    };
    let counted = |at| format!(r#"{{"type":"message_delta","usage":{{"f{at}":1}},"delta":{{"stop_reason":"x"}}}}"#);
    let mut all = vec![
        (Style::Anthropic, stream(&[], count, blocks, ANTHROPIC_END)),
        (Style::Anthropic, stream(ANTHROPIC_START, count, cited, ANTHROPIC_END)),
        (Style::Anthropic, stream(ANTHROPIC_START, count, counted, ANTHROPIC_END)),
    ];
    let openai: [&dyn Fn(usize) -> String; 7] = [&calls, &unnumbered, &repeated, &parts, &inner, &details, &fields];
    let part = |part: String| format!(r#"{{"candidates":[{{"content":{{"parts":[{part}]}}}}]}}"#);
    let kinds = |at| part(format!(r#"{{"text":"x","thought":{}}}"#, at % 2 == 0));
    let signed = |_| part(r#"{"text":"x","thoughtSignature":"eA=="}"#.to_owned());
    let whole = |_| part(r#"{"functionCall":{"name":"n","args":{"a":1}}}"#.to_owned());
    let items = |at| {
        part(format!(
            r#"{{"functionCall":{{"partialArgs":[{{"jsonPath":"$.a[{at}].b","numberValue":1}}],"willContinue":true}}}}"#
        ))
    };
    let begun = |at| {
        format!(
            r#"{{"type":"response.output_item.added","output_index":{at},"item":{{"id":"i{at}","type":"function_call","name":"n"}}}}"#
        )
    };
    let said =
        |at| format!(r#"{{"type":"response.output_text.delta","item_id":"m","content_index":{at},"delta":"x"}}"#);
    let responses: [&dyn Fn(usize) -> String; 2] = [&begun, &said];
    all.extend(responses.map(|event| (Style::OpenAiResponses, stream(&[], count, event, RESPONSES_END))));
    let gemini: [&dyn Fn(usize) -> String; 4] = [&kinds, &signed, &whole, &items];
    all.extend(gemini.map(|event| (Style::Gemini, stream(GEMINI_START, count, event, GEMINI_END))));
    all.extend(openai.map(|event| (Style::OpenAi, stream(&[], count, event, OPENAI_END))));
    all
}

/// One test, as there is one count.
#[test]
fn work_and_memory_grow_with_the_bytes() {
    for style in Style::ALL {
        let count = if style == Style::OpenAi { 40_000 } else { 8_000 };
        let body = call(style, count);
        let (reply, whole) = cost(style, &body, 1_400);
        let (_, half) = cost(style, &call(style, count / 2), 1_400);
        let arguments = reply.calls[0].arguments.len();
        // As JSON, which some styles have in a string.
        assert_eq!(arguments, if style == Style::Gemini { count * 21 + 8 } else { count * 18 });
        let told = format!("{style:?}: {} bytes in all, {} at most", whole.total, whole.peak);
        assert!(whole.total < half.total * 21 / 10, "{told}, {} for the half", half.total);
        assert!(whole.total < body.len() * 8 && whole.peak < arguments * 12, "{told}");
    }

    let text = "0123456789abcdef".repeat(5 << 16);
    let event = format!(r#"{{"choices":[{{"delta":{{"content":"{text}"}},"finish_reason":"stop"}}]}}"#);
    let body = stream(&[&event], 0, |_| String::new(), &[]);
    for piece in [1_400, body.len()] {
        let (reply, cost) = cost(Style::OpenAi, &body, piece);
        assert_eq!(reply.text.len(), 5 << 20);
        let told = format!("{} bytes in all, {} at most", cost.total, cost.peak);
        assert!(cost.total < body.len() * 12 && cost.peak < body.len() * 8, "{told}");
    }

    for (at, ((style, body), (_, half))) in many(2_000).iter().zip(many(1_000)).enumerate() {
        let (_, whole) = cost(*style, body, body.len());
        let (_, half) = cost(*style, &half, half.len());
        assert!(whole.total < half.total * 22 / 10, "{at}: {} bytes, {} for the half", whole.total, half.total);
    }
}
