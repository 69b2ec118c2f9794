//! A connected client, as its Envoy `Node` describes it.
//!
//! In: the node of the first request; out: a typed [`Proxy`]. What a client says of itself is only a
//! claim: whoever serves it compares namespace and account with the caller's proven identity.

mod class;
mod metadata;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ironsail_api::ClusterId;
use ironsail_names::{Locality, Namespace, ServiceAccount};
use ironsail_proto::envoy::config::core::v3 as core;

pub use class::{Instance, PER_POD_LABELS, ProxyClass};
pub use metadata::{Interception, NodeMetadata, PodPort, Version};

/// One connected client.
#[derive(Clone, Debug)]
pub struct Proxy {
    pub kind: ProxyKind,
    /// `POD.NAMESPACE` for pods.
    pub id: Arc<str>,
    /// The address in the node's id first, then the others.
    pub ips: Vec<IpAddr>,
    pub namespace: Namespace,
    pub service_account: Option<ServiceAccount>,
    pub labels: Arc<BTreeMap<String, String>>,
    pub cluster: ClusterId,
    /// Empty: the default network.
    pub network: Arc<str>,
    pub locality: Locality,
    pub version: Version,
    pub metadata: Arc<NodeMetadata>,
    /// The DNS suffix for short names: `NAMESPACE.svc.cluster.local`.
    pub domain: Arc<str>,
    /// Envoy's `--service-cluster`: `httpbin.foo`.
    pub service_cluster: Arc<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProxyKind {
    Sidecar,
    /// A gateway.
    Router,
    Waypoint,
    Ztunnel,
    /// A gRPC library that takes xDS without a proxy.
    GrpcClient,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error(
        "reading node id {id:?}: it reads KIND~IP~NAME~DOMAIN, KIND is sidecar, router, waypoint or ztunnel"
    )]
    Id { id: String },
    #[error("reading node id {id:?}: {ip:?} is not the address of a sidecar")]
    Ip { id: String, ip: String },
    #[error("reading the namespace of node {id:?}")]
    Namespace { id: String, source: ironsail_names::Error },
    #[error("reading {field} of node {id:?}: it is larger than {limit}")]
    TooLarge { id: String, field: &'static str, limit: usize },
}

/// Nothing in a real node comes near these.
const MAX_ID: usize = 2048;
const MAX_IPS: usize = 64;

impl Proxy {
    /// `cluster` is the control plane's own, for clients that do not name theirs.
    pub fn parse(node: &core::Node, cluster: &ClusterId) -> Result<Self, Error> {
        let id = node.id.as_str();
        if id.len() > MAX_ID {
            let id = id.chars().take(100).collect();
            return Err(Error::TooLarge { id, field: "id", limit: MAX_ID });
        }
        let parts: Vec<&str> = id.splitn(5, '~').collect();
        let [kind, ip, name, domain] = parts[..] else {
            return Err(Error::Id { id: id.to_owned() });
        };
        let metadata = NodeMetadata::parse(node.metadata.as_ref())
            .map_err(|(field, limit)| Error::TooLarge { id: id.to_owned(), field, limit })?;
        let kind = match (kind, metadata.generator.as_deref()) {
            ("sidecar", Some("grpc")) => ProxyKind::GrpcClient,
            ("sidecar", _) => ProxyKind::Sidecar,
            ("router", _) => ProxyKind::Router,
            ("waypoint", _) => ProxyKind::Waypoint,
            ("ztunnel", _) => ProxyKind::Ztunnel,
            _ => return Err(Error::Id { id: id.to_owned() }),
        };
        let ips = addresses(id, kind, ip, &metadata)?;
        let namespace = match &metadata.namespace {
            Some(name) => name.as_str(),
            None => domain.split('.').next().unwrap_or_default(),
        };
        let namespace =
            namespace.parse().map_err(|source| Error::Namespace { id: id.to_owned(), source })?;
        Ok(Self {
            kind,
            id: name.into(),
            ips,
            namespace,
            service_account: metadata.service_account.as_deref().and_then(|a| a.parse().ok()),
            labels: metadata.labels.clone(),
            cluster: metadata
                .cluster_id
                .as_deref()
                .map_or_else(|| cluster.clone(), ClusterId::from),
            network: metadata.network.as_deref().unwrap_or_default().into(),
            locality: locality(node, &metadata),
            version: metadata.version,
            metadata: Arc::new(metadata),
            domain: domain.into(),
            service_cluster: node.cluster.chars().take(MAX_ID).collect::<String>().into(),
        })
    }

    /// The pod's name, if the id reads as that of a pod.
    pub fn pod_name(&self) -> Option<&str> {
        let (name, namespace) = self.id.rsplit_once('.')?;
        (namespace == self.namespace.as_str()).then_some(name)
    }

    pub fn has_ip(&self, ip: IpAddr) -> bool {
        self.ips.contains(&ip)
    }

    pub fn supports_ipv4(&self) -> bool {
        self.ips.is_empty() || self.ips.iter().any(IpAddr::is_ipv4)
    }

    pub fn supports_ipv6(&self) -> bool {
        self.ips.iter().any(IpAddr::is_ipv6)
    }
}

impl ProxyKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sidecar => "sidecar",
            Self::Router => "router",
            Self::Waypoint => "waypoint",
            Self::Ztunnel => "ztunnel",
            Self::GrpcClient => "grpc",
        }
    }
}

/// The id's address and those of `INSTANCE_IPS`, each once. Only sidecars must have one.
fn addresses(
    id: &str,
    kind: ProxyKind,
    ip: &str,
    metadata: &NodeMetadata,
) -> Result<Vec<IpAddr>, Error> {
    let mut ips = Vec::new();
    match ip.parse::<IpAddr>() {
        Ok(ip) => ips.push(ip.to_canonical()),
        Err(_) if kind == ProxyKind::Sidecar || kind == ProxyKind::GrpcClient => {
            return Err(Error::Ip { id: id.to_owned(), ip: ip.chars().take(100).collect() });
        }
        Err(_) => {}
    }
    for ip in &metadata.instance_ips {
        if ips.len() < MAX_IPS && !ips.contains(ip) {
            ips.push(*ip);
        }
    }
    Ok(ips)
}

/// The label `istio-locality` wins over Envoy's own locality, as in Istio.
fn locality(node: &core::Node, metadata: &NodeMetadata) -> Locality {
    let label = metadata.labels.get(ironsail_names::label::LOCALITY);
    if let Some(locality) = label.and_then(|label| Locality::from_label(label).ok())
        && !locality.is_unknown()
    {
        return locality;
    }
    let short = |text: &str| text.chars().take(253).collect::<String>();
    node.locality
        .as_ref()
        .map(|l| Locality::new(&short(&l.region), &short(&l.zone), &short(&l.sub_zone)))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
