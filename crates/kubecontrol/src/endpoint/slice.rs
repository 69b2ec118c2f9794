//! Cutting endpoints into EndpointSlices of at most 100, with as few changes to the slices that
//! are already there as possible: an endpoint stays in its slice, new ones fill gaps. Pure.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::backend::{Backend, Backends, Family, is_headless};
use super::{MANAGED_BY, SERVICE_NAME};
use crate::owner;
use crate::podstate::prefix;
use crate::store::name;

pub(super) const MANAGER: &str = "endpointslice-controller.k8s.io";
pub(super) const HEADLESS: &str = "service.kubernetes.io/headless";
pub(super) const TRIGGER: &str = "endpoints.kubernetes.io/last-change-trigger-time";
const MOST: usize = 100;

#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) create: Vec<EndpointSlice>,
    /// Slices as they are and as they should be.
    pub(super) update: Vec<(Arc<EndpointSlice>, EndpointSlice)>,
    pub(super) delete: Vec<Arc<EndpointSlice>>,
}

/// Endpoints that may share slices: of one family, with the same ports.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) family: Family,
    pub(super) ports: Vec<EndpointPort>,
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) trigger: Option<Timestamp>,
}

/// What all slices of one Service have in common.
pub(super) struct Frame {
    pub(super) service: String,
    pub(super) namespace: Option<String>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) owner: OwnerReference,
}

/// No slices at all.
pub(super) fn none(existing: &[Arc<EndpointSlice>]) -> Plan {
    Plan { delete: existing.to_vec(), ..Plan::default() }
}

pub(super) fn plan(
    service: &Service,
    backends: &Backends,
    existing: &[Arc<EndpointSlice>],
) -> Plan {
    let mut labels = inherited(service.metadata.labels.clone());
    if is_headless(service) {
        labels.insert(HEADLESS.into(), String::new());
    }
    labels.insert(SERVICE_NAME.into(), name(&service.metadata).into());
    labels.insert(MANAGED_BY.into(), MANAGER.into());
    let frame = Frame {
        service: name(&service.metadata).into(),
        namespace: service.metadata.namespace.clone(),
        labels,
        annotations: BTreeMap::new(),
        owner: owner::reference(service),
    };
    let born = service.metadata.creation_timestamp.as_ref().map(|t| t.0);
    cut(&frame, groups(backends, born), existing)
}

/// Labels that slices take over from a Service or Endpoints: all but those we set ourselves.
pub(super) fn inherited(labels: Option<BTreeMap<String, String>>) -> BTreeMap<String, String> {
    let mut labels = labels.unwrap_or_default();
    labels.retain(|key, _| {
        ![SERVICE_NAME, MANAGED_BY, HEADLESS, "endpoints.kubernetes.io/managed-by"]
            .contains(&key.as_str())
    });
    labels
}

fn groups(backends: &Backends, born: Option<Timestamp>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for family in &backends.families {
        let before = groups.len();
        for backend in &backends.list {
            let Some((_, address)) = backend.addresses.iter().find(|(f, _)| f == family) else {
                continue;
            };
            let known = groups.iter().position(|g| g.family == *family && g.ports == backend.ports);
            let at = known.unwrap_or_else(|| {
                let ports = backend.ports.clone();
                groups.push(Group { family: *family, ports, endpoints: vec![], trigger: born });
                groups.len() - 1
            });
            groups[at].endpoints.push(endpoint(backend, address));
            groups[at].trigger = groups[at].trigger.max(backend.changed);
        }
        if groups.len() == before {
            // One empty slice says that the Service is known and has nothing behind it.
            groups.push(Group { family: *family, ports: vec![], endpoints: vec![], trigger: born });
        }
    }
    groups
}

fn endpoint(backend: &Backend, address: &str) -> Endpoint {
    Endpoint {
        addresses: vec![address.to_string()],
        conditions: Some(EndpointConditions {
            ready: Some(backend.ready),
            serving: Some(backend.serving),
            terminating: Some(backend.terminating),
        }),
        hostname: backend.hostname.clone(),
        node_name: backend.node.clone(),
        zone: backend.zone.clone(),
        target_ref: Some(backend.target.clone()),
        hints: None,
        deprecated_topology: None,
    }
}

