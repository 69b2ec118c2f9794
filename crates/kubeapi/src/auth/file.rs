//! Small secret files in the data directory: read whole, replaced whole, readable by the owner.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
#[error("{doing} {path}", path = .path.display())]
pub struct Error {
    doing: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// The file's text, or `None` where there is no such file.
pub(super) fn read(path: &Path) -> Result<Option<String>, Error> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error { doing: "reading", path: path.to_owned(), source }),
    }
}

/// Writes the file so that a crash leaves the old one or the new one, never half of one.
pub(super) fn write(path: &Path, text: &str) -> Result<(), Error> {
    let attempt = || -> io::Result<()> {
        let directory = path.parent().unwrap_or(Path::new("."));
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let fresh = path.with_extension("new");
        let mut file =
            OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&fresh, path)?;
        File::open(directory)?.sync_all()
    };
    attempt().map_err(|source| Error { doing: "writing", path: path.to_owned(), source })
}
