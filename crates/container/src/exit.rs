//! How a process ended.

use ironsail_sys::process::Ending;
use serde::{Deserialize, Serialize};

/// How a container's (or command's) process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitStatus {
    /// The exit code; 128 + the signal's number where a signal ended it.
    pub code: i32,
    pub signal: Option<i32>,
    /// The kernel killed a process of the container for want of memory.
    pub oom_killed: bool,
}

impl ExitStatus {
    pub fn exited(code: i32) -> Self {
        Self { code, signal: None, oom_killed: false }
    }

    pub fn signalled(signal: i32) -> Self {
        Self { code: 128 + signal, signal: Some(signal), oom_killed: false }
    }
}

impl From<Ending> for ExitStatus {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Code(code) => Self::exited(code),
            Ending::Signal(signal) => Self::signalled(signal),
        }
    }
}
