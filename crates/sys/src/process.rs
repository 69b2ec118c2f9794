//! Processes: forking, namespaces, waiting, and becoming another program.
//!
//! Everything here acts on the calling process. Forking is offered only to processes with a single
//! thread, which is checked: there a forked child may use the whole of Rust.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
pub use nix::unistd::Pid;

/// Which side of a fork this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fork {
    Parent(Pid),
    Child,
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Code(i32),
    Signal(i32),
}

/// Kinds of namespaces, to make or to join.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Namespaces {
    pub pid: bool,
    pub mount: bool,
    pub uts: bool,
    pub ipc: bool,
    pub net: bool,
}

impl Namespaces {
    fn flags(self) -> CloneFlags {
        let mut flags = CloneFlags::empty();
        flags.set(CloneFlags::CLONE_NEWPID, self.pid);
        flags.set(CloneFlags::CLONE_NEWNS, self.mount);
        flags.set(CloneFlags::CLONE_NEWUTS, self.uts);
        flags.set(CloneFlags::CLONE_NEWIPC, self.ipc);
        flags.set(CloneFlags::CLONE_NEWNET, self.net);
        flags
    }
}

/// Whether this process has one thread only.
pub fn is_single_threaded() -> bool {
    // For a process with one thread this changes nothing; otherwise the kernel refuses it. Unlike
    // a look into /proc it works in every mount namespace.
    unshare(CloneFlags::CLONE_THREAD).is_ok()
}

fn require_single_thread() -> io::Result<()> {
    if is_single_threaded() {
        Ok(())
    } else {
        Err(io::Error::other("only a process with a single thread may fork"))
    }
}

/// Forks. Refused in a process with several threads.
pub fn fork() -> io::Result<Fork> {
    require_single_thread()?;
    // SAFETY: no other thread exists, so no lock can be held by a thread that the child lacks.
    match unsafe { nix::unistd::fork() }? {
        nix::unistd::ForkResult::Parent { child } => Ok(Fork::Parent(child)),
        nix::unistd::ForkResult::Child => Ok(Fork::Child),
    }
}

/// Forks a child into new namespaces; with `pid` it is PID 1 there. Refused in a process with
/// several threads.
///
/// Unlike `unshare` followed by `fork` this leaves the caller's later children, and its threads, in
/// the namespaces they are in.
pub fn fork_into(namespaces: Namespaces) -> io::Result<Fork> {
    require_single_thread()?;
    let flags = libc::c_long::from(namespaces.flags().bits() | libc::SIGCHLD);
    // SAFETY: without CLONE_VM and with a null stack this is fork(2): the child goes on with a copy
    // of this stack. No other thread exists, so no lock is held by one. What glibc's fork does
    // beyond that (its record of the thread id) matters only to owners of recursive locks, which
    // compare it with itself.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0usize, 0usize, 0usize, 0usize) };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Fork::Child),
        pid => Ok(Fork::Parent(Pid::from_raw(pid as i32))),
    }
}

/// Moves this process (for `pid`: its later children) into new namespaces.
pub fn enter_new(namespaces: Namespaces) -> io::Result<()> {
    unshare(namespaces.flags()).map_err(Into::into)
}

/// Moves this process (for `pid`: its later children) into the namespaces of the process `of`.
pub fn join(of: BorrowedFd<'_>, namespaces: Namespaces) -> io::Result<()> {
    setns(of, namespaces.flags()).map_err(Into::into)
}

/// Joins the network namespace that `netns` refers to.
pub fn join_netns(netns: BorrowedFd<'_>) -> io::Result<()> {
    setns(netns, CloneFlags::CLONE_NEWNET).map_err(Into::into)
}

/// A descriptor for the process `pid`, which must be a child that has not been waited for.
pub fn pidfd(pid: Pid) -> io::Result<OwnedFd> {
    // SAFETY: the call takes two integers and returns a new descriptor or -1.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Has the kernel kill this process when the thread that forked it ends.
///
/// A parent that ended before this call goes unnoticed; the caller finds that out by other means
/// (the end of a [`Channel`](crate::fdpass::Channel)), since in a PID namespace of its own a process
/// cannot see its parent.
pub fn die_with_parent() -> io::Result<()> {
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL).map_err(Into::into)
}

