//! Writes the files of a volume so that readers see all of the old or all of the new.
//!
//! A directory with the files is written beside the old one, the link `..data` is moved over to it
//! in one rename, and every file is reached through that link. Programs that watch for the rename
//! (as every Kubernetes-aware one does) see updates.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use super::payload::{File, Payload};

const DATA: &str = "..data";
const DATA_NEXT: &str = "..data_tmp";

#[derive(Debug, thiserror::Error)]
#[error("{action} {path}")]
pub struct Error {
    action: &'static str,
    path: PathBuf,
    source: io::Error,
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error { action, path, source }
}

/// Makes `dir` hold exactly `payload`. `stamp` names the new version and must differ from the last.
/// Returns whether anything changed.
pub fn write(
    dir: &Path,
    payload: &Payload,
    group: Option<u32>,
    stamp: &str,
) -> Result<bool, Error> {
    let old = fs::read_link(dir.join(DATA)).ok();
    if let Some(old) = &old
        && holds(&dir.join(old), payload, group)
    {
        return Ok(false);
    }
    let version = format!("..{stamp}");
    let target = dir.join(&version);
    let mut builder = fs::DirBuilder::new();
    builder.mode(0o755).create(&target).map_err(failed("making", &target))?;
    for (path, file) in payload {
        write_file(&target, path, file, group)?;
    }
    let next = dir.join(DATA_NEXT);
    let _ = fs::remove_file(&next);
    symlink(&version, &next).map_err(failed("linking", &next))?;
    fs::rename(&next, dir.join(DATA)).map_err(failed("switching", &next))?;
    link_visible(dir, payload)?;
    if let Some(old) = old {
        let old = dir.join(old);
        fs::remove_dir_all(&old).map_err(failed("removing", &old))?;
    }
    Ok(true)
}

fn holds(version: &Path, payload: &Payload, group: Option<u32>) -> bool {
    let count = count_files(version);
    count == Some(payload.len())
        && payload.iter().all(|(path, file)| {
            let at = version.join(path);
            let mode = fs::metadata(&at).map(|m| m.permissions().mode() & 0o7777).ok();
            mode == Some(final_mode(file, group))
                && fs::read(&at).is_ok_and(|bytes| bytes == file.bytes)
        })
}

fn count_files(dir: &Path) -> Option<usize> {
    let mut count = 0;
    for entry in fs::read_dir(dir).ok()? {
        let entry = entry.ok()?;
        count += if entry.file_type().ok()?.is_dir() { count_files(&entry.path())? } else { 1 };
    }
    Some(count)
}

/// With a group, the group may read: these volumes are never written to by pods.
fn final_mode(file: &File, group: Option<u32>) -> u32 {
    if group.is_some() { file.mode | 0o440 } else { file.mode }
}

fn write_file(target: &Path, path: &str, file: &File, group: Option<u32>) -> Result<(), Error> {
    let at = target.join(path);
    if let Some(parent) = at.parent().filter(|p| *p != target) {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(parent)
            .map_err(failed("making", parent))?;
    }
    fs::write(&at, &file.bytes).map_err(failed("writing", &at))?;
    if group.is_some() || file.owner.is_some() {
        chown(&at, file.owner, group).map_err(failed("changing the owner of", &at))?;
    }
    let mode = fs::Permissions::from_mode(final_mode(file, group));
    fs::set_permissions(&at, mode).map_err(failed("setting the mode of", &at))
}

/// One link per first path part, into `..data`; links of files that are gone are removed.
fn link_visible(dir: &Path, payload: &Payload) -> Result<(), Error> {
    let wanted: BTreeSet<&str> = payload.keys().filter_map(|p| p.split('/').next()).collect();
    for name in &wanted {
        let link = dir.join(name);
        if fs::symlink_metadata(&link).is_err() {
            symlink(Path::new(DATA).join(name), &link).map_err(failed("linking", &link))?;
        }
    }
    for entry in fs::read_dir(dir).map_err(failed("reading", dir))? {
        let entry = entry.map_err(failed("reading", dir))?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if !name.starts_with("..") && !wanted.contains(name.as_ref()) {
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(files: &[(&str, &str)]) -> Payload {
        let file = |t: &str| File { bytes: t.as_bytes().to_vec(), mode: 0o640, owner: None };
        files.iter().map(|(p, t)| ((*p).to_owned(), file(t))).collect()
    }

    #[test]
    fn updates_switch_all_files_at_once_and_drop_what_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        assert!(write(dir, &payload(&[("a", "1"), ("d/b", "2")]), None, "v1").unwrap());
        assert_eq!(fs::read_to_string(dir.join("a")).unwrap(), "1");
        assert_eq!(fs::read_to_string(dir.join("d/b")).unwrap(), "2");
        assert_eq!(fs::read_link(dir.join("..data")).unwrap(), Path::new("..v1"));
        assert_eq!(fs::metadata(dir.join("a")).unwrap().permissions().mode() & 0o777, 0o640);
        let held = fs::File::open(dir.join("a")).unwrap();
        assert!(write(dir, &payload(&[("a", "new")]), None, "v2").unwrap());
        assert_eq!(fs::read_to_string(dir.join("a")).unwrap(), "new");
        assert!(fs::symlink_metadata(dir.join("d")).is_err());
        assert!(!dir.join("..v1").exists());
        drop(held);
    }

    #[test]
    fn the_same_files_are_not_written_again() {
        let dir = tempfile::tempdir().unwrap();
        let files = payload(&[("a", "1")]);
        assert!(write(dir.path(), &files, None, "v1").unwrap());
        assert!(!write(dir.path(), &files, None, "v2").unwrap());
        assert_eq!(fs::read_link(dir.path().join("..data")).unwrap(), Path::new("..v1"));
        assert!(write(dir.path(), &payload(&[("a", "1"), ("b", "")]), None, "v3").unwrap());
    }

    #[test]
    fn an_empty_volume_is_a_version_too() {
        let dir = tempfile::tempdir().unwrap();
        assert!(write(dir.path(), &Payload::new(), None, "v1").unwrap());
        assert!(!write(dir.path(), &Payload::new(), None, "v2").unwrap());
    }
}
