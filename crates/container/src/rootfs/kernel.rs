//! The kernel's own file systems in a container, and what of them an ordinary one may not touch.

use std::io;
use std::path::Path;

use ironsail_sys::mount::{self, Tree};

use super::{make_dir, volume};
use crate::init::Step;
use crate::{Capabilities, StartError};

/// Runtimes cover these: they tell of the machine or act on it.
const COVERED: [&str; 9] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/sys/firmware",
];

/// And these may only be read.
const READ_ONLY: [&str; 5] =
    ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// Mounts `/proc` of the PID namespace and `/sys` of the network namespace.
pub(super) fn mount_all(root: &Path, capabilities: &Capabilities) -> Result<(), StartError> {
    let proc = root.join("proc");
    make_dir(&proc, 0o555)?;
    mount::kernel("proc", &proc, None, false)
        .map_err(explain_proc)
        .step(|| "mounting /proc".into())?;

    let sys = root.join("sys");
    make_dir(&sys, 0o555)?;
    let read_only = !capabilities.privileged;
    match mount::kernel("sysfs", &sys, None, read_only) {
        // Only the owner of the network namespace may mount its view; the host's tells less.
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            Tree::clone_of(Path::new("/sys"), true).and_then(|tree| {
                if read_only {
                    tree.set_read_only()?;
                }
                tree.attach(&sys)
            })
        }
        other => other,
    }
    .step(|| "mounting /sys".to_owned())
}

fn explain_proc(e: io::Error) -> io::Error {
    if e.kind() != io::ErrorKind::PermissionDenied {
        return e;
    }
    io::Error::other(
        "the kernel refuses a fresh /proc to a user namespace while parts of the host's are covered, \
         as they are inside most containers; run as root or outside of the container",
    )
}

/// Takes away from an ordinary container what runtimes take away. Called inside its root.
pub(super) fn protect() -> Result<(), StartError> {
    for path in COVERED {
        volume::mask(Path::new(path))?;
    }
    for path in READ_ONLY.map(Path::new) {
        if !path.exists() {
            continue;
        }
        Tree::clone_of(path, true)
            .and_then(|tree| {
                tree.set_read_only()?;
                tree.attach(path)
            })
            .step(|| format!("making {} read-only", path.display()))?;
    }
    Ok(())
}
