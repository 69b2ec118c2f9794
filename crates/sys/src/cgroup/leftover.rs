//! Removing the groups of a run that was killed.

use std::path::Path;

/// Groups nest no deeper than this on any machine seen; a bound against surprises.
const MAX_DEPTH: usize = 8;

/// Removes every directory called `name` below `mount`. A killed run may have been in another group
/// than this one, so its directory can be anywhere.
pub(super) fn remove(mount: &Path, name: &str) {
    search(mount, name, MAX_DEPTH);
}

fn search(dir: &Path, name: &str, depth: usize) {
    for child in directories(dir) {
        if child.file_name().is_some_and(|n| n == name) {
            remove_dir(&child);
        } else if depth > 0 {
            search(&child, name, depth - 1);
        }
    }
}

/// Removes a group and those in it. Whatever still holds a process stays, as the kernel wants it.
pub(super) fn remove_dir(dir: &Path) {
    for child in directories(dir) {
        remove_dir(&child);
    }
    let _ = std::fs::remove_dir(dir);
}

fn directories(dir: &Path) -> Vec<std::path::PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}
