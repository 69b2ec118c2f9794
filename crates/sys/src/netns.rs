//! Network namespaces, held by a file descriptor and by nothing else.
//!
//! In: work, programs and socket requests; out: their results. A namespace is never given a name in
//! the file system, so it ends with its last holder. The calling thread never changes its own
//! namespace: in a user namespace there would be no way back. Work is done on threads of its own
//! that enter, finish and end.

mod dialer;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;

use nix::sched::{CloneFlags, setns, unshare};

pub use dialer::Dialer;

/// Enough for a few system calls and for the registration of a socket with the runtime.
const STACK: usize = 512 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot create a network namespace")]
    Create(#[source] io::Error),
    #[error("cannot set the loopback link of a new network namespace up")]
    Loopback(#[source] io::Error),
    #[error("cannot start a thread for a network namespace")]
    Thread(#[source] io::Error),
    #[error("cannot enter a network namespace")]
    Enter(#[source] io::Error),
    #[error("cannot set {key} to {value:?} in a network namespace")]
    Sysctl { key: String, value: String, source: io::Error },
}

/// A network namespace. Clones share the one descriptor.
#[derive(Clone, Debug)]
pub struct Netns(Arc<OwnedFd>);

impl Netns {
    /// Makes a new namespace whose loopback link is up.
    pub fn create() -> Result<Self, Error> {
        on_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET).map_err(|e| Error::Create(e.into()))?;
            loopback_up().map_err(Error::Loopback)?;
            Self::of_this_thread().map_err(Error::Create)
        })?
    }

    /// The namespace of the calling thread.
    pub fn of_this_thread() -> io::Result<Self> {
        Ok(Self(Arc::new(File::open("/proc/thread-self/ns/net")?.into())))
    }

    /// A namespace that somebody else opened.
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self(Arc::new(fd))
    }

    /// Runs `work` inside, on a thread that ends afterwards, and waits for it.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
        on_thread(|| {
            self.enter()?;
            Ok(work())
        })?
    }

    /// Starts a program inside.
    pub fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        self.run(|| command.spawn()).map_err(io::Error::other)?
    }

    /// Runs a program inside to its end, feeding it `stdin` and collecting what it prints.
    pub fn output(&self, command: &mut Command, stdin: &[u8]) -> io::Result<Output> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.spawn(command)?;
        let pipe = child.stdin.take();
        std::thread::scope(|scope| {
            // Fed from a thread of its own: a program that prints before it has read everything
            // would otherwise wait for us while we wait for it.
            let feeder = scope.spawn(move || pipe.map_or(Ok(()), |mut pipe| pipe.write_all(stdin)));
            let output = child.wait_with_output();
            match feeder.join() {
                // A program may end without reading its input; its exit status tells the rest.
                Ok(Ok(())) | Ok(Err(_)) => output,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// Sets `/proc/sys/<key>` inside, with the key written as a path (`net/ipv4/ip_forward`).
    pub fn set_sysctl(&self, key: &str, value: &str) -> Result<(), Error> {
        self.set_sysctls(&[(key, value)])
    }

    /// Sets several of them on one thread; the first failure ends it.
    pub fn set_sysctls(&self, settings: &[(&str, &str)]) -> Result<(), Error> {
        self.run(|| {
            for (key, value) in settings {
                std::fs::write(format!("/proc/sys/{key}"), value).map_err(|source| {
                    Error::Sysctl { key: (*key).to_owned(), value: (*value).to_owned(), source }
                })?;
            }
            Ok(())
        })?
    }

    /// A path by which other programs can open this namespace while this process holds it, as the
    /// CNI specification wants in CNI_NETNS.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()))
    }

    /// The number the kernel gives this namespace (what `lsns` and `/proc/PID/ns/net` show).
    pub fn inode(&self) -> io::Result<u64> {
        Ok(File::from(self.0.try_clone()?).metadata()?.ino())
    }

    /// A maker of sockets inside, for use from any thread.
    pub fn dialer(&self) -> Result<Dialer, Error> {
        Dialer::new(self)
    }

    fn enter(&self) -> Result<(), Error> {
        setns(self.0.as_fd(), CloneFlags::CLONE_NEWNET).map_err(|e| Error::Enter(e.into()))
    }
}

impl AsFd for Netns {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn on_thread<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, Error> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("netns".to_owned())
            .stack_size(STACK)
            .spawn_scoped(scope, work)
            .map_err(Error::Thread)?;
        Ok(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

fn loopback_up() -> io::Result<()> {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    // SAFETY: all bytes zero is a valid ifreq, a C structure of integers and arrays.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the descriptor is open, and SIOCSIFFLAGS only reads the ifreq it is given.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &request) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
