//! Maps that share structure: a copy costs nothing, a change costs the logarithm of the size.
//!
//! A snapshot is a copy of every table; the store goes on changing its own.

use std::borrow::Borrow;
use std::fmt;
use std::ops::RangeBounds;

use rpds::RedBlackTreeMapSync;

/// An ordered persistent map.
#[derive(Clone)]
pub struct Map<K: Ord, V>(RedBlackTreeMapSync<K, V>);

impl<K: Ord + Clone, V: Clone> Map<K, V> {
    pub fn new() -> Self {
        Self(RedBlackTreeMapSync::new_sync())
    }

    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.0.get(key)
    }

    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.0.contains_key(key)
    }

    pub fn len(&self) -> usize {
        self.0.size()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.0.iter()
    }

    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.0.keys()
    }

    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.0.values()
    }

    pub fn range<Q: Ord + ?Sized, R: RangeBounds<Q>>(
        &self,
        range: R,
    ) -> impl Iterator<Item = (&K, &V)>
    where
        K: Borrow<Q>,
    {
        self.0.range(range)
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        self.0.insert_mut(key, value);
    }

    pub(crate) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.0.remove_mut(key)
    }

    /// Changes the value under `key`, starting from the default; a value that `done` says is empty
    /// is dropped.
    pub(crate) fn update(
        &mut self,
        key: &K,
        change: impl FnOnce(&mut V),
        empty: impl Fn(&V) -> bool,
    ) where
        V: Default,
    {
        let mut value = self.get(key).cloned().unwrap_or_default();
        change(&mut value);
        if empty(&value) {
            self.remove(key);
        } else {
            self.insert(key.clone(), value);
        }
    }
}

impl<K: Ord + Clone, V: Clone> Default for Map<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Ord + fmt::Debug, V: fmt::Debug> fmt::Debug for Map<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter()).finish()
    }
}

impl<K: Ord, V: PartialEq> PartialEq for Map<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
