//! All objects of the API, kept in memory and on disk.
//!
//! Writes go through one thread that checks the expectation, appends to a log, syncs, and only then
//! shows the new state to readers and watchers: nothing is seen or acknowledged that a crash could
//! take back, and all writers that wait at the same time share one sync. Reads never wait for a
//! disk. The store knows nothing of kinds: an object is JSON with `metadata`.

mod disk;
mod frame;
mod history;
mod object;
mod objects;
mod recover;
mod snapshot;
mod state;
mod writer;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

pub use history::{Cursor, Event, EventKind, Expired, watch_line};
pub use object::{Key, Meta, Object};
pub use state::Listing;
use state::State;

/// What a write expects to find. Anything else is a [`CommitError::Conflict`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// No object under this key.
    Absent,
    /// The object as of this revision.
    Revision(u64),
}

/// What a write does. The store sets `metadata.resourceVersion` itself.
#[derive(Debug)]
pub enum Change {
    Put(Value),
    /// The object's last state, which watchers see in the DELETED event.
    Remove(Value),
}

/// Why a write was not done.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CommitError {
    /// Something else is under the key than was expected; read again and decide again.
    #[error("the object has been changed in the meantime")]
    Conflict,
    #[error("the object cannot be encoded: {0}")]
    Encode(String),
    /// The disk failed. Nothing was changed.
    #[error("cannot keep the object: {0}")]
    Storage(String),
}

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{doing} {path}", path = .path.display())]
    Io { doing: &'static str, path: PathBuf, source: std::io::Error },
    #[error("{path} is in use by another process", path = .0.display())]
    InUse(PathBuf),
    /// Data that was acknowledged is damaged. Starting without it would lose objects silently.
    #[error("{path} is damaged at byte {offset}: {what}", path = .path.display())]
    Corrupt { path: PathBuf, offset: u64, what: String },
}

/// Sizes of a store; the default is right outside tests.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// A snapshot is written when the log is longer than this (and than the last snapshot).
    pub snapshot_after: u64,
    /// Events kept for watchers per resource.
    pub history_events: usize,
    /// Bytes of objects kept for watchers per resource.
    pub history_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { snapshot_after: 16 << 20, history_events: 4096, history_bytes: 8 << 20 }
    }
}

/// Reads objects and follows their changes. Cheap to clone.
#[derive(Clone)]
pub struct Reader {
    state: Arc<RwLock<State>>,
}

impl Reader {
    /// `namespace` is empty for a cluster-scoped object; `group` is empty for the core group.
    pub fn get(
        &self,
        group: &str,
        resource: &str,
        namespace: &str,
        name: &str,
    ) -> Option<Arc<Object>> {
        self.state.read().get(group, resource, namespace, name)
    }

    /// All objects of a resource, or those of one namespace, in the order of their keys, and the
    /// revision at which exactly these existed.
    pub fn list(&self, group: &str, resource: &str, namespace: Option<&str>) -> Listing {
        self.state.read().list(group, resource, namespace)
    }

    /// The listing as it was at `revision`, as far back as the history goes.
    pub fn list_at(
        &self,
        group: &str,
        resource: &str,
        namespace: Option<&str>,
        revision: u64,
    ) -> Result<Listing, Expired> {
        self.state.read().list_at(group, resource, namespace, revision)
    }

    /// Rises whenever an object of this resource changes: what was compiled from the objects is
    /// good as long as this number is the same.
    pub fn changes(&self, group: &str, resource: &str) -> u64 {
        self.state.read().changes(group, resource)
    }

    /// The revision of the newest visible write.
    pub fn revision(&self) -> u64 {
        self.state.read().revision()
    }

    /// Follows a resource: the first event is the first one after `revision`.
    pub fn follow(&self, group: &str, resource: &str, revision: u64) -> Cursor {
        let changed = self.state.write().subscribe(group, resource);
        Cursor::new(self.state.clone(), group, resource, revision, changed)
    }
}

/// Reads and writes objects. Dropping the last one ends the writer thread after what was sent.
pub struct Store {
    reader: Reader,
    sender: Mutex<Option<mpsc::Sender<writer::Request>>>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl Store {
    /// Opens the store in `directory`, which is made if it is not there.
    pub fn open(directory: &Path, limits: Limits) -> Result<Self, Error> {
        let recovered = recover::recover(directory, limits)?;
        let state = Arc::new(RwLock::new(recovered.state));
        let (sender, receiver) = mpsc::channel(1024);
        let writer = writer::Writer::new(state.clone(), recovered.disk, limits);
        let thread = std::thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || writer.run(receiver))
            .map_err(|source| Error::Io {
                doing: "starting the writer of",
                path: directory.to_owned(),
                source,
            })?;
        Ok(Self {
            reader: Reader { state },
            sender: Mutex::new(Some(sender)),
            thread: Mutex::new(Some(thread)),
        })
    }

    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Does one write; when this returns it is on disk and visible.
    pub async fn commit(
        &self,
        key: Key,
        expect: Expect,
        change: Change,
    ) -> Result<Arc<Object>, CommitError> {
        let closed = || CommitError::Storage("the store is closed".to_owned());
        let sender = self.sender.lock().clone().ok_or_else(closed)?;
        let (reply, answer) = oneshot::channel();
        let request = writer::Request { key, expect, change, reply };
        sender.send(request).await.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }

    /// Ends the writer thread when all that was sent to it is done. Blocks for that long.
    pub fn close(&self) {
        drop(self.sender.lock().take());
        if let Some(thread) = self.thread.lock().take()
            && thread.join().is_err()
        {
            tracing::error!("the store's writer thread panicked");
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.close();
    }
}
