//! What the wires cost: CPU per byte to write requests and to read replies, plain and streamed.
//! `cargo bench -p toolrelay-core --bench wires`
#![allow(missing_docs, clippy::unwrap_used, reason = "a benchmark fails by panicking")]
#![allow(clippy::disallowed_macros, reason = "a benchmark shows what it measures")]

use std::hint::black_box;

use bytes::Bytes;
use rustix::time::{ClockId, clock_gettime};
use toolrelay_core::tool::ToolSpec;
use toolrelay_core::transcript::Transcript;
use toolrelay_core::wire::{Head, Style};

#[path = "wires/bodies.rs"]
mod bodies;

use bodies::Bodies;

fn main() {
    println!(
        "{:18}{:>14}{:>14}{:>14}{:>12}{:>14}{:>12}",
        "", "encode", "decode", "stream", "", "800 KB call", "5 MB event"
    );
    println!("{:18}{:>14}{:>14}{:>14}{:>12}{:>14}{:>12}", "", "MB/s", "MB/s", "MB/s", "ns/event", "ms", "ms");
    for bodies in bodies::all() {
        let (history, written) = encode(bodies.style);
        let decode = measure(|| {
            black_box(bodies.style.decode(bodies.plain.as_bytes()).unwrap());
        });
        let streamed = measure(|| stream(&bodies, &bodies.text));
        let call = measure(|| stream(&bodies, &bodies.call));
        let large = measure(|| stream(&bodies, &bodies.large));
        println!(
            "{:18}{:>14.0}{:>14.0}{:>14.0}{:>12.0}{:>14.1}{:>12.1}",
            bodies.style.as_str(),
            speed(written, history),
            speed(bodies.plain.len(), decode),
            speed(bodies.text.len(), streamed),
            streamed / f64::from(bodies::CHUNKS),
            call / 1e6,
            large / 1e6,
        );
    }
}

/// Nanoseconds to encode a history that no request was made of yet, and how many bytes it becomes.
fn encode(style: Style) -> (f64, usize) {
    let json = Bytes::from(bodies::history(100));
    let tools: &[ToolSpec] = &[];
    let head = Head { tools, ..bodies::head() };
    let prefix = style.head(&head).unwrap();
    let mut written = 0;
    let mut best = f64::INFINITY;
    for _ in 0..200 {
        let history = Transcript::from_json(json.clone()).unwrap();
        let start = now();
        written = black_box(prefix.body(history.messages()).unwrap()).len;
        best = best.min(now() - start);
    }
    (best, written)
}

/// Reads a stream as it comes from a socket.
fn stream(bodies: &Bodies, body: &str) {
    let mut decoder = bodies.style.stream(1 << 24);
    for piece in body.as_bytes().chunks(16_384) {
        decoder.feed(piece, &mut |delta| drop(black_box(delta))).unwrap();
    }
    black_box(decoder.finish().unwrap());
}

/// Nanoseconds of CPU for one turn: the best of many rounds, each long enough for the clock.
fn measure(mut turn: impl FnMut()) -> f64 {
    let mut round = |turns: u32| {
        let start = now();
        (0..turns).for_each(|_| turn());
        now() - start
    };
    let mut turns = 1;
    while round(turns) < 3e6 {
        turns *= 2;
    }
    let best = (0..50).map(|_| round(turns)).fold(f64::INFINITY, f64::min);
    best / f64::from(turns)
}

/// Megabytes in a second.
#[expect(clippy::cast_precision_loss, reason = "no body is that long")]
fn speed(bytes: usize, nanos: f64) -> f64 {
    bytes as f64 * 1e3 / nanos
}

/// Nanoseconds of CPU that this process has used.
#[expect(clippy::cast_precision_loss, reason = "no benchmark runs that long")]
fn now() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}
