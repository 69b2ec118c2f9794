//! A work queue of keys: in come keys (now, later, or after a failure), out comes one at a time.
//!
//! A key waits at most once, is never handed out twice at the same time, and comes back once more
//! if it was added while somebody worked on it. A key that comes again and again is handed out at
//! most once per interval, so that a burst of changes makes few writes; a single change never
//! waits. It holds no timer of its own: whoever waits in [`Queue::next`] sleeps until the earliest
//! delayed key is due.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::key::Key;

/// The interval for objects whose status follows many others.
pub(crate) const BURST: Duration = Duration::from_millis(20);

const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// How many start times are kept before old ones are thrown away.
const REMEMBERED: usize = 256;
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(crate) struct Queue {
    inner: Mutex<Inner>,
    wake: Notify,
}

#[derive(Default)]
struct Inner {
    interval: Duration,
    /// When keys were last handed out; only those of the last interval matter.
    started: FxHashMap<Key, Instant>,
    ready: VecDeque<Key>,
    waiting: FxHashSet<Key>,
    working: FxHashSet<Key>,
    delayed: BTreeSet<(Instant, Key)>,
    due: FxHashMap<Key, Instant>,
    failures: FxHashMap<Key, u32>,
}

impl Inner {
    fn add(&mut self, key: Key) {
        // While somebody works on it, it only waits in the set; `done` moves it on.
        if self.waiting.insert(key.clone()) && !self.working.contains(&key) {
            self.offer(key);
        }
    }

    /// Makes a waiting key ready, now or when its interval is over.
    fn offer(&mut self, key: Key) {
        let at = self.started.get(&key).map(|start| *start + self.interval);
        match at.filter(|at| *at > Instant::now()) {
            Some(at) => {
                self.waiting.remove(&key);
                self.delay(key, at);
            }
            None => self.ready.push_back(key),
        }
    }

    fn note_start(&mut self, key: &Key) {
        if self.interval.is_zero() {
            return;
        }
        let now = Instant::now();
        if self.started.len() >= REMEMBERED {
            let interval = self.interval;
            self.started.retain(|_, start| *start + interval > now);
        }
        self.started.insert(key.clone(), now);
    }

    fn delay(&mut self, key: Key, at: Instant) {
        match self.due.get(&key) {
            Some(earlier) if *earlier <= at => return,
            Some(later) => {
                self.delayed.remove(&(*later, key.clone()));
            }
            None => {}
        }
        self.due.insert(key.clone(), at);
        self.delayed.insert((at, key));
    }

    fn release_due(&mut self, now: Instant) {
        while self.delayed.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, key)) = self.delayed.pop_first() {
                self.due.remove(&key);
                self.add(key);
            }
        }
    }
}

impl Queue {
    /// A queue that hands out each key at most once per `interval`.
    pub(crate) fn every(interval: Duration) -> Self {
        let inner = Inner { interval, ..Inner::default() };
        Self { inner: Mutex::new(inner), wake: Notify::new() }
    }

    pub(crate) fn add(&self, key: Key) {
        self.inner.lock().add(key);
        self.wake.notify_one();
    }

    /// Adds the key once `wait` has passed; an earlier date already set stays.
    pub(crate) fn add_after(&self, key: Key, wait: Duration) {
        self.inner.lock().delay(key, Instant::now() + wait);
        self.wake.notify_one();
    }

    /// Takes the next key; the caller must give it back with [`Queue::done`] or [`Queue::failed`].
    pub(crate) async fn next(&self) -> Key {
        loop {
            let due = {
                let mut inner = self.inner.lock();
                inner.release_due(Instant::now());
                if let Some(key) = inner.ready.pop_front() {
                    inner.waiting.remove(&key);
                    inner.working.insert(key.clone());
                    inner.note_start(&key);
                    return key;
                }
                inner.delayed.first().map(|(at, _)| *at)
            };
            match due {
                None => self.wake.notified().await,
                Some(at) => {
                    tokio::select! {
                        () = self.wake.notified() => {}
                        () = tokio::time::sleep_until(at) => {}
                    }
                }
            }
        }
    }

    /// The work on `key` ended well.
    pub(crate) fn done(&self, key: &Key) {
        let mut inner = self.inner.lock();
        inner.failures.remove(key);
        self.give_back(&mut inner, key);
    }

    /// The work on `key` failed: it comes again after a pause that doubles with every failure.
    pub(crate) fn failed(&self, key: &Key) -> Duration {
        let mut inner = self.inner.lock();
        let failures = inner.failures.entry(key.clone()).or_insert(0);
        let pause = FIRST_PAUSE.saturating_mul(1 << (*failures).min(14)).min(LONGEST_PAUSE);
        *failures += 1;
        inner.delay(key.clone(), Instant::now() + pause);
        self.give_back(&mut inner, key);
        self.wake.notify_one();
        pause
    }

    fn give_back(&self, inner: &mut Inner, key: &Key) {
        inner.working.remove(key);
        if inner.waiting.contains(key) {
            inner.offer(key.clone());
            self.wake.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::new("", name)
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_added_twice_comes_once() {
        let queue = Queue::default();
        queue.add(key("a"));
        queue.add(key("a"));
        queue.add(key("b"));
        assert_eq!(queue.next().await, key("a"));
        assert_eq!(queue.next().await, key("b"));
        let none = tokio::time::timeout(Duration::from_secs(1), queue.next()).await;
        assert!(none.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_added_during_its_work_comes_again_after_it() {
        let queue = Queue::default();
        queue.add(key("a"));
        assert_eq!(queue.next().await, key("a"));
        queue.add(key("a"));
        let none = tokio::time::timeout(Duration::from_secs(1), queue.next()).await;
        assert!(none.is_err(), "handed out twice at the same time");
        queue.done(&key("a"));
        assert_eq!(queue.next().await, key("a"));
    }

    #[tokio::test(start_paused = true)]
    async fn failures_wait_longer_each_time_and_success_forgets_them() {
        let queue = Queue::default();
        queue.add(key("a"));
        let mut pauses = Vec::new();
        for _ in 0..3 {
            let key = queue.next().await;
            pauses.push(queue.failed(&key).as_millis());
        }
        assert_eq!(pauses, [5, 10, 20]);
        let again = queue.next().await;
        queue.done(&again);
        queue.add(key("a"));
        let again = queue.next().await;
        assert_eq!(queue.failed(&again).as_millis(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_handed_out_once_per_interval_and_its_last_change_is_not_lost() {
        let queue = Queue::every(Duration::from_millis(50));
        let begin = Instant::now();
        queue.add(key("a"));
        let first = queue.next().await;
        assert_eq!(begin.elapsed().as_millis(), 0, "a single change does not wait");
        queue.add(key("a"));
        queue.done(&first);
        queue.add(key("a"));
        let second = queue.next().await;
        assert_eq!(begin.elapsed().as_millis(), 50);
        queue.done(&second);
        let none = tokio::time::timeout(Duration::from_secs(1), queue.next()).await;
        assert!(none.is_err());
        queue.add(key("a"));
        let late = Instant::now();
        queue.next().await;
        assert_eq!(late.elapsed().as_millis(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_earliest_date_wins() {
        let queue = Queue::default();
        let start = Instant::now();
        queue.add_after(key("a"), Duration::from_secs(60));
        queue.add_after(key("a"), Duration::from_secs(5));
        queue.add_after(key("a"), Duration::from_secs(30));
        assert_eq!(queue.next().await, key("a"));
        assert_eq!(start.elapsed().as_secs(), 5);
    }
}
