//! The whole mesh at one moment. Never changes; cheap to hold; shares what did not change with the
//! snapshots before and after it.

pub(crate) mod class;
mod count;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use ironsail_api::{ClusterId, Diagnostic, Kind, ObjectKey, Resource, kube};
use ironsail_names::{Hostname, Namespace};

pub use count::Counts;

use crate::config::{Config, GatewayRef, PeerMode, Target};
use crate::endpoint::{EndpointTable, ServiceEndpoints};
use crate::hashed::Hashed;
use crate::keys::{Fetched, KeySource};
use crate::mesh::Mesh;
use crate::network::NetworkGateways;
use crate::service::{Service, ServiceTable};
use crate::settings::Settings;
use crate::table::Map;
use crate::workload::Workload;
use crate::{ServiceKey, proxy};

#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Counts up with each snapshot of a store.
    pub number: u64,
    pub settings: Arc<Settings>,
    pub mesh: Arc<Hashed<Mesh>>,
    pub services: ServiceTable,
    pub endpoints: EndpointTable,
    /// Of Services that no selector stands for: who serves them is known by address only.
    pub(crate) hosts: Map<IpAddr, Arc<BTreeSet<ServiceKey>>>,
    pub workloads: WorkloadTable,
    pub config: Config,
    pub namespaces: Map<ObjectKey, Arc<Resource<kube::Namespace>>>,
    pub secrets: Map<ObjectKey, Arc<Resource<kube::Secret>>>,
    pub config_maps: Map<ObjectKey, Arc<Resource<kube::ConfigMap>>>,
    pub gateways: Arc<NetworkGateways>,
    pub(crate) keys: Map<KeySource, Fetched>,
    pub(crate) notes: Map<NoteKey, Arc<[Diagnostic]>>,
    pub(crate) endpoint_count: usize,
    /// Services and rules whose traffic depends on the sender's node.
    pub(crate) node_bound: usize,
}

/// Pods and WorkloadEntries by object and by address.
#[derive(Clone, Debug, Default)]
pub struct WorkloadTable {
    pub(crate) keys: Map<ObjectKey, Arc<Hashed<Workload>>>,
    pub(crate) ips: Map<(IpAddr, ClusterId), ObjectKey>,
}

/// What a diagnostic follows from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NoteKey {
    Service(ServiceKey),
    Hostname(Hostname),
    Route(GatewayRef, Hostname),
}

impl Snapshot {
    pub fn root_namespace(&self) -> &Namespace {
        &self.mesh.root_namespace
    }

    pub fn service(&self, key: &ServiceKey) -> Option<&Arc<Service>> {
        self.services.get(key)
    }

    /// A service without endpoints has an empty set.
    pub fn endpoints_of(&self, key: &ServiceKey) -> Arc<ServiceEndpoints> {
        self.endpoints.get(key).cloned().unwrap_or_default()
    }

    /// The labels of a namespace in a cluster.
    pub fn namespace(
        &self,
        cluster: &ClusterId,
        name: &Namespace,
    ) -> Option<&Arc<Resource<kube::Namespace>>> {
        self.namespaces.get(&ObjectKey {
            cluster: cluster.clone(),
            kind: Kind::Namespace,
            namespace: "".into(),
            name: name.as_str().into(),
        })
    }

    pub fn secret(
        &self,
        cluster: &ClusterId,
        namespace: &str,
        name: &str,
    ) -> Option<&Arc<Resource<kube::Secret>>> {
        self.secrets.get(&ObjectKey {
            cluster: cluster.clone(),
            kind: Kind::Secret,
            namespace: namespace.into(),
            name: name.into(),
        })
    }

    pub fn config_map(
        &self,
        cluster: &ClusterId,
        namespace: &str,
        name: &str,
    ) -> Option<&Arc<Resource<kube::ConfigMap>>> {
        self.config_maps.get(&ObjectKey {
            cluster: cluster.clone(),
            kind: Kind::ConfigMap,
            namespace: namespace.into(),
            name: name.into(),
        })
    }

    /// What mutual TLS a workload takes.
    pub fn peer_mode(&self, target: Target<'_>) -> PeerMode {
        self.config.peer_authentications.effective(self.root_namespace(), target)
    }

    /// What is odd about the objects as a whole; each object by itself was judged when it was read.
    pub fn diagnostics(&self) -> impl Iterator<Item = &Diagnostic> {
        self.notes.values().flat_map(|notes| notes.iter())
    }
}

impl WorkloadTable {
    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<Hashed<Workload>>> {
        self.keys.get(key)
    }

    /// Who has the address in a cluster.
    pub fn at(&self, cluster: &ClusterId, ip: IpAddr) -> Option<&Arc<Hashed<Workload>>> {
        self.keys.get(self.ips.get(&(ip, cluster.clone()))?)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<Hashed<Workload>>)> {
        self.keys.iter()
    }

    /// Every address and who has it.
    pub fn addresses(&self) -> impl Iterator<Item = (IpAddr, &ObjectKey)> {
        self.ips.iter().map(|((ip, _), key)| (*ip, key))
    }

    /// The pod that the proxy runs in, or the WorkloadEntry at its address.
    pub fn of_proxy(&self, proxy: &proxy::Proxy) -> Option<&Arc<Hashed<Workload>>> {
        let by_name = proxy.pod_name().and_then(|name| {
            self.keys.get(&ObjectKey {
                cluster: proxy.cluster.clone(),
                kind: Kind::Pod,
                namespace: proxy.namespace.as_str().into(),
                name: name.into(),
            })
        });
        by_name.or_else(|| {
            let mut at = proxy.ips.iter().filter_map(|ip| self.at(&proxy.cluster, *ip));
            at.find(|workload| workload.namespace == proxy.namespace)
        })
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}
