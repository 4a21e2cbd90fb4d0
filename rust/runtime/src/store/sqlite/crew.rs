//! The threads that work on the file for one process: a writer that commits in groups, and readers beside it.

use std::mem;
use std::process;
use std::sync::Arc;
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use tokio::sync::{oneshot, watch};

use super::super::{Conversation, ConversationId, Cursor, Lease, Order, StoreError, StoredRequest};
use super::line::{File, Line};
use super::write::{Change, Outcome, commit_all};
use super::{list, read};

/// A change that waits for the writer.
pub(super) struct WriteJob {
    pub(super) change: Change,
    pub(super) reply: oneshot::Sender<Outcome>,
}

/// A question that waits for a reader.
pub(super) enum ReadJob {
    Load {
        id: String,
        reply: Reply<Option<Conversation>>,
    },
    Request {
        id: String,
        request: String,
        reply: Reply<Option<StoredRequest>>,
    },
    Leases {
        after: Option<Cursor>,
        limit: usize,
        reply: Reply<Vec<(ConversationId, Lease)>>,
    },
    OpenRequests {
        order: Order,
        after: Option<Cursor>,
        limit: usize,
        reply: Reply<Vec<(ConversationId, StoredRequest)>>,
    },
}

pub(super) type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// The threads of one process. They end, each when its work is done, after the crew is dropped.
#[derive(Debug)]
pub(super) struct Crew {
    pid: u32,
    orders: Option<Orders>,
}

/// The ways to the threads.
#[derive(Debug, Clone)]
pub(super) struct Orders {
    pub(super) writes: Sender<WriteJob>,
    pub(super) reads: Sender<ReadJob>,
    /// Closed when the last thread has ended.
    pub(super) ended: watch::Receiver<()>,
}

impl Crew {
    pub(super) fn start(file: &Arc<File>) -> Result<Self, StoreError> {
        let (writes, write_jobs) = unbounded();
        let (reads, read_jobs) = unbounded();
        let (alive, ended) = watch::channel(());
        let alive = Arc::new(alive);
        // Nothing is ever sent: it is closed when the last reader has let go of the file.
        let (reads_on, readers_gone) = bounded::<()>(0);
        for _ in 0..READERS {
            let (line, jobs, reads_on) = (Line::new(file.clone(), true), read_jobs.clone(), reads_on.clone());
            spawn(file, &alive, move || {
                read_all(&line, &jobs);
                drop(line);
                drop(reads_on);
            })?;
        }
        drop(reads_on);
        let line = Line::new(file.clone(), false);
        spawn(file, &alive, move || {
            write_all(&line, &write_jobs);
            // Who closes the file last, alone, copies the log into it.
            _ = readers_gone.recv();
        })?;
        Ok(Self { pid: process::id(), orders: Some(Orders { writes, reads, ended }) })
    }

    /// The ways to the threads; `None` in a process that was forked off, where the threads are not.
    pub(super) fn orders(&self) -> Option<&Orders> {
        self.orders.as_ref().filter(|_| self.pid == process::id())
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        if self.pid != process::id() {
            // A copy from before the fork. Its threads are in the parent, and may have held any lock of the channels.
            mem::forget(self.orders.take());
        }
    }
}

fn spawn(file: &File, alive: &Arc<watch::Sender<()>>, work: impl FnOnce() + Send + 'static) -> Result<(), StoreError> {
    let alive = alive.clone();
    let body = move || {
        work();
        drop(alive);
    };
    let spawned = thread::Builder::new().name("toolrelay-store".into()).stack_size(STACK_BYTES).spawn(body);
    spawned.map(drop).map_err(|error| StoreError::Unavailable {
        store: file.path.display().to_string(),
        reason: format!("cannot start a thread: {}", error.kind()),
    })
}

fn write_all(line: &Line, jobs: &Receiver<WriteJob>) {
    while let Ok(first) = jobs.recv() {
        let mut group = vec![first];
        group.extend(jobs.try_iter().take(LARGEST_GROUP - 1));
        write_group(line, group);
    }
}

/// Commits a group and answers its callers.
///
/// When one of the commits may be to blame, for being too large for the disk, say, the halves are tried, so that it
/// fails alone. After any other failure nothing is tried again, because the outcome may be unknown.
fn write_group(line: &Line, mut group: Vec<WriteJob>) {
    let result = line.run(|connection| commit_all(connection, group.iter().map(|job| &job.change)));
    // A caller that is gone does not want to know: whether a reply arrives does not matter.
    match result {
        Ok(outcomes) => {
            for (job, outcome) in group.into_iter().zip(outcomes) {
                _ = job.reply.send(outcome);
            }
        }
        Err(StoreError::Full { .. } | StoreError::TooLarge { .. } | StoreError::Corrupt { .. }) if group.len() > 1 => {
            let rest = group.split_off(group.len() / 2);
            write_group(line, group);
            write_group(line, rest);
        }
        Err(error) => {
            for job in group {
                _ = job.reply.send(Err(error.clone()));
            }
        }
    }
}

fn read_all(line: &Line, jobs: &Receiver<ReadJob>) {
    while let Ok(job) = jobs.recv() {
        match job {
            ReadJob::Load { reply, .. } if reply.is_closed() => {}
            ReadJob::Request { reply, .. } if reply.is_closed() => {}
            ReadJob::Leases { reply, .. } if reply.is_closed() => {}
            ReadJob::OpenRequests { reply, .. } if reply.is_closed() => {}
            ReadJob::Load { id, reply } => {
                _ = reply.send(line.run(|connection| read::load(connection, &id)));
            }
            ReadJob::Request { id, request, reply } => {
                _ = reply.send(line.run(|connection| read::request(connection, &id, &request)));
            }
            ReadJob::Leases { after, limit, reply } => {
                _ = reply.send(line.run(|connection| list::leases(connection, after.as_ref(), limit)));
            }
            ReadJob::OpenRequests { order, after, limit, reply } => {
                _ = reply.send(line.run(|connection| list::open_requests(connection, order, after.as_ref(), limit)));
            }
        }
    }
}

const READERS: usize = 2;
const LARGEST_GROUP: usize = 256;
const STACK_BYTES: usize = 512 << 10;
