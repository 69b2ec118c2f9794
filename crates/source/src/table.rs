//! What a source has told so far of one collection: in come objects as they are found, out come the
//! events that make a difference.
//!
//! An object whose digest is as before makes no event, so the status writes of others cost nothing
//! further on. Objects of namespaces that are not selected are kept and not told; the objects are
//! shared with the store, so keeping them costs little. No IO.

use std::collections::BTreeMap;
use std::sync::Arc;

use ironsail_api::{ClusterId, Event, Kind, Object, ObjectKey};

use crate::selection::Selected;

pub(crate) type Name = (Arc<str>, Arc<str>);

pub(crate) struct Table {
    cluster: ClusterId,
    kind: Kind,
    selected: Selected,
    held: BTreeMap<Name, Held>,
    /// Those that cannot be read at the moment, with the list that they were last seen in.
    bad: BTreeMap<Name, u64>,
    /// Counts lists: what was not seen in the last one is gone.
    round: u64,
}

struct Held {
    object: Object,
    told: bool,
    round: u64,
}

impl Table {
    pub(crate) fn new(cluster: ClusterId, kind: Kind, selected: Selected) -> Self {
        Self { cluster, kind, selected, held: BTreeMap::new(), bad: BTreeMap::new(), round: 0 }
    }

    pub(crate) fn key(&self, namespace: &str, name: &str) -> ObjectKey {
        ObjectKey {
            cluster: self.cluster.clone(),
            kind: self.kind,
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// A list begins: whatever is not applied or touched until [`Table::listed`] is gone.
    pub(crate) fn begin(&mut self) {
        self.round += 1;
    }

    /// The list is complete. The objects that have vanished, good and bad, and the events of it.
    pub(crate) fn listed(&mut self) -> (Vec<ObjectKey>, Vec<Event>) {
        let round = self.round;
        self.remove(|seen| seen != round)
    }

    /// Everything is gone.
    pub(crate) fn clear(&mut self) -> (Vec<ObjectKey>, Vec<Event>) {
        self.remove(|_| true)
    }

    /// Removes what was last seen in a list that `gone` says of.
    fn remove(&mut self, gone: impl Fn(u64) -> bool) -> (Vec<ObjectKey>, Vec<Event>) {
        let removed: Vec<_> = self.held.extract_if(.., |_, held| gone(held.round)).collect();
        let bad: Vec<_> = self.bad.extract_if(.., |_, round| gone(*round)).collect();
        let key = |(namespace, name): &Name| self.key(namespace, name);
        let told = removed.iter().filter(|(_, held)| held.told);
        let events = told.map(|(name, _)| Event::Delete(key(name))).collect();
        let names = removed.iter().map(|(name, _)| name).chain(bad.iter().map(|(name, _)| name));
        (names.map(key).collect(), events)
    }

    /// The objects that are there and can be read, told or not.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &Object> {
        self.held.values().map(|held| &held.object)
    }

    pub(crate) fn apply(&mut self, object: Object) -> Option<Event> {
        let meta = object.meta();
        let name: Name = (meta.namespace.as_str().into(), meta.name.as_str().into());
        self.bad.remove(&name);
        let selected = self.selected.contains(&name.0);
        if let Some(held) = self.held.get_mut(&name) {
            held.round = self.round;
            let same = is_same(&held.object, &object);
            if same && held.told == selected {
                return None;
            }
            if !same {
                held.object = object;
            }
            let told = std::mem::replace(&mut held.told, selected);
            let object = held.object.clone();
            return match (told, selected) {
                (_, true) => Some(Event::Apply { cluster: self.cluster.clone(), object }),
                (true, false) => Some(Event::Delete(self.key(&name.0, &name.1))),
                (false, false) => None,
            };
        }
        let held = Held { object: object.clone(), told: selected, round: self.round };
        self.held.insert(name, held);
        selected.then(|| Event::Apply { cluster: self.cluster.clone(), object })
    }

    /// The object is there, but cannot be read: its last good state stays.
    pub(crate) fn touch(&mut self, namespace: &str, name: &str) {
        let name: Name = (namespace.into(), name.into());
        if let Some(held) = self.held.get_mut(&name) {
            held.round = self.round;
        }
        self.bad.insert(name, self.round);
    }

    pub(crate) fn delete(&mut self, namespace: &str, name: &str) -> Option<Event> {
        let full: Name = (namespace.into(), name.into());
        self.bad.remove(&full);
        let held = self.held.remove(&full)?;
        held.told.then(|| Event::Delete(self.key(namespace, name)))
    }

    /// Other namespaces are selected now.
    pub(crate) fn select(&mut self, selected: Selected) -> Vec<Event> {
        if self.selected == selected {
            return Vec::new();
        }
        let mut events = Vec::new();
        for ((namespace, name), held) in &mut self.held {
            let now = selected.contains(namespace);
            match (std::mem::replace(&mut held.told, now), now) {
                (false, true) => {
                    let (cluster, object) = (self.cluster.clone(), held.object.clone());
                    events.push(Event::Apply { cluster, object });
                }
                (true, false) => events.push(Event::Delete(ObjectKey {
                    cluster: self.cluster.clone(),
                    kind: self.kind,
                    namespace: namespace.clone(),
                    name: name.clone(),
                })),
                _ => {}
            }
        }
        self.selected = selected;
        events
    }
}

/// Whether a change is of no interest to anybody. An object made anew is one that changed.
fn is_same(old: &Object, new: &Object) -> bool {
    let (before, after) = (old.meta(), new.meta());
    old.digest() == new.digest()
        && before.uid == after.uid
        && before.deleted == after.deleted
        && before.generation == after.generation
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ironsail_api::decode;
    use serde_json::json;

    use super::*;

    fn service(namespace: &str, name: &str, version: u32, port: u32) -> Object {
        let value = json!({
            "metadata": {"name": name, "namespace": namespace, "resourceVersion": version.to_string()},
            "spec": {"ports": [{"port": port}]},
        });
        decode(Kind::Service, &value).object.unwrap()
    }

    fn table(selected: Selected) -> Table {
        Table::new("c".into(), Kind::Service, selected)
    }

    fn only(names: &[&str]) -> Selected {
        Selected::Only(Arc::new(names.iter().map(|n| (*n).to_owned()).collect::<BTreeSet<_>>()))
    }

    fn words(events: &[Event]) -> Vec<String> {
        let word = |event: &Event| match event {
            Event::Apply { object, .. } => format!("apply {}", object.meta().name),
            Event::Delete(key) => format!("delete {}", key.name),
            Event::Synced { .. } => "synced".to_owned(),
        };
        events.iter().map(word).collect()
    }

    #[test]
    fn a_change_that_changes_nothing_is_not_told() {
        let mut table = table(Selected::All);
        assert!(table.apply(service("a", "s", 1, 80)).is_some());
        assert!(table.apply(service("a", "s", 2, 80)).is_none());
        assert!(table.apply(service("a", "s", 3, 81)).is_some());
        assert!(table.delete("a", "s").is_some());
        assert!(table.delete("a", "s").is_none());
        assert!(table.apply(service("a", "s", 4, 81)).is_some());
    }

    #[test]
    fn a_list_tells_what_vanished_and_keeps_what_turned_bad() {
        let mut table = table(Selected::All);
        for name in ["stays", "turns-bad", "vanishes"] {
            table.apply(service("a", name, 1, 80));
        }
        table.begin();
        assert!(table.apply(service("a", "stays", 1, 80)).is_none());
        table.touch("a", "turns-bad");
        let (gone, events) = table.listed();
        assert_eq!(gone.len(), 1);
        assert_eq!(words(&events), ["delete vanishes"]);
        // One that was never good is only a name to be taken off the board.
        table.touch("a", "never-good");
        table.begin();
        table.apply(service("a", "stays", 1, 80));
        table.touch("a", "turns-bad");
        let (gone, events) = table.listed();
        assert_eq!((gone.len(), &*gone[0].name, events.len()), (1, "never-good", 0));
        assert_eq!(words(&table.clear().1), ["delete stays", "delete turns-bad"]);
    }

    #[test]
    fn objects_come_and_go_with_the_selection_of_their_namespace() {
        let mut table = table(only(&["a"]));
        assert!(table.apply(service("a", "one", 1, 80)).is_some());
        assert!(table.apply(service("b", "two", 1, 80)).is_none());
        assert!(table.apply(service("b", "two", 2, 81)).is_none());
        assert!(table.delete("b", "none").is_none());
        let events = table.select(only(&["b"]));
        assert_eq!(words(&events), ["delete one", "apply two"]);
        assert!(table.select(only(&["b"])).is_empty());
        assert!(table.delete("a", "one").is_none());
        assert_eq!(words(&table.select(Selected::All)), Vec::<String>::new());
    }
}
