//! Cluster addresses and node ports of Services: given out at create, kept by update, taken back at
//! delete.
//!
//! What is in use is known from the stored Services alone; this only remembers it. A reservation that
//! is not kept (a refused or failed write) gives everything back when it is dropped.

mod desk;
mod pool;
mod service;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

use ipnet::IpNet;
use parking_lot::Mutex;
use serde_json::Value;

use crate::registry::Names;
use crate::status::Status;
use desk::Desk;
use pool::Pool;
use service::{carry_over, check_unchanged, node_port, texts};

/// The ports that NodePort Services may have.
pub const NODE_PORTS: RangeInclusive<u16> = 30000..=32767;

struct State {
    /// The first is the primary family.
    pools: Vec<Pool>,
    ports: BTreeSet<u16>,
}

/// All addresses and ports that are in use.
#[derive(Clone)]
pub(crate) struct Addresses(Arc<Mutex<State>>);

/// What one Service has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Holding {
    addresses: BTreeSet<IpAddr>,
    ports: BTreeSet<u16>,
}

impl Holding {
    fn of(service: &Value) -> Self {
        let mut holding = Self::default();
        for address in texts(&service["spec"]["clusterIPs"]) {
            holding.addresses.extend(address.parse::<IpAddr>());
        }
        let ports = service["spec"]["ports"].as_array();
        let ports = ports.into_iter().flatten().map(|port| &port["nodePort"]);
        for port in ports.chain([&service["spec"]["healthCheckNodePort"]]) {
            holding.ports.extend(node_port(port));
        }
        holding
    }
}

/// New addresses and ports; given back unless kept.
pub(crate) struct Reserved {
    state: Addresses,
    gained: Holding,
    /// What the Service had and no longer has.
    lost: Holding,
}

impl Reserved {
    /// The Service is stored: what it gained is its own, what it lost is free.
    pub(crate) fn keep(mut self) {
        self.gained = std::mem::take(&mut self.lost);
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.state.free(&self.gained);
    }
}

impl Addresses {
    /// `ranges` are the service CIDRs, the primary family first.
    pub(crate) fn new(ranges: &[IpNet]) -> Self {
        let pools = ranges.iter().copied().map(Pool::new).collect();
        Self(Arc::new(Mutex::new(State { pools, ports: BTreeSet::new() })))
    }

    /// Learns what a stored Service has.
    pub(crate) fn learn(&self, service: &Value) {
        let holding = Holding::of(service);
        let mut state = self.0.lock();
        for address in &holding.addresses {
            for pool in &mut state.pools {
                pool.learn(*address);
            }
        }
        state.ports.extend(&holding.ports);
    }

    /// Takes back what a deleted Service had.
    pub(crate) fn release(&self, names: &Names, object: &Value) {
        if is_service(names) {
            self.free(&Holding::of(object));
        }
    }

    fn free(&self, holding: &Holding) {
        let mut state = self.0.lock();
        for address in &holding.addresses {
            for pool in &mut state.pools {
                pool.free(*address);
            }
        }
        for port in &holding.ports {
            state.ports.remove(port);
        }
    }

    /// Fills in addresses and ports of a Service; does nothing to anything else.
    pub(crate) fn reserve(
        &self,
        names: &Names,
        object: &mut Value,
        old: Option<&Value>,
    ) -> Result<Reserved, Status> {
        let nothing = Holding::default();
        let mut reserved = Reserved { state: self.clone(), gained: nothing.clone(), lost: nothing };
        if !is_service(names) {
            return Ok(reserved);
        }
        let name = crate::meta::text(object, "name").to_owned();
        let invalid = |error| Status::invalid("", "Service", &name, &[error]);
        if let Some(old) = old {
            carry_over(object, old);
            check_unchanged(object, old).map_err(invalid)?;
        }
        let had = old.map(Holding::of).unwrap_or_default();
        let mut desk = Desk { state: &mut self.0.lock(), had: &had, gained: Holding::default() };
        let done = desk.families(object).and_then(|()| desk.addresses(object));
        let done = done.and_then(|()| desk.ports(object));
        let gained = desk.gained;
        // From here on dropping `reserved` gives back what was taken, also on failure.
        reserved.gained = gained;
        done.map_err(invalid)?;
        let has = Holding::of(object);
        reserved.lost = Holding {
            addresses: had.addresses.difference(&has.addresses).copied().collect(),
            ports: had.ports.difference(&has.ports).copied().collect(),
        };
        Ok(reserved)
    }
}

fn is_service(names: &Names) -> bool {
    names.group.is_empty() && *names.kind == *"Service"
}

#[cfg(test)]
mod tests;
