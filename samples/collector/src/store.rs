//! What was collected, in one shape for all protocols. Bounded: the oldest goes first.

use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;
use serde::Serialize;

/// As many spans, and as many records, are kept.
const MOST: usize = 20_000;

/// One span.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Span {
    pub(crate) protocol: &'static str,
    pub(crate) trace: String,
    pub(crate) id: String,
    /// Empty for the first of a trace.
    pub(crate) parent: String,
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) service: String,
    pub(crate) tags: BTreeMap<String, String>,
}

/// One log record.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Log {
    pub(crate) body: String,
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) resource: BTreeMap<String, String>,
}

#[derive(Default)]
pub(crate) struct Store {
    spans: Mutex<VecDeque<Span>>,
    logs: Mutex<VecDeque<Log>>,
}

impl Store {
    pub(crate) fn add_spans(&self, spans: impl IntoIterator<Item = Span>) {
        add(&self.spans, spans);
    }

    pub(crate) fn add_logs(&self, logs: impl IntoIterator<Item = Log>) {
        add(&self.logs, logs);
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        self.spans.lock().iter().cloned().collect()
    }

    pub(crate) fn logs(&self) -> Vec<Log> {
        self.logs.lock().iter().cloned().collect()
    }
}

fn add<T>(kept: &Mutex<VecDeque<T>>, more: impl IntoIterator<Item = T>) {
    let mut kept = kept.lock();
    kept.extend(more);
    while kept.len() > MOST {
        kept.pop_front();
    }
}
