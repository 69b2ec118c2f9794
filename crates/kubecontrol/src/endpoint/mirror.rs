//! EndpointSlices that mirror hand-made Endpoints of a Service without a selector, so that nobody
//! has to read both. Pure.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointSubset, Endpoints, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};

use super::backend::Family;
use super::slice::{Frame, Group, Plan, TRIGGER, cut, inherited, none};
use super::{MANAGED_BY, SERVICE_NAME};
use crate::owner;
use crate::store::{annotation, label, name};

pub(super) const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";

pub(super) fn plan(
    service: &Service,
    endpoints: Option<&Endpoints>,
    existing: &[Arc<EndpointSlice>],
) -> Plan {
    let Some(endpoints) = endpoints.filter(|e| is_wanted(service, e)) else {
        return none(existing);
    };
    let mut labels = inherited(endpoints.metadata.labels.clone());
    labels.insert(SERVICE_NAME.into(), name(&service.metadata).into());
    labels.insert(MANAGED_BY.into(), MANAGER.into());
    let mut annotations = endpoints.metadata.annotations.clone().unwrap_or_default();
    annotations.retain(|key, _| {
        key != TRIGGER && key != "kubectl.kubernetes.io/last-applied-configuration"
    });
    let frame = Frame {
        service: name(&endpoints.metadata).into(),
        namespace: endpoints.metadata.namespace.clone(),
        labels,
        annotations,
        owner: owner::reference(endpoints),
    };
    cut(&frame, groups(endpoints), existing)
}

fn is_wanted(service: &Service, endpoints: &Endpoints) -> bool {
    let kind = service.spec.as_ref().and_then(|s| s.type_.as_deref());
    label(&endpoints.metadata, SKIP) != Some("true")
        && annotation(&endpoints.metadata, LEADER).is_none()
        && kind != Some("ExternalName")
}

fn groups(endpoints: &Endpoints) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for subset in endpoints.subsets.iter().flatten() {
        let ports = ports(subset);
        let ready = subset.addresses.iter().flatten().map(|a| (a, true));
        let unready = subset.not_ready_addresses.iter().flatten().map(|a| (a, false));
        for (address, ready) in ready.chain(unready) {
            let family = Family::of(&address.ip);
            let known = groups.iter().position(|g| g.family == family && g.ports == ports);
            let at = known.unwrap_or_else(|| {
                let ports = ports.clone();
                groups.push(Group { family, ports, endpoints: vec![], trigger: None });
                groups.len() - 1
            });
            groups[at].endpoints.push(endpoint(address, ready));
        }
    }
    groups
}

fn ports(subset: &EndpointSubset) -> Vec<EndpointPort> {
    let one = |p: &k8s_openapi::api::core::v1::EndpointPort| EndpointPort {
        name: Some(p.name.clone().unwrap_or_default()),
        port: Some(p.port),
        protocol: Some(p.protocol.clone().unwrap_or_else(|| "TCP".into())),
        app_protocol: p.app_protocol.clone(),
    };
    subset.ports.iter().flatten().map(one).collect()
}

fn endpoint(address: &EndpointAddress, ready: bool) -> Endpoint {
    Endpoint {
        addresses: vec![address.ip.clone()],
        conditions: Some(EndpointConditions {
            ready: Some(ready),
            ..EndpointConditions::default()
        }),
        hostname: address.hostname.clone().filter(|h| !h.is_empty()),
        node_name: address.node_name.clone(),
        target_ref: address.target_ref.clone(),
        ..Endpoint::default()
    }
}
