//! The program's side of the zygote: forking it and asking it for containers.

use std::path::PathBuf;

use crate::{ContainerSpec, PodPids, StartError, Started, ZygoteError};

/// What a zygote needs to know once the program's runtime is up.
#[derive(Clone, Debug)]
pub struct ZygoteOptions {
    /// An empty directory of the program's own; containers' roots are built on it, each in its own
    /// mount namespace, so it stays empty. Made where it is missing.
    pub stage: PathBuf,
    /// Names the directory of cgroups: stable over restarts of one podlet, different for two
    /// podlets side by side. What an earlier run left under it is removed.
    pub instance: String,
}

/// The zygote process, not yet reachable from async code.
#[derive(Debug)]
pub struct ForkedZygote {}

impl ForkedZygote {
    /// Forks it. To be called on the main thread, before any other thread exists and after
    /// `sys::userns::enter_if_unprivileged` and `sys::mount::enter_private_namespace`.
    pub fn fork() -> Result<Self, ZygoteError> { todo!() }
    /// Makes it reachable; to be called inside a tokio runtime.
    pub fn connect(self, _options: ZygoteOptions) -> Result<Zygote, ZygoteError> { todo!() }
}

/// Starts containers. Cheap to clone; many may be started at a time.
#[derive(Clone, Debug)]
pub struct Zygote {}

impl Zygote {
    /// Returns when the container's program has been executed.
    pub async fn start(&self, _spec: ContainerSpec) -> Result<Started, StartError> { todo!() }
    /// A PID namespace for the containers of one pod.
    pub async fn pod_pids(&self) -> Result<PodPids, StartError> { todo!() }
    /// Returns when the zygote is gone, which must end the program: no container lives without it.
    pub async fn lost(&self) { todo!() }
    /// Why limits are not kept, where they are not (no right to make cgroups).
    pub fn limits_refused(&self) -> Option<&str> { todo!() }
}
