//! The visible state: all objects, their recent history, and the revision they stand at.
//!
//! Plain data behind the store's lock. Only the writer thread and recovery change it.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use tokio::sync::watch;

use super::Limits;
use super::history::{Event, EventKind, Expired, History};
use super::object::{Key, Object, path};

/// Objects in the order of their keys, as they were at `revision`.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    pub objects: Vec<Arc<Object>>,
    pub revision: u64,
}

/// What is written or removed, after it is on disk.
#[derive(Clone, Debug)]
pub(super) enum Applied {
    Put(Arc<Object>),
    Remove(Arc<Object>),
}

impl Applied {
    pub(super) fn object(&self) -> &Arc<Object> {
        match self {
            Self::Put(object) | Self::Remove(object) => object,
        }
    }
}

struct Table {
    objects: BTreeMap<Box<str>, Arc<Object>>,
    history: History,
    changes: u64,
    changed: watch::Sender<u64>,
}

impl Table {
    fn new(floor: u64) -> Self {
        Self {
            objects: BTreeMap::new(),
            history: History::starting_at(floor),
            changes: 0,
            changed: watch::Sender::new(0),
        }
    }
}

pub(super) struct State {
    tables: FxHashMap<Arc<str>, FxHashMap<Arc<str>, Table>>,
    revision: u64,
    /// Where the history of every table begins: what a snapshot held has no history.
    floor: u64,
    limits: Limits,
}

impl State {
    pub(super) fn new(limits: Limits) -> Self {
        Self { tables: FxHashMap::default(), revision: 0, floor: 0, limits }
    }

    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    fn table(&self, group: &str, resource: &str) -> Option<&Table> {
        self.tables.get(group)?.get(resource)
    }

    fn table_mut(&mut self, group: &Arc<str>, resource: &Arc<str>) -> &mut Table {
        let floor = self.floor;
        self.tables
            .entry(group.clone())
            .or_default()
            .entry(resource.clone())
            .or_insert_with(|| Table::new(floor))
    }

    pub(super) fn subscribe(&mut self, group: &str, resource: &str) -> watch::Receiver<u64> {
        self.table_mut(&group.into(), &resource.into()).changed.subscribe()
    }

    pub(super) fn get(
        &self,
        group: &str,
        resource: &str,
        namespace: &str,
        name: &str,
    ) -> Option<Arc<Object>> {
        self.table(group, resource)?.objects.get(path(namespace, name).as_str()).cloned()
    }

    pub(super) fn at(&self, key: &Key) -> Option<&Arc<Object>> {
        self.table(&key.group, &key.resource)?.objects.get(key.path().as_str())
    }

    pub(super) fn history(&self, group: &str, resource: &str) -> Option<&History> {
        self.table(group, resource).map(|table| &table.history)
    }

    pub(super) fn changes(&self, group: &str, resource: &str) -> u64 {
        self.table(group, resource).map_or(0, |table| table.changes)
    }

    pub(super) fn list(&self, group: &str, resource: &str, namespace: Option<&str>) -> Listing {
        let objects = match (self.table(group, resource), namespace) {
            (None, _) => Vec::new(),
            (Some(table), None) => table.objects.values().cloned().collect(),
            (Some(table), Some(namespace)) => {
                let (from, to) = namespace_range(namespace);
                table
                    .objects
                    .range::<str, _>((Bound::Included(from.as_str()), Bound::Excluded(to.as_str())))
                    .map(|(_, object)| object.clone())
                    .collect()
            }
        };
        Listing { objects, revision: self.revision }
    }

    /// Undoes the history backwards from now.
    pub(super) fn list_at(
        &self,
        group: &str,
        resource: &str,
        namespace: Option<&str>,
        revision: u64,
    ) -> Result<Listing, Expired> {
        let Some(table) = self.table(group, resource) else {
            return Ok(Listing { objects: Vec::new(), revision });
        };
        let mut events = table.history.after(revision)?.rev().peekable();
        if events.peek().is_none() {
            return Ok(Listing { revision, ..self.list(group, resource, namespace) });
        }
        let mut objects = table.objects.clone();
        for event in events {
            let path = event.object.key.path();
            match &event.previous {
                Some(previous) => objects.insert(path.into(), previous.clone()),
                None => objects.remove(path.as_str()),
            };
        }
        let objects = objects
            .into_values()
            .filter(|object| namespace.is_none_or(|namespace| *object.key.namespace == *namespace))
            .collect();
        Ok(Listing { objects, revision })
    }

    /// Every object, for a snapshot.
    pub(super) fn everything(&self) -> Vec<Arc<Object>> {
        self.tables
            .values()
            .flat_map(|tables| tables.values())
            .flat_map(|table| table.objects.values().cloned())
            .collect()
    }

    /// Takes an object of a snapshot: it has no history.
    pub(super) fn restore(&mut self, object: Object) {
        let table = self.table_mut(&object.key.group, &object.key.resource);
        table.changes = table.changes.max(object.revision);
        table.objects.insert(object.key.path().into(), Arc::new(object));
    }

    /// Ends the taking of a snapshot made at `revision`.
    pub(super) fn restored(&mut self, revision: u64) {
        self.revision = revision;
        self.floor = revision;
        for table in self.tables.values_mut().flat_map(FxHashMap::values_mut) {
            table.history = History::starting_at(revision);
        }
    }

    pub(super) fn apply(&mut self, change: Applied) {
        let limits = self.limits;
        let object = change.object().clone();
        let table = self.table_mut(&object.key.group, &object.key.resource);
        let path = object.key.path();
        let event = match change {
            Applied::Put(object) => {
                let previous = table.objects.insert(path.into(), object.clone());
                let kind = if previous.is_some() { EventKind::Modified } else { EventKind::Added };
                Event::new(kind, object, previous)
            }
            Applied::Remove(object) => {
                let previous = table.objects.remove(path.as_str());
                Event::new(EventKind::Deleted, object, previous)
            }
        };
        table.history.push(event, limits.history_events, limits.history_bytes);
        table.changes = object.revision;
        self.revision = object.revision;
    }

    /// Wakes the watchers of the resources that `changes` touched.
    pub(super) fn notify<'a>(&self, changes: impl Iterator<Item = &'a Applied>) {
        for change in changes {
            let key = &change.object().key;
            if let Some(table) = self.table(&key.group, &key.resource) {
                table.changed.send_replace(change.object().revision);
            }
        }
    }
}

/// All paths of one namespace: from its slash to the character after it.
fn namespace_range(namespace: &str) -> (String, String) {
    (format!("{namespace}/"), format!("{namespace}0"))
}
