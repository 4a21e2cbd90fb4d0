//! A transport in a process that forks. The only test of its binary: no other thread may be in the
//! middle of something when it forks, except those it is about.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]
#![allow(unsafe_code, reason = "a fork is a call into the C library")]

mod support;

use std::time::Duration;

use bytes::Bytes;
use support::{Reply, Server};
use tokio::runtime::{Builder, Runtime};
use toolrelay_runtime::http::{Endpoint, Headers, HttpOptions, HttpRequest, HttpTransport, Transport};

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

#[test]
fn a_forked_child_and_its_parent_keep_to_their_own_connections() {
    let server = Server::answering(|_| Reply::json("{}"));
    let endpoint = Endpoint::parse(&server.url("/")).unwrap();
    let request = HttpRequest::post(&endpoint, &Headers::new(), vec![Bytes::from_static(b"hello")]);
    let transport = HttpTransport::new(HttpOptions { read_timeout: Duration::from_secs(10), ..HttpOptions::default() });
    let post = async || transport.send(&request).await?.bytes().await;
    let parents = runtime();
    assert_eq!(parents.block_on(post()).unwrap(), "{}");

    // SAFETY: the child uses what glibc keeps usable after a fork, runs no destructor of the
    // parent's, and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: neither call has a precondition; a child that hangs is ended by the alarm.
        unsafe { libc::alarm(20) };
        let fine = runtime().block_on(async { post().await.is_ok() && post().await.is_ok() });
        drop(transport);
        // SAFETY: as above.
        unsafe { libc::_exit(i32::from(!fine)) };
    }
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child sent its requests");
    assert_eq!(server.connections(), 2, "on one connection of its own");

    assert_eq!(parents.block_on(post()).unwrap(), "{}");
    assert_eq!(server.connections(), 2, "the parent still has its own");
}
