//! Signals: sending them, taking them as data, and leaving none changed for the next program.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use crate::process::Pid;

pub const TERM: i32 = libc::SIGTERM;
pub const KILL: i32 = libc::SIGKILL;
pub const CHILD: i32 = libc::SIGCHLD;

/// All signals of this process, blocked and read as data.
#[derive(Debug)]
pub struct Signals(SignalFd);

impl Signals {
    /// Blocks every signal that can be blocked. For a process with a single thread.
    pub fn take_all() -> io::Result<Self> {
        let all = SigSet::all();
        sigprocmask(SigmaskHow::SIG_SETMASK, Some(&all), None)?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        Ok(Self(SignalFd::with_flags(&all, flags)?))
    }

    /// The number of a signal that has arrived; `None` when there is none now.
    pub fn next(&self) -> io::Result<Option<i32>> {
        Ok(self.0.read_signal()?.map(|info| info.ssi_signo as i32))
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Unblocks all signals and gives each its default action, as a program expects to find them. For
/// the moment before an exec: handlers of this program do not run afterwards.
pub fn restore_defaults() -> io::Result<()> {
    for signal in Signal::iterator() {
        if matches!(signal, Signal::SIGKILL | Signal::SIGSTOP) {
            continue;
        }
        // SAFETY: the default action involves no handler of ours.
        unsafe { nix::sys::signal::signal(signal, SigHandler::SigDfl) }?;
    }
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?;
    Ok(())
}

/// Sends a signal to a process that the caller knows not to have been reaped.
pub fn send(pid: Pid, signal: i32) -> io::Result<()> {
    let signal = Signal::try_from(signal)?;
    nix::sys::signal::kill(pid, signal).map_err(Into::into)
}

/// Sends a signal to the process group that `leader` leads.
pub fn send_group(leader: Pid, signal: i32) -> io::Result<()> {
    let signal = Signal::try_from(signal)?;
    nix::sys::signal::killpg(leader, signal).map_err(Into::into)
}
