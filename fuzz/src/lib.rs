//! What the fuzz targets share: JSON that looks like Kubernetes, places for files, and a node for
//! sessions. Nothing here decides what is right; the targets do.

pub mod json;
pub mod sample;
pub mod session;

/// A folder in memory, where there is such a place: the store syncs every write.
pub fn scratch() -> tempfile::TempDir {
    let memory = std::path::Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.expect("a temporary folder can be made")
}
