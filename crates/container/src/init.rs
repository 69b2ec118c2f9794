//! The processes between the zygote and the programs: what runs after the fork and before the exec,
//! and what stays to look after the program.
//!
//! All of this runs in forked processes with a single thread, never in the program itself. They end
//! by returning an exit code; what went wrong is told on their channel.

pub(crate) mod command;
pub(crate) mod container;
pub(crate) mod pod;
mod program;
mod supervise;

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

use ironsail_sys::fdpass::{Channel, read_memory_file};

use crate::StartError;
use crate::wire::{Report, shortened, tell};

/// Names the step that an error belongs to.
pub(crate) trait Step<T> {
    fn step(self, step: impl FnOnce() -> String) -> Result<T, StartError>;
}

impl<T> Step<T> for io::Result<T> {
    fn step(self, step: impl FnOnce() -> String) -> Result<T, StartError> {
        self.map_err(|e| StartError::Setup {
            step: shortened(step()),
            reason: shortened(e.to_string()),
        })
    }
}

/// The child's channel, and the rest of its descriptors.
fn unpack(fds: Vec<OwnedFd>) -> Option<(Channel, VecDeque<OwnedFd>)> {
    let mut fds = VecDeque::from(fds);
    let channel = fds.pop_front()?.into();
    Some((channel, fds))
}

/// Reads what the child is to do from the memory file that comes next.
fn read_body<B: serde::de::DeserializeOwned>(fds: &mut VecDeque<OwnedFd>) -> Result<B, StartError> {
    let file = fds.pop_front().ok_or_else(misunderstood)?;
    let bytes = read_memory_file(file).step(|| "reading the request".to_owned())?;
    serde_json::from_slice(&bytes).map_err(|_| misunderstood())
}

/// Both sides are one program, so this is a fault of ours.
fn misunderstood() -> StartError {
    StartError::Setup {
        step: "reading the request".to_owned(),
        reason: "it is not what was expected".to_owned(),
    }
}

/// Tells of a failure; returns the exit code for it.
fn fail(channel: &Channel, error: StartError) -> i32 {
    let code = error.exit_code();
    tell(channel, &Report::Failed(error), &[]);
    code
}
