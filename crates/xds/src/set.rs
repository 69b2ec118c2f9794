//! All resources of one type that a proxy should have, and the difference of two such sets.
//!
//! Sets are shared: proxies that should have the same hold the same set, and what a proxy was sent is
//! remembered as the set it came from. A set made from an earlier one knows what changed, so that the
//! work for a change follows the size of the change.

use std::cmp::Ordering;
use std::hash::Hasher;
use std::sync::{Arc, OnceLock, Weak};

use crate::{Name, Resource, Version};

/// Resources by name, in order.
#[derive(Default)]
pub struct Set {
    resources: Vec<Resource>,
    /// The set this one was made from, and what differs.
    step: Option<(Weak<Set>, Arc<Changes>)>,
    version: OnceLock<Version>,
}

/// How one set differs from another.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// New or with new content, by name.
    pub put: Vec<Resource>,
    /// No longer there, by name.
    pub gone: Vec<Name>,
}

impl Changes {
    pub fn is_empty(&self) -> bool {
        self.put.is_empty() && self.gone.is_empty()
    }
}

impl Set {
    pub fn get(&self, name: &str) -> Option<&Resource> {
        let place = self.resources.binary_search_by(|own| (**own.name()).cmp(name)).ok()?;
        self.resources.get(place)
    }

    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Resource> {
        self.resources.iter()
    }

    pub fn len(&self) -> usize {
        self.resources.len()
    }

    pub fn is_empty(&self) -> bool {
        self.resources.is_empty()
    }

    /// The version of the whole set.
    pub fn version(&self) -> Version {
        *self.version.get_or_init(|| version_of(self.iter()))
    }

    /// The set that follows `earlier`. It is `earlier` itself if nothing differs.
    pub fn after(earlier: &Arc<Self>, resources: impl IntoIterator<Item = Resource>) -> Arc<Self> {
        let later: Self = resources.into_iter().collect();
        Self::stepped(earlier, later)
    }

    /// `earlier` with some resources put and some taken away.
    pub fn with(
        earlier: &Arc<Self>,
        put: impl IntoIterator<Item = Resource>,
        gone: &[Name],
    ) -> Arc<Self> {
        let put: Self = put.into_iter().collect();
        let kept = earlier.iter().filter(|r| !put.contains(r.name()) && !gone.contains(r.name()));
        let resources = kept.chain(put.iter()).cloned().collect();
        Self::stepped(earlier, resources)
    }

    fn stepped(earlier: &Arc<Self>, mut later: Self) -> Arc<Self> {
        let changes = later.compare(earlier);
        if changes.is_empty() {
            return earlier.clone();
        }
        later.step = Some((Arc::downgrade(earlier), Arc::new(changes)));
        Arc::new(later)
    }

    /// What to do to `earlier` to make it this set.
    pub fn changes_since(&self, earlier: &Arc<Self>) -> Arc<Changes> {
        match &self.step {
            Some((from, changes)) if Weak::as_ptr(from) == Arc::as_ptr(earlier) => changes.clone(),
            _ => Arc::new(self.compare(earlier)),
        }
    }

    fn compare(&self, earlier: &Self) -> Changes {
        let mut changes = Changes::default();
        let (mut old, mut new) = (earlier.iter().peekable(), self.iter().peekable());
        loop {
            let order = match (old.peek(), new.peek()) {
                (None, None) => return changes,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(a), Some(b)) => a.name().cmp(b.name()),
            };
            let before = if order.is_le() { old.next() } else { None };
            let after = if order.is_ge() { new.next() } else { None };
            match (before, after) {
                (Some(a), Some(b)) if a.version() == b.version() => {}
                (_, Some(b)) => changes.put.push(b.clone()),
                (Some(a), None) => changes.gone.push(a.name().clone()),
                (None, None) => return changes,
            }
        }
    }
}

/// The version of some resources together; the order counts.
pub(crate) fn version_of<'a>(resources: impl Iterator<Item = &'a Resource>) -> Version {
    let mut hasher = xxhash_rust::xxh3::Xxh3::new();
    for resource in resources {
        hasher.write(resource.name().as_bytes());
        hasher.write_u8(0xff);
        hasher.write_u64(resource.version().to_bits());
    }
    Version::from_hash(hasher.finish())
}

impl FromIterator<Resource> for Set {
    /// Of two resources with one name the last counts.
    fn from_iter<I: IntoIterator<Item = Resource>>(iter: I) -> Self {
        let mut resources: Vec<Resource> = iter.into_iter().collect();
        resources.sort_by(|a, b| a.name().cmp(b.name()));
        resources.reverse();
        resources.dedup_by(|a, b| a.name() == b.name());
        resources.reverse();
        Self { resources, ..Self::default() }
    }
}

impl std::fmt::Debug for Set {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(&self.resources).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> Vec<Resource> {
        let one = |word: &str| {
            let (name, body) = word.split_once('=').unwrap();
            Resource::new(name, body.to_owned())
        };
        text.split_whitespace().map(one).collect()
    }

    fn shown(changes: &Changes) -> String {
        let put = changes.put.iter().map(|r| format!("+{}", r.name()));
        let gone = changes.gone.iter().map(|n| format!("-{n}"));
        put.chain(gone).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_change_is_what_differs() {
        let old: Arc<Set> = Arc::new(set("a=1 b=1 d=1").into_iter().collect());
        let new = Set::after(&old, set("d=1 b=2 c=1"));
        assert_eq!(shown(&new.changes_since(&old)), "+b +c -a");
        assert_eq!(shown(&old.changes_since(&new)), "+a +b -c");
    }

    #[test]
    fn a_step_is_remembered_and_not_computed_again() {
        let old: Arc<Set> = Arc::new(set("a=1 b=1").into_iter().collect());
        let new = Set::with(&old, set("a=2"), &["b".into()]);
        let changes = new.changes_since(&old);
        assert_eq!(shown(&changes), "+a -b");
        assert!(Arc::ptr_eq(&changes, &new.changes_since(&old)));
    }

    #[test]
    fn nothing_changed_is_the_same_set() {
        let old: Arc<Set> = Arc::new(set("a=1 b=1").into_iter().collect());
        assert!(Arc::ptr_eq(&old, &Set::after(&old, set("b=1 a=1"))));
        assert!(Arc::ptr_eq(&old, &Set::with(&old, set("a=1"), &["x".into()])));
    }

    #[test]
    fn the_last_of_two_with_one_name_counts() {
        let set: Set = set("a=1 b=1 a=2").into_iter().collect();
        assert_eq!(set.len(), 2);
        assert_eq!(set.get("a").unwrap().body(), "2");
    }
}
