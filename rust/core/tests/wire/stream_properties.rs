//! What holds for any stream, of any style.

use proptest::collection::vec;
use proptest::prelude::*;
use toolrelay_core::reply::{Reply, Usage};
use toolrelay_core::wire::Style;
use toolrelay_core::wire::failure::FailureKind;
use toolrelay_core::wire::stream::Delta;

use crate::streamed::{Streamed, feed, told};
use crate::written::written;

/// A style and the body of one of its streams.
fn stream() -> impl Strategy<Value = (Style, String)> {
    written().prop_map(|(style, written)| (style, written.stream()))
}

/// What can happen to a body on its way: bytes that are lost, doubled or changed.
#[derive(Clone, Debug)]
enum Harm {
    Lose(usize, usize),
    Double(usize, usize),
    Put(usize, &'static str),
}

fn harm() -> impl Strategy<Value = Harm> {
    let odd = vec![
        "\r",
        "\n",
        "\n\n",
        "\u{feff}",
        "\0",
        "{",
        "}",
        "[",
        "]",
        "\"",
        "\\",
        "\\ud83d",
        "null",
        "1e9",
        "[]",
        "{}",
        ",",
        "data: ",
        "data: {}\n\n",
        "data: [DONE]\n\n",
        "event: error\n",
        ":",
        "\u{2028}",
        r#""index":0,"#,
        r#""index":7,"#,
        r#""id":"k","#,
        r#""id":"","#,
        r#""name":"tally","#,
        r#""error":{"message":"no"},"#,
        r#""type":"text","#,
        r#"[{"type":"text","text":"x"}]"#,
        r#"[{"type":"thinking","thinking":[{"type":"text","text":"x"}]}]"#,
    ];
    prop_oneof![
        (any::<usize>(), 1usize..80).prop_map(|(at, length)| Harm::Lose(at, length)),
        (any::<usize>(), 1usize..400).prop_map(|(at, length)| Harm::Double(at, length)),
        (any::<usize>(), prop::sample::select(odd)).prop_map(|(at, text)| Harm::Put(at, text)),
    ]
}

fn harmed(mut body: Vec<u8>, harms: &[Harm]) -> Vec<u8> {
    for harm in harms {
        let place = |at: usize, length: usize| at % (body.len() + 1)..(at % (body.len() + 1) + length).min(body.len());
        match harm {
            Harm::Lose(at, length) => drop(body.drain(place(*at, *length))),
            Harm::Double(at, length) => {
                let place = place(*at, *length);
                let again = body[place.clone()].to_vec();
                drop(body.splice(place.end..place.end, again));
            }
            Harm::Put(at, text) => {
                let at = place(*at, 0).start;
                drop(body.splice(at..at, text.bytes()));
            }
        }
    }
    body
}

/// The body in pieces of these sizes, over and over.
fn cut<'a>(mut body: &'a [u8], sizes: &[usize]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    for size in sizes.iter().cycle() {
        if body.is_empty() {
            break;
        }
        let (piece, rest) = body.split_at((*size).min(body.len()));
        pieces.push(piece);
        body = rest;
    }
    pieces
}

fn sizes() -> impl Strategy<Value = Vec<usize>> {
    vec(0usize..40, 0..6).prop_map(|mut sizes| {
        sizes.push(1);
        sizes
    })
}

/// Everything that was told is what the reply says.
pub(crate) fn is_told(deltas: &[Delta], reply: &Reply) -> bool {
    let (text, calls) = told(deltas);
    let asked: Vec<(String, String)> =
        reply.calls.iter().map(|call| (call.name.clone(), call.arguments.clone())).collect();
    text == reply.text && calls == asked
}

proptest! {
    /// Contract 8.1: streamed or plain, the reply is the same, provider blocks and all, and what was
    /// told on the way is what it says.
    #[test]
    fn streamed_equals_plain((style, written) in written()) {
        let Streamed { deltas, reply } = feed(style, [written.stream().as_bytes()]);
        let reply = reply.unwrap();
        prop_assert_eq!(&reply, &style.decode(written.plain.as_bytes()).unwrap());
        prop_assert!(is_told(&deltas, &reply), "{:?}", deltas);
    }

    /// Contract 8.7: any split of the bytes gives the same, whatever the bytes are.
    #[test]
    fn any_split_gives_the_same((style, body) in stream(), harms in vec(harm(), 0..4), sizes in sizes()) {
        let body = harmed(body.into_bytes(), &harms);
        let whole = feed(style, [&body[..]]);
        prop_assert_eq!(&feed(style, cut(&body, &sizes)), &whole);
        prop_assert_eq!(&feed(style, body.chunks(1)), &whole);
    }

    /// Contract 9.5.
    #[test]
    fn arbitrary_bytes_are_read_or_refused(style in prop::sample::select(Style::ALL.to_vec()), body in vec(any::<u8>(), 0..200), limit in 0usize..300) {
        let event = [b"data: {\"choices\":[{\"delta\":", &body[..], b"}]}\n\n"].concat();
        for body in [&body, &event] {
            let mut decoder = style.stream(limit);
            let fed = decoder.feed(body, &mut |_| {});
            prop_assert!(fed.is_ok() || decoder.finish().is_err());
        }
    }
}

proptest! {
    // Every case reads its stream as many times as it has bytes.
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 16, ..ProptestConfig::default() })]

    /// Contract 8.7, fault D19: wherever a stream is cut, it is a failure or the whole reply, but for
    /// usage, which may come last.
    #[test]
    fn cut_anywhere_is_a_failure_or_whole((style, body) in stream()) {
        let body = body.as_bytes();
        let whole = Reply { usage: Usage::default(), ..feed(style, [body]).reply.unwrap() };
        for cut in 0..body.len() {
            match feed(style, [&body[..cut]]).reply {
                Ok(reply) => prop_assert_eq!(&Reply { usage: Usage::default(), ..reply }, &whole),
                Err(failure) => prop_assert_eq!(failure.kind, FailureKind::Connection),
            }
        }
    }
}
