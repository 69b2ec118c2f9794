//! Why a container or command could not be started, in words a pod's status can carry.

use std::io;

use serde::{Deserialize, Serialize};

/// A container, or a command in it, did not start. Nothing of it is left running.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum StartError {
    /// The spec itself makes no sense.
    #[error("{0}")]
    Spec(String),
    /// A name without a slash that is nowhere in the container's `PATH`.
    #[error("exec: \"{program}\": executable file not found in $PATH")]
    NotInPath { program: String },
    /// A path that is not there.
    #[error("exec: \"{program}\": stat {program}: no such file or directory")]
    NoSuchFile { program: String },
    /// It is there, and the kernel will not run it.
    #[error("exec: \"{program}\": {reason}")]
    NotExecutable { program: String, reason: String },
    /// Building the container failed at `step`.
    #[error("{step}: {reason}")]
    Setup { step: String, reason: String },
    /// The container (for a command in it) has ended.
    #[error("container {id} is not running")]
    NotRunning { id: String },
    /// The zygote is gone, and every container with it.
    #[error("the process that starts containers has died")]
    ZygoteLost,
}

impl StartError {
    /// The exit code that shells and runtimes give this: 127 where the program is not there, 126
    /// where it cannot be run, 128 for everything else.
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::NotInPath { .. } | Self::NoSuchFile { .. } => 127,
            Self::NotExecutable { .. } => 126,
            _ => 128,
        }
    }
}

/// The zygote could not be started or reached.
#[derive(Debug, thiserror::Error)]
pub enum ZygoteError {
    #[error("starting the process that starts containers")]
    Fork { source: io::Error },
    #[error("talking to the process that starts containers")]
    Connect { source: io::Error },
    #[error("making {path} for building containers' roots")]
    Stage { path: String, source: io::Error },
}
