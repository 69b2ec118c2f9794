//! Connections: counted when they end, and in between what came since the last time.

use std::cell::RefCell;

use ironsail_telemetry::config::{Logger, Metric, Reporter};
use ironsail_telemetry::flags;
use ironsail_telemetry::report::Facts;
use rustc_hash::FxHashMap;

use crate::abi::{Attribute, Event};
use crate::bootstrap::own;
use crate::logger::{Counter, Labelled, principals};
use crate::{recall, table};

/// What was counted of a connection already.
#[derive(Clone, Copy, Default)]
struct Counted {
    received: u64,
    sent: u64,
}

thread_local! {
    /// A connection stays on its thread. It leaves at its end, which Envoy always logs.
    static OPEN: RefCell<FxHashMap<u64, Counted>> = RefCell::default();
}

/// What is new: whether the connection itself is, and bytes received and sent.
fn since_last(connection: u64, received: u64, sent: u64, is_end: bool) -> (bool, u64, u64) {
    OPEN.with(|open| {
        let mut open = open.borrow_mut();
        let known = match is_end {
            true => open.remove(&connection),
            false => open.insert(connection, Counted { received, sent }),
        };
        let before = known.unwrap_or_default();
        (
            known.is_none(),
            received.saturating_sub(before.received),
            sent.saturating_sub(before.sent),
        )
    })
}

pub(crate) fn connection(counter: &Counter, config: &Logger, event: Event<'_>, is_end: bool) {
    let Some(own) = own() else { return };
    let cluster = event.cluster().unwrap_or_default();
    let by_name = recall::cluster(cluster);
    let address = match config.reporter {
        Reporter::Source => Attribute::UpstreamAddress,
        _ => Attribute::SourceAddress,
    };
    let peer = event.attribute(address).and_then(table::find);
    let mut bits = String::new();
    flags::write(event.response_flags(), &mut bits);
    let (source, destination) = principals(event, config.reporter);
    let facts = Facts {
        reporter: config.reporter,
        local: &own.peer,
        peer: peer.as_deref(),
        service: config.service.as_ref().or(by_name.as_deref()),
        cluster,
        route: "",
        host: "",
        source_principal: source,
        destination_principal: destination,
        protocol: "tcp",
        mutual_tls: event.is_mutual_tls(),
        response_code: "",
        grpc_status: "",
        response_flags: &bits,
    };
    let labelled = Labelled::new(event, &facts, Metric::TcpSent);
    let (received, sent) = event.payload();
    let (is_new, received, sent) = since_last(event.connection(), received, sent, is_end);
    if is_new {
        counter.count(Metric::TcpOpened, &labelled, 1);
    }
    counter.count(Metric::TcpSent, &labelled, sent);
    counter.count(Metric::TcpReceived, &labelled, received);
    if is_end {
        counter.count(Metric::TcpClosed, &labelled, 1);
    }
}
