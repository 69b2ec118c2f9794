//! Mounts, in a mount namespace of the caller's own.
//!
//! Nothing here may be used before [`enter_private_namespace`]: the host's mount table is never
//! changed. What is bound is first cloned to a descriptor and put in place later, so that the source
//! is looked up in one root and the target in another.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};

pub mod table;

const OPEN_TREE_CLONE: libc::c_uint = 1;
const AT_RECURSIVE: libc::c_uint = 0x8000;
const MOVE_MOUNT_F_EMPTY_PATH: libc::c_uint = 4;
const MOUNT_ATTR_RDONLY: u64 = 1;

/// Gives this process (all its later threads and children) a mount namespace of its own, whose
/// mounts neither reach the host nor come from it.
pub fn enter_private_namespace() -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)?;
    Ok(())
}

/// Mounts an empty file system in memory on `target`. `read_only` is of use for covering things.
pub fn tmpfs(target: &Path, size_bytes: u64, mode: u32, read_only: bool) -> io::Result<()> {
    let mut flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    flags.set(MsFlags::MS_RDONLY, read_only);
    tmpfs_with(target, size_bytes, mode, flags)
}

/// As [`tmpfs`], for a place that holds set-user-id programs or device nodes.
pub fn root_tmpfs(target: &Path, size_bytes: u64, mode: u32) -> io::Result<()> {
    tmpfs_with(target, size_bytes, mode, MsFlags::empty())
}

fn tmpfs_with(target: &Path, size_bytes: u64, mode: u32, flags: MsFlags) -> io::Result<()> {
    // The kernel reads a size of 0 as "no bound".
    let options = format!("size={},mode={mode:o}", size_bytes.max(4096));
    mount(Some("tmpfs"), target, Some("tmpfs"), flags, Some(options.as_str())).map_err(Into::into)
}

/// Takes away what is mounted on `target`, at once from sight and in the end from the kernel.
pub fn detach(target: &Path) -> io::Result<()> {
    umount2(target, MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW).map_err(Into::into)
}

/// Mounts a kernel file system such as `proc`, `sysfs` or `devpts`.
pub fn kernel(fs: &str, target: &Path, options: Option<&str>, read_only: bool) -> io::Result<()> {
    let mut flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    flags.set(MsFlags::MS_NODEV, fs != "devpts");
    flags.set(MsFlags::MS_RDONLY, read_only);
    mount(Some(fs), target, Some(fs), flags, options).map_err(Into::into)
}

/// Shows `lower` on `target`, with changes going to `upper`. `work` is an empty directory beside
/// `upper`. Paths with characters that the kernel's option syntax uses are refused.
pub fn overlay(
    lower: &Path,
    upper: &Path,
    work: &Path,
    target: &Path,
    userns: bool,
) -> io::Result<()> {
    let mut options = String::new();
    for (key, path) in [("lowerdir", lower), ("upperdir", upper), ("workdir", work)] {
        let path = path.to_str().filter(|p| !p.contains([',', ':', '\\', '"']));
        let path = path.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        options.push_str(&format!("{key}={path},"));
    }
    // Trusted extended attributes need rights over the whole machine.
    if userns {
        options.push_str("userxattr,");
    }
    options.pop();
    let none = MsFlags::empty();
    mount(Some("overlay"), target, Some("overlay"), none, Some(options.as_str()))
        .map_err(Into::into)
}

/// A copy of a mounted file or directory, attached nowhere yet.
#[derive(Debug)]
pub struct Tree(OwnedFd);

impl Tree {
    /// Clones what is at `source`, which may be a file. `recursive` takes along what is mounted
    /// below it.
    pub fn clone_of(source: &Path, recursive: bool) -> io::Result<Self> {
        let path = c_path(source)?;
        let mut flags = OPEN_TREE_CLONE | libc::O_CLOEXEC as libc::c_uint;
        if recursive {
            flags |= AT_RECURSIVE;
        }
        // SAFETY: the path is a live C string; the call returns a new descriptor or -1.
        let fd =
            unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made this descriptor for us.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd as RawFd) }))
    }

    /// Makes the whole tree read-only.
    pub fn set_read_only(&self) -> io::Result<()> {
        let flags = libc::AT_EMPTY_PATH as libc::c_uint | AT_RECURSIVE;
        set_read_only_at(self.0.as_fd(), c"", flags)
    }

    /// Puts it in place, over what is at `target`.
    pub fn attach(self, target: &Path) -> io::Result<()> {
        let path = c_path(target)?;
        // SAFETY: both strings are live C strings and the descriptor is open.
        let done = unsafe {
            libc::syscall(
                libc::SYS_move_mount,
                self.0.as_raw_fd(),
                c"".as_ptr(),
                libc::AT_FDCWD,
                path.as_ptr(),
                MOVE_MOUNT_F_EMPTY_PATH,
            )
        };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    pub fn is_directory(&self) -> io::Result<bool> {
        let stat = nix::sys::stat::fstat(&self.0)?;
        Ok(stat.st_mode & libc::S_IFMT == libc::S_IFDIR)
    }
}

/// Makes the one mount at `target` read-only.
pub fn set_read_only(target: &Path) -> io::Result<()> {
    // SAFETY: AT_FDCWD stands for the working directory and is valid for as long as the process.
    let cwd = unsafe { BorrowedFd::borrow_raw(libc::AT_FDCWD) };
    set_read_only_at(cwd, &c_path(target)?, 0)
}

#[repr(C)]
#[derive(Default)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    userns: u64,
}

fn set_read_only_at(
    at: BorrowedFd<'_>,
    path: &std::ffi::CStr,
    flags: libc::c_uint,
) -> io::Result<()> {
    let attr = MountAttr { set: MOUNT_ATTR_RDONLY, ..MountAttr::default() };
    // SAFETY: the path and the attributes are live, and the size is that of the attributes.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            at.as_raw_fd(),
            path.as_ptr(),
            flags,
            &raw const attr,
            size_of::<MountAttr>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes the mount at `root` the root of this mount namespace and lets go of the old one.
pub fn pivot_to(root: &Path) -> io::Result<()> {
    nix::unistd::chdir(root)?;
    // With both names the same, the old root ends up on top of the new one, where it is taken off.
    nix::unistd::pivot_root(".", ".")?;
    umount2(".", MntFlags::MNT_DETACH)?;
    nix::unistd::chdir("/")?;
    Ok(())
}

/// Makes a device node.
pub fn character_device(path: &Path, major: u32, minor: u32, mode: u32) -> io::Result<()> {
    use nix::sys::stat::{Mode, SFlag, makedev, mknod};
    let device = makedev(u64::from(major), u64::from(minor));
    mknod(path, SFlag::S_IFCHR, Mode::from_bits_truncate(mode), device).map_err(Into::into)
}

/// Sets the mask for the modes of new files; returns nothing, since nobody needs the old one.
pub fn clear_umask() {
    nix::sys::stat::umask(nix::sys::stat::Mode::empty());
}

/// The usual mask, which programs expect to start with.
pub fn usual_umask() {
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o022));
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a path holds a zero byte"))
}
