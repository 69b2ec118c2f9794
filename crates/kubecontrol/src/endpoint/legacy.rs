//! The legacy Endpoints object of a Service: addresses of its first family, grouped by ports. Pure.

use k8s_openapi::api::core::v1::{
    EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Service,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::backend::{Backend, Backends, is_headless};
use super::slice::{HEADLESS, TRIGGER, inherited};
use crate::store::label;

const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const MANAGER: &str = "endpoint-controller";
/// More addresses than this do not fit into one object of reasonable size.
const MOST: usize = 1000;

pub(super) fn is_ours(endpoints: &Endpoints) -> bool {
    label(&endpoints.metadata, MANAGED_BY) == Some(MANAGER)
}

pub(super) fn compose(service: &Service, backends: &Backends) -> Endpoints {
    let mut labels = inherited(service.metadata.labels.clone());
    if is_headless(service) {
        labels.insert(HEADLESS.into(), String::new());
    }
    labels.insert(MANAGED_BY.into(), MANAGER.into());
    let changed = backends.list.iter().filter_map(|b| b.changed).max();
    let born = service.metadata.creation_timestamp.as_ref().map(|t| t.0);
    let trigger = changed.max(born).map(|at| (TRIGGER.to_string(), at.to_string()));
    Endpoints {
        metadata: ObjectMeta {
            name: service.metadata.name.clone(),
            namespace: service.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: trigger.map(|t| [t].into()),
            ..ObjectMeta::default()
        },
        subsets: subsets(backends),
    }
}

fn subsets(backends: &Backends) -> Option<Vec<EndpointSubset>> {
    let family = *backends.families.first()?;
    let mut subsets: Vec<EndpointSubset> = Vec::new();
    let listed = backends
        .list
        .iter()
        // Unlike slices, this object never shows pods that are being deleted.
        .filter(|b| !b.terminating || backends.publish_unready)
        .filter_map(|b| b.addresses.iter().find(|(f, _)| *f == family).map(|(_, ip)| (b, ip)))
        .take(MOST);
    for (backend, ip) in listed {
        let ports = ports(backend);
        let at = subsets.iter().position(|s| s.ports == ports).unwrap_or_else(|| {
            subsets.push(EndpointSubset { ports: ports.clone(), ..EndpointSubset::default() });
            subsets.len() - 1
        });
        let subset = &mut subsets[at];
        let list =
            if backend.ready { &mut subset.addresses } else { &mut subset.not_ready_addresses };
        list.get_or_insert_default().push(EndpointAddress {
            ip: ip.clone(),
            hostname: backend.hostname.clone(),
            node_name: backend.node.clone(),
            target_ref: Some(backend.target.clone()),
        });
    }
    for subset in &mut subsets {
        let sort = |list: &mut Option<Vec<EndpointAddress>>| {
            list.iter_mut().for_each(|l| l.sort_by(|a, b| a.ip.cmp(&b.ip)));
        };
        sort(&mut subset.addresses);
        sort(&mut subset.not_ready_addresses);
    }
    (!subsets.is_empty()).then_some(subsets)
}

fn ports(backend: &Backend) -> Option<Vec<EndpointPort>> {
    let ports: Vec<EndpointPort> = backend
        .ports
        .iter()
        .map(|p| EndpointPort {
            name: p.name.clone().filter(|n| !n.is_empty()),
            port: p.port.unwrap_or(0),
            protocol: p.protocol.clone(),
            app_protocol: p.app_protocol.clone(),
        })
        .collect();
    (!ports.is_empty()).then_some(ports)
}

/// Whether only the trigger time differs.
pub(super) fn is_same(old: &Endpoints, new: &Endpoints) -> bool {
    old.subsets.clone().unwrap_or_default() == new.subsets.clone().unwrap_or_default()
        && old.metadata.labels == new.metadata.labels
}
