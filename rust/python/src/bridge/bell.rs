//! What wakes one asyncio loop from any thread. It owns the file descriptors; it knows no queue and no Python.

use std::io;

/// A descriptor that is readable from the moment it is rung until it is silenced.
#[cfg(unix)]
pub(super) struct Bell {
    ear: rustix::fd::OwnedFd,
    /// The end to write to where it is not the end to read from.
    rope: Option<rustix::fd::OwnedFd>,
}

#[cfg(target_os = "linux")]
impl Bell {
    pub(super) fn new() -> io::Result<Self> {
        use rustix::event::{EventfdFlags, eventfd};
        let ear = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { ear, rope: None })
    }
}

#[cfg(all(unix, not(target_os = "linux")))]
impl Bell {
    pub(super) fn new() -> io::Result<Self> {
        use rustix::io::{FdFlags, fcntl_setfd, ioctl_fionbio};
        let (ear, rope) = rustix::pipe::pipe()?;
        for end in [&ear, &rope] {
            fcntl_setfd(end, FdFlags::CLOEXEC)?;
            ioctl_fionbio(end, true)?;
        }
        Ok(Self { ear, rope: Some(rope) })
    }
}

#[cfg(unix)]
impl Bell {
    /// The descriptor a loop watches.
    pub(super) fn descriptor(&self) -> i32 {
        use rustix::fd::AsRawFd as _;
        self.ear.as_raw_fd()
    }

    pub(super) fn ring(&self) {
        // A write that would block means that the bell is still ringing: nothing is lost.
        let _ = rustix::io::retry_on_intr(|| {
            rustix::io::write(self.rope.as_ref().unwrap_or(&self.ear), &1u64.to_ne_bytes())
        });
    }

    pub(super) fn silence(&self) {
        // An eventfd gives its whole count in one read. Of a pipe something may be left, which only wakes once more.
        let mut heard = [0u8; 64];
        let _ = rustix::io::retry_on_intr(|| rustix::io::read(&self.ear, &mut heard));
    }
}

/// Where there are no such descriptors no bell can be made, and the loop is woken through its own methods.
#[cfg(not(unix))]
pub(super) enum Bell {}

#[cfg(not(unix))]
impl Bell {
    pub(super) fn new() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn descriptor(&self) -> i32 {
        match *self {}
    }

    pub(super) fn ring(&self) {
        match *self {}
    }

    pub(super) fn silence(&self) {
        match *self {}
    }
}
