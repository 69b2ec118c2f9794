//! What was read once, by its text: peers and services come again with every request.
//!
//! Each thread has its own, so nothing is locked; one that is full starts anew.

use std::cell::RefCell;
use std::sync::Arc;

use ironsail_telemetry::{Peer, Service};
use rustc_hash::FxHashMap;

/// As many as one thread keeps.
const MOST: usize = 2000;

type Kept<T> = RefCell<FxHashMap<String, Option<Arc<T>>>>;

thread_local! {
    static HEADERS: Kept<Peer> = RefCell::default();
    static ENDPOINTS: Kept<Peer> = RefCell::default();
    static SERVICES: Kept<Service> = RefCell::default();
    static CLUSTERS: Kept<Service> = RefCell::default();
}

fn recall<T>(kept: &Kept<T>, text: &str, read: impl FnOnce(&str) -> Option<T>) -> Option<Arc<T>> {
    let mut kept = kept.borrow_mut();
    if let Some(known) = kept.get(text) {
        return known.clone();
    }
    let value = read(text).map(Arc::new);
    if kept.len() >= MOST {
        kept.clear();
    }
    // A text that is too long to be read is not worth keeping either.
    if text.len() <= 16 * 1024 {
        kept.insert(text.to_owned(), value.clone());
    }
    value
}

/// By the whole header, not by the id beside it, which anybody can claim.
pub(crate) fn header(text: &str) -> Option<Arc<Peer>> {
    HEADERS.with(|kept| recall(kept, text, Peer::from_header))
}

pub(crate) fn endpoint(text: &str) -> Option<Arc<Peer>> {
    ENDPOINTS.with(|kept| recall(kept, text, Peer::from_endpoint))
}

pub(crate) fn service(text: &str) -> Option<Arc<Service>> {
    SERVICES.with(|kept| recall(kept, text, Service::read))
}

pub(crate) fn cluster(text: &str) -> Option<Arc<Service>> {
    CLUSTERS.with(|kept| recall(kept, text, Service::of_cluster))
}
