//! The program's side of the zygote: forking it and asking it for containers.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ironsail_sys::cgroup::Cgroups;
use ironsail_sys::fdpass::Channel;
use ironsail_sys::process::{self, Namespaces, Pid};
use ironsail_sys::reactor;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::wire::Token;
use crate::{ContainerSpec, PodPids, StartError, Started, ZygoteError, launch};

mod serve;

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
pub struct ForkedZygote {
    channel: Channel,
    pid: Pid,
}

impl ForkedZygote {
    /// Forks it. To be called on the main thread, before any other thread exists and after
    /// `sys::userns::enter_if_unprivileged`. Raises the program's limit of open files. The kernel kills the zygote, and with it every
    /// container, when the calling thread ends.
    pub fn fork() -> Result<Self, ZygoteError> {
        let fork = || -> io::Result<Self> {
            // The program, the zygote and containers alike hold more files than the usual 1024.
            process::raise_file_limit()?;
            let (ours, theirs) = Channel::pair()?;
            let own = Namespaces { pid: true, ..Namespaces::default() };
            let pid = process::spawn(own, vec![theirs.into()], |mut fds| match fds.pop() {
                Some(channel) => serve::serve(&channel.into()),
                None => 1,
            })?;
            Ok(Self { channel: ours, pid })
        };
        fork().map_err(|source| ZygoteError::Fork { source })
    }

    /// Makes it reachable; to be called inside a tokio runtime.
    pub fn connect(self, options: &ZygoteOptions) -> Result<Zygote, ZygoteError> {
        let stage = std::fs::create_dir_all(&options.stage)
            .and_then(|()| options.stage.canonicalize())
            .map_err(|source| ZygoteError::Stage {
                path: options.stage.display().to_string(),
                source,
            })?;
        let channel = self.channel;
        let channel = channel
            .set_nonblocking()
            .and_then(|()| reactor::watch(channel))
            .map_err(|source| ZygoteError::Connect { source })?;
        let cgroups = Arc::new(Cgroups::open(&options.instance));
        let next = AtomicU64::new(1);
        Ok(Zygote { inner: Arc::new(Inner { channel, pid: self.pid, stage, cgroups, next }) })
    }
}

/// Starts containers. Cheap to clone; many may be started at a time. When the last clone is dropped,
/// and the last container that came from it, the zygote ends.
#[derive(Clone, Debug)]
pub struct Zygote {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    channel: AsyncFd<Channel>,
    pid: Pid,
    stage: PathBuf,
    cgroups: Arc<Cgroups>,
    next: AtomicU64,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.cgroups.remove_all();
    }
}

impl Zygote {
    /// Returns when the container's program has been executed.
    pub async fn start(&self, spec: ContainerSpec) -> Result<Started, StartError> {
        launch::start(self, spec).await
    }

    /// A PID namespace for the containers of one pod.
    pub async fn pod_pids(&self) -> Result<PodPids, StartError> {
        launch::pod_pids(self).await
    }

    /// Returns when the zygote is gone, which must end the program: no container lives without it.
    pub async fn lost(&self) {
        // It never sends anything, so only its end can be read.
        while let Ok(Some(_)) = self.inner.channel.async_io(Interest::READABLE, Channel::recv).await
        {
        }
    }

    /// Why limits are not kept, where they are not (no right to make cgroups).
    pub fn limits_refused(&self) -> Option<&str> {
        self.inner.cgroups.refused()
    }

    /// The zygote's process id, as the program sees it.
    pub fn pid(&self) -> i32 {
        self.inner.pid.as_raw()
    }

    pub(crate) fn token(&self) -> Token {
        self.inner.next.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn stage(&self) -> &Path {
        &self.inner.stage
    }

    pub(crate) fn cgroups(&self) -> Arc<Cgroups> {
        Arc::clone(&self.inner.cgroups)
    }

    pub(crate) fn channel(&self) -> &AsyncFd<Channel> {
        &self.inner.channel
    }
}
