//! The part of a volume that a subPath names, found without leaving the volume.
//!
//! A pod can put links into its own volumes; a subPath that followed one out of the volume would
//! hand it the host. Every part is checked after links are resolved.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("subPath {0:?} must be relative and must not contain \"..\"")]
    Invalid(String),
    #[error("subPath {0:?} leads out of the volume")]
    Escapes(String),
    #[error("preparing subPath {path:?}: {source}")]
    Io { path: String, source: io::Error },
}

/// The real path of `sub` in `volume`. Missing directories are made if `create`.
pub fn resolve(volume: &Path, sub: &str, create: bool) -> Result<PathBuf, Error> {
    let invalid = || Error::Invalid(sub.to_owned());
    let failed = |source| Error::Io { path: sub.to_owned(), source };
    let root = fs::canonicalize(volume).map_err(failed)?;
    let mut at = root.clone();
    for part in Path::new(sub).components() {
        match part {
            Component::Normal(name) => at.push(name),
            Component::CurDir => continue,
            _ => return Err(invalid()),
        }
        at = match fs::canonicalize(&at) {
            Ok(real) => real,
            Err(e) if e.kind() == io::ErrorKind::NotFound && create => {
                // A dangling link is not followed: making its target could make it anywhere.
                if fs::symlink_metadata(&at).is_ok() {
                    return Err(Error::Escapes(sub.to_owned()));
                }
                fs::DirBuilder::new().mode(0o750).create(&at).map_err(failed)?;
                at
            }
            Err(e) => return Err(failed(e)),
        };
        if !at.starts_with(&root) {
            return Err(Error::Escapes(sub.to_owned()));
        }
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn sub_paths_stay_inside() {
        let dir = tempfile::tempdir().unwrap();
        let volume = dir.path().join("v");
        fs::create_dir_all(volume.join("a/b")).unwrap();
        symlink("/etc", volume.join("out")).unwrap();
        symlink("/nowhere-at-all", volume.join("dangling")).unwrap();
        symlink("a", volume.join("in")).unwrap();
        let real = fs::canonicalize(&volume).unwrap();
        assert_eq!(resolve(&volume, "a/b", false).unwrap(), real.join("a/b"));
        assert_eq!(resolve(&volume, "in/b", false).unwrap(), real.join("a/b"));
        assert_eq!(resolve(&volume, "new/deep", true).unwrap(), real.join("new/deep"));
        assert!(matches!(resolve(&volume, "out/passwd", true), Err(Error::Escapes(_))));
        assert!(matches!(resolve(&volume, "dangling", true), Err(Error::Escapes(_))));
        assert!(matches!(resolve(&volume, "../x", true), Err(Error::Invalid(_))));
        assert!(matches!(resolve(&volume, "/x", true), Err(Error::Invalid(_))));
        assert!(matches!(resolve(&volume, "missing", false), Err(Error::Io { .. })));
    }
}
