//! Endpoints of ServiceEntries: listed, selected, or the host itself for DNS to resolve.

use std::net::IpAddr;
use std::sync::Arc;

use ironsail_api::istio::networking::{self as net, WorkloadEntry};

use super::slice::Found;
use super::{Address, Endpoint, Health};
use crate::ServiceKey;
use crate::hashed::Hashed;
use crate::workload::Workload;

/// Adds an endpoint of the entry's list, or a WorkloadEntry that it selects.
pub(crate) fn add_workload(
    ports: &[net::ServicePort],
    (entry, health): (&WorkloadEntry, Health),
    workload: &Arc<Hashed<Workload>>,
    found: &mut Found,
) {
    let Some(address) = address(&entry.address) else { return };
    for port in ports {
        let own = entry.ports.get(&port.name).copied();
        add(port, own, (address.clone(), health), entry.weight, workload, found);
    }
}

/// Adds a pod that the entry selects.
pub(crate) fn add_pod(
    ports: &[net::ServicePort],
    ip: IpAddr,
    workload: &Arc<Hashed<Workload>>,
    found: &mut Found,
) {
    for port in ports {
        add(port, None, (Address::Ip(ip), Health::Healthy), 0, workload, found);
    }
}

/// Adds the host itself: an entry with DNS resolution that lists no endpoints.
pub(crate) fn add_host(
    ports: &[net::ServicePort],
    key: &ServiceKey,
    workload: &Arc<Hashed<Workload>>,
    found: &mut Found,
) {
    if key.hostname.is_wildcard() {
        return;
    }
    for port in ports {
        let name = Address::Name(key.hostname.as_str().into());
        add(port, None, (name, Health::Healthy), 0, workload, found);
    }
}

/// The endpoint's own port, else the entry's target port, else the service's port.
fn add(
    port: &net::ServicePort,
    own: Option<u32>,
    (address, health): (Address, Health),
    weight: u32,
    workload: &Arc<Hashed<Workload>>,
    found: &mut Found,
) {
    let number = match address {
        Address::Unix(_) => 0,
        _ => {
            let candidates = [own.unwrap_or(0), port.target_port, port.number];
            let mut numbers = candidates.into_iter().filter_map(|port| u16::try_from(port).ok());
            let Some(number) = numbers.find(|port| *port != 0) else { return };
            number
        }
    };
    found.entry(port.name.as_str().into()).or_default().push(Endpoint {
        address,
        port: number,
        health,
        weight,
        hostname: None,
        workload: workload.clone(),
    });
}

fn address(text: &str) -> Option<Address> {
    match text.parse::<IpAddr>() {
        _ if text.is_empty() => None,
        Ok(ip) => Some(Address::Ip(ip)),
        Err(_) => Some(match text.strip_prefix("unix://") {
            Some(path) => Address::Unix(path.into()),
            None => Address::Name(text.trim_end_matches('.').to_ascii_lowercase().into()),
        }),
    }
}
