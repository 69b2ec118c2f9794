//! Snapshots: all objects of one revision in one file, which replaces the logs before it.
//!
//! Written beside the running store from shared objects, put in place by a rename, and closed by a
//! trailer that says how many objects there must be.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use super::disk::{create, log_name, revision_of, snapshot_name, sync_directory};
use super::frame::{self, HEADER};
use super::object::Object;
use super::state::Applied;

/// A frame is sealed when it is longer than this.
const FRAME: usize = 1 << 20;

/// The last frame's payload: the number of objects before it.
pub(super) fn trailer(count: u64) -> [u8; 9] {
    let mut out = [0xff; 9];
    out[1..].copy_from_slice(&count.to_be_bytes());
    out
}

/// Writes the snapshot and deletes what it replaces. Returns its length.
pub(super) fn write(directory: &Path, revision: u64, objects: &[Arc<Object>]) -> io::Result<u64> {
    let name = snapshot_name(revision);
    let temporary = directory.join(format!("{name}.tmp"));
    drop(fs::remove_file(&temporary));
    let mut file = BufWriter::new(create(&temporary)?);
    let mut length = 0;
    let mut buffer = vec![0; HEADER];
    let mut flush = |buffer: &mut Vec<u8>| -> io::Result<()> {
        frame::seal(buffer, 0);
        length += buffer.len() as u64;
        file.write_all(buffer)?;
        buffer.truncate(HEADER);
        Ok(())
    };
    for object in objects {
        frame::encode(&mut buffer, &Applied::Put(object.clone()));
        if buffer.len() > FRAME {
            flush(&mut buffer)?;
        }
    }
    if buffer.len() > HEADER {
        flush(&mut buffer)?;
    }
    buffer.extend_from_slice(&trailer(objects.len() as u64));
    flush(&mut buffer)?;
    let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()?;
    fs::rename(&temporary, directory.join(&name))?;
    sync_directory(directory)?;
    delete_older(directory, revision)?;
    Ok(length)
}

/// Deletes the logs and snapshots that the snapshot at `revision` replaces. A log that begins before
/// it is covered as well, because a new log is begun before every snapshot.
pub(super) fn delete_older(directory: &Path, revision: u64) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let Some(name) = name.to_str() else { continue };
        let old = |prefix| revision_of(name, prefix).is_some_and(|r| r < revision);
        if old("log") || old("snapshot") || name.ends_with(".tmp") {
            let keep = name == log_name(revision) || name == snapshot_name(revision);
            if !keep {
                fs::remove_file(directory.join(name))?;
            }
        }
    }
    Ok(())
}
