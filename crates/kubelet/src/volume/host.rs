//! hostPath volumes: is the path what its type says, and making it where the type says so.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("hostPath type check failed: {path} is not {what}")]
    Kind { path: String, what: &'static str },
    #[error("hostPath {path} must be absolute and without \"..\"")]
    Path { path: String },
    #[error("hostPath type {0:?} is not known")]
    Type(String),
    #[error("making {path}: {source}")]
    Make { path: String, source: std::io::Error },
}

/// Checks `path` against `kind`, making the directory or file where the kind ends in OrCreate. An
/// empty kind takes whatever is there and makes a directory where nothing is.
pub fn check(path: &Path, kind: &str) -> Result<(), Error> {
    let shown = path.display().to_string();
    if !path.is_absolute() || path.components().any(|c| c.as_os_str() == "..") {
        return Err(Error::Path { path: shown });
    }
    let failed = |source| Error::Make { path: shown.clone(), source };
    let make_dir = || fs::DirBuilder::new().recursive(true).mode(0o755).create(path);
    match kind {
        "" if !path.exists() => return make_dir().map_err(failed),
        "" => return Ok(()),
        "DirectoryOrCreate" if !path.exists() => return make_dir().map_err(failed),
        "FileOrCreate" if !path.exists() => {
            let made = fs::OpenOptions::new().create(true).append(true).mode(0o644).open(path);
            return made.map(drop).map_err(failed);
        }
        _ => {}
    }
    let found = fs::metadata(path).ok().map(|m| m.file_type());
    let (fits, what): (fn(fs::FileType) -> bool, _) = match kind {
        "Directory" | "DirectoryOrCreate" => (|t| t.is_dir(), "a directory"),
        "File" | "FileOrCreate" => (|t| t.is_file(), "a file"),
        "Socket" => (|t| t.is_socket(), "a socket file"),
        "CharDevice" => (|t| t.is_char_device(), "a character device"),
        "BlockDevice" => (|t| t.is_block_device(), "a block device"),
        other => return Err(Error::Type(other.to_owned())),
    };
    if found.is_some_and(fits) { Ok(()) } else { Err(Error::Kind { path: shown, what }) }
}

#[cfg(test)]
mod tests {
    use super::check;
    use std::path::Path;

    #[test]
    fn types_are_checked_and_made() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        assert!(check(&at("none"), "Directory").is_err());
        assert!(check(&at("made/deep"), "DirectoryOrCreate").is_ok());
        assert!(check(&at("made/deep"), "Directory").is_ok());
        assert_eq!(
            check(&at("made/deep"), "File").unwrap_err().to_string(),
            format!("hostPath type check failed: {} is not a file", at("made/deep").display())
        );
        assert!(check(&at("f"), "FileOrCreate").is_ok());
        assert!(check(&at("f"), "File").is_ok());
        assert!(check(&at("f"), "Socket").is_err());
        assert!(check(Path::new("/dev/null"), "CharDevice").is_ok());
        assert!(check(&at("any"), "").is_ok() && at("any").is_dir());
        assert!(check(Path::new("relative"), "").is_err());
        assert!(check(&at("x/../y"), "").is_err());
    }
}
