//! Names of things to look at again: each at most once, those that failed later and ever later.

use std::collections::BTreeMap;

use ironsail_source::Backoff;
use tokio::time::Instant;

struct Waiting {
    due: Option<Instant>,
    backoff: Backoff,
}

/// Owned by one task; not shared.
pub(crate) struct Queue<K> {
    items: BTreeMap<K, Waiting>,
}

impl<K: Ord + Clone> Queue<K> {
    pub(crate) fn new() -> Self {
        Self { items: BTreeMap::new() }
    }

    /// Something about `key` changed: it is looked at now, whatever failed before.
    pub(crate) fn push(&mut self, key: K) {
        let backoff = Backoff::default();
        let item = self.items.entry(key).or_insert(Waiting { due: None, backoff });
        item.due = Some(Instant::now());
    }

    /// Looking at `key` failed: it is looked at again later.
    pub(crate) fn retry(&mut self, key: &K) {
        if let Some(item) = self.items.get_mut(key) {
            item.due = Some(Instant::now() + item.backoff.pause());
        }
    }

    /// Looking at `key` went well.
    pub(crate) fn done(&mut self, key: &K) {
        if self.items.get(key).is_some_and(|item| item.due.is_none()) {
            self.items.remove(key);
        }
    }

    /// The next key whose time has come. It stays known until `done` or `retry`.
    pub(crate) fn take(&mut self) -> Option<K> {
        let now = Instant::now();
        let (key, item) =
            self.items.iter_mut().find(|(_, item)| item.due.is_some_and(|due| due <= now))?;
        item.due = None;
        Some(key.clone())
    }

    /// When something comes due, if anything ever does.
    pub(crate) async fn due(&self) {
        match self.items.values().filter_map(|item| item.due).min() {
            Some(due) => tokio::time::sleep_until(due).await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_failed_comes_back_later_and_what_changed_at_once() {
        let mut queue = Queue::new();
        queue.push("a");
        queue.push("a");
        queue.push("b");
        assert_eq!((queue.take(), queue.take(), queue.take()), (Some("a"), Some("b"), None));
        queue.done(&"b");
        queue.retry(&"a");
        assert_eq!(queue.take(), None);
        queue.due().await;
        assert_eq!(queue.take(), Some("a"));
        queue.retry(&"a");
        queue.push("a");
        assert_eq!(queue.take(), Some("a"));
        queue.done(&"a");
        assert!(queue.items.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_during_the_look_is_not_lost() {
        let mut queue = Queue::new();
        queue.push("a");
        assert_eq!(queue.take(), Some("a"));
        queue.push("a");
        queue.done(&"a");
        assert_eq!(queue.take(), Some("a"));
    }
}
