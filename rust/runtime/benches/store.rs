//! What the SQLite store costs: CPU of the whole process and bytes handed to the kernel, per operation, at several
//! lengths of the conversation. `cargo bench -p toolrelay-runtime --bench store`
#![allow(missing_docs, clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use rustix::time::{ClockId, clock_gettime};
use toolrelay_runtime::store::{ConversationId, Lease, Slot, SqliteStore, State, Store, StoredRequest, Write};

const MESSAGE_BYTES: usize = 240;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let folder = tempfile::tempdir().unwrap();
    println!("{MESSAGE_BYTES}-byte messages; CPU and bytes written of the whole process, per operation");
    for (length, loads) in [(10, 4_000), (100, 4_000), (1_000, 1_000), (10_000, 100)] {
        let path = folder.path().join(format!("{length}.db"));
        let store = SqliteStore::open(&path).unwrap();
        let id = ConversationId::new("c-1").unwrap();
        let messages = (0..length).map(|seq| (seq, message(seq))).collect();
        store.commit(&id, Write { append: messages, ..plain(0) }).await.unwrap();
        store.close().await;
        let on_disk = size(&path);
        let json = length * MESSAGE_BYTES as u64;

        let store = SqliteStore::open(&path).unwrap();
        let load = measure(loads, async |_| {
            store.load(&id).await.unwrap();
        })
        .await;
        let claim = measure(1_000, async |n| {
            let lease = Some(Lease { owner: "worker".into(), epoch: n, until_ms: 0 });
            store.commit(&id, Write { lease, epoch: n, state: State::Running, ..plain(1 + n) }).await.unwrap();
        })
        .await;
        let halt = measure(1_000, async |n| {
            store.commit(&id, halted(1_001 + n, length + 2 * n)).await.unwrap();
        })
        .await;
        println!("{length:>6} messages, {on_disk} bytes on disk for {json}");
        println!("       load  {load}\n       claim {claim}\n       halt  {halt}");
    }
    many_at_once(&folder.path().join("many.db")).await;
}

/// A halt of a turn: the assistant's message, one result, and the request of a parked call.
fn halted(expect: u64, seq: u64) -> Write {
    let request = StoredRequest {
        id: format!("req_{expect:032x}"),
        slots: vec![Slot { seq: seq + 2, call: "call_1".into() }],
        body: message(seq),
        made_at_ms: 0,
        expires_at_ms: None,
        settled: true,
        answers: vec![],
        outcome: None,
    };
    let append = vec![(seq, message(seq)), (seq + 1, message(seq))];
    Write { state: State::Pending, append, requests: vec![request], ..plain(expect) }
}

/// One commit of each of 1,000 conversations, all at once.
async fn many_at_once(path: &Path) {
    let store = Arc::new(SqliteStore::open(path).unwrap());
    let each = measure(10, async |n| {
        let commits = (0..1_000).map(|c| {
            let (store, id) = (store.clone(), ConversationId::new(format!("c-{c}")).unwrap());
            tokio::spawn(async move { store.commit(&id, halted(n, 2 * n)).await.unwrap() })
        });
        for commit in commits.collect::<Vec<_>>() {
            commit.await.unwrap();
        }
    })
    .await;
    println!("1,000 halts of 1,000 conversations at once: {each}");
}

fn plain(expect: u64) -> Write {
    Write {
        expect,
        version: expect + 1,
        at_ms: 0,
        state: State::Idle,
        epoch: 0,
        lease: None,
        append: vec![],
        requests: vec![],
    }
}

fn message(seq: u64) -> Bytes {
    let head = format!(r#"{{"role":"user","content":"{seq} "#);
    format!("{head:.<width$}\"}}", width = MESSAGE_BYTES - 2).into()
}

async fn measure(times: u32, mut work: impl AsyncFnMut(u64)) -> String {
    let (cpu, written, start) = (cpu(), written(), Instant::now());
    for n in 0..times {
        work(n.into()).await;
    }
    let cpu = (self::cpu() - cpu) / i64::from(times);
    let micros = |nanos: u128| format!("{}.{} us", nanos / 1000, nanos % 1000 / 100);
    let wall = micros((start.elapsed() / times).as_nanos());
    let bytes = (self::written() - written) / u64::from(times);
    format!("{:>10} CPU, {wall:>10}, {bytes:7} bytes written", micros(cpu.unsigned_abs().into()))
}

/// Nanoseconds of CPU that this process has used.
fn cpu() -> i64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// Bytes given to write calls by this process, whether they reached the disk yet or not.
fn written() -> u64 {
    let io = fs::read_to_string("/proc/self/io").unwrap();
    let line = io.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap();
    line.parse().unwrap()
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).unwrap().len()
}
