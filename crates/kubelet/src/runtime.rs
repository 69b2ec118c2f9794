//! The seam to whatever runs containers: the zygote of `crates/container`, or a fake in tests.
//!
//! The specs, exits and errors are that crate's own; only the handles are traits.

use std::sync::Arc;

use futures::future::BoxFuture;
use ironsail_container::{
    Container, ContainerSpec, ExecSpec, ExitStatus, PodPids, StartError, StdioEnds, TerminalSize,
    Zygote,
};

/// Starts containers.
pub trait Runtime: Send + Sync + 'static {
    fn start(&self, spec: ContainerSpec) -> BoxFuture<'_, Result<Started, StartError>>;
    /// A PID namespace for a pod that shares one among its containers.
    fn pod_pids(&self) -> BoxFuture<'_, Result<Option<PodPids>, StartError>>;
    /// Why limits are not kept, where they are not.
    fn limits_refused(&self) -> Option<&str>;
}

/// A container whose program has been executed.
pub struct Started {
    pub process: Arc<dyn Process>,
    pub stdio: StdioEnds,
}

/// A running or ended container.
pub trait Process: Send + Sync + 'static {
    fn signal(&self, signal: i32);
    /// Kills every process of the container.
    fn kill(&self);
    fn resize(&self, size: TerminalSize);
    /// Until every process of the container is gone.
    fn wait(&self) -> BoxFuture<'_, ExitStatus>;
    fn exec(&self, spec: ExecSpec) -> BoxFuture<'_, Result<StartedSession, StartError>>;
}

/// A command in a container; killed when dropped.
pub struct StartedSession {
    pub session: Box<dyn Session>,
    pub stdio: StdioEnds,
}

pub trait Session: Send + Sync + 'static {
    fn resize(&self, size: TerminalSize);
    fn wait(&self) -> BoxFuture<'_, ExitStatus>;
}

impl Runtime for Zygote {
    fn start(&self, spec: ContainerSpec) -> BoxFuture<'_, Result<Started, StartError>> {
        Box::pin(async move {
            let started = Zygote::start(self, spec).await?;
            Ok(Started { process: Arc::new(started.container), stdio: started.stdio })
        })
    }

    fn pod_pids(&self) -> BoxFuture<'_, Result<Option<PodPids>, StartError>> {
        Box::pin(async move { Zygote::pod_pids(self).await.map(Some) })
    }

    fn limits_refused(&self) -> Option<&str> {
        Zygote::limits_refused(self)
    }
}

impl Process for Container {
    fn signal(&self, signal: i32) {
        Container::signal(self, signal);
    }

    fn kill(&self) {
        Container::kill(self);
    }

    fn resize(&self, size: TerminalSize) {
        Container::resize(self, size);
    }

    fn wait(&self) -> BoxFuture<'_, ExitStatus> {
        Box::pin(Container::wait(self))
    }

    fn exec(&self, spec: ExecSpec) -> BoxFuture<'_, Result<StartedSession, StartError>> {
        Box::pin(async move {
            let started = Container::exec(self, spec).await?;
            Ok(StartedSession { session: Box::new(started.session), stdio: started.stdio })
        })
    }
}

impl Session for ironsail_container::Session {
    fn resize(&self, size: TerminalSize) {
        ironsail_container::Session::resize(self, size);
    }

    fn wait(&self) -> BoxFuture<'_, ExitStatus> {
        Box::pin(ironsail_container::Session::wait(self))
    }
}
