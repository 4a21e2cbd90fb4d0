//! Several processes on one server. A test that needs another process starts itself again, with a role in the
//! environment.

use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};
use std::{env, thread};

use toolrelay_runtime::store::{StoreError, Write};

use crate::places::{Place, id, is_whole, step};

/// The place that this process was started to work on.
fn role() -> Option<Place> {
    let told = env::var("TOOLRELAY_TEST_PLACE").ok()?;
    let (url, part) = told.split_once(' ').unwrap();
    Some(Place { url: url.into(), part: part.into() })
}

fn start(test: &str, place: &Place) -> Child {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args([&format!("processes::{test}"), "--exact", "--nocapture", "--test-threads=1"]);
    command.env("TOOLRELAY_TEST_PLACE", format!("{} {}", place.url, place.part));
    command.stdout(Stdio::piped()).spawn().unwrap()
}

/// The lines of ours in what the child prints; the others are the test harness's.
fn lines(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    let output = BufReader::new(child.stdout.take().unwrap());
    output.lines().map_while(Result::ok).filter_map(|line| Some(line.split_once("> ")?.1.to_owned()))
}

fn say(line: impl std::fmt::Display) {
    let mut out = std::io::stdout();
    writeln!(out, "> {line}").unwrap();
    out.flush().unwrap();
}

#[tokio::test]
async fn processes_that_race_lose_nothing() {
    const EACH: u64 = 40;
    if let Some(place) = role() {
        let (store, mut done) = (place.store(), 0);
        while done < EACH {
            let version = store.load(&id("c")).await.unwrap().map_or(0, |found| found.version);
            match store.commit(&id("c"), Write { requests: vec![], ..step(version) }).await {
                Ok(()) => done += 1,
                Err(lost) => assert!(matches!(lost, StoreError::Conflict { .. }), "{lost}"),
            }
        }
        return say("done");
    }
    for place in Place::each() {
        let workers: Vec<_> = (0..3).map(|_| start("processes_that_race_lose_nothing", &place)).collect();
        for mut worker in workers {
            assert_eq!(lines(&mut worker).collect::<Vec<_>>(), ["done"]);
            assert!(worker.wait().unwrap().success());
        }
        let found = place.store().load(&id("c")).await.unwrap().unwrap();
        assert_eq!((found.version, found.messages.len() as u64), (3 * EACH, 6 * EACH));
    }
}

#[tokio::test]
async fn a_killed_writer_leaves_all_it_acknowledged_and_nothing_half() {
    const CONVERSATIONS: usize = 6;
    const KILLS: usize = 12;
    if let Some(place) = role() {
        let store = place.store();
        let writers = (0..CONVERSATIONS).map(|n| {
            let store = store.clone();
            tokio::spawn(async move {
                let name = format!("c-{n}");
                let mut version = is_whole(&*store, &name).await;
                loop {
                    store.commit(&id(&name), step(version)).await.unwrap();
                    version += 1;
                    say(format!("{n} {version}"));
                }
            })
        });
        return futures_util::future::join_all(writers).await.into_iter().for_each(|end| end.unwrap());
    }
    for place in Place::each() {
        let store = place.store();
        let mut acknowledged = [0; CONVERSATIONS];
        for _ in 0..KILLS {
            let mut writer = start("a_killed_writer_leaves_all_it_acknowledged_and_nothing_half", &place);
            let mut lines = lines(&mut writer);
            let mut note = |line: String| {
                let (n, version) = line.split_once(' ').unwrap();
                let seen = &mut acknowledged[n.parse::<usize>().unwrap()];
                *seen = version.parse::<u64>().unwrap().max(*seen);
            };
            note(lines.next().unwrap());
            let jitter = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().subsec_nanos() % 10_000;
            thread::sleep(Duration::from_micros(jitter.into()));
            writer.kill().unwrap();
            lines.for_each(note);
            writer.wait().unwrap();
            for (n, acknowledged) in acknowledged.iter().enumerate() {
                let found = is_whole(&*store, &format!("c-{n}")).await;
                assert!(found >= *acknowledged, "c-{n} is at {found}, acknowledged {acknowledged}");
            }
        }
    }
}
