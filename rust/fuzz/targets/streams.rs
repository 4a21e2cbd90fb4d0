//! Streams of every style: the first byte is the style, the second the size of the pieces, the rest the body.
//!
//! Nothing panics; any split of the bytes gives the same; a reply can be sent again to every style.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolrelay_core::id::CallId;
use toolrelay_core::message::{Call, Message};
use toolrelay_core::reply::Reply;
use toolrelay_core::tool::ToolOutput;
use toolrelay_core::wire::failure::ProviderFailure;
use toolrelay_core::wire::stream::Delta;
use toolrelay_core::wire::{Head, Style};

fuzz_target!(|input: &[u8]| {
    let [style, size, body @ ..] = input else { return };
    let style = Style::ALL[usize::from(*style) % Style::COUNT];
    let whole = read(style, body, body.len().max(1));
    assert_eq!(read(style, body, usize::from(*size).max(1)), whole);
    if let Ok(reply) = whole.1 {
        send(&reply);
    }
});

fn read(style: Style, body: &[u8], size: usize) -> (Vec<Delta>, Result<Reply, ProviderFailure>) {
    let mut decoder = style.stream(1 << 16);
    let mut deltas = Vec::new();
    for piece in body.chunks(size) {
        if decoder.feed(piece, &mut |delta| deltas.push(delta)).is_err() || decoder.is_complete() {
            break;
        }
    }
    (deltas, decoder.finish())
}

/// Makes the next request of a reply, for every style.
fn send(reply: &Reply) {
    let calls = reply.calls.iter().enumerate().map(|(at, asked)| Call {
        id: CallId::new(format!("call_{at}")),
        name: asked.name.clone(),
        arguments: asked.arguments.clone(),
    });
    let calls: Vec<Call> = calls.collect();
    let mut messages =
        vec![Message::user("x"), Message::assistant_reply(&reply.text, calls.clone(), reply.provider.clone())];
    messages.extend(calls.iter().map(|call| Message::tool_result(&call.id, &ToolOutput::text("7"))));
    messages.push(Message::user("y"));
    for style in Style::ALL {
        let head = Head { model: "m", stream: true, ..Head::default() };
        let body = style.head(&head).and_then(|prefix| prefix.body(&messages)).expect("a request can be made");
        let text = String::from_utf8(body.chunks.concat()).expect("a request is UTF-8");
        toolrelay_core::json::Json::parse(&text).expect("a request is JSON");
    }
}
