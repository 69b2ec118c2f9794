//! Who has which address: a file that the agent keeps, one line a workload.
//!
//! `ADDRESS WORKLOAD;NAMESPACE;CANONICAL;REVISION;CLUSTER`, read anew when the file is replaced. It is
//! the last resort for peers that say nothing themselves.

use std::net::IpAddr;
use std::sync::Arc;

use ironsail_telemetry::Peer;
use parking_lot::RwLock;
use rustc_hash::FxHashMap;

use crate::abi::{Level, log};

/// A longer file is not read.
const MOST_BYTES: u64 = 64 << 20;

type Table = FxHashMap<IpAddr, Arc<Peer>>;

static TABLE: RwLock<Option<Table>> = RwLock::new(None);

pub(crate) fn load(path: &str) {
    let small = std::fs::metadata(path).is_ok_and(|about| about.len() <= MOST_BYTES);
    let Some(text) = small.then(|| std::fs::read_to_string(path).ok()).flatten() else {
        log(Level::Info, &format!("telemetry: no table of addresses in {path} yet"));
        return;
    };
    let lines = text.lines().filter_map(|line| {
        let (address, workload) = line.split_once(' ')?;
        Some((address.parse().ok()?, Arc::new(Peer::from_endpoint(workload)?)))
    });
    let table: Table = lines.collect();
    *TABLE.write() = Some(table);
}

/// The workload at `address`, which may have a port.
pub(crate) fn find(address: &str) -> Option<Arc<Peer>> {
    let table = TABLE.read();
    let table = table.as_ref()?;
    let ip = address
        .parse()
        .ok()
        .or_else(|| address.parse::<std::net::SocketAddr>().ok().map(|address| address.ip()))?;
    table.get(&ip).cloned()
}
