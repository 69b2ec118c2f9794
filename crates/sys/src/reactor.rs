//! Handing descriptors to tokio, to be told when they are ready.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use tokio::io::unix::AsyncFd;

use crate::fdpass::Channel;

/// Values that own one descriptor, always the same, until they are dropped.
pub trait OwnsFd: AsRawFd + sealed::Sealed {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::File {}
    impl Sealed for super::OwnedFd {}
    impl Sealed for super::Channel {}
}

impl OwnsFd for File {}
impl OwnsFd for OwnedFd {}
impl OwnsFd for Channel {}

/// Watches `fd` with the runtime of the caller. It must not block.
pub fn watch<T: OwnsFd>(fd: T) -> io::Result<AsyncFd<T>> {
    // SAFETY: only the types above get here. Each owns its descriptor, gives the same one each time,
    // and closes it no sooner than it is dropped, which the returned value sees to.
    unsafe { AsyncFd::register(fd) }.map_err(Into::into)
}
