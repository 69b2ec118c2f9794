//! What a node offers on a running pod, free of any wire protocol.
//!
//! The API server authenticates and decodes; whoever implements [`PodStreams`] (the kubelet) does
//! the work. Both sides see only the types in this file.

use std::pin::Pin;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

/// Which pod; the node is found from it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodRef {
    pub namespace: String,
    pub name: String,
}

/// The query of `GET …/pods/NAME/log`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// `None` asks for the only container of a pod that has one.
    pub container: Option<String>,
    pub follow: bool,
    pub previous: bool,
    pub timestamps: bool,
    pub tail_lines: Option<u64>,
    pub limit_bytes: Option<u64>,
    /// Only lines at or after this time.
    pub since: Option<std::time::SystemTime>,
}

/// The query of `…/pods/NAME/exec` and `…/attach`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecOptions {
    pub container: Option<String>,
    /// Empty for attach.
    pub command: Vec<String>,
    pub tty: bool,
}

/// A terminal's size in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    pub columns: u16,
    pub rows: u16,
}

pub type Reader = Pin<Box<dyn AsyncRead + Send>>;
pub type Writer = Pin<Box<dyn AsyncWrite + Send>>;

/// The client's ends of an exec session. What is `None` the client did not ask for.
pub struct ExecIo {
    pub stdin: Option<Reader>,
    pub stdout: Option<Writer>,
    /// Always `None` with a terminal, which has one output.
    pub stderr: Option<Writer>,
    pub resize: mpsc::Receiver<TerminalSize>,
}

/// How a command in a container ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The exit code; 128 + the signal's number where a signal ended it.
    pub code: i32,
}

/// A stream to a port inside a pod.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The pod, or the container in it, is not there.
    #[error("{0}")]
    NotFound(String),
    /// It is there but cannot do that now, or the request makes no sense for it.
    #[error("{0}")]
    BadRequest(String),
    /// The node failed.
    #[error("{0}")]
    Internal(String),
}

/// What a node offers on its pods.
pub trait PodStreams: Send + Sync + 'static {
    fn logs(
        &self,
        pod: PodRef,
        options: LogOptions,
    ) -> BoxFuture<'_, Result<BoxStream<'static, std::io::Result<Bytes>>, Error>>;

    /// Runs until the command ends; the streams are closed by then.
    fn exec(
        &self,
        pod: PodRef,
        options: ExecOptions,
        io: ExecIo,
    ) -> BoxFuture<'_, Result<Exit, Error>>;

    /// Connects to `port` on the pod's loopback address, as port-forward does.
    fn connect(&self, pod: PodRef, port: u16) -> BoxFuture<'_, Result<Box<dyn Duplex>, Error>>;
}
