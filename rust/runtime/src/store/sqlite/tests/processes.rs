//! Several processes on one file: racing, locking each other out, and killed in the middle of it. A test that needs
//! another process starts itself again, with a role in the environment.

use std::env;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Instant, SystemTime};

use super::*;

/// The file that this process was started to work on, and its number among its kind.
fn role() -> Option<(SqliteStore, u64)> {
    let path = env::var("TOOLRELAY_TEST_STORE").ok()?;
    let number = env::var("TOOLRELAY_TEST_NUMBER").unwrap().parse().unwrap();
    Some((SqliteStore::open(path).unwrap(), number))
}

fn command(test: &str, store: &SqliteStore, number: u64) -> Command {
    let module = module_path!().split_once("::").unwrap().1;
    let mut command = Command::new(env::current_exe().unwrap());
    command.args([&format!("{module}::{test}"), "--exact", "--nocapture", "--test-threads=1"]);
    command.env("TOOLRELAY_TEST_STORE", store.path()).env("TOOLRELAY_TEST_NUMBER", number.to_string());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
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
    const WORKERS: u64 = 3;
    const EACH: u64 = 40;
    if let Some((store, number)) = role() {
        let mut done = 0;
        let mut created = 0;
        while done < EACH {
            let version = store.load(&id("c")).await.unwrap().map_or(0, |found| found.version);
            match store.commit(&id("c"), append(version, [(number * EACH + done, body(version.to_string()))])).await {
                Ok(()) => (created, done) = (created + u64::from(version == 0), done + 1),
                Err(lost) => assert!(matches!(lost, StoreError::Conflict { .. }), "{lost}"),
            }
        }
        return say(created);
    }
    let (store, _folder) = fresh();
    let workers: Vec<_> = (0..WORKERS)
        .map(|number| command("processes_that_race_lose_nothing", &store, number).spawn().unwrap())
        .collect();
    let mut created = 0;
    for mut worker in workers {
        created += lines(&mut worker).map(|line| line.parse::<u64>().unwrap()).sum::<u64>();
        assert!(worker.wait().unwrap().success());
    }
    let found = store.load(&id("c")).await.unwrap().unwrap();
    let mut versions: Vec<u64> =
        found.messages.iter().map(|(_, body)| str::from_utf8(body).unwrap().parse().unwrap()).collect();
    versions.sort_unstable();
    assert_eq!(versions, (0..WORKERS * EACH).collect::<Vec<_>>());
    assert_eq!((created, found.version), (1, WORKERS * EACH));
}

/// Every commit of the writer adds two messages and a request, and its version is its epoch.
fn step(expect: u64) -> Write {
    let request = StoredRequest {
        id: format!("req_{expect}"),
        slots: vec![Slot { seq: 2 * expect, call: "call".into() }],
        body: body("r".repeat(300)),
        made_at_ms: 0,
        expires_at_ms: None,
        settled: false,
        answers: vec![],
        outcome: None,
    };
    let messages = [2 * expect, 2 * expect + 1].map(|seq| (seq, body("m".repeat(700))));
    Write { epoch: expect + 1, requests: vec![request], ..append(expect, messages) }
}

#[tokio::test]
async fn a_killed_writer_leaves_all_it_acknowledged_and_nothing_half() {
    const CONVERSATIONS: usize = 6;
    const KILLS: u32 = 25;
    if let Some((store, _)) = role() {
        let writers = (0..CONVERSATIONS).map(|n| {
            let store = store.clone();
            tokio::spawn(async move {
                let name = id(&format!("c-{n}"));
                let mut version = store.load(&name).await.unwrap().map_or(0, |found| found.version);
                loop {
                    store.commit(&name, step(version)).await.unwrap();
                    version += 1;
                    say(format!("{n} {version}"));
                }
            })
        });
        return futures_util::future::join_all(writers).await.into_iter().for_each(|end| end.unwrap());
    }
    let (store, _folder) = fresh();
    let mut acknowledged = [0; CONVERSATIONS];
    for kill in 0..KILLS {
        let mut writer =
            command("a_killed_writer_leaves_all_it_acknowledged_and_nothing_half", &store, 0).spawn().unwrap();
        let mut lines = lines(&mut writer);
        let mut note = |line: String| {
            let (n, version) = line.split_once(' ').unwrap();
            let seen = &mut acknowledged[n.parse::<usize>().unwrap()];
            *seen = version.parse::<u64>().unwrap().max(*seen);
        };
        note(lines.next().unwrap());
        let jitter = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().subsec_nanos() % 40_000;
        std::thread::sleep(Duration::from_micros(jitter.into()));
        writer.kill().unwrap();
        lines.for_each(note);
        writer.wait().unwrap();
        // Read through a store of its own on every other round, so that recovery is by a newcomer too.
        let reader = if kill % 2 == 0 { store.clone() } else { SqliteStore::open(store.path()).unwrap() };
        for (n, acknowledged) in acknowledged.iter().enumerate() {
            let found = reader.load(&id(&format!("c-{n}"))).await.unwrap();
            let Some(found) = found else {
                assert_eq!(*acknowledged, 0);
                continue;
            };
            assert!(found.version >= *acknowledged, "c-{n} is at {}, acknowledged {acknowledged}", found.version);
            let expected: Vec<_> = (0..found.version).map(step).collect();
            let messages: Vec<_> = expected.iter().flat_map(|step| step.append.clone()).collect();
            let requests: Vec<_> = expected.iter().flat_map(|step| step.requests.clone()).collect();
            assert!(found.messages == messages && found.requests == requests && found.epoch == found.version);
        }
    }
    assert!(acknowledged.iter().sum::<u64>() >= u64::from(KILLS), "{acknowledged:?}");
    let checked: String = beside(&store).query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(checked, "ok");
}

