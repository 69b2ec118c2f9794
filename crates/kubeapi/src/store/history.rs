//! The recent changes of one resource, and the cursors with which watchers walk along them.
//!
//! A watcher has no queue of its own: it remembers a revision and reads the shared history from
//! there. So a slow watcher costs nothing and blocks nobody; when the history has moved past it, it
//! gets [`Expired`] and must list again.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::RwLock;
use tokio::sync::watch;

use super::object::Object;
use super::state::State;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    Added,
    Modified,
    Deleted,
}

impl EventKind {
    /// The word in a watch event's `type`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One change.
#[derive(Debug)]
pub struct Event {
    pub kind: EventKind,
    /// The state after the change; for a deletion the last state with the deletion's revision.
    pub object: Arc<Object>,
    /// The state before the change.
    pub previous: Option<Arc<Object>>,
    line: OnceLock<Bytes>,
}

impl Event {
    pub(super) fn new(
        kind: EventKind,
        object: Arc<Object>,
        previous: Option<Arc<Object>>,
    ) -> Arc<Self> {
        Arc::new(Self { kind, object, previous, line: OnceLock::new() })
    }

    /// The line of a watch answer for this event, made once for all watchers.
    pub fn line(&self) -> Bytes {
        self.line.get_or_init(|| watch_line(self.kind.as_str(), &self.object.bytes)).clone()
    }

    pub fn revision(&self) -> u64 {
        self.object.revision
    }
}

/// One line of a watch answer.
pub fn watch_line(kind: &str, object: &[u8]) -> Bytes {
    let mut line = Vec::with_capacity(object.len() + kind.len() + 24);
    line.extend_from_slice(b"{\"type\":\"");
    line.extend_from_slice(kind.as_bytes());
    line.extend_from_slice(b"\",\"object\":");
    line.extend_from_slice(object);
    line.extend_from_slice(b"}\n");
    Bytes::from(line)
}

/// The wanted revision is older than the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too old resource version: {wanted} ({oldest})")]
pub struct Expired {
    pub wanted: u64,
    /// The oldest revision from which one can still follow.
    pub oldest: u64,
}

/// The newest events of one resource in the order of their revisions.
#[derive(Debug, Default)]
pub(super) struct History {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    /// All events after this revision are here.
    floor: u64,
}

impl History {
    pub(super) fn starting_at(floor: u64) -> Self {
        Self { floor, ..Self::default() }
    }

    pub(super) fn push(&mut self, event: Arc<Event>, max_events: usize, max_bytes: usize) {
        self.bytes += event.object.bytes.len();
        self.events.push_back(event);
        while self.events.len() > max_events.max(1)
            || (self.bytes > max_bytes && self.events.len() > 1)
        {
            if let Some(old) = self.events.pop_front() {
                self.bytes -= old.object.bytes.len();
                self.floor = old.revision();
            }
        }
    }

    /// The events after `revision`.
    pub(super) fn after(
        &self,
        revision: u64,
    ) -> Result<impl DoubleEndedIterator<Item = &Arc<Event>>, Expired> {
        if revision < self.floor {
            return Err(Expired { wanted: revision, oldest: self.floor });
        }
        let start = self.events.partition_point(|event| event.revision() <= revision);
        Ok(self.events.range(start..))
    }
}

/// Events read at once: enough to be quick, few enough to be fair.
const BATCH: usize = 128;

/// A place in the history of one resource.
pub struct Cursor {
    state: Arc<RwLock<State>>,
    group: Arc<str>,
    resource: Arc<str>,
    revision: u64,
    changed: watch::Receiver<u64>,
}

impl Cursor {
    pub(super) fn new(
        state: Arc<RwLock<State>>,
        group: &str,
        resource: &str,
        revision: u64,
        changed: watch::Receiver<u64>,
    ) -> Self {
        Self { state, group: group.into(), resource: resource.into(), revision, changed }
    }

    /// Every event up to this revision has been handed out.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// What is there now without waiting; may be nothing.
    pub fn poll(&mut self) -> Result<Vec<Arc<Event>>, Expired> {
        self.changed.mark_unchanged();
        let state = self.state.read();
        let Some(history) = state.history(&self.group, &self.resource) else {
            self.revision = self.revision.max(state.revision());
            return Ok(Vec::new());
        };
        let events: Vec<_> = history.after(self.revision)?.take(BATCH).cloned().collect();
        match events.last() {
            Some(last) if events.len() == BATCH => self.revision = last.revision(),
            // The history is exhausted: everything up to the present has been seen.
            _ => self.revision = self.revision.max(state.revision()),
        }
        Ok(events)
    }

    /// The next events; waits until there is at least one. Safe to cancel.
    pub async fn next(&mut self) -> Result<Vec<Arc<Event>>, Expired> {
        loop {
            let events = self.poll()?;
            if !events.is_empty() {
                return Ok(events);
            }
            if self.changed.changed().await.is_err() {
                // The store is gone; there will be no more events.
                std::future::pending::<()>().await;
            }
        }
    }
}