/// Turns groups into slices.
pub(super) fn cut(frame: &Frame, groups: Vec<Group>, existing: &[Arc<EndpointSlice>]) -> Plan {
    let mut plan = Plan::default();
    let mut unused: Vec<Arc<EndpointSlice>> = existing.to_vec();
    for group in groups {
        let fits = |slice: &Arc<EndpointSlice>| {
            slice.address_type == group.family.as_str()
                && slice.ports.clone().unwrap_or_default() == group.ports
                && slice.metadata.deletion_timestamp.is_none()
        };
        let (usable, rest): (Vec<_>, Vec<_>) = unused.into_iter().partition(fits);
        unused = rest;
        fill(frame, group, usable, &mut plan);
    }
    plan.delete.extend(unused);
    plan
}

fn same_endpoint(one: &Endpoint, other: &Endpoint) -> bool {
    let uid = |e: &Endpoint| e.target_ref.as_ref().and_then(|t| t.uid.clone());
    uid(one) == uid(other) && one.addresses == other.addresses
}

fn fill(frame: &Frame, group: Group, usable: Vec<Arc<EndpointSlice>>, plan: &mut Plan) {
    let mut left: VecDeque<Endpoint> = group.endpoints.into();
    let is_empty_group = left.is_empty();
    let mut drafts: Vec<(Arc<EndpointSlice>, Vec<Endpoint>)> = Vec::new();
    for slice in usable {
        let mut kept = Vec::new();
        for old in slice.endpoints.iter().flatten() {
            if let Some(at) = left.iter().position(|new| same_endpoint(old, new)) {
                kept.extend(left.remove(at));
            }
        }
        drafts.push((slice, kept));
    }
    // A slice that changes anyway takes new endpoints before one that would not.
    drafts.sort_by_key(|(slice, kept)| slice.endpoints.as_ref().is_some_and(|old| old == kept));
    for (_, kept) in &mut drafts {
        let room = MOST.saturating_sub(kept.len()).min(left.len());
        kept.extend(left.drain(..room));
    }
    let mut placeholder = is_empty_group;
    for (slice, endpoints) in drafts {
        if endpoints.is_empty() && !placeholder {
            plan.delete.push(slice);
            continue;
        }
        placeholder = false;
        let new = compose(frame, group.family, &group.ports, endpoints, group.trigger);
        if !is_same(&slice, &new) {
            plan.update.push((slice, new));
        }
    }
    while !left.is_empty() || placeholder {
        placeholder = false;
        let some = left.drain(..left.len().min(MOST)).collect();
        plan.create.push(compose(frame, group.family, &group.ports, some, group.trigger));
    }
}

fn compose(
    frame: &Frame,
    family: Family,
    ports: &[EndpointPort],
    endpoints: Vec<Endpoint>,
    trigger: Option<Timestamp>,
) -> EndpointSlice {
    let mut annotations = frame.annotations.clone();
    if let Some(at) = trigger {
        annotations.insert(TRIGGER.into(), at.to_string());
    }
    EndpointSlice {
        metadata: ObjectMeta {
            generate_name: Some(prefix(&frame.service)),
            namespace: frame.namespace.clone(),
            labels: Some(frame.labels.clone()),
            annotations: (!annotations.is_empty()).then_some(annotations),
            owner_references: Some(vec![frame.owner.clone()]),
            ..ObjectMeta::default()
        },
        address_type: family.as_str().into(),
        ports: Some(ports.to_vec()),
        endpoints: Some(endpoints),
    }
}

/// Whether nothing but the trigger time differs.
fn is_same(old: &EndpointSlice, new: &EndpointSlice) -> bool {
    let list = |slice: &EndpointSlice| slice.endpoints.clone().unwrap_or_default();
    list(old) == list(new) && old.metadata.labels == new.metadata.labels
}
