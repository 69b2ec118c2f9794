//! What the caller holds of a running container, a command in it, and a pod's PID namespace.

use crate::{ExecSpec, ExitStatus, StartError, StdioEnds, TerminalSize};

/// A running or ended container. Clones are the same container; when the last is dropped, whatever
/// still runs is killed.
#[derive(Clone, Debug)]
pub struct Container {}

/// A container whose program has been executed.
pub struct Started {
    pub container: Container,
    pub stdio: StdioEnds,
}

impl Container {
    pub fn id(&self) -> &str { todo!() }
    /// Sends `signal` to the container's program. Does nothing once that has ended.
    pub fn signal(&self, _signal: i32) { todo!() }
    /// Kills every process of the container.
    pub fn kill(&self) { todo!() }
    /// Until every process of the container is gone. May be called any number of times.
    pub async fn wait(&self) -> ExitStatus { todo!() }
    /// `None` while it runs.
    pub fn status(&self) -> Option<ExitStatus> { todo!() }
    /// Sets the terminal's size; does nothing without a terminal.
    pub fn resize(&self, _size: TerminalSize) { todo!() }
    /// Runs a further command in the container.
    pub async fn exec(&self, _spec: ExecSpec) -> Result<StartedSession, StartError> { todo!() }
}

/// A command in a container; killed when dropped.
#[derive(Debug)]
pub struct Session {}

pub struct StartedSession {
    pub session: Session,
    pub stdio: StdioEnds,
}

impl Session {
    pub fn signal(&self, _signal: i32) { todo!() }
    pub fn resize(&self, _size: TerminalSize) { todo!() }
    pub async fn wait(&self) -> ExitStatus { todo!() }
}

/// The PID namespace of a pod whose containers share one. Lives until the last clone is dropped.
#[derive(Clone, Debug)]
pub struct PodPids {}
