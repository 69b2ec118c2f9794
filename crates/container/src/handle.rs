//! What the caller holds of a running container, a command in it, and a pod's PID namespace.

use std::fs::File;
use std::os::fd::AsFd;
use std::sync::{Arc, Weak};

use ironsail_sys::fdpass::Channel;
use ironsail_sys::pty;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

use crate::wire::{Order, ProcessBody, Token, tell};
use crate::zygote::Zygote;
use crate::{ExecSpec, ExitStatus, StartError, StdioEnds, TerminalSize, launch};

/// A child of the zygote. When the last receiver of its status is dropped, its watcher kills it.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) token: Token,
    pub(crate) channel: Arc<AsyncFd<Channel>>,
    pub(crate) status: watch::Receiver<Option<ExitStatus>>,
    pub(crate) terminal: Weak<AsyncFd<File>>,
}

impl Process {
    fn order(&self, order: Order) {
        tell(self.channel.get_ref(), &order, &[]);
    }

    async fn wait(&self) -> ExitStatus {
        let mut status = self.status.clone();
        match status.wait_for(Option::is_some).await {
            Ok(ended) => (*ended).unwrap_or(ExitStatus::signalled(ironsail_sys::signal::KILL)),
            // The task that watches it is gone with the runtime, and so is the process.
            Err(_) => ExitStatus::signalled(ironsail_sys::signal::KILL),
        }
    }

    fn resize(&self, size: TerminalSize) {
        if let Some(terminal) = self.terminal.upgrade() {
            // It fails only when the terminal is being closed.
            let _ = pty::resize(terminal.get_ref().as_fd(), size.columns, size.rows);
        }
    }
}

/// A running or ended container. Clones are the same container; when the last is dropped, whatever
/// still runs is killed.
#[derive(Clone, Debug)]
pub struct Container {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) id: String,
    pub(crate) process: Process,
    pub(crate) zygote: Zygote,
    /// What further commands start from.
    pub(crate) template: ProcessBody,
    pub(crate) has_netns: bool,
    /// For commands to enter; gone when the container has ended.
    pub(crate) group: Option<Arc<ironsail_sys::cgroup::Group>>,
    /// Keeps the pod's namespace for as long as the container.
    pub(crate) _shared_pids: Option<PodPids>,
}

/// A container whose program has been executed.
#[derive(Debug)]
pub struct Started {
    pub container: Container,
    pub stdio: StdioEnds,
}

impl Container {
    pub fn id(&self) -> &str {
        &self.inner.id
    }

    /// Sends `signal` to the container's program. Does nothing once that has ended.
    pub fn signal(&self, signal: i32) {
        self.inner.process.order(Order::Signal(signal));
    }

    /// Kills every process of the container.
    pub fn kill(&self) {
        self.inner.process.order(Order::Kill);
    }

    /// Until every process of the container is gone. May be called any number of times.
    pub async fn wait(&self) -> ExitStatus {
        self.inner.process.wait().await
    }

    /// `None` while it runs.
    pub fn status(&self) -> Option<ExitStatus> {
        *self.inner.process.status.borrow()
    }

    /// Sets the terminal's size; does nothing without a terminal.
    pub fn resize(&self, size: TerminalSize) {
        self.inner.process.resize(size);
    }

    /// Runs a further command in the container: in all its namespaces and limits, as its user and
    /// with its environment unless `spec` says otherwise.
    pub async fn exec(&self, spec: ExecSpec) -> Result<StartedSession, StartError> {
        let not_running = || StartError::NotRunning { id: self.inner.id.clone() };
        if self.status().is_some() {
            return Err(not_running());
        }
        launch::exec(&self.inner, spec).await.map_err(|error| match error {
            StartError::NotRunning { .. } => not_running(),
            // It ended in the meantime, which shows in many ways.
            _ if self.status().is_some() => not_running(),
            other => other,
        })
    }
}

/// A command in a container; killed when dropped.
#[derive(Debug)]
pub struct Session {
    pub(crate) process: Process,
}

#[derive(Debug)]
pub struct StartedSession {
    pub session: Session,
    pub stdio: StdioEnds,
}

impl Session {
    pub fn signal(&self, signal: i32) {
        self.process.order(Order::Signal(signal));
    }

    pub fn resize(&self, size: TerminalSize) {
        self.process.resize(size);
    }

    /// Until the command has ended. What it left running in other process groups goes on in the
    /// container.
    pub async fn wait(&self) -> ExitStatus {
        self.process.wait().await
    }
}

/// The PID namespace of a pod whose containers share one. When the last clone is dropped, and the
/// last container in it, everything in it is killed. Until then, killing one of its containers kills
/// the program and its process group; what left that group goes on with the pod.
#[derive(Clone, Debug)]
pub struct PodPids {
    pub(crate) process: Arc<Process>,
}
