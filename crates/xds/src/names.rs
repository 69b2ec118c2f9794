//! Sets of names, and the sharing of equal sets.
//!
//! Thousands of proxies subscribe to the same thousand names; each set is kept once.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

/// The name of a resource. Cheap to clone.
pub type Name = Arc<str>;

/// A sorted set of names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names(Vec<Name>);

impl Names {
    pub fn contains(&self, name: &str) -> bool {
        self.0.binary_search_by(|own| (**own).cmp(name)).is_ok()
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Name> {
        self.0.iter()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// These and `more`, without `less`.
    pub(crate) fn changed(&self, more: &[Name], less: &Self) -> Self {
        let kept = self.0.iter().filter(|name| !less.contains(name));
        kept.chain(more).cloned().collect()
    }
}

impl FromIterator<Name> for Names {
    fn from_iter<I: IntoIterator<Item = Name>>(iter: I) -> Self {
        let mut names: Vec<Name> = iter.into_iter().collect();
        names.sort_unstable();
        names.dedup();
        names.shrink_to_fit();
        Self(names)
    }
}

/// Keeps one copy of each set that is in use.
#[derive(Default)]
pub struct Interner(Mutex<Shelf>);

#[derive(Default)]
struct Shelf {
    sets: FxHashMap<u64, Vec<Weak<Names>>>,
    /// When to look for sets that nobody uses any more.
    sweep_at: usize,
}

impl Interner {
    /// The shared copy of `names`.
    pub fn share(&self, names: Names) -> Arc<Names> {
        // Names come from proxies, so the hash is one that they cannot steer.
        let mut hasher = std::hash::DefaultHasher::new();
        names.0.hash(&mut hasher);
        let mut shelf = self.0.lock();
        if shelf.sets.len() >= shelf.sweep_at {
            shelf.sweep();
        }
        let same_hash = shelf.sets.entry(hasher.finish()).or_default();
        if let Some(found) = same_hash.iter().filter_map(Weak::upgrade).find(|set| **set == names) {
            return found;
        }
        let shared = Arc::new(names);
        same_hash.push(Arc::downgrade(&shared));
        shared
    }

    /// How many different sets are in use.
    pub fn len(&self) -> usize {
        let mut shelf = self.0.lock();
        shelf.sweep();
        shelf.sets.values().map(Vec::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Shelf {
    fn sweep(&mut self) {
        self.sets.retain(|_, sets| {
            sets.retain(|set| set.strong_count() > 0);
            !sets.is_empty()
        });
        self.sweep_at = (self.sets.len() * 2).max(64);
    }
}

#[cfg(test)]
mod tests {
    use super::{Interner, Name, Names};
    use std::sync::Arc;

    fn names(text: &str) -> Names {
        text.split_whitespace().map(Name::from).collect()
    }

    #[test]
    fn equal_sets_are_one() {
        let interner = Interner::default();
        let (a, b) = (interner.share(names("a b")), interner.share(names("b a b")));
        assert!(Arc::ptr_eq(&a, &b));
        assert_eq!(interner.len(), 1);
        drop((a, b));
        assert!(interner.is_empty());
    }

    #[test]
    fn what_nobody_uses_is_dropped_on_the_way() {
        let interner = Interner::default();
        for i in 0..10_000 {
            interner.share(names(&format!("a{i}")));
        }
        assert!(interner.0.lock().sets.len() < 200);
    }

    #[test]
    fn names_come_and_go() {
        let changed = names("a b c").changed(&["d".into(), "b".into()], &names("a c x"));
        assert_eq!(changed, names("b d"));
        assert!(changed.contains("d") && !changed.contains("a"));
    }
}
