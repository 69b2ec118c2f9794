//! What the program, the zygote and the processes it forks say to each other.
//!
//! Two kinds of channels. The zygote's takes requests only. Each container or command has one of its
//! own, on which its supervisor reports and takes orders; the zygote keeps a copy of the
//! supervisor's end until it has reaped it, so the end of that channel means that all is over.
//! Whatever may be long travels in a memory file, so that packets stay short.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use ironsail_sys::fdpass::{Channel, MAX_PACKET};
use serde::{Deserialize, Serialize};

use crate::{ContainerSpec, ExitStatus, StartError, StdioSpec, User};

/// Names a child of the zygote for its whole life.
pub(crate) type Token = u64;

/// To the zygote. The first descriptor is the child's end of its channel.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Further descriptors: see [`StartBody`].
    Start {
        token: Token,
        shared_pids: Option<Token>,
    },
    /// Further descriptors: see [`ExecBody`].
    Exec {
        token: Token,
        of: Token,
    },
    PodPids {
        token: Token,
    },
}

/// What a container's first process needs. Descriptors, in order: a memory file with this, the
/// network namespace, then those of [`Descriptors`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StartBody {
    pub(crate) spec: ContainerSpec,
    pub(crate) stage: PathBuf,
    pub(crate) has_netns: bool,
    pub(crate) process: ProcessBody,
}

/// What a further command needs. Descriptors, in order: a memory file with this, then those of
/// [`Descriptors`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ExecBody {
    /// Whether the container has a network namespace other than the zygote's, which in a user
    /// namespace could not even be joined again.
    pub(crate) has_netns: bool,
    pub(crate) process: ProcessBody,
}

/// The program itself, alike for a container and a further command.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ProcessBody {
    pub(crate) argv: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) hostname: String,
    pub(crate) cwd: PathBuf,
    pub(crate) user: User,
    pub(crate) capabilities: crate::Capabilities,
    pub(crate) no_new_privs: bool,
    pub(crate) oom_score_adj: Option<i32>,
    pub(crate) stdio: StdioSpec,
    /// How many of the descriptors are entrances of cgroups.
    pub(crate) cgroups: usize,
}

/// What the program takes over: standard streams (none with a terminal) and cgroups to enter.
#[derive(Debug)]
pub(crate) struct Descriptors {
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) stdout: Option<OwnedFd>,
    pub(crate) stderr: Option<OwnedFd>,
    pub(crate) cgroups: Vec<OwnedFd>,
}

impl Descriptors {
    /// In the order in which [`take`](Self::take) reads them.
    pub(crate) fn into_vec(self) -> Vec<OwnedFd> {
        let streams = [self.stdin, self.stdout, self.stderr];
        streams.into_iter().flatten().chain(self.cgroups).collect()
    }

    pub(crate) fn take(from: &mut VecDeque<OwnedFd>, process: &ProcessBody) -> Option<Self> {
        let (has_stdin, has_output) = match process.stdio {
            StdioSpec::Pipes { stdin } => (stdin, true),
            StdioSpec::Terminal { .. } => (false, false),
        };
        let mut next = |wanted: bool| match wanted {
            true => from.pop_front().map(Some),
            false => Some(None),
        };
        let (stdin, stdout, stderr) = (next(has_stdin)?, next(has_output)?, next(has_output)?);
        if from.len() < process.cgroups {
            return None;
        }
        let cgroups = from.drain(..process.cgroups).collect();
        Some(Self { stdin, stdout, stderr, cgroups })
    }
}

/// From a child's supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The master end of the terminal comes with it.
    Terminal,
    /// The program has been executed.
    Running,
    Failed(StartError),
    Ended(ExitStatus),
}

/// To a child's supervisor.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    Signal(i32),
    Kill,
}

/// Sends a message that nobody may be there to hear any more.
pub(crate) fn tell<M: Serialize>(channel: &Channel, message: &M, fds: &[&OwnedFd]) {
    use std::os::fd::AsFd;
    let bytes = serde_json::to_vec(message).unwrap_or_default();
    debug_assert!(bytes.len() <= MAX_PACKET, "messages are short");
    let fds: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
    // A closed channel is noticed where it is read.
    let _ = channel.send(&bytes, &fds);
}

/// Text for an error, cut so that it fits into a packet together with the rest.
pub(crate) fn shortened(text: impl Into<String>) -> String {
    const MOST: usize = 2048;
    let mut text = text.into();
    if text.len() > MOST {
        text.truncate(text.floor_char_boundary(MOST));
        text.push('…');
    }
    text
}
