//! From the model to the Service table of a node.
//!
//! In: the model; out: one entry per Service port and family. Pure.

use std::net::{IpAddr, SocketAddr};

use ironsail_podnet::{Endpoint as Target, ServicePort as Entry, ServiceTable};

use crate::model::{Endpoint, Key, Kind, Model, Service, ServicePort};

/// The table of the node `node`.
pub(crate) fn table(model: &Model, node: &str) -> ServiceTable {
    let mut ports = Vec::new();
    for (key, service) in model.services() {
        if service.kind != Kind::Addressed {
            continue;
        }
        for cluster_ip in &service.cluster_ips {
            for port in &service.ports {
                ports.extend(entry(model, (key, service), port, *cluster_ip, node));
            }
        }
    }
    ServiceTable { ports }
}

fn entry(
    model: &Model,
    (key, service): (&Key, &Service),
    port: &ServicePort,
    cluster_ip: IpAddr,
    node: &str,
) -> Option<Entry> {
    let same_family = |ip: &&IpAddr| ip.is_ipv4() == cluster_ip.is_ipv4();
    // A loopback address leads a pod to itself; it is for the host alone.
    let external = service.external_ips.iter().chain(&service.ingress);
    let external_ips = external.filter(same_family).filter(|ip| !ip.is_loopback()).copied();
    Some(Entry {
        name: key.to_string(),
        protocol: port.protocol?,
        port: port.port,
        cluster_ip,
        external_ips: external_ips.collect(),
        node_port: port.node_port,
        affinity: service.affinity,
        internal_local: service.internal_local,
        external_local: service.external_local,
        endpoints: backends(model, key, service, port, cluster_ip.is_ipv4())
            .map(|(address, endpoint)| Target {
                address,
                local: endpoint.node.as_deref() == Some(node),
            })
            .collect(),
    })
}

/// The endpoints that serve a port: those that are ready, or, when none is, those that still serve
/// while they end.
pub(crate) fn backends<'a>(
    model: &'a Model,
    key: &Key,
    service: &'a Service,
    port: &'a ServicePort,
    v4: bool,
) -> impl Iterator<Item = (SocketAddr, &'a Endpoint)> {
    let mut ready = Vec::new();
    let mut ending = Vec::new();
    for slice in model.slices(key) {
        let matching =
            |p: &&crate::model::SlicePort| p.name == port.name && p.protocol == port.protocol;
        let Some(target) = slice.ports.iter().find(matching) else { continue };
        for endpoint in slice.endpoints.iter().filter(|e| e.address.is_ipv4() == v4) {
            let found = (SocketAddr::new(endpoint.address, target.port), endpoint);
            if endpoint.ready || service.publish_not_ready {
                ready.push(found);
            } else if endpoint.serving && endpoint.terminating {
                ending.push(found);
            }
        }
    }
    if ready.is_empty() { ending.into_iter() } else { ready.into_iter() }
}
