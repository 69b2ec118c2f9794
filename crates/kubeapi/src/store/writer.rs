//! The one thread that changes the store: takes all waiting writes, decides each against the state
//! the earlier ones will leave, makes the batch durable with one sync, then shows and answers it.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::RwLock;
use tokio::sync::{mpsc, oneshot};

use super::disk::Disk;
use super::frame::{self, HEADER};
use super::object::{Key, Object};
use super::snapshot;
use super::state::{Applied, State};
use super::{Change, CommitError, Expect, Limits};

type Reply = oneshot::Sender<Result<Arc<Object>, CommitError>>;

pub(super) struct Request {
    pub(super) key: Key,
    pub(super) expect: Expect,
    pub(super) change: Change,
    pub(super) reply: Reply,
}

/// A batch is closed when it is longer than this, however many writers wait.
const BATCH_BYTES: usize = 8 << 20;

pub(super) struct Writer {
    state: Arc<RwLock<State>>,
    disk: Disk,
    limits: Limits,
    snapshot: Option<JoinHandle<Option<u64>>>,
    last_snapshot: u64,
}

impl Writer {
    pub(super) fn new(state: Arc<RwLock<State>>, disk: Disk, limits: Limits) -> Self {
        Self { state, disk, limits, snapshot: None, last_snapshot: 0 }
    }

    pub(super) fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        while let Some(first) = requests.blocking_recv() {
            let mut batch = Batch::new(self.state.clone());
            batch.add(first);
            while batch.bytes.len() < BATCH_BYTES
                && let Ok(next) = requests.try_recv()
            {
                batch.add(next);
            }
            self.commit(batch);
            self.consider_snapshot();
        }
        if let Some(snapshot) = self.snapshot.take() {
            drop(snapshot.join());
        }
    }

    fn commit(&mut self, mut batch: Batch) {
        let refused = std::mem::take(&mut batch.refused);
        if !batch.changes.is_empty() {
            self.keep(batch);
        }
        for (error, reply) in refused {
            drop(reply.send(Err(error)));
        }
    }

    fn keep(&mut self, mut batch: Batch) {
        frame::seal(&mut batch.bytes, 0);
        if let Err(why) = self.disk.append(&batch.bytes) {
            tracing::error!(why, "the store cannot write");
            for (_, reply) in batch.changes {
                drop(reply.send(Err(CommitError::Storage(why.clone()))));
            }
            return;
        }
        let mut state = self.state.write();
        for (change, _) in &batch.changes {
            state.apply(change.clone());
        }
        state.notify(batch.changes.iter().map(|(change, _)| change));
        drop(state);
        for (change, reply) in batch.changes {
            drop(reply.send(Ok(change.object().clone())));
        }
    }

    /// Begins a new log and writes a snapshot beside it when the log has grown long.
    fn consider_snapshot(&mut self) {
        if let Some(running) = self.snapshot.take_if(|running| running.is_finished())
            && let Ok(Some(length)) = running.join()
        {
            self.last_snapshot = length;
        }
        let enough = self.limits.snapshot_after.max(self.last_snapshot);
        if self.snapshot.is_some() || self.disk.length < enough {
            return;
        }
        let (objects, revision) = {
            let state = self.state.read();
            (state.everything(), state.revision())
        };
        if let Err(error) = self.disk.rotate(revision) {
            // The old log is still good; the next batch tries again.
            tracing::error!(%error, "the store cannot begin a new log");
            return;
        }
        let directory = self.disk.directory.clone();
        let spawned =
            std::thread::Builder::new().name("store-snapshot".to_owned()).spawn(move || {
                match snapshot::write(&directory, revision, &objects) {
                    Ok(length) => Some(length),
                    Err(error) => {
                        // Both logs remain and together hold everything.
                        tracing::error!(%error, revision, "the store cannot write a snapshot");
                        None
                    }
                }
            });
        self.snapshot = spawned.ok();
    }
}

/// Writes that will share one sync.
struct Batch {
    visible: Arc<RwLock<State>>,
    revision: u64,
    /// What earlier writes of this batch leave under their keys.
    pending: HashMap<Key, Option<u64>>,
    changes: Vec<(Applied, Reply)>,
    /// Answered when the batch is visible, so that who lost sees what it lost to.
    refused: Vec<(CommitError, Reply)>,
    /// Room for the header, then the payload.
    bytes: Vec<u8>,
}

impl Batch {
    fn new(visible: Arc<RwLock<State>>) -> Self {
        let revision = visible.read().revision();
        Self {
            visible,
            revision,
            pending: HashMap::new(),
            changes: Vec::new(),
            refused: Vec::new(),
            bytes: vec![0; HEADER],
        }
    }

    fn add(&mut self, request: Request) {
        let Request { key, expect, change, reply } = request;
        match self.decide(key, expect, change) {
            Ok(change) => self.changes.push((change, reply)),
            Err(error) => self.refused.push((error, reply)),
        }
    }

    fn decide(&mut self, key: Key, expect: Expect, change: Change) -> Result<Applied, CommitError> {
        let found = match self.pending.get(&key) {
            Some(found) => *found,
            None => self.visible.read().at(&key).map(|object| object.revision),
        };
        let expected = match expect {
            Expect::Absent => None,
            Expect::Revision(revision) => Some(revision),
        };
        if found != expected {
            return Err(CommitError::Conflict);
        }
        let revision = self.revision + 1;
        let encode = |mut value| {
            Object::encode(key.clone(), revision, &mut value)
                .map(Arc::new)
                .map_err(|error| CommitError::Encode(error.to_string()))
        };
        let change = match change {
            Change::Put(value) => Applied::Put(encode(value)?),
            Change::Remove(value) => Applied::Remove(encode(value)?),
        };
        let left = matches!(change, Applied::Put(_)).then_some(revision);
        self.pending.insert(key, left);
        self.revision = revision;
        frame::encode(&mut self.bytes, &change);
        Ok(change)
    }
}
