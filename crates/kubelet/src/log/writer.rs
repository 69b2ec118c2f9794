//! Takes what a container prints and writes it to its log file.
//!
//! In come the ends of its output pipes; out go records in a file that is moved aside when it
//! grows too large, progress for those who follow, and the bytes themselves for those attached.
//! A disk that is full costs log lines, never the container's progress.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use ironsail_sys::clock::Clock;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::{broadcast, watch};

use super::line::{self, Splitter, Stream};

/// How large a log file becomes, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub max_bytes: u64,
    pub max_files: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_bytes: 10 << 20, max_files: 2 }
    }
}

/// How far a log has come; followers wait for it to change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub bytes: u64,
    pub rotations: u64,
    pub closed: bool,
}

/// The log of one instance of a container.
pub struct Log {
    path: PathBuf,
    limits: Limits,
    clock: Clock,
    open: Mutex<Open>,
    progress: watch::Sender<Progress>,
    attached: broadcast::Sender<(Stream, Bytes)>,
}

struct Open {
    file: Option<File>,
    size: u64,
}

/// Chunks that an attached client may fall behind before it loses some.
const ATTACH_BACKLOG: usize = 256;

impl Log {
    pub fn create(path: PathBuf, limits: Limits, clock: Clock) -> io::Result<Arc<Self>> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let file = open(&path)?;
        let size = file.metadata()?.len();
        Ok(Arc::new(Self {
            path,
            limits,
            clock,
            open: Mutex::new(Open { file: Some(file), size }),
            progress: watch::channel(Progress::default()).0,
            attached: broadcast::channel(ATTACH_BACKLOG).0,
        }))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// What the container prints from now on.
    pub fn attach(&self) -> broadcast::Receiver<(Stream, Bytes)> {
        self.attached.subscribe()
    }

    /// Copies both streams until they end, then closes the log.
    pub async fn pump<R: AsyncRead + Unpin>(&self, stdout: Option<R>, stderr: Option<R>) {
        tokio::join!(self.copy(Stream::Stdout, stdout), self.copy(Stream::Stderr, stderr));
        self.close();
    }

    pub fn close(&self) {
        self.open.lock().file = None;
        self.progress.send_modify(|p| p.closed = true);
    }

    async fn copy<R: AsyncRead + Unpin>(&self, stream: Stream, reader: Option<R>) {
        let Some(mut reader) = reader else { return };
        let mut splitter = Splitter::default();
        let mut chunk = vec![0; 8 * 1024];
        loop {
            match reader.read(&mut chunk).await {
                // A terminal whose other side is gone reports an error in place of the end.
                Ok(0) | Err(_) => break,
                Ok(n) => {
                    if self.attached.receiver_count() > 0 {
                        let _ = self.attached.send((stream, Bytes::copy_from_slice(&chunk[..n])));
                    }
                    let time = self.now();
                    let mut out = Vec::with_capacity(n + 64);
                    splitter.push(&chunk[..n], |piece, whole| {
                        line::append(&mut out, time, stream, whole, piece);
                    });
                    self.write(&out);
                }
            }
        }
        let mut out = Vec::new();
        let time = self.now();
        splitter.finish(|piece, whole| line::append(&mut out, time, stream, whole, piece));
        self.write(&out);
    }

    fn now(&self) -> Timestamp {
        Timestamp::try_from(self.clock.now()).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    fn write(&self, records: &[u8]) {
        if records.is_empty() {
            return;
        }
        let mut open_file = self.open.lock();
        let mut rotated = false;
        if open_file.size > 0 && open_file.size + records.len() as u64 > self.limits.max_bytes {
            rotated = self.rotate(&mut open_file);
        }
        let written = match &mut open_file.file {
            Some(file) => file.write_all(records),
            None => Err(io::ErrorKind::NotFound.into()),
        };
        match written {
            Ok(()) => open_file.size += records.len() as u64,
            Err(error) => tracing::debug!(path = %self.path.display(), %error, "log lines lost"),
        }
        drop(open_file);
        self.progress.send_modify(|p| {
            p.bytes += records.len() as u64;
            p.rotations += u64::from(rotated);
        });
    }

    fn rotate(&self, current: &mut Open) -> bool {
        for number in (1..self.limits.max_files.max(1)).rev() {
            let from =
                if number == 1 { self.path.clone() } else { rotated(&self.path, number - 1) };
            let _ = fs::rename(from, rotated(&self.path, number));
        }
        let _ = fs::remove_file(&self.path);
        match open(&self.path) {
            Ok(file) => {
                *current = Open { file: Some(file), size: 0 };
                true
            }
            Err(error) => {
                tracing::debug!(path = %self.path.display(), %error, "cannot start a new log file");
                false
            }
        }
    }
}

/// The `number`th file before the current one.
pub fn rotated(path: &Path, number: usize) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    PathBuf::from(name)
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn output_is_written_rotated_and_closed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c/0.log");
        let limits = Limits { max_bytes: 200, max_files: 2 };
        let log = Log::create(path.clone(), limits, Clock::system()).unwrap();
        let mut progress = log.progress();
        for _ in 0..10 {
            log.write(b"2026-01-02T03:04:05.000000006Z stdout F 0123456789\n");
        }
        log.pump(Some(&b"last"[..]), Some(&b"err\n"[..])).await;
        assert!(fs::metadata(&path).unwrap().len() <= 200);
        assert!(fs::metadata(rotated(&path, 1)).unwrap().len() <= 200);
        assert!(!rotated(&path, 2).exists());
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(" stdout P last\n") && text.contains(" stderr F err\n"), "{text}");
        let seen = *progress.borrow_and_update();
        assert!(seen.closed && seen.rotations >= 2);
    }

    #[tokio::test]
    async fn attached_clients_see_what_is_printed() {
        let dir = tempfile::tempdir().unwrap();
        let log =
            Log::create(dir.path().join("0.log"), Limits::default(), Clock::system()).unwrap();
        let mut client = log.attach();
        log.pump(Some(&b"hello"[..]), None).await;
        assert_eq!(client.recv().await.unwrap(), (Stream::Stdout, Bytes::from_static(b"hello")));
    }
}