#[tokio::test]
async fn a_lock_of_another_process_is_waited_for_and_then_told() {
    if let Some((store, _)) = role() {
        let other = beside(&store);
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        say("locked");
        std::io::stdin().read_to_end(&mut vec![]).unwrap();
        return other.execute_batch("ROLLBACK").unwrap();
    }
    let (store, _folder) = fresh();
    store.commit(&id("c"), touch(0)).await.unwrap();
    let mut locker = command("a_lock_of_another_process_is_waited_for_and_then_told", &store, 0).spawn().unwrap();
    let mut said = lines(&mut locker);
    assert_eq!(said.next().as_deref(), Some("locked"));

    let (name, patience) = (id("c"), Duration::from_millis(150));
    let hasty = SqliteStore::open_with(store.path(), patience).unwrap();
    let start = Instant::now();
    let (result, ticks) = tokio::join!(hasty.commit(&name, touch(1)), async {
        let mut ticks = 0;
        while start.elapsed() < patience {
            tokio::time::sleep(Duration::from_millis(10)).await;
            ticks += 1;
        }
        ticks
    });
    assert_eq!(result, Err(StoreError::Locked { store: store.path().display().to_string(), waited: patience }));
    assert!(start.elapsed() >= patience);
    assert!(ticks >= 3, "the runtime's thread was blocked");
    assert_eq!(hasty.load(&id("c")).await.unwrap().unwrap().version, 1, "readers are not kept out");

    let release = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        drop(locker.stdin.take());
    };
    let (result, ()) = tokio::join!(store.commit(&name, touch(1)), release);
    assert_eq!(result, Ok(()));
    assert_eq!(said.next(), None);
    assert!(locker.wait().unwrap().success());
}

#[tokio::test]
async fn a_process_that_ends_with_the_store_open_is_quiet() {
    if let Some((store, number)) = role() {
        store.commit(&id("c"), touch(number)).await.unwrap();
        for n in 0..100 {
            let store = store.clone();
            tokio::spawn(async move { store.commit(&id(&format!("c-{n}")), touch(0)).await });
        }
        tokio::task::yield_now().await;
        std::process::exit(0);
    }
    let (store, _folder) = fresh();
    for number in 0..5 {
        let mut child = command("a_process_that_ends_with_the_store_open_is_quiet", &store, number);
        let ended = child.stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
        assert_eq!((ended.status.code(), str::from_utf8(&ended.stderr)), (Some(0), Ok("")));
        assert_eq!(store.load(&id("c")).await.unwrap().unwrap().version, number + 1);
    }
}

#[tokio::test]
async fn a_folder_that_may_not_be_written_is_read_only() {
    if let Some((store, _)) = role() {
        let read_only = StoreError::ReadOnly { store: store.path().display().to_string() };
        assert_eq!(store.commit(&id("c"), touch(1)).await, Err(read_only.clone()));
        assert_eq!(store.load(&id("c")).await, Err(read_only));
        return say("read-only");
    }
    // The administrator may write everywhere, so another user has to try.
    let nobody = 65_534;
    let (store, folder) = fresh();
    store.commit(&id("c"), touch(0)).await.unwrap();
    store.close().await;
    let chmod = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    let binary = folder.path().join("test");
    std::fs::copy(env::current_exe().unwrap(), &binary).unwrap();
    chmod(&binary, 0o555);
    let absent = SqliteStore::open(folder.path().join("absent.db")).unwrap();
    for (store, file_mode) in [(&store, 0o444), (&store, 0o666), (&absent, 0)] {
        if file_mode != 0 {
            chmod(store.path(), file_mode);
        }
        chmod(folder.path(), 0o555);
        let mut by_nobody = Command::new(&binary);
        let template = command("a_folder_that_may_not_be_written_is_read_only", store, 0);
        by_nobody.args(template.get_args()).stdout(Stdio::piped());
        by_nobody.envs(template.get_envs().filter_map(|(key, value)| Some((key, value?))));
        if rustix::process::geteuid().is_root() {
            by_nobody.uid(nobody).gid(nobody);
        }
        let mut by_nobody = by_nobody.spawn().unwrap();
        let said: Vec<_> = lines(&mut by_nobody).collect();
        chmod(folder.path(), 0o755);
        assert!(by_nobody.wait().unwrap().success());
        assert_eq!(said, ["read-only"]);
    }
    assert!(!absent.path().exists());
    let store = SqliteStore::open(store.path()).unwrap();
    assert_eq!(store.load(&id("c")).await.unwrap().unwrap().version, 1);
}
