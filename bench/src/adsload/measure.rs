//! What the proxies saw: counts by type, and when each of them last took something.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

/// Of one type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) responses: u64,
    pub(crate) resources: u64,
    pub(crate) removed: u64,
    pub(crate) bytes: u64,
}

/// Shared by all proxies.
pub(crate) struct Measure {
    start: Instant,
    types: Mutex<BTreeMap<String, Count>>,
    /// Microseconds after `start` at which each proxy last answered; 0 is never.
    answered: Vec<AtomicU64>,
    ready: AtomicUsize,
    broken: Mutex<Broken>,
}

/// Streams that ended, which the proxies opened again.
#[derive(Default)]
struct Broken {
    streams: u64,
    first: Option<String>,
}

impl Measure {
    pub(crate) fn new(proxies: usize) -> Self {
        Self {
            start: Instant::now(),
            types: Mutex::default(),
            answered: (0..proxies).map(|_| AtomicU64::new(0)).collect(),
            ready: AtomicUsize::new(0),
            broken: Mutex::default(),
        }
    }

    pub(crate) fn received(&self, proxy: usize, type_url: &str, count: Count) {
        self.record(proxy, type_url, count, self.start.elapsed());
    }

    fn record(&self, proxy: usize, type_url: &str, count: Count, now: Duration) {
        let word = type_url.rsplit(['.', '/']).next().unwrap_or(type_url);
        let mut types = self.types.lock();
        if !types.contains_key(word) {
            types.insert(word.to_owned(), Count::default());
        }
        if let Some(sum) = types.get_mut(word) {
            sum.responses += count.responses;
            sum.resources += count.resources;
            sum.removed += count.removed;
            sum.bytes += count.bytes;
        }
        drop(types);
        let micros = u64::try_from(now.as_micros()).unwrap_or(u64::MAX);
        self.answered[proxy].store(micros.max(1), Ordering::Relaxed);
    }

    /// A proxy has clusters, endpoints, listeners and routes.
    pub(crate) fn is_ready(&self) {
        self.ready.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn ready(&self) -> usize {
        self.ready.load(Ordering::Relaxed)
    }

    pub(crate) fn broke(&self, why: String) {
        let mut broken = self.broken.lock();
        broken.streams += 1;
        broken.first.get_or_insert(why);
    }

    /// How many streams broke since the start, and what the first said.
    pub(crate) fn broken_json(&self) -> Value {
        let broken = self.broken.lock();
        json!({"streams": broken.streams, "first": broken.first})
    }

    pub(crate) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// When anybody last answered.
    pub(crate) fn last(&self) -> Duration {
        let last = self.answered.iter().map(|a| a.load(Ordering::Relaxed)).max();
        Duration::from_micros(last.unwrap_or(0))
    }

    /// Starts to count anew.
    pub(crate) fn take(&self) -> BTreeMap<String, Count> {
        std::mem::take(&mut self.types.lock())
    }

    /// How many proxies answered after `since`, and how long after: the middle, 99 of 100, the last.
    pub(crate) fn spread(&self, since: Duration) -> Spread {
        let from = u64::try_from(since.as_micros()).unwrap_or(u64::MAX);
        let answered = self.answered.iter().map(|a| a.load(Ordering::Relaxed));
        let mut after: Vec<u64> = answered.filter(|a| *a > from).map(|a| a - from).collect();
        after.sort_unstable();
        let at = |percent: usize| {
            let place = (after.len() * percent / 100).min(after.len().saturating_sub(1));
            Duration::from_micros(after.get(place).copied().unwrap_or(0))
        };
        Spread { proxies: after.len(), p50: at(50), p99: at(99), last: at(100) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spread {
    pub(crate) proxies: usize,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    pub(crate) last: Duration,
}

impl Spread {
    pub(crate) fn json(&self) -> Value {
        let ms = |d: Duration| d.as_secs_f64() * 1e3;
        json!({"proxies": self.proxies, "p50_ms": ms(self.p50), "p99_ms": ms(self.p99), "last_ms": ms(self.last)})
    }
}

pub(crate) fn counts_json(counts: &BTreeMap<String, Count>) -> Value {
    let one = |c: &Count| json!({"responses": c.responses, "resources": c.resources, "removed": c.removed, "bytes": c.bytes});
    counts.iter().map(|(t, c)| (t.clone(), one(c))).collect::<serde_json::Map<_, _>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_counts_only_answers_after_the_change() {
        let measure = Measure::new(4);
        let ms = Duration::from_millis;
        measure.record(0, "x.A", Count { responses: 1, ..Count::default() }, ms(1));
        for proxy in 1..4 {
            let count = Count { responses: 1, bytes: 7, ..Count::default() };
            measure.record(proxy, "x.A", count, ms(10 + 5 * proxy as u64));
        }
        let spread = measure.spread(ms(10));
        assert_eq!((spread.proxies, spread.p50, spread.last), (3, ms(10), ms(15)));
        assert_eq!(measure.take()["A"], Count { responses: 4, bytes: 21, ..Count::default() });
        assert!(measure.take().is_empty());
    }
}
