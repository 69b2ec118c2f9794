//! What is counted: for tests, for metrics and for whoever asks what a change cost.
//!
//! Atomics that anybody may add to; reading them is a copy. Durations are kept in buckets.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ironsail_api::Kind as ObjectKind;
use parking_lot::Mutex;

use crate::Kind;

/// Upper ends of the buckets of durations, in seconds.
pub const BUCKETS: [f64; 12] =
    [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 3.0, 5.0, 10.0, 20.0, 30.0];

/// Upper ends of the buckets of sizes of responses, in bytes: Istio's.
pub const SIZE_BUCKETS: [f64; 6] = [1.0, 1e4, 1e6, 4e6, 1e7, 4e7];

/// Counted for one type of resource.
#[derive(Debug, Default)]
pub(crate) struct TypeCounters {
    sizes: [AtomicU64; SIZE_BUCKETS.len()],
    generations: AtomicU64,
    hits: AtomicU64,
    pushes: AtomicU64,
    resources: AtomicU64,
    removed: AtomicU64,
    bytes: AtomicU64,
    accepted: AtomicU64,
    rejected: AtomicU64,
}

/// A copy of `TypeCounters`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TypeCounts {
    /// Responses by size; cumulative.
    pub sizes: [u64; SIZE_BUCKETS.len()],
    /// Resources that were translated.
    pub generations: u64,
    /// Resources that were found translated.
    pub hits: u64,
    /// Responses sent.
    pub pushes: u64,
    /// Resources in them.
    pub resources: u64,
    pub removed: u64,
    pub bytes: u64,
    pub accepted: u64,
    pub rejected: u64,
}

/// Durations by bucket.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS.len()],
    count: AtomicU64,
    micros: AtomicU64,
}

/// A copy of `Histogram`; `buckets` are cumulative.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Distribution {
    pub buckets: [u64; BUCKETS.len()],
    pub count: u64,
    pub sum: f64,
}

