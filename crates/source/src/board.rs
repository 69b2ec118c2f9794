//! What is wrong at the moment, by object and by place in files. Cheap to clone; all clones are one
//! board.
//!
//! In: what sources find when they read. Out: everything that is wrong now, and a counter that
//! changes with it. Whatever is put up is logged once.

use std::collections::BTreeMap;
use std::sync::Arc;

use ironsail_api::{Diagnostic, ObjectKey, Severity};
use parking_lot::Mutex;
use tokio::sync::watch;

/// What is wrong with one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Finding {
    /// Of the object that was looked at.
    pub generation: i64,
    pub diagnostics: Vec<Diagnostic>,
}

impl IntoIterator for Finding {
    type Item = Diagnostic;
    type IntoIter = std::vec::IntoIter<Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.diagnostics.into_iter()
    }
}

/// Everything that is wrong at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    pub objects: BTreeMap<ObjectKey, Finding>,
    /// What stands at no object: a file that is no YAML, a second object of the same name. The key
    /// is `file:line`, or whatever leads a person there.
    pub places: BTreeMap<String, String>,
}

#[derive(Clone, Debug)]
pub struct Board {
    findings: Arc<Mutex<Findings>>,
    changes: watch::Sender<u64>,
}

impl Default for Board {
    fn default() -> Self {
        Self { findings: Arc::default(), changes: watch::Sender::new(0) }
    }
}

impl Board {
    pub fn findings(&self) -> Findings {
        self.findings.lock().clone()
    }

    /// A number that changes whenever the findings do.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Replaces what is wrong with one object at this generation of it; no diagnostics take it off
    /// the board.
    pub fn set(&self, key: &ObjectKey, generation: i64, diagnostics: Vec<Diagnostic>) {
        {
            let mut findings = self.findings.lock();
            let known = findings.objects.get(key);
            let same = known.map_or(&[][..], |known| &known.diagnostics) == diagnostics;
            if same && known.is_none_or(|known| known.generation == generation) {
                return;
            }
            for diagnostic in diagnostics.iter().filter(|_| !same) {
                match diagnostic.severity {
                    Severity::Info => tracing::info!(cluster = %key.cluster, "{diagnostic}"),
                    _ => tracing::warn!(cluster = %key.cluster, "{diagnostic}"),
                }
            }
            if diagnostics.is_empty() {
                findings.objects.remove(key);
            } else {
                findings.objects.insert(key.clone(), Finding { generation, diagnostics });
            }
        }
        self.changes.send_modify(|count| *count += 1);
    }

    /// The object is gone, and with it all that was wrong.
    pub fn clear(&self, key: &ObjectKey) {
        self.set(key, 0, Vec::new());
    }

    /// Replaces all that is wrong at places whose name begins with `prefix`.
    pub fn set_places(&self, prefix: &str, places: &BTreeMap<String, String>) {
        {
            let mut findings = self.findings.lock();
            let before: BTreeMap<_, _> = findings
                .places
                .iter()
                .filter(|(place, _)| place.starts_with(prefix))
                .map(|(place, why)| (place.clone(), why.clone()))
                .collect();
            if before == *places {
                return;
            }
            for (place, why) in places.iter().filter(|(place, why)| before.get(*place) != Some(why))
            {
                tracing::warn!("{place}: {why}");
            }
            findings.places.retain(|place, _| !place.starts_with(prefix));
            findings.places.extend(places.clone());
        }
        self.changes.send_modify(|count| *count += 1);
    }
}

#[cfg(test)]
mod tests {
    use ironsail_api::{Code, Kind, Meta};

    use super::*;

    #[test]
    fn the_counter_changes_only_with_the_findings() {
        let board = Board::default();
        let key = ObjectKey {
            cluster: "c".into(),
            kind: Kind::VirtualService,
            namespace: "n".into(),
            name: "v".into(),
        };
        let meta = Meta { name: "v".to_owned(), namespace: "n".to_owned(), ..Meta::default() };
        let wrong =
            Diagnostic::new(Code::SCHEMA, Severity::Error, Kind::VirtualService, &meta, "wrong");
        let changes = board.changes();
        board.clear(&key);
        assert_eq!(*changes.borrow(), 0);
        board.set(&key, 1, vec![wrong.clone()]);
        board.clone().set(&key, 1, vec![wrong.clone()]);
        assert_eq!(*changes.borrow(), 1);
        assert_eq!(board.findings().objects.len(), 1);
        board.set(&key, 2, vec![wrong]);
        assert_eq!(board.findings().objects[&key].generation, 2);
        board.clear(&key);
        assert_eq!((*changes.borrow(), board.findings().objects.len()), (3, 0));
    }

    #[test]
    fn places_are_replaced_by_prefix() {
        let board = Board::default();
        let one = |place: &str| BTreeMap::from([(place.to_owned(), "broken".to_owned())]);
        board.set_places("/a/", &one("/a/x:1"));
        board.set_places("/b/", &one("/b/x:1"));
        board.set_places("/a/", &one("/a/y:2"));
        assert_eq!(board.findings().places.keys().collect::<Vec<_>>(), ["/a/y:2", "/b/x:1"]);
        board.set_places("/a/", &BTreeMap::new());
        assert_eq!(board.findings().places.len(), 1);
    }
}
