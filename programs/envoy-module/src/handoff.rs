//! From the filter to the logger of the same request.
//!
//! Envoy ends a stream on its thread: first the filters hear of it, then the loggers, and no other
//! stream is between them. So a place of the thread holds what the logger cannot ask for itself.

use std::cell::RefCell;
use std::sync::Arc;

use ironsail_telemetry::{Peer, Service};

pub(crate) struct Known {
    /// The downstream connection, by which the logger sees that it is about the same request.
    pub(crate) connection: u64,
    pub(crate) peer: Option<Arc<Peer>>,
    pub(crate) service: Option<Arc<Service>>,
    /// Messages of a gRPC request: those sent to the server, those it sent.
    pub(crate) messages: Option<(u64, u64)>,
    pub(crate) grpc_status: Option<u64>,
}

thread_local! {
    static LAST: RefCell<Option<Known>> = const { RefCell::new(None) };
}

pub(crate) fn put(known: Known) {
    LAST.with(|last| *last.borrow_mut() = Some(known));
}

pub(crate) fn with<T>(connection: u64, body: impl FnOnce(Option<&Known>) -> T) -> T {
    LAST.with(|last| {
        let last = last.borrow();
        body(last.as_ref().filter(|known| known.connection == connection))
    })
}
