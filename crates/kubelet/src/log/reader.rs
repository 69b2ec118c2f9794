//! Reads a container's log files as `kubectl logs` wants them.
//!
//! In come the files and the query; out goes a stream of text. Reading is done in blocks on the
//! blocking pool, so a large log never holds up other work and is never held in memory whole.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use ironsail_kubestream::pod::LogOptions;
use jiff::Timestamp;
use tokio::sync::watch;

use super::line::{MAX_PIECE, Record};
use super::writer::{Progress, rotated};

const BLOCK: usize = 64 * 1024;

/// Streams the log at `path`; `live` is the progress of a log that is still written.
pub async fn read(
    path: PathBuf,
    options: LogOptions,
    live: Option<watch::Receiver<Progress>>,
) -> io::Result<BoxStream<'static, io::Result<Bytes>>> {
    let live = live.map(|mut progress| {
        progress.mark_unchanged();
        progress
    });
    let rotations = live.as_ref().map_or(0, |p| p.borrow().rotations);
    let tail = options.tail_lines;
    let start = {
        let path = path.clone();
        tokio::task::spawn_blocking(move || Cursor::open(&path, tail))
            .await
            .map_err(io::Error::other)??
    };
    let since = options.since.and_then(|t| Timestamp::try_from(t).ok());
    let render =
        Render { timestamps: options.timestamps, since, at_start: true, left: options.limit_bytes };
    let state = Reading {
        path,
        cursor: Some(start),
        render,
        live: live.filter(|_| options.follow),
        rotations,
        done: false,
    };
    Ok(stream::unfold(state, |mut state| async move {
        let item = state.next().await?;
        Some((item, state))
    })
    .boxed())
}

struct Reading {
    path: PathBuf,
    cursor: Option<Cursor>,
    render: Render,
    live: Option<watch::Receiver<Progress>>,
    rotations: u64,
    done: bool,
}

impl Reading {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        while !self.done {
            // Looked at before the read: what is written after it is seen next time.
            let seen = self.live.as_mut().map(|p| *p.borrow_and_update());
            let mut cursor = self.cursor.take()?;
            let read = tokio::task::spawn_blocking(move || {
                let block = cursor.block();
                (cursor, block)
            });
            let (cursor, block) = match read.await {
                Ok(done) => done,
                Err(error) => return self.fail(io::Error::other(error)),
            };
            self.cursor = Some(cursor);
            match block {
                Err(error) => return self.fail(error),
                Ok(Some(lines)) => {
                    let text = self.render.lines(&lines);
                    self.done = self.render.left == Some(0);
                    if !text.is_empty() {
                        return Some(Ok(Bytes::from(text)));
                    }
                }
                Ok(None) => self.wait(seen).await,
            }
        }
        None
    }

    fn fail(&mut self, error: io::Error) -> Option<io::Result<Bytes>> {
        self.done = true;
        Some(Err(error))
    }

    /// At the end of what is there: the next file, more of this one, or the end.
    async fn wait(&mut self, seen: Option<Progress>) {
        let (Some(live), Some(seen)) = (&mut self.live, seen) else {
            self.done = true;
            return;
        };
        if seen.rotations != self.rotations {
            self.rotations = seen.rotations;
            match File::open(&self.path) {
                Ok(file) => self.cursor = Some(Cursor::of(file)),
                Err(_) => self.done = true,
            }
        } else if seen.closed || live.changed().await.is_err() {
            self.done = true;
        }
    }
}

/// Turns records into the text that the query asks for.
struct Render {
    timestamps: bool,
    since: Option<Timestamp>,
    at_start: bool,
    left: Option<u64>,
}

impl Render {
    fn lines(&mut self, lines: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(lines.len());
        for line in lines.split(|b| *b == b'\n') {
            let Some(record) = Record::parse(line) else { continue };
            if let (Some(since), Some(time)) = (self.since, record.time())
                && time < since
            {
                continue;
            }
            if self.timestamps && self.at_start {
                out.extend_from_slice(record.stamp.as_bytes());
                out.push(b' ');
            }
            out.extend_from_slice(record.text);
            if record.whole {
                out.push(b'\n');
            }
            self.at_start = record.whole;
        }
        if let Some(left) = &mut self.left {
            out.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= out.len() as u64;
        }
        out
    }
}

/// A place in the files of one log, oldest first.
struct Cursor {
    current: File,
    later: VecDeque<File>,
    rest: Vec<u8>,
}

impl Cursor {
    fn of(file: File) -> Self {
        Self { current: file, later: VecDeque::new(), rest: Vec::new() }
    }

    /// At the start of the last `tail` records, or of the oldest file.
    fn open(path: &Path, tail: Option<u64>) -> io::Result<Self> {
        let mut files = VecDeque::from([File::open(path)?]);
        let mut number = 1;
        while let Ok(file) = File::open(rotated(path, number)) {
            files.push_front(file);
            number += 1;
        }
        if let Some(tail) = tail {
            let mut wanted = tail;
            let mut kept = VecDeque::new();
            while let Some(mut file) = files.pop_back() {
                wanted -= seek_tail(&mut file, wanted)?;
                kept.push_front(file);
                if wanted == 0 {
                    break;
                }
            }
            files = kept;
        }
        let current = files.pop_front().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        Ok(Self { current, later: files, rest: Vec::new() })
    }

