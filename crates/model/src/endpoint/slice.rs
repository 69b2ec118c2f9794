//! Endpoints of Kubernetes Services: EndpointSlices joined with pods, and WorkloadEntries that the
//! Service selects.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ironsail_api::istio::networking::WorkloadEntry;
use ironsail_api::{ObjectKey, Resource, kube};

use super::{Address, Endpoint, Health};
use crate::hashed::Hashed;
use crate::service::{ServicePort, TargetPort};
use crate::workload::Workload;

/// By the name of the service's port.
pub(crate) type Found = BTreeMap<Arc<str>, Vec<Endpoint>>;

/// Adds the endpoints of one slice. `workload` finds what runs at an endpoint; None: not known yet,
/// so that the endpoint has to wait (without its pod we would not know how to talk to it).
pub(crate) fn add_slice(
    slice: &kube::EndpointSlice,
    workload: impl Fn(&kube::SliceEndpoint, IpAddr) -> Option<Arc<Hashed<Workload>>>,
    found: &mut Found,
) {
    if slice.address_type == "FQDN" {
        return;
    }
    for endpoint in &slice.endpoints {
        let health = health(&endpoint.conditions);
        for ip in endpoint.addresses.iter().filter_map(|text| text.parse::<IpAddr>().ok()) {
            let Some(workload) = workload(endpoint, ip) else { continue };
            for port in &slice.ports {
                let Some(number) = port.port.and_then(|port| u16::try_from(port).ok()) else {
                    continue;
                };
                let hostname =
                    (!endpoint.hostname.is_empty()).then(|| endpoint.hostname.as_str().into());
                found.entry(port.name.as_str().into()).or_default().push(Endpoint {
                    address: Address::Ip(ip),
                    port: number,
                    health,
                    weight: 0,
                    hostname,
                    workload: workload.clone(),
                });
            }
        }
    }
}

/// Adds a WorkloadEntry that the Service selects: at the port that the entry names, else at the
/// Service's target port. A port that is known by name only must be named.
pub(crate) fn add_selected(
    ports: &[ServicePort],
    (entry, health): (&WorkloadEntry, Health),
    workload: &Arc<Hashed<Workload>>,
    found: &mut Found,
) {
    let Ok(ip) = entry.address.parse::<IpAddr>() else { return };
    for port in ports {
        let (name, default) = match &port.target {
            TargetPort::Number(number) => (&port.name, Some(*number)),
            TargetPort::Name(name) => (name, None),
        };
        let own = entry.ports.get(&**name).and_then(|port| u16::try_from(*port).ok());
        let Some(number) = own.filter(|port| *port != 0).or(default) else { continue };
        found.entry(port.name.clone()).or_default().push(Endpoint {
            address: Address::Ip(ip),
            port: number,
            health,
            weight: entry.weight,
            hostname: None,
            workload: workload.clone(),
        });
    }
}

/// Kubernetes says to take what is not known for ready.
fn health(conditions: &kube::EndpointConditions) -> Health {
    match (conditions.ready, conditions.terminating, conditions.serving) {
        (None | Some(true), ..) => Health::Healthy,
        (Some(false), Some(true), None | Some(true)) => Health::Draining,
        (Some(false), Some(true), Some(false)) => Health::Terminating,
        (Some(false), ..) => Health::Unhealthy,
    }
}

/// The pods and addresses that a slice refers to: `(pods by name, addresses without a pod)`.
pub(crate) fn references(
    key: &ObjectKey,
    slice: &Resource<kube::EndpointSlice>,
) -> (Vec<ObjectKey>, Vec<IpAddr>) {
    let (mut pods, mut ips) = (Vec::new(), Vec::new());
    for endpoint in &slice.spec.endpoints {
        match pod_of(key, endpoint) {
            Some(pod) => pods.push(pod),
            None => {
                ips.extend(
                    endpoint.addresses.iter().filter_map(|text| text.parse::<IpAddr>().ok()),
                );
            }
        }
    }
    (pods, ips)
}

/// The pod that an endpoint says it is.
pub(crate) fn pod_of(slice: &ObjectKey, endpoint: &kube::SliceEndpoint) -> Option<ObjectKey> {
    let target = endpoint.target_ref.as_ref().filter(|target| target.kind == "Pod")?;
    let namespace = match target.namespace.as_str() {
        "" => slice.namespace.clone(),
        namespace => namespace.into(),
    };
    Some(ObjectKey {
        cluster: slice.cluster.clone(),
        kind: ironsail_api::Kind::Pod,
        namespace,
        name: target.name.as_str().into(),
    })
}
