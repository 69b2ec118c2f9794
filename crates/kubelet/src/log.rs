//! Container logs: CRI records in files, one file per instance of a container.

pub mod line;
pub mod reader;
pub mod writer;

use std::path::{Path, PathBuf};

/// Where the log of an instance lies; `directory` is the pod's.
pub fn path(directory: &Path, container: &str, restart: u32) -> PathBuf {
    directory.join(container).join(format!("{restart}.log"))
}

/// Removes the logs of all instances older than the one before `restart`.
pub fn prune(directory: &Path, container: &str, restart: u32) {
    let Ok(entries) = std::fs::read_dir(directory.join(container)) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|n| n.split('.').next()?.parse::<u32>().ok());
        if number.is_some_and(|n| n + 1 < restart) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
