//! What the store's task hands out: a snapshot, and how it came about.
//!
//! A publication knows the last changes before it, so that whoever missed some can catch up without
//! looking at everything.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};

use ironsail_model::{ChangeSet, ProxyClass, Scope, ScopeKey, Snapshot, Visible};
use parking_lot::Mutex;
use tokio::time::Instant;

/// Changes that a publication remembers.
const REMEMBERED: usize = 64;

/// Worked out by whoever comes first; the others wait for it.
type Place = Arc<OnceLock<Arc<Visible>>>;

/// A snapshot, numbered.
pub struct Publication {
    pub revision: u64,
    pub snapshot: Arc<Snapshot>,
    /// When the first change in it came.
    pub changed_at: Instant,
    /// The changes that led here, the last one last.
    log: VecDeque<(u64, Arc<ChangeSet>)>,
    /// What proxies may see, worked out once for all that may see the same.
    visible: Arc<Mutex<HashMap<ScopeKey, Place>>>,
}

impl Publication {
    pub(crate) fn after(
        earlier: Option<&Self>,
        snapshot: Arc<Snapshot>,
        changes: ChangeSet,
        changed_at: Instant,
    ) -> Self {
        let revision = earlier.map_or(0, |e| e.revision) + 1;
        let mut log = earlier.map(|e| e.log.clone()).unwrap_or_default();
        if log.len() == REMEMBERED {
            log.pop_front();
        }
        // What is visible does not depend on endpoints.
        let visible = earlier.filter(|_| changes.is_endpoints_only()).map(|e| e.visible.clone());
        log.push_back((revision, Arc::new(changes)));
        Self { revision, snapshot, changed_at, log, visible: visible.unwrap_or_default() }
    }

    /// What proxies of a class may see.
    pub(crate) fn scope(&self, class: &ProxyClass) -> Scope {
        let key = Scope::key(&self.snapshot, class);
        let place = self.visible.lock().entry(key.clone()).or_default().clone();
        let visible = place.get_or_init(|| Arc::new(Visible::of(&self.snapshot, &key)));
        Scope::with(&self.snapshot, class, visible.clone())
    }

    /// What changed after `revision`; None if that is too long ago to say.
    pub(crate) fn changes_since(&self, revision: u64) -> Option<ChangeSet> {
        if self.log.front().is_none_or(|(first, _)| *first > revision + 1) {
            return None;
        }
        let mut all = ChangeSet::default();
        for (_, changes) in self.log.iter().filter(|(r, _)| *r > revision) {
            all.merge((**changes).clone());
        }
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use ironsail_model::{Settings, Store};

    use super::*;

    #[test]
    fn changes_add_up_as_far_as_they_are_remembered() {
        let now = Instant::now();
        let snapshot = Store::new(Settings::default()).take().unwrap().snapshot;
        let mut last: Option<Publication> = None;
        for i in 0..REMEMBERED + 3 {
            let changes = ChangeSet { full: i == 10, ..ChangeSet::default() };
            last = Some(Publication::after(last.as_ref(), snapshot.clone(), changes, now));
        }
        let last = last.unwrap();
        assert_eq!(last.revision, 67);
        assert!(last.changes_since(2).is_none());
        assert!(last.changes_since(3).unwrap().full);
        assert!(!last.changes_since(11).unwrap().full);
        assert!(last.changes_since(67).unwrap().is_empty());
    }
}
