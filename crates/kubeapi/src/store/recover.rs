//! Opening a store: the newest snapshot, then every log after it, in order and without a gap.
//!
//! The end of the last log may be torn by a crash; that is cut off, because it was never
//! acknowledged. Any other damage is an error that names the file and the byte.

use std::fs;
use std::path::{Path, PathBuf};

use super::disk::{self, Disk, io_error, revision_of};
use super::frame::{self, HEADER};
use super::snapshot;
use super::state::{Applied, State};
use super::{Error, Limits};

/// No store gets this far, and behind it lies room to count on.
const LAST_REVISION: u64 = u64::MAX / 2;

pub(super) struct Recovered {
    pub(super) state: State,
    pub(super) disk: Disk,
}

pub(super) fn recover(directory: &Path, limits: Limits) -> Result<Recovered, Error> {
    let lock = disk::lock(directory)?;
    let (mut logs, snapshots) = names(directory)?;
    let mut state = State::new(limits);
    if let Some(revision) = snapshots.last() {
        load(&directory.join(disk::snapshot_name(*revision)), *revision, &mut state)?;
        logs.retain(|log| log >= revision);
        snapshot::delete_older(directory, *revision)
            .map_err(io_error("clearing old files of", directory))?;
    }
    let (mut last, mut length) = (state.revision(), 0);
    for (index, log) in logs.iter().enumerate() {
        let path = directory.join(disk::log_name(*log));
        if *log != state.revision() {
            let what = format!(
                "the log begins after revision {log}, but revision {} came before it",
                state.revision()
            );
            return Err(Error::Corrupt { path, offset: 0, what });
        }
        length = replay(&path, index + 1 == logs.len(), &mut state)?;
        last = *log;
    }
    let disk = Disk::resume(directory, lock, last, length)?;
    Ok(Recovered { state, disk })
}

/// The revisions of the logs and of the snapshots, ascending.
fn names(directory: &Path) -> Result<(Vec<u64>, Vec<u64>), Error> {
    let (mut logs, mut snapshots) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(directory).map_err(io_error("reading", directory))? {
        let name = entry.map_err(io_error("reading", directory))?.file_name();
        let Some(name) = name.to_str() else { continue };
        let (log, snapshot) = (revision_of(name, "log"), revision_of(name, "snapshot"));
        if log.or(snapshot).is_some_and(|revision| revision > LAST_REVISION) {
            return Err(corrupt(
                &directory.join(name),
                0,
                "no revision is as high as its name says",
            ));
        }
        logs.extend(log);
        snapshots.extend(snapshot);
    }
    logs.sort_unstable();
    snapshots.sort_unstable();
    Ok((logs, snapshots))
}

fn corrupt(path: &Path, offset: usize, what: impl Into<String>) -> Error {
    Error::Corrupt { path: PathBuf::from(path), offset: offset as u64, what: what.into() }
}

fn load(path: &Path, revision: u64, state: &mut State) -> Result<(), Error> {
    let bytes = fs::read(path).map_err(io_error("reading", path))?;
    let (mut offset, mut count) = (0, 0u64);
    loop {
        let Some(payload) = frame::payload(&bytes[offset..]) else {
            return Err(corrupt(path, offset, "a frame of the snapshot is not sound"));
        };
        if payload == snapshot::trailer(count) {
            break;
        }
        for change in frame::decode(payload).map_err(|what| corrupt(path, offset, what))? {
            let Applied::Put(object) = change else {
                return Err(corrupt(path, offset, "a snapshot cannot hold a removal"));
            };
            state.restore(std::sync::Arc::into_inner(object).expect("just decoded, not shared"));
            count += 1;
        }
        offset += HEADER + payload.len();
    }
    state.restored(revision);
    Ok(())
}

/// Replays one log and returns the length of its sound part.
fn replay(path: &Path, newest: bool, state: &mut State) -> Result<u64, Error> {
    let bytes = fs::read(path).map_err(io_error("reading", path))?;
    let mut offset = 0;
    while offset < bytes.len() {
        let Some(payload) = frame::payload(&bytes[offset..]) else {
            if !newest || frame::any(&bytes[offset + 1..]) {
                return Err(corrupt(path, offset, "a frame is not sound, and others follow it"));
            }
            tracing::warn!(
                path = %path.display(), offset,
                "the log ends in a write that was cut off and never acknowledged; dropping it"
            );
            break;
        };
        for change in frame::decode(payload).map_err(|what| corrupt(path, offset, what))? {
            let revision = change.object().revision;
            if revision != state.revision() + 1 {
                let what = format!("revision {revision} follows revision {}", state.revision());
                return Err(corrupt(path, offset, what));
            }
            state.apply(change);
        }
        offset += HEADER + payload.len();
    }
    Ok(offset as u64)
}
