//! The metrics that Envoy keeps for us: defined once by name and labels, counted from any thread.
//!
//! Metrics belong to a cluster of the bootstrap, so they outlive listeners, and are defined when it is
//! made: later Envoy takes none. Each thread keeps the series it counted in, so that a request names its
//! labels to Envoy only the first time. A label that is dropped has no value, which Prometheus reads as
//! absent.

use std::borrow::Cow;
use std::cell::RefCell;
use std::hash::{Hash, Hasher};

use ironsail_telemetry::config::{EXTRA_LABELS, Metric, Traffic};
use ironsail_telemetry::label::{NAMES, OF_TCP};
use ironsail_telemetry::series::{OTHER, Series as Bound};
use parking_lot::{Mutex, RwLock};
use rustc_hash::{FxHashMap, FxHasher};

use crate::abi::{Buffer, Kind, Level, Owner, Series, log};

/// More labels are not taken.
const MOST_LABELS: usize = 64;

/// A metric with its labels, as Envoy knows it.
#[derive(Clone, Copy)]
pub(crate) struct Handle {
    kind: Kind,
    id: usize,
}

/// All that is ever counted: Envoy takes no definition after its start.
struct Defined {
    owner: Owner,
    /// With the standard labels.
    plain: FxHashMap<Metric, Handle>,
    /// With the standard labels and `extra`.
    extended: FxHashMap<Metric, Handle>,
    extra: Vec<String>,
}

static DEFINED: RwLock<Option<Defined>> = RwLock::new(None);
/// Labels beside the standard ones.
static EXTRA: RwLock<Vec<String>> = RwLock::new(Vec::new());
static BOUND: Mutex<Option<Bound>> = Mutex::new(None);

thread_local! {
    /// Series that this thread counted in, by metric and values.
    static KNOWN: RefCell<FxHashMap<u64, Series>> = RefCell::default();
}

/// Says which labels metrics may have beside the standard ones; before `start`.
pub(crate) fn prepare(own: &[String]) {
    let mut extra: Vec<String> = EXTRA_LABELS.iter().map(|&name| name.to_owned()).collect();
    extra.extend(own.iter().filter(|name| !NAMES.contains(&name.as_str())).cloned());
    extra.sort();
    extra.dedup();
    extra.truncate(MOST_LABELS - NAMES.len());
    *EXTRA.write() = extra;
}

pub(crate) fn start(owner: Owner) {
    let extra = EXTRA.read().clone();
    let define = |metric: Metric, extra: &[String]| {
        let mut labels = standard(metric).to_vec();
        labels.extend(extra.iter().map(String::as_str));
        let kind = if metric.is_histogram() { Kind::Histogram } else { Kind::Counter };
        let Some(id) = owner.define(kind, metric.name(), &labels) else {
            log(Level::Error, &format!("telemetry: Envoy does not take {}", metric.name()));
            return None;
        };
        Some((metric, Handle { kind, id }))
    };
    let plain = Metric::ALL.iter().filter_map(|metric| define(*metric, &[])).collect();
    let extended = Metric::ALL.iter().filter_map(|metric| define(*metric, &extra)).collect();
    BOUND.lock().get_or_insert_default();
    *DEFINED.write() = Some(Defined { owner, plain, extended, extra });
}

/// The standard labels of a metric.
pub(crate) fn standard(metric: Metric) -> &'static [&'static str] {
    match metric.traffic() {
        Traffic::Tcp => &NAMES[..OF_TCP],
        Traffic::Http => &NAMES,
    }
}

/// After this nothing is counted: the owner is gone.
pub(crate) fn stop() {
    *DEFINED.write() = None;
}

/// The handle of a metric with its standard labels.
pub(crate) fn plain(metric: Metric) -> Option<Handle> {
    DEFINED.read().as_ref()?.plain.get(&metric).copied()
}

/// The handle of a metric with more labels, and their names.
pub(crate) fn extended(metric: Metric) -> Option<(Handle, Vec<String>)> {
    let defined = DEFINED.read();
    let defined = defined.as_ref()?;
    Some((*defined.extended.get(&metric)?, defined.extra.clone()))
}

/// What stands for a set of values.
pub(crate) fn digest(values: &[Cow<'_, str>]) -> u64 {
    let mut hasher = FxHasher::default();
    values.hash(&mut hasher);
    hasher.finish()
}

/// Counts under a set of values and its digest. Beyond the bound of sets, under one without names.
pub(crate) fn count(handle: Handle, (values, digest): (&[Cow<'_, str>], u64), by: u64) {
    // Held while Envoy counts, so that the owner cannot go meanwhile.
    let defined = DEFINED.read();
    let Some(defined) = defined.as_ref() else { return };
    // Envoy numbers each kind by itself.
    let metric = (handle.id as u64) << 1 | u64::from(handle.kind == Kind::Histogram);
    let key = digest.wrapping_add((metric + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let known = KNOWN.with_borrow(|known| known.get(&key).copied());
    let series = known.or_else(|| resolve(defined.owner, handle, values, (key, digest)));
    if let Some(series) = series {
        // SAFETY: the owner is there while `defined` is held, and there is but one in a process.
        unsafe { series.count(by) };
    }
}

/// The series for the first time on this thread.
fn resolve(
    owner: Owner,
    handle: Handle,
    values: &[Cow<'_, str>],
    (key, digest): (u64, u64),
) -> Option<Series> {
    // One at a time: Envoy enters the series into tables of the owner.
    let mut bound = BOUND.lock();
    let admitted = bound.as_mut().is_some_and(|bound| bound.admit(digest));
    let mut buffers = [Buffer::EMPTY; MOST_LABELS];
    let count = values.len().min(buffers.len());
    for (i, (place, value)) in buffers.iter_mut().zip(values).enumerate() {
        // The first is the reporter, of which there are few.
        *place = if admitted || i == 0 { Buffer::of(value) } else { Buffer::of(OTHER) };
    }
    let series = owner.resolve(handle.kind, handle.id, &buffers[..count])?;
    if admitted {
        KNOWN.with_borrow_mut(|known| known.insert(key, series));
    }
    Some(series)
}
