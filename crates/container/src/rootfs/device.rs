//! A container's `/dev`: the few devices that every program expects.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use ironsail_sys::mount::{self, Tree};

use super::make_dir;
use crate::StartError;
use crate::init::Step;

/// Name, major and minor number.
const NODES: [(&str, u32, u32); 6] = [
    ("null", 1, 3),
    ("zero", 1, 5),
    ("full", 1, 7),
    ("random", 1, 8),
    ("urandom", 1, 9),
    ("tty", 5, 0),
];

const LINKS: [(&str, &str); 5] = [
    ("ptmx", "pts/ptmx"),
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];

/// What may be written to `/dev` itself: mount points and little more.
const SIZE: u64 = 1 << 20;
const SHM_SIZE: u64 = 64 << 20;
/// The group `tty`, as everywhere.
const TTY_GROUP: u32 = 5;

pub(super) fn make_all(dev: &Path) -> Result<(), StartError> {
    make_dir(dev, 0o755)?;
    mount::root_tmpfs(dev, SIZE, 0o755).step(|| "mounting /dev".to_owned())?;
    for (name, major, minor) in NODES {
        node(dev, name, major, minor).step(|| format!("making /dev/{name}"))?;
    }
    for (name, target) in LINKS {
        symlink(target, dev.join(name)).step(|| format!("making /dev/{name}"))?;
    }
    let pts = dev.join("pts");
    make_dir(&pts, 0o755)?;
    terminals(&pts).step(|| "mounting /dev/pts".to_owned())?;
    let shm = dev.join("shm");
    make_dir(&shm, 0o1777)?;
    mount::tmpfs(&shm, SHM_SIZE, 0o1777, false).step(|| "mounting /dev/shm".to_owned())
}

fn node(dev: &Path, name: &str, major: u32, minor: u32) -> io::Result<()> {
    let path = dev.join(name);
    match mount::character_device(&path, major, minor, 0o666) {
        // A user namespace makes no devices, but may show those of the host.
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            fs::File::create(&path)?;
            Tree::clone_of(&Path::new("/dev").join(name), false)?.attach(&path)
        }
        other => other,
    }
}

fn terminals(pts: &Path) -> io::Result<()> {
    let options = "newinstance,ptmxmode=0666,mode=0620";
    let with_group = format!("{options},gid={TTY_GROUP}");
    // A user namespace may not know the group.
    mount::kernel("devpts", pts, Some(&with_group), false)
        .or_else(|_| mount::kernel("devpts", pts, Some(options), false))
}
