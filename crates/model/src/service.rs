//! A service as the mesh sees it, wherever it was declared.

pub(crate) mod entry;
pub(crate) mod kube;
pub(crate) mod merge;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use ironsail_api::{ClusterId, ObjectKey};
use ironsail_names::{Hostname, Namespace};
use jiff::Timestamp;

pub use table::ServiceTable;

use crate::{Protocol, ServiceKey, Visibility};

/// Labels, shared by all that carry them.
pub type Labels = Arc<BTreeMap<String, String>>;

/// A name that can be called.
///
/// `digest` covers everything else here; equal digests, equal services.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Service {
    pub key: ServiceKey,
    /// The Kubernetes Service's name; the hostname for a ServiceEntry.
    pub name: Arc<str>,
    pub registry: Registry,
    /// The objects that declare it, the one that decides first.
    pub sources: Vec<ObjectKey>,
    pub created: Option<Timestamp>,
    /// Virtual addresses, the main one first. Empty: none was given (or headless).
    pub addresses: Vec<IpAddr>,
    /// Blocks of addresses, which a ServiceEntry may have.
    pub ranges: Vec<IpNet>,
    /// Addresses that we gave it because it has none (ServiceEntry only): one of each family.
    pub auto_addresses: Vec<IpAddr>,
    /// Virtual addresses by cluster, where the same Service exists in several.
    pub cluster_addresses: BTreeMap<ClusterId, Vec<IpAddr>>,
    /// `externalIPs` and addresses of load balancers.
    pub external_addresses: Vec<IpAddr>,
    pub ports: Vec<ServicePort>,
    pub resolution: Resolution,
    /// Outside the mesh: no mutual TLS by itself.
    pub external: bool,
    /// What an ExternalName stands for.
    pub alias: Option<Hostname>,
    pub export_to: Visibility,
    pub labels: Labels,
    /// Only the mesh's own (`…istio.io/…`).
    pub annotations: Labels,
    /// None: endpoints are given by hand.
    pub selector: Option<Labels>,
    pub subject_alt_names: BTreeSet<String>,
    /// Identities that annotations add to those of the endpoints, `spiffe://…`.
    pub service_accounts: BTreeSet<String>,
    pub publish_not_ready: bool,
    pub distribution: TrafficDistribution,
    /// `internalTrafficPolicy: Local`
    pub node_local: bool,
    /// A client keeps its endpoint (`sessionAffinity: ClientIP`).
    pub sticky: bool,
    pub kind: ServiceKind,
    pub digest: u64,
}

/// One port of a service.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServicePort {
    pub number: u16,
    pub name: Arc<str>,
    pub protocol: Protocol,
    pub target: TargetPort,
    pub node_port: Option<u16>,
}

/// The port behind a service's port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TargetPort {
    Number(u16),
    /// A port of a container.
    Name(Arc<str>),
}

/// How endpoints are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resolution {
    /// From the endpoint table: EDS.
    ClientSide,
    /// The client chose: headless Services, and ServiceEntries with resolution NONE.
    Passthrough,
    /// The proxy asks DNS and uses all answers.
    Dns,
    /// The proxy asks DNS and uses the first answer.
    DnsRoundRobin,
    /// The proxy asks DNS for the name the client asked for.
    DynamicDns,
    /// Another name for a service: ExternalName.
    Alias,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Registry {
    Kubernetes,
    ServiceEntry,
}

/// The form of a Kubernetes Service; a ServiceEntry is `Entry`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ServiceKind {
    ClusterIp,
    Headless,
    NodePort,
    LoadBalancer,
    ExternalName,
    Entry,
}

/// `trafficDistribution`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TrafficDistribution {
    #[default]
    Any,
    PreferSameZone,
    PreferSameNode,
}

/// Of an object's annotations those that are the mesh's own: others change without a meaning for us.
pub(crate) fn own_annotations(all: &BTreeMap<String, String>) -> Labels {
    let own = all.iter().filter(|(name, _)| name.contains("istio.io/"));
    Arc::new(own.map(|(name, value)| (name.clone(), value.clone())).collect())
}

impl Service {
    pub fn hostname(&self) -> &Hostname {
        &self.key.hostname
    }

    pub fn namespace(&self) -> &Namespace {
        &self.key.namespace
    }

    pub fn port(&self, number: u16) -> Option<&ServicePort> {
        self.ports.iter().find(|port| port.number == number)
    }

    pub fn port_named(&self, name: &str) -> Option<&ServicePort> {
        self.ports.iter().find(|port| &*port.name == name)
    }

    pub fn is_headless(&self) -> bool {
        self.kind == ServiceKind::Headless
    }

    /// Virtual addresses as proxies of `cluster` know them.
    pub fn addresses_in(&self, cluster: &ClusterId) -> &[IpAddr] {
        match self.cluster_addresses.get(cluster) {
            Some(addresses) => addresses,
            None => &self.addresses,
        }
    }

    /// Whether clusters, listeners or names, and not only load assignments, are made from the
    /// endpoints: the proxy resolves them itself, or reaches each by its own address.
    pub fn embeds_endpoints(&self) -> bool {
        !matches!(self.resolution, Resolution::ClientSide | Resolution::Alias)
    }

    /// Whether its endpoints depend on the node that the client runs on.
    pub fn is_bound_to_nodes(&self) -> bool {
        self.node_local || self.distribution == TrafficDistribution::PreferSameNode
    }

    /// Whether pods with these labels stand behind it. A Service without selector has none by itself.
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        self.selector
            .as_ref()
            .is_some_and(|wanted| !wanted.is_empty() && crate::select::matches(wanted, labels))
    }

    /// The digest of everything but `digest` itself.
    pub(crate) fn sealed(mut self) -> Self {
        self.digest = 0;
        self.digest = crate::hashed::digest(&self);
        self
    }
}
