//! The program's ends of a process's standard streams.

use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};

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
