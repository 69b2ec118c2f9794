//! What a container is to be: plain values, filled in by the caller.
//!
//! Paths on the host side are paths in the program's own mount namespace; paths "inside" are
//! absolute paths as the container sees them. Nothing here does IO.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::handle::PodPids;

/// Everything needed to start one container.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ContainerSpec {
    /// Unique among the live containers of one program; also names the container's cgroup. Letters,
    /// digits, `-`, `_` and `.` only.
    pub id: String,
    pub root: RootSpec,
    /// Host programs and files that appear inside, read-only.
    pub placed: Vec<Placed>,
    /// Volumes and files. Parents are mounted before what lies in them, whatever the order here.
    /// Mount points are made as needed.
    pub mounts: Vec<Mount>,
    /// Paths inside that are covered by an empty, read-only directory (or file), such as the
    /// program's own data when the root is the host's.
    pub masked: Vec<PathBuf>,
    /// The pod's network namespace; `None` leaves the container in the zygote's, the host's.
    #[serde(skip)]
    pub netns: Option<Arc<OwnedFd>>,
    /// Join this PID namespace in place of a new one (`shareProcessNamespace`).
    #[serde(skip)]
    pub shared_pids: Option<PodPids>,
    pub hostname: String,
    /// Written inside the container's network and IPC namespaces, by their dotted names.
    pub sysctls: BTreeMap<String, String>,
    /// The program and its arguments. A program without a slash is looked up in the container's
    /// `PATH`, inside its root.
    pub argv: Vec<String>,
    /// `PATH`, `HOME`, `HOSTNAME` and (with a terminal) `TERM` get their usual values where absent.
    pub env: Vec<(String, String)>,
    /// Made where it is missing.
    pub cwd: PathBuf,
    pub user: User,
    pub capabilities: Capabilities,
    /// Set for `allowPrivilegeEscalation: false`.
    pub no_new_privs: bool,
    pub read_only_root: bool,
    /// How much may be written outside volumes; it lies in memory.
    pub scratch_bytes: u64,
    pub limits: Limits,
    pub oom_score_adj: Option<i32>,
    pub stdio: StdioSpec,
}

impl ContainerSpec {
    /// A container as a runtime starts it by default: root, default capabilities, own everything.
    pub fn new<A: Into<String>>(
        id: impl Into<String>,
        root: RootSpec,
        argv: impl IntoIterator<Item = A>,
    ) -> Self {
        let id = id.into();
        Self {
            hostname: id.clone(),
            id,
            root,
            placed: Vec::new(),
            mounts: Vec::new(),
            masked: Vec::new(),
            netns: None,
            shared_pids: None,
            sysctls: BTreeMap::new(),
            argv: argv.into_iter().map(Into::into).collect(),
            env: Vec::new(),
            cwd: PathBuf::from("/"),
            user: User::default(),
            capabilities: Capabilities::default(),
            no_new_privs: false,
            read_only_root: false,
            scratch_bytes: 256 << 20,
            limits: Limits::default(),
            oom_score_adj: None,
            stdio: StdioSpec::default(),
        }
    }
}

/// Where the container's files come from. They are never written to: changes go to memory and end
/// with the container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RootSpec {
    /// The host's root. `/tmp`, `/run`, `/dev`, `/proc` and `/sys` are the container's own.
    Host,
    /// A directory with a root file system in it. Only `/dev`, `/proc` and `/sys` are replaced.
    Dir(PathBuf),
}

/// A host file (or directory) that appears inside, read-only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    pub host: PathBuf,
    pub inside: PathBuf,
}

/// One volume mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    pub inside: PathBuf,
    pub source: MountSource,
    pub read_only: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MountSource {
    /// A file or directory on the host. `recursive` brings along what is mounted below it.
    Bind { host: PathBuf, recursive: bool },
    /// Memory of the container's own. A memory volume that containers share is a directory the
    /// caller mounted a tmpfs on (`ironsail_sys::mount::tmpfs`), bound into each.
    Tmpfs { size_bytes: u64, mode: u32 },
}

/// Who the process runs as.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    pub uid: u32,
    /// `None`: the group that the container's `/etc/passwd` gives the user, else 0.
    pub gid: Option<u32>,
    /// Supplementary groups, the pod's `fsGroup` among them.
    pub groups: Vec<u32>,
}

/// Changes to the runtime's default capability set, by Kubernetes' names (`NET_ADMIN`, `ALL`; a
/// `CAP_` prefix is accepted).
///
/// As with other runtimes these bound what the process may hold; a user other than root holds none
/// of them unless the program file carries capabilities of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    pub add: Vec<String>,
    pub drop: Vec<String>,
    /// All capabilities, and writable `/proc/sys` and `/sys`.
    pub privileged: bool,
}

/// Upper bounds, kept by cgroups where the machine allows them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    pub memory_bytes: Option<u64>,
    /// Thousandths of a core.
    pub cpu_millis: Option<u64>,
    /// The share under contention, from the CPU request.
    pub cpu_request_millis: Option<u64>,
    pub pids: Option<u64>,
}

impl Limits {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether anything is bounded, rather than only shared out.
    pub fn is_bounding(&self) -> bool {
        [self.memory_bytes, self.cpu_millis, self.pids].iter().any(Option::is_some)
    }
}

/// What the process's standard streams are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StdioSpec {
    /// Separate pipes; without `stdin` it reads from /dev/null.
    Pipes { stdin: bool },
    /// A terminal of the container's own devpts, controlling the process's new session.
    Terminal { size: Option<TerminalSize> },
}

impl Default for StdioSpec {
    fn default() -> Self {
        Self::Pipes { stdin: false }
    }
}

/// A terminal's size in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSize {
    pub columns: u16,
    pub rows: u16,
}

/// A further command in a running container.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ExecSpec {
    pub argv: Vec<String>,
    /// Added to (and winning over) the container's environment.
    pub env: Vec<(String, String)>,
    /// `None`: as the container's own process.
    pub user: Option<User>,
    pub stdio: StdioSpec,
}
