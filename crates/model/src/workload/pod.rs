//! Workloads from Pods: owner, identity, place and network.

use std::net::IpAddr;
use std::sync::Arc;

use ironsail_api::{ObjectKey, Resource, kube};
use ironsail_names::{Locality, ServiceAccount, SpiffeId, annotation, label};

use super::{Context, TlsMode, Workload, canonical, shared};
use crate::hashed::Hashed;
use crate::proxy::PodPort;

/// What injection adds to a pod, sidecar or gateway.
const PROXY_CONTAINER: &str = "istio-proxy";

/// None if the pod's namespace is no name.
pub(crate) fn of_pod(
    key: &ObjectKey,
    pod: &Resource<kube::Pod>,
    node: Option<&Resource<kube::Node>>,
    context: &Context<'_>,
) -> Option<Arc<Hashed<Workload>>> {
    let namespace: ironsail_names::Namespace = key.namespace.parse().ok()?;
    let (name, owner_kind) = owner(pod);
    let labels = &pod.meta.labels;
    let (canonical_name, canonical_revision) = canonical(labels, &name);
    let account = match pod.spec.service_account_name.as_str() {
        "" => "default",
        account => account,
    };
    let identity = account.parse::<ServiceAccount>().ok().map(|service_account| SpiffeId {
        trust_domain: context.mesh.trust.own().clone(),
        namespace: namespace.clone(),
        service_account,
    });
    let hbone = pod.meta.annotation(annotation::AMBIENT_REDIRECTION) == Some("enabled")
        || pod.meta.label(label::TUNNEL) == Some("http");
    Some(Arc::new(Hashed::new(Workload {
        source: key.clone(),
        name: name.into(),
        owner_kind: owner_kind.into(),
        namespace,
        cluster: key.cluster.clone(),
        labels: shared(labels),
        locality: locality(pod, node),
        network: context.network(&key.cluster, pod.meta.label(label::NETWORK), main_ip(&pod.spec)),
        identity,
        tls: TlsMode::of(labels),
        canonical_name,
        canonical_revision,
        node: pod.spec.node_name.as_str().into(),
        ports: ports(&pod.spec),
        hbone,
        bare: !hbone && is_bare(pod),
    })))
}

fn is_bare(pod: &Resource<kube::Pod>) -> bool {
    let mut containers = pod.spec.containers.iter().chain(&pod.spec.init_containers);
    let declined = pod.meta.annotation(annotation::INJECT) == Some("false");
    !pod.spec.host_network && !declined && !containers.any(|c| c.name == PROXY_CONTAINER)
}

/// All addresses of a pod.
pub(crate) fn ips(pod: &kube::Pod) -> impl Iterator<Item = IpAddr> {
    pod.ips.iter().filter_map(|ip| ip.parse().ok())
}

/// Whether it can take traffic by itself, without an EndpointSlice saying so.
pub(crate) fn is_serving(pod: &Resource<kube::Pod>) -> bool {
    pod.spec.ready && !pod.meta.deleted && !is_over(&pod.spec)
}

/// It has ended and will not run again; its address may belong to another.
pub(crate) fn is_over(pod: &kube::Pod) -> bool {
    matches!(pod.phase.as_str(), "Succeeded" | "Failed")
}

fn main_ip(pod: &kube::Pod) -> Option<IpAddr> {
    ips(pod).next()
}

/// The label on the pod, else the labels of its node.
pub(crate) fn locality(pod: &Resource<kube::Pod>, node: Option<&Resource<kube::Node>>) -> Locality {
    let own = pod.meta.label(label::LOCALITY).and_then(|text| Locality::from_label(text).ok());
    own.filter(|own| !own.is_unknown()).unwrap_or_else(|| node.map(of_node).unwrap_or_default())
}

pub(crate) fn of_node(node: &Resource<kube::Node>) -> Locality {
    let of = |name: &str, old: &str| {
        node.meta.label(name).or_else(|| node.meta.label(old)).unwrap_or_default()
    };
    Locality::new(
        of(label::REGION, "failure-domain.beta.kubernetes.io/region"),
        of(label::ZONE, "failure-domain.beta.kubernetes.io/zone"),
        of(label::SUBZONE, ""),
    )
}

fn ports(pod: &kube::Pod) -> Vec<PodPort> {
    let native = pod.init_containers.iter().filter(|c| c.restart_policy == "Always");
    let mut ports: Vec<_> = pod
        .containers
        .iter()
        .chain(native)
        .flat_map(|container| &container.ports)
        .filter_map(|port| {
            Some(PodPort {
                name: port.name.clone(),
                number: u16::try_from(port.container_port).ok().filter(|port| *port != 0)?,
                protocol: if port.protocol.is_empty() {
                    "TCP".into()
                } else {
                    port.protocol.clone()
                },
            })
        })
        .collect();
    ports.sort();
    ports.dedup();
    ports
}

/// The name and kind of what the pod belongs to. A Deployment is known by its ReplicaSet's name and
/// the hash in it, a CronJob by the time in its Job's name, as in Istio.
fn owner(pod: &Resource<kube::Pod>) -> (String, &str) {
    let meta = &pod.meta;
    let itself = || (meta.name.clone(), "Pod");
    let Some(controller) = meta.controller() else { return itself() };
    let without = |hash_label: &str| {
        let hash = meta.label(hash_label).filter(|hash| !hash.is_empty())?;
        Some(controller.name.strip_suffix(hash)?.strip_suffix('-')?.to_owned())
    };
    match controller.kind.as_str() {
        // A static pod "belongs" to its node.
        "Node" => itself(),
        "ReplicaSet" => match (without("pod-template-hash"), without("rollouts-pod-template-hash"))
        {
            (Some(name), _) => (name, "Deployment"),
            (None, Some(name)) => (name, "Rollout"),
            (None, None) => (controller.name.clone(), "ReplicaSet"),
        },
        "ReplicationController" => match meta.label("deploymentconfig") {
            Some(name) if !name.is_empty() => (name.to_owned(), "DeploymentConfig"),
            _ => (controller.name.clone(), "ReplicationController"),
        },
        "Job" => match controller.name.rsplit_once('-') {
            Some((name, time))
                if !name.is_empty()
                    && (8..=10).contains(&time.len())
                    && time.bytes().all(|c| c.is_ascii_digit()) =>
            {
                (name.to_owned(), "CronJob")
            }
            _ => (controller.name.clone(), "Job"),
        },
        kind => (controller.name.clone(), kind),
    }
}

#[cfg(test)]
mod tests;