/// Reaps one ended child; `None` when there is none to reap now.
pub fn reap() -> io::Result<Option<(Pid, Ending)>> {
    loop {
        match waitpid(None::<Pid>, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) => return Ok(Some((pid, Ending::Code(code)))),
            Ok(WaitStatus::Signaled(pid, signal, _)) => {
                return Ok(Some((pid, Ending::Signal(signal as i32))));
            }
            Ok(WaitStatus::StillAlive) | Err(nix::Error::ECHILD) => return Ok(None),
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Waits for one child.
pub fn wait_for(pid: Pid) -> io::Result<Ending> {
    loop {
        match waitpid(pid, None) {
            Ok(WaitStatus::Exited(_, code)) => return Ok(Ending::Code(code)),
            Ok(WaitStatus::Signaled(_, signal, _)) => return Ok(Ending::Signal(signal as i32)),
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Ends this process at once, running no destructors and flushing nothing.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: _exit only ends the process.
    unsafe { libc::_exit(code) }
}

/// Forks a child into new namespaces that owns `keep` and no other descriptor but the standard
/// three, and runs `body` in it; the child ends with the code that `body` returns, or 70 when it
/// panics. The caller's copies of `keep` are closed. Refused in a process with several threads.
///
/// `body` must not use a descriptor that it did not get as an argument: those are closed.
pub fn spawn(
    namespaces: Namespaces,
    keep: Vec<OwnedFd>,
    body: impl FnOnce(Vec<OwnedFd>) -> i32,
) -> io::Result<Pid> {
    match fork_into(namespaces)? {
        Fork::Parent(pid) => Ok(pid),
        Fork::Child => {
            // Nothing that the child inherited is dropped: it leaves by `exit_now` only.
            let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                if close_all_except(&keep).is_err() {
                    return 70;
                }
                body(keep)
            }));
            exit_now(code.unwrap_or(70))
        }
    }
}

fn close_all_except(keep: &[OwnedFd]) -> io::Result<()> {
    let mut kept: Vec<u32> = keep.iter().map(|fd| fd.as_raw_fd() as u32).collect();
    kept.sort_unstable();
    let mut from = 3;
    for fd in kept {
        if fd > from {
            close_range(from, fd - 1)?;
        }
        from = from.max(fd + 1);
    }
    close_range(from, u32::MAX)
}

fn close_range(first: u32, last: u32) -> io::Result<()> {
    // SAFETY: only a freshly forked child comes here, and it drops nothing that it inherited.
    let done = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes `fd` the standard stream number `stream` (0, 1 or 2) of this process.
pub fn set_standard_stream(fd: BorrowedFd<'_>, stream: i32) -> io::Result<()> {
    // SAFETY: the standard streams are owned by nobody in particular; replacing what they refer to
    // is what dup2 is for.
    let done = unsafe { libc::dup2(fd.as_raw_fd(), stream) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

pub fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL)?);
    fcntl(fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}

/// A pipe (read end, write end), closed on exec.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    nix::unistd::pipe2(OFlag::O_CLOEXEC).map_err(Into::into)
}

/// Lets this process and its descendants have as many open files as it may allow itself. The usual
/// soft limit is for programs that still use select(2).
pub fn raise_file_limit() -> io::Result<()> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).map_err(Into::into)
}

/// Starts a session of its own.
pub fn new_session() -> io::Result<()> {
    nix::unistd::setsid()?;
    Ok(())
}

/// Sets the short name that `ps` shows.
pub fn set_name(name: &std::ffi::CStr) {
    // A name is for readers only; nothing depends on it.
    let _ = nix::sys::prctl::set_name(name);
}

/// Gives an open file to a user.
pub fn give_to(fd: BorrowedFd<'_>, uid: u32) -> io::Result<()> {
    nix::unistd::fchown(fd, Some(nix::unistd::Uid::from_raw(uid)), None).map_err(Into::into)
}

pub fn set_hostname(name: &str) -> io::Result<()> {
    nix::unistd::sethostname(name).map_err(Into::into)
}

/// Becomes the program at `path`. Returns only when that fails.
pub fn exec(path: &std::path::Path, argv: &[CString], env: &[CString]) -> io::Error {
    use std::os::unix::ffi::OsStrExt;
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else {
        return io::Error::from(io::ErrorKind::InvalidInput);
    };
    match nix::unistd::execve(&path, argv, env) {
        Err(e) => e.into(),
    }
}

/// Whether this process, with its present user and groups, may execute the file at `path`.
pub fn may_execute(path: &std::path::Path) -> io::Result<()> {
    nix::unistd::faccessat(
        nix::fcntl::AT_FDCWD,
        path,
        nix::unistd::AccessFlags::X_OK,
        nix::fcntl::AtFlags::AT_EACCESS,
    )
    .map_err(Into::into)
}

/// Waits until one of `fds` is readable or at its end; tells for each.
pub fn poll_readable<const N: usize>(fds: [BorrowedFd<'_>; N]) -> io::Result<[bool; N]> {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    let mut polled = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN));
    loop {
        match poll(&mut polled, PollTimeout::NONE) {
            Err(nix::Error::EINTR) => {}
            Err(e) => return Err(e.into()),
            Ok(_) => {
                return Ok(polled.map(|p| p.revents().is_none_or(|got| !got.is_empty())));
            }
        }
    }
}

/// The process's effective user.
pub fn effective_uid() -> u32 {
    nix::unistd::geteuid().as_raw()
}

/// Opens `/dev/null` for reading and writing.
pub fn null_device() -> io::Result<OwnedFd> {
    let file = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    Ok(file.into())
}
