//! The files of a store: one directory with a lock, one log per era and the newest snapshot.
//!
//! `log-R` holds the changes after revision R, up to where the next log begins. `snapshot-R` holds
//! all objects as of revision R. What a newer snapshot covers is deleted.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::Error;

pub(super) struct Disk {
    pub(super) directory: PathBuf,
    /// Held as long as the store is open.
    _lock: File,
    log: File,
    log_path: PathBuf,
    /// Bytes of the log that are sound and synced.
    pub(super) length: u64,
    /// Set when the log's end is in doubt; nothing may be appended behind a doubtful end.
    broken: Option<String>,
}

pub(super) fn log_name(revision: u64) -> String {
    format!("log-{revision:020}")
}

pub(super) fn snapshot_name(revision: u64) -> String {
    format!("snapshot-{revision:020}")
}

/// The revision in a file name made by [`log_name`] or [`snapshot_name`].
pub(super) fn revision_of(name: &str, prefix: &str) -> Option<u64> {
    name.strip_prefix(prefix)?.strip_prefix('-')?.parse().ok()
}

/// Objects hold secrets: only the owner may read them.
pub(super) fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).read(true).mode(0o600).open(path)
}

pub(super) fn io_error<'a>(
    doing: &'static str,
    path: &'a Path,
) -> impl Fn(io::Error) -> Error + 'a {
    move |source| Error::Io { doing, path: path.to_owned(), source }
}

/// Makes renames and new files in `directory` durable.
pub(super) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Makes the directory and takes its lock.
pub(super) fn lock(directory: &Path) -> Result<File, Error> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(io_error("creating", directory))?;
    let path = directory.join("lock");
    let file = create(&path).map_err(io_error("opening", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => Err(Error::InUse(directory.to_owned())),
        Err(std::fs::TryLockError::Error(source)) => Err(io_error("locking", &path)(source)),
    }
}

impl Disk {
    /// Continues the log of `revision`, which is sound up to `length`; what lies behind is cut off.
    pub(super) fn resume(
        directory: &Path,
        lock: File,
        revision: u64,
        length: u64,
    ) -> Result<Self, Error> {
        let log_path = directory.join(log_name(revision));
        let log = create(&log_path).map_err(io_error("opening", &log_path))?;
        log.set_len(length).map_err(io_error("truncating", &log_path))?;
        log.sync_all().map_err(io_error("syncing", &log_path))?;
        sync_directory(directory).map_err(io_error("syncing", directory))?;
        Ok(Self {
            directory: directory.to_owned(),
            _lock: lock,
            log,
            log_path,
            length,
            broken: None,
        })
    }

    /// Appends sealed frames; when this returns they are durable. After a failure nothing of them is.
    pub(super) fn append(&mut self, frames: &[u8]) -> Result<(), String> {
        if let Some(why) = &self.broken {
            return Err(why.clone());
        }
        let written = self.log.write_all(frames);
        if let Err(error) = written {
            let why = format!("writing {}: {error}", self.log_path.display());
            // A full disk is no reason to give up: with the torn end cut off, later writes may work.
            if let Err(error) = self.log.set_len(self.length) {
                self.broken = Some(format!("{why}; cutting off the torn end: {error}"));
            }
            return Err(why);
        }
        if let Err(error) = self.log.sync_data() {
            // After a failed sync the kernel may have dropped the data and forget the error.
            let why = format!("syncing {}: {error}", self.log_path.display());
            self.broken = Some(why.clone());
            return Err(why);
        }
        self.length += frames.len() as u64;
        Ok(())
    }

    /// Begins the log of what comes after `revision`.
    pub(super) fn rotate(&mut self, revision: u64) -> io::Result<()> {
        let path = self.directory.join(log_name(revision));
        let log = create(&path)?;
        sync_directory(&self.directory)?;
        self.log = log;
        self.log_path = path;
        self.length = 0;
        Ok(())
    }
}
