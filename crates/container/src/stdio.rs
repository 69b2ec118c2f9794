//! The program's ends of a process's standard streams.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use ironsail_sys::{process, reactor};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::unix::pipe;

use crate::StdioSpec;
use crate::wire::Descriptors;

pub type Reader = Pin<Box<dyn AsyncRead + Send>>;
pub type Writer = Pin<Box<dyn AsyncWrite + Send>>;

/// What is `None` was not asked for; a terminal has no `stderr` of its own. Readers reach their end
/// when every process that holds the other end is gone.
#[derive(Default)]
pub struct StdioEnds {
    pub stdin: Option<Writer>,
    pub stdout: Option<Reader>,
    pub stderr: Option<Reader>,
}

impl std::fmt::Debug for StdioEnds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StdioEnds")
            .field("stdin", &self.stdin.is_some())
            .field("stdout", &self.stdout.is_some())
            .field("stderr", &self.stderr.is_some())
            .finish()
    }
}

/// Makes the pipes that `stdio` asks for: our ends, and those for the process.
pub(crate) fn make(stdio: StdioSpec) -> io::Result<(StdioEnds, Descriptors)> {
    let mut ends = StdioEnds::default();
    let mut theirs = Descriptors { stdin: None, stdout: None, stderr: None, cgroups: Vec::new() };
    let StdioSpec::Pipes { stdin } = stdio else { return Ok((ends, theirs)) };
    if stdin {
        let (read, write) = process::pipe()?;
        theirs.stdin = Some(read);
        ends.stdin = Some(Box::pin(pipe::Sender::from_owned_fd(write)?));
    }
    let output = || -> io::Result<(Reader, OwnedFd)> {
        let (read, write) = process::pipe()?;
        Ok((Box::pin(pipe::Receiver::from_owned_fd(read)?), write))
    };
    let (ours, their) = output()?;
    (ends.stdout, theirs.stdout) = (Some(ours), Some(their));
    let (ours, their) = output()?;
    (ends.stderr, theirs.stderr) = (Some(ours), Some(their));
    Ok((ends, theirs))
}

/// The master end of a terminal. The terminal hangs up when the last clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Master(Arc<AsyncFd<File>>);

impl Master {
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Self> {
        let file = File::from(fd);
        process::set_nonblocking(std::os::fd::AsFd::as_fd(&file))?;
        Ok(Self(Arc::new(reactor::watch(file)?)))
    }

    pub(crate) fn ends(&self) -> StdioEnds {
        StdioEnds {
            stdin: Some(Box::pin(self.clone())),
            stdout: Some(Box::pin(self.clone())),
            stderr: None,
        }
    }

    /// For setting the size without keeping the terminal open.
    pub(crate) fn downgrade(&self) -> std::sync::Weak<AsyncFd<File>> {
        Arc::downgrade(&self.0)
    }
}

impl AsyncRead for Master {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.0.poll_read_ready(cx))?;
            let into = buf.initialize_unfilled();
            match guard.try_io(|fd| fd.get_ref().read(into)) {
                Ok(Ok(n)) => {
                    buf.advance(n);
                    return Poll::Ready(Ok(()));
                }
                // That is how Linux tells that nobody has the other end open any more.
                Ok(Err(e)) if e.raw_os_error() == Some(5) => return Poll::Ready(Ok(())),
                Ok(Err(e)) if e.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(e)) => return Poll::Ready(Err(e)),
                Err(_would_block) => {}
            }
        }
    }
}

impl AsyncWrite for Master {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = ready!(self.0.poll_write_ready(cx))?;
            match guard.try_io(|fd| fd.get_ref().write(buf)) {
                Ok(Err(e)) if e.kind() == io::ErrorKind::Interrupted => {}
                Ok(done) => return Poll::Ready(done),
                Err(_would_block) => {}
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
