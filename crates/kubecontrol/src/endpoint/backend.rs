//! What is behind a Service: each pod with its address per family, its conditions and the port
//! numbers that the Service's ports mean on it. Pure.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Node, ObjectReference, Pod, Service, ServicePort};
use k8s_openapi::api::discovery::v1::EndpointPort;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::podstate::{condition, is_finished, is_ready, node as node_of, phase};
use crate::store::{is_deleted, label, name};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    pub(super) fn of(address: &str) -> Self {
        if address.contains(':') { Self::V6 } else { Self::V4 }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Backend {
    pub(super) addresses: Vec<(Family, String)>,
    pub(super) ports: Vec<EndpointPort>,
    pub(super) ready: bool,
    pub(super) serving: bool,
    pub(super) terminating: bool,
    pub(super) hostname: Option<String>,
    pub(super) node: Option<String>,
    pub(super) zone: Option<String>,
    pub(super) target: ObjectReference,
    /// When the pod last became ready or unready.
    pub(super) changed: Option<Timestamp>,
}

#[derive(Debug)]
pub(super) struct Backends {
    pub(super) families: Vec<Family>,
    pub(super) list: Vec<Backend>,
    /// The ports to show when nothing is behind the Service.
    pub(super) publish_unready: bool,
}

pub(super) fn has_selector(service: &Service) -> bool {
    let spec = service.spec.as_ref();
    spec.and_then(|s| s.selector.as_ref()).is_some_and(|s| !s.is_empty())
        && spec.and_then(|s| s.type_.as_deref()) != Some("ExternalName")
}

pub(super) fn is_headless(service: &Service) -> bool {
    let spec = service.spec.as_ref();
    spec.and_then(|s| s.cluster_ip.as_deref()) == Some("None")
}

pub(super) fn zone(node: &Node) -> Option<&str> {
    label(&node.metadata, "topology.kubernetes.io/zone")
}

/// Whether anything changed that an endpoint shows.
pub(super) fn differs(old: &Pod, new: &Pod) -> bool {
    let view = |pod: &Pod| {
        let status = pod.status.clone().unwrap_or_default();
        let spec = pod.spec.as_ref();
        (
            pod.metadata.labels.clone(),
            (is_deleted(&pod.metadata), is_finished(pod), is_ready(pod)),
            (status.pod_ip, status.pod_ips),
            spec.and_then(|s| s.node_name.clone()),
            spec.and_then(|s| s.hostname.clone()),
        )
    };
    view(old) != view(new)
}

pub(super) fn of(
    service: &Service,
    pods: &[Arc<Pod>],
    node: &dyn Fn(&str) -> Option<Arc<Node>>,
) -> Backends {
    let publish =
        service.spec.as_ref().is_some_and(|s| s.publish_not_ready_addresses == Some(true));
    let list = pods
        .iter()
        .filter(|pod| belongs(pod))
        .map(|pod| backend(service, pod, node, publish))
        .collect();
    Backends { families: families(service), list, publish_unready: publish }
}

fn families(service: &Service) -> Vec<Family> {
    let spec = service.spec.as_ref();
    let named: Vec<Family> = spec
        .and_then(|s| s.ip_families.as_ref())
        .into_iter()
        .flatten()
        .map(|f| if f == "IPv6" { Family::V6 } else { Family::V4 })
        .collect();
    if !named.is_empty() {
        return named;
    }
    let address = spec.and_then(|s| s.cluster_ip.as_deref()).unwrap_or("");
    vec![Family::of(address)]
}

/// Ended pods and pods without an address are no endpoints; pods being deleted still are.
fn belongs(pod: &Pod) -> bool {
    let policy = pod.spec.as_ref().and_then(|s| s.restart_policy.as_deref());
    let ended = match policy {
        Some("Never" | "OnFailure") => is_finished(pod),
        _ => matches!(phase(pod), "Succeeded" | "Failed"),
    };
    !ended && !addresses(pod).is_empty()
}

fn addresses(pod: &Pod) -> Vec<(Family, String)> {
    let Some(status) = &pod.status else { return Vec::new() };
    let several = status.pod_ips.iter().flatten().map(|p| p.ip.clone());
    let mut all: Vec<String> = several.filter(|ip| !ip.is_empty()).collect();
    if all.is_empty() {
        all.extend(status.pod_ip.clone().filter(|ip| !ip.is_empty()));
    }
    all.into_iter().map(|ip| (Family::of(&ip), ip)).collect()
}

fn backend(
    service: &Service,
    pod: &Pod,
    node: &dyn Fn(&str) -> Option<Arc<Node>>,
    publish: bool,
) -> Backend {
    let serving = is_ready(pod);
    let terminating = is_deleted(&pod.metadata);
    let on = node_of(pod);
    let spec = pod.spec.as_ref();
    let subdomain = spec.and_then(|s| s.subdomain.as_deref());
    let named = subdomain == Some(name(&service.metadata));
    Backend {
        addresses: addresses(pod),
        ports: ports(service, pod),
        ready: publish || (serving && !terminating),
        serving,
        terminating,
        hostname: spec.and_then(|s| s.hostname.clone()).filter(|h| named && !h.is_empty()),
        node: on.map(str::to_string),
        zone: on.and_then(node).and_then(|n| zone(&n).map(str::to_string)),
        target: ObjectReference {
            kind: Some("Pod".into()),
            namespace: pod.metadata.namespace.clone(),
            name: pod.metadata.name.clone(),
            uid: pod.metadata.uid.clone(),
            ..ObjectReference::default()
        },
        changed: condition(pod, "Ready").and_then(|c| c.last_transition_time.as_ref()).map(|t| t.0),
    }
}

/// The Service's ports as numbers on this pod; a named port that the pod does not have is left out.
fn ports(service: &Service, pod: &Pod) -> Vec<EndpointPort> {
    let declared = service.spec.iter().flat_map(|s| s.ports.iter().flatten());
    declared
        .filter_map(|port| {
            Some(EndpointPort {
                name: Some(port.name.clone().unwrap_or_default()),
                protocol: Some(protocol(port.protocol.as_deref()).into()),
                port: Some(number(port, pod)?),
                app_protocol: port.app_protocol.clone(),
            })
        })
        .collect()
}

fn protocol(text: Option<&str>) -> &str {
    text.unwrap_or("TCP")
}

fn number(port: &ServicePort, pod: &Pod) -> Option<i32> {
    let wanted = match &port.target_port {
        None => return Some(port.port),
        Some(IntOrString::Int(0)) => return Some(port.port),
        Some(IntOrString::Int(number)) => return Some(*number),
        Some(IntOrString::String(name)) => name,
    };
    let spec = pod.spec.as_ref()?;
    let sidecar = |c: &&Container| c.restart_policy.as_deref() == Some("Always");
    let sidecars = spec.init_containers.iter().flatten().filter(sidecar);
    spec.containers
        .iter()
        .chain(sidecars)
        .flat_map(|c| c.ports.iter().flatten())
        .find(|p| {
            p.name.as_ref() == Some(wanted)
                && protocol(p.protocol.as_deref()) == protocol(port.protocol.as_deref())
        })
        .map(|p| p.container_port)
}