    /// Whole lines, or `None` at the end of what is there.
    fn block(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let mut block = std::mem::take(&mut self.rest);
            let before = block.len();
            self.current.by_ref().take(BLOCK as u64).read_to_end(&mut block)?;
            if block.len() == before {
                self.rest = block;
                match self.later.pop_front() {
                    Some(next) => self.current = next,
                    None => return Ok(None),
                }
                continue;
            }
            if let Some(end) = block.iter().rposition(|b| *b == b'\n') {
                self.rest = block.split_off(end + 1);
                return Ok(Some(block));
            }
            // No record is that long: a damaged file must not eat memory.
            if block.len() < 4 * MAX_PIECE {
                self.rest = block;
            }
        }
    }
}

/// Moves `file` to the start of its last `lines` lines and returns how many that are.
fn seek_tail(file: &mut File, lines: u64) -> io::Result<u64> {
    let mut at = file.seek(SeekFrom::End(0))?;
    let mut found = 0;
    let mut buffer = vec![0; BLOCK];
    if lines == 0 {
        return Ok(0);
    }
    while at > 0 {
        let size = at.min(BLOCK as u64);
        at -= size;
        file.seek(SeekFrom::Start(at))?;
        let block = &mut buffer[..usize::try_from(size).unwrap_or(BLOCK)];
        file.read_exact(block)?;
        for (offset, byte) in block.iter().enumerate().rev() {
            if *byte == b'\n' {
                if found == lines {
                    file.seek(SeekFrom::Start(at + offset as u64 + 1))?;
                    return Ok(found);
                }
                found += 1;
            }
        }
    }
    file.seek(SeekFrom::Start(0))?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::super::writer::{Limits, Log};
    use super::*;
    use ironsail_sys::clock::Clock;
    use tokio::io::AsyncWriteExt;

    async fn text(stream: BoxStream<'static, io::Result<Bytes>>) -> String {
        let parts: Vec<_> = stream.map(|b| b.unwrap()).collect().await;
        String::from_utf8(parts.concat()).unwrap()
    }

    async fn written(dir: &Path, input: &str, limits: Limits) -> PathBuf {
        let path = dir.join("0.log");
        let log = Log::create(path.clone(), limits, Clock::system()).unwrap();
        let (mut near, far) = tokio::io::duplex(16);
        let lines = input.to_owned();
        let feed = tokio::spawn(async move { near.write_all(lines.as_bytes()).await.unwrap() });
        log.pump(Some(far), None).await;
        feed.await.unwrap();
        path
    }

    #[tokio::test]
    async fn tail_limit_timestamps_and_since() {
        let dir = tempfile::tempdir().unwrap();
        let path = written(dir.path(), "one\ntwo\nthree", Limits::default()).await;
        let ask = |options: LogOptions| read(path.clone(), options, None);
        assert_eq!(text(ask(LogOptions::default()).await.unwrap()).await, "one\ntwo\nthree");
        for (tail, want) in [(0, ""), (1, "three"), (2, "two\nthree"), (9, "one\ntwo\nthree")] {
            let options = LogOptions { tail_lines: Some(tail), ..LogOptions::default() };
            assert_eq!(text(ask(options).await.unwrap()).await, want);
        }
        let options = LogOptions { limit_bytes: Some(5), ..LogOptions::default() };
        assert_eq!(text(ask(options).await.unwrap()).await, "one\nt");
        let options = LogOptions { timestamps: true, tail_lines: Some(1), ..LogOptions::default() };
        let stamped = text(ask(options).await.unwrap()).await;
        assert!(stamped.ends_with("Z three") && stamped.len() == 36, "{stamped}");
        let future = Clock::system().now() + std::time::Duration::from_secs(60);
        let options = LogOptions { since: Some(future), ..LogOptions::default() };
        assert_eq!(text(ask(options).await.unwrap()).await, "");
    }

    #[tokio::test]
    async fn the_tail_reaches_into_the_rotated_file() {
        let dir = tempfile::tempdir().unwrap();
        let input: String = (0..20).map(|i| format!("line{i}\n")).collect();
        let path = written(dir.path(), &input, Limits { max_bytes: 300, max_files: 3 }).await;
        let options = LogOptions { tail_lines: Some(9), ..LogOptions::default() };
        let want: String = (11..20).map(|i| format!("line{i}\n")).collect();
        assert_eq!(text(read(path, options, None).await.unwrap()).await, want);
    }

    #[tokio::test]
    async fn a_follower_sees_everything_across_rotations_until_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.log");
        let limits = Limits { max_bytes: 400, max_files: 8 };
        let log = Log::create(path.clone(), limits, Clock::system()).unwrap();
        let options = LogOptions { follow: true, ..LogOptions::default() };
        let mut stream = read(path, options, Some(log.progress())).await.unwrap();
        let (mut near, far) = tokio::io::duplex(64);
        let pump = tokio::spawn(async move { log.pump(Some(far), None).await });
        let mut seen = String::new();
        for i in 0..50 {
            near.write_all(format!("line{i}\n").as_bytes()).await.unwrap();
            while !seen.ends_with(&format!("line{i}\n")) {
                seen.push_str(std::str::from_utf8(&stream.next().await.unwrap().unwrap()).unwrap());
            }
        }
        drop(near);
        pump.await.unwrap();
        assert!(stream.next().await.is_none());
        let want: String = (0..50).map(|i| format!("line{i}\n")).collect();
        assert_eq!(seen, want);
    }
}
