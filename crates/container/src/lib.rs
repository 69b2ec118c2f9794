//! Containers: process trees in their own namespaces, started from one small process.
//!
//! In comes a [`ContainerSpec`] whose files, volumes and network namespace the caller has made; out
//! comes a [`Container`] with its standard streams and, in the end, its [`ExitStatus`].
//!
//! Life is bound to the kernel, not to bookkeeping. Before any thread exists the program forks the
//! [zygote](Zygote): PID 1 of a PID namespace of its own, which the kernel kills when the program's
//! main thread ends. Every container descends from it, so no container outlives the program.
//!
//! This crate knows nothing of Kubernetes and never touches the host's mount table, network or
//! processes.

mod account;
mod capability;
mod check;
mod error;
mod exit;
mod handle;
mod init;
mod launch;
mod rootfs;
mod spec;
mod stdio;
mod wire;
mod zygote;

pub use error::{StartError, ZygoteError};
pub use exit::ExitStatus;
pub use handle::{Container, PodPids, Session, Started, StartedSession};
pub use spec::{
    Capabilities, ContainerSpec, ExecSpec, Limits, Mount, MountSource, Placed, RootSpec, StdioSpec,
    TerminalSize, User,
};
pub use stdio::{Reader, StdioEnds, Writer};
pub use zygote::{ForkedZygote, Zygote, ZygoteOptions};
