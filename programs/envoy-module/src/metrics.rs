//! The metrics that Envoy keeps for us: defined once by name and labels, counted from any thread.
//!
//! Metrics belong to the bootstrap extension, so they outlive listeners, and are defined when it starts:
//! later Envoy takes none. A label that is dropped has no value, which Prometheus reads as absent.

use std::borrow::Cow;
use std::cell::RefCell;
use std::hash::{Hash, Hasher};

use ironsail_telemetry::config::{EXTRA_LABELS, Metric, Traffic};
use ironsail_telemetry::label::{NAMES, OF_TCP};
use ironsail_telemetry::series::{OTHER, Series};
use parking_lot::{Mutex, RwLock};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};

use crate::abi::{Buffer, Kind, Level, Root, log};

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
    root: Root,
    /// With the standard labels.
    plain: FxHashMap<Metric, Handle>,
    /// With the standard labels and `extra`.
    extended: FxHashMap<Metric, Handle>,
    extra: Vec<String>,
}

static DEFINED: RwLock<Option<Defined>> = RwLock::new(None);
static SERIES: Mutex<Option<Series>> = Mutex::new(None);

thread_local! {
    /// Digests that this thread saw admitted, so that it need not ask again.
    static ADMITTED: RefCell<FxHashSet<u64>> = RefCell::default();
}

pub(crate) fn start(root: Root, own: &[String]) {
    let mut extra: Vec<String> = EXTRA_LABELS.iter().map(|&name| name.to_owned()).collect();
    extra.extend(own.iter().filter(|name| !NAMES.contains(&name.as_str())).cloned());
    extra.sort();
    extra.dedup();
    extra.truncate(MOST_LABELS - NAMES.len());
    let define = |metric: Metric, extra: &[String]| {
        let mut labels = standard(metric).to_vec();
        labels.extend(extra.iter().map(String::as_str));
        let kind = if metric.is_histogram() { Kind::Histogram } else { Kind::Counter };
        let Some(id) = root.define(kind, metric.name(), &labels) else {
            log(Level::Error, &format!("telemetry: Envoy does not take {}", metric.name()));
            return None;
        };
        Some((metric, Handle { kind, id }))
    };
    let plain = Metric::ALL.iter().filter_map(|metric| define(*metric, &[])).collect();
    let extended = Metric::ALL.iter().filter_map(|metric| define(*metric, &extra)).collect();
    *DEFINED.write() = Some(Defined { root, plain, extended, extra });
    SERIES.lock().get_or_insert_default();
}

/// The standard labels of a metric.
pub(crate) fn standard(metric: Metric) -> &'static [&'static str] {
    match metric.traffic() {
        Traffic::Tcp => &NAMES[..OF_TCP],
        Traffic::Http => &NAMES,
    }
}

/// After this nothing is counted: the root is gone.
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

/// Counts. Beyond the bound of sets of values, under one set without names.
pub(crate) fn count(handle: Handle, values: &[Cow<'_, str>], by: u64) {
    let defined = DEFINED.read();
    let Some(defined) = defined.as_ref() else { return };
    let admitted = is_admitted(values);
    // The first is the reporter, of which there are few.
    let text = |(i, value): (usize, &Cow<'_, str>)| match admitted || i == 0 {
        true => Buffer::of(value),
        false => Buffer::of(OTHER),
    };
    let mut buffers = [Buffer::EMPTY; MOST_LABELS];
    let count = values.len().min(buffers.len());
    for (place, value) in buffers.iter_mut().zip(values.iter().enumerate()) {
        *place = text(value);
    }
    defined.root.count(handle.kind, handle.id, &buffers[..count], by);
}

fn is_admitted(values: &[Cow<'_, str>]) -> bool {
    let mut hasher = FxHasher::default();
    values.hash(&mut hasher);
    let digest = hasher.finish();
    ADMITTED.with(|admitted| {
        let mut admitted = admitted.borrow_mut();
        if admitted.contains(&digest) {
            return true;
        }
        let let_in = SERIES.lock().as_mut().is_some_and(|series| series.admit(digest));
        if let_in {
            admitted.insert(digest);
        }
        let_in
    })
}
