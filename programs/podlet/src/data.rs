//! The folder that holds all state of one podlet.
//!
//! One podlet at a time: the folder is locked. The lock is the kernel's and ends with the process, so a
//! killed podlet leaves none behind.

use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

pub(crate) struct Data {
    path: PathBuf,
    _lock: File,
}

impl Data {
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(path)
            .with_context(|| format!("making {}", path.display()))?;
        let path =
            path.canonicalize().with_context(|| format!("looking for {}", path.display()))?;
        let lock = path.join("lock");
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&lock)
            .with_context(|| format!("opening {}", lock.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { path, _lock: file }),
            Err(std::fs::TryLockError::WouldBlock) => {
                bail!(
                    "{} is in use by another podlet: stop that one, or take another --data",
                    path.display()
                )
            }
            Err(std::fs::TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("locking {}", lock.display()))
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A folder below, made where missing, that only this user can read.
    pub(crate) fn folder(&self, name: &str) -> anyhow::Result<PathBuf> {
        let folder = self.path.join(name);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)
            .with_context(|| format!("making {}", folder.display()))?;
        Ok(folder)
    }

    /// A short text kept over restarts, such as the API's port; made by `make` the first time.
    pub(crate) fn remembered(
        &self,
        name: &str,
        make: impl FnOnce() -> String,
    ) -> anyhow::Result<String> {
        let file = self.path.join(name);
        match std::fs::read_to_string(&file) {
            Ok(text) => return Ok(text.trim().to_owned()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("reading {}", file.display())),
        }
        let text = make();
        self.remember(name, &text)?;
        Ok(text)
    }

    pub(crate) fn remember(&self, name: &str, text: &str) -> anyhow::Result<()> {
        write_whole(&self.path.join(name), text)
    }
}

/// Writes a file so that readers see all of it or nothing. It may hold secrets, so only this user
/// can read it.
pub(crate) fn write_whole(file: &Path, text: &str) -> anyhow::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let doing = || format!("writing {}", file.display());
    let folder = file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).with_context(doing)?;
    let name = file.file_name().context("a file to write has a name")?.to_string_lossy();
    let part = folder.join(format!(".{name}.{}", std::process::id()));
    let mut open = OpenOptions::new();
    open.create(true).truncate(true).write(true).mode(0o600);
    let mut out = open.open(&part).with_context(doing)?;
    out.write_all(text.as_bytes()).and_then(|()| out.sync_all()).with_context(doing)?;
    std::fs::rename(&part, file).with_context(doing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_owner_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let first = Data::open(dir.path()).unwrap();
        let second = Data::open(dir.path()).err().unwrap().to_string();
        assert!(second.contains("in use by another podlet"), "{second}");
        drop(first);
        assert!(Data::open(dir.path()).is_ok());
    }

    #[test]
    fn what_was_remembered_stays() {
        let dir = tempfile::tempdir().unwrap();
        let data = Data::open(dir.path()).unwrap();
        assert_eq!(data.remembered("x", || "1".into()).unwrap(), "1");
        assert_eq!(data.remembered("x", || "2".into()).unwrap(), "1");
    }
}