impl Histogram {
    pub(crate) fn add(&self, duration: Duration) {
        if let Some(i) = BUCKETS.iter().position(|end| duration.as_secs_f64() <= *end) {
            self.buckets[i].fetch_add(1, Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    pub fn read(&self) -> Distribution {
        let mut sum = 0;
        let buckets = self.buckets.each_ref().map(|bucket| {
            sum += bucket.load(Ordering::Relaxed);
            sum
        });
        #[expect(clippy::cast_precision_loss, reason = "a sum of seconds is not exact anyway")]
        let seconds = self.micros.load(Ordering::Relaxed) as f64 / 1e6;
        Distribution { buckets, count: self.count.load(Ordering::Relaxed), sum: seconds }
    }
}

/// Everything that is counted.
#[derive(Debug, Default)]
pub struct Counters {
    types: [TypeCounters; Kind::ALL.len()],
    events: AtomicU64,
    publications: AtomicU64,
    /// Publications that concerned endpoints only.
    endpoint_publications: AtomicU64,
    /// Times that the sets of a class were looked at for a change.
    class_refreshes: AtomicU64,
    streams: AtomicU64,
    refused_streams: AtomicU64,
    limited_streams: AtomicU64,
    /// Objects that came or changed, and that went, by kind.
    objects: Mutex<BTreeMap<(ObjectKind, bool), u64>>,
    /// From the first change to its publication.
    pub debounce: Histogram,
    /// Bringing one class up to date.
    pub refresh: Histogram,
    /// From the first change until a proxy has taken everything.
    pub convergence: Histogram,
    /// Building a snapshot.
    pub snapshot: Histogram,
}

/// A copy of the plain counts of `Counters`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    types: [TypeCounts; Kind::ALL.len()],
    pub events: u64,
    pub publications: u64,
    pub endpoint_publications: u64,
    pub class_refreshes: u64,
    pub streams: u64,
    pub refused_streams: u64,
    pub limited_streams: u64,
}

impl Counts {
    pub fn of(&self, kind: Kind) -> TypeCounts {
        self.types[kind as usize]
    }

    /// Resources of all types that were translated.
    pub fn generations(&self) -> u64 {
        self.types.iter().map(|t| t.generations).sum()
    }

    /// Responses of all types.
    pub fn pushes(&self) -> u64 {
        self.types.iter().map(|t| t.pushes).sum()
    }
}

fn add(to: &AtomicU64, n: usize) {
    to.fetch_add(n as u64, Ordering::Relaxed);
}

impl Counters {
    fn of(&self, kind: Kind) -> &TypeCounters {
        &self.types[kind as usize]
    }

    pub(crate) fn generated(&self, kind: Kind) {
        add(&self.of(kind).generations, 1);
    }

    pub(crate) fn hit(&self, kind: Kind) {
        add(&self.of(kind).hits, 1);
    }

    pub(crate) fn sent(&self, kind: Kind, resources: usize, removed: usize, bytes: usize) {
        let of = self.of(kind);
        add(&of.pushes, 1);
        #[expect(clippy::cast_precision_loss, reason = "buckets are round numbers")]
        let size = bytes as f64;
        if let Some(i) = SIZE_BUCKETS.iter().position(|end| size <= *end) {
            add(&of.sizes[i], 1);
        }
        add(&of.resources, resources);
        add(&of.removed, removed);
        add(&of.bytes, bytes);
    }

    pub(crate) fn answered(&self, kind: Kind, accepted: bool) {
        let of = self.of(kind);
        add(if accepted { &of.accepted } else { &of.rejected }, 1);
    }

    pub(crate) fn events(&self, n: usize) {
        add(&self.events, n);
    }

    pub(crate) fn object(&self, kind: ObjectKind, gone: bool) {
        *self.objects.lock().entry((kind, gone)).or_default() += 1;
    }

    /// How often objects of each kind came or changed (false) or went (true).
    pub fn objects(&self) -> BTreeMap<(ObjectKind, bool), u64> {
        self.objects.lock().clone()
    }

    pub(crate) fn published(&self, endpoints_only: bool) {
        add(&self.publications, 1);
        add(&self.endpoint_publications, usize::from(endpoints_only));
    }

    pub(crate) fn refreshed(&self, took: Duration) {
        add(&self.class_refreshes, 1);
        self.refresh.add(took);
    }

    pub(crate) fn opened(&self) {
        add(&self.streams, 1);
    }

    pub(crate) fn refused(&self) {
        add(&self.refused_streams, 1);
    }

    pub(crate) fn limited(&self) {
        add(&self.limited_streams, 1);
    }

    pub fn read(&self) -> Counts {
        let get = |from: &AtomicU64| from.load(Ordering::Relaxed);
        Counts {
            types: self.types.each_ref().map(|t| TypeCounts {
                sizes: {
                    let mut sum = 0;
                    t.sizes.each_ref().map(|size| {
                        sum += get(size);
                        sum
                    })
                },
                generations: get(&t.generations),
                hits: get(&t.hits),
                pushes: get(&t.pushes),
                resources: get(&t.resources),
                removed: get(&t.removed),
                bytes: get(&t.bytes),
                accepted: get(&t.accepted),
                rejected: get(&t.rejected),
            }),
            events: get(&self.events),
            publications: get(&self.publications),
            endpoint_publications: get(&self.endpoint_publications),
            class_refreshes: get(&self.class_refreshes),
            streams: get(&self.streams),
            refused_streams: get(&self.refused_streams),
            limited_streams: get(&self.limited_streams),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_fall_into_cumulative_buckets() {
        let histogram = Histogram::default();
        for ms in [1, 4, 200, 60_000] {
            histogram.add(Duration::from_millis(ms));
        }
        let read = histogram.read();
        assert_eq!(read.buckets[..6], [1, 2, 2, 2, 2, 3]);
        assert_eq!((read.buckets[11], read.count), (3, 4));
        assert!((read.sum - 60.205).abs() < 1e-6);
    }
}
