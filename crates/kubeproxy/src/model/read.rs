//! From Kubernetes objects to what the model keeps.
//!
//! In: objects, in whatever state somebody wrote them; out: what can be understood of them. What
//! cannot (an address that is none) is left out.

use std::net::IpAddr;
use std::time::Duration;

use ironsail_podnet::Protocol;
use k8s_openapi::api::core::v1::Service as KubeService;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;

use super::{Endpoint, Key, Kind, Service, ServicePort, Slice, SlicePort};

/// How long a client stays with its endpoint when the Service does not say.
const DEFAULT_AFFINITY: u64 = 10800;
/// The label that ties a slice to its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// A Service with this label is some other proxy's.
const OTHER_PROXY: &str = "service.kubernetes.io/service-proxy-name";

pub(super) fn service(object: &KubeService) -> Service {
    let spec = object.spec.clone().unwrap_or_default();
    let kind = match (spec.type_.as_deref(), spec.cluster_ip.as_deref()) {
        (Some("ExternalName"), _) => Kind::External(spec.external_name.unwrap_or_default()),
        (_, Some("None")) => Kind::Headless,
        _ => Kind::Addressed,
    };
    let addresses = |list: Option<Vec<String>>| -> Vec<IpAddr> {
        list.unwrap_or_default().iter().filter_map(|a| a.parse().ok()).collect()
    };
    let mut cluster_ips = addresses(spec.cluster_ips);
    if cluster_ips.is_empty() {
        cluster_ips.extend(spec.cluster_ip.and_then(|ip| ip.parse::<IpAddr>().ok()));
    }
    let proxied = !object.labels().contains_key(OTHER_PROXY);
    if !proxied {
        cluster_ips.clear();
    }
    let ingress = object.status.as_ref().and_then(|s| s.load_balancer.as_ref()?.ingress.clone());
    let ingress = ingress.unwrap_or_default().into_iter().filter_map(|i| i.ip?.parse().ok());
    let affinity = (spec.session_affinity.as_deref() == Some("ClientIP")).then(|| {
        let seconds = spec.session_affinity_config.and_then(|c| c.client_ip?.timeout_seconds);
        Duration::from_secs(seconds.and_then(|s| s.try_into().ok()).unwrap_or(DEFAULT_AFFINITY))
    });
    let ports = spec.ports.unwrap_or_default();
    Service {
        uid: object.uid().unwrap_or_default(),
        kind,
        cluster_ips,
        external_ips: addresses(spec.external_ips),
        ports: ports
            .into_iter()
            .filter_map(|p| {
                Some(ServicePort {
                    name: p.name.unwrap_or_default(),
                    protocol: protocol(p.protocol.as_deref()),
                    port: port(p.port)?,
                    node_port: p.node_port.and_then(port),
                })
            })
            .collect(),
        affinity,
        internal_local: spec.internal_traffic_policy.as_deref() == Some("Local"),
        external_local: spec.external_traffic_policy.as_deref() == Some("Local"),
        publish_not_ready: spec.publish_not_ready_addresses.unwrap_or(false),
        balanced: proxied
            && spec.type_.as_deref() == Some("LoadBalancer")
            && spec.load_balancer_class.is_none()
            && object.metadata.deletion_timestamp.is_none(),
        ingress: ingress.collect(),
    }
}

/// None for a slice that belongs to no Service.
pub(super) fn slice(object: &EndpointSlice) -> Option<Slice> {
    let name = object.labels().get(SERVICE_NAME)?.clone();
    let service = Key { namespace: object.namespace()?, name };
    let ports = object.ports.clone().unwrap_or_default();
    let endpoints = object.endpoints.iter().flatten().flat_map(|endpoint| {
        let conditions = endpoint.conditions.clone().unwrap_or_default();
        // An absent condition counts as ready; see the EndpointSlice documentation.
        let ready = conditions.ready.unwrap_or(true);
        endpoint.addresses.iter().filter_map(move |address| {
            Some(Endpoint {
                address: address.parse().ok()?,
                hostname: endpoint.hostname.clone().filter(|h| !h.is_empty()),
                node: endpoint.node_name.clone(),
                ready,
                serving: conditions.serving.unwrap_or(ready),
                terminating: conditions.terminating.unwrap_or(false),
            })
        })
    });
    Some(Slice {
        service,
        endpoints: endpoints.collect(),
        ports: ports
            .into_iter()
            .filter_map(|p| {
                Some(SlicePort {
                    name: p.name.unwrap_or_default(),
                    protocol: protocol(p.protocol.as_deref()),
                    port: port(p.port?)?,
                })
            })
            .collect(),
    })
}

fn protocol(name: Option<&str>) -> Option<Protocol> {
    match name {
        None | Some("TCP") => Some(Protocol::Tcp),
        Some("UDP") => Some(Protocol::Udp),
        Some(_) => None,
    }
}

fn port(number: i32) -> Option<u16> {
    u16::try_from(number).ok().filter(|p| *p > 0)
}
