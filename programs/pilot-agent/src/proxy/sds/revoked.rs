//! The CA's list of certificates that it took back.

use std::path::{Path, PathBuf};

use tracing::warn;

/// Longest list.
const MAX_FILE: u64 = 16 << 20;

/// A file that may or may not be there, and the last good list from it.
pub(super) struct Revoked {
    path: PathBuf,
    last: Option<String>,
}

impl Revoked {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, last: None }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The list as it is now. An empty file and none at all take the list away; one that is no list
    /// changes nothing, since a proxy would refuse the roots together with it.
    pub(super) fn read(&mut self) -> Option<&str> {
        match self.text() {
            Ok(text) if text.trim().is_empty() => self.last = None,
            Ok(text) => match ironsail_identity::check_crl(text.as_bytes()) {
                Ok(()) => self.last = Some(text),
                Err(error) => {
                    let path = self.path.display();
                    warn!(target: "sds", "{path}: {error}; the revocation list stays as it was");
                }
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => self.last = None,
            Err(error) => warn!(target: "sds", "reading {}: {error}", self.path.display()),
        }
        self.last.as_deref()
    }

    fn text(&self) -> std::io::Result<String> {
        if std::fs::metadata(&self.path)?.len() > MAX_FILE {
            return Err(std::io::Error::other(format!("it is larger than {MAX_FILE} bytes")));
        }
        std::fs::read_to_string(&self.path)
    }
}
