//! What runs behind an endpoint: a pod or a WorkloadEntry, as far as the mesh cares.

pub(crate) mod entry;
pub(crate) mod pod;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ironsail_api::{ClusterId, ObjectKey};
use ironsail_names::{Locality, Namespace, SpiffeId, label};

use crate::mesh::Mesh;
use crate::proxy::PodPort;
use crate::service::Labels;
use crate::settings::Settings;

/// One pod or entry. Shared by all endpoints on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Workload {
    /// The Pod, WorkloadEntry, or the ServiceEntry that lists the endpoint.
    pub source: ObjectKey,
    /// The name of what owns it: `httpbin` for a pod of Deployment httpbin.
    pub name: Arc<str>,
    /// The kind of what owns it, `Deployment`; `Pod` if nothing does.
    pub owner_kind: Arc<str>,
    pub namespace: Namespace,
    pub cluster: ClusterId,
    pub labels: Labels,
    pub locality: Locality,
    /// Empty: the default network.
    pub network: Arc<str>,
    pub identity: Option<SpiffeId>,
    pub tls: TlsMode,
    pub canonical_name: Arc<str>,
    pub canonical_revision: Arc<str>,
    /// Empty if not known.
    pub node: Arc<str>,
    /// Ports of its containers.
    pub ports: Vec<PodPort>,
    /// Reached by HBONE.
    pub hbone: bool,
    /// A pod with an address of its own, without a proxy beside it, that did not decline one.
    pub bare: bool,
}

/// Whether a sidecar in front of the workload takes mutual TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TlsMode {
    /// `istio`
    Istio,
    #[default]
    Disabled,
}

impl TlsMode {
    pub fn of(labels: &BTreeMap<String, String>) -> Self {
        match labels.get(label::TLS_MODE).map(String::as_str) {
            Some("istio") => Self::Istio,
            _ => Self::Disabled,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Istio => "istio",
            Self::Disabled => "disabled",
        }
    }
}

/// What a workload depends on beside its own object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) mesh: &'a Mesh,
    /// The network that the label of each cluster's root namespace names.
    pub(crate) cluster_networks: &'a BTreeMap<ClusterId, Arc<str>>,
}

impl Context<'_> {
    /// The workload's own label, else that of the cluster's root namespace, else MeshNetworks, else
    /// what we were started with.
    pub(crate) fn network(
        &self,
        cluster: &ClusterId,
        own: Option<&str>,
        ip: Option<IpAddr>,
    ) -> Arc<str> {
        if let Some(own) = own.filter(|own| !own.is_empty()) {
            return own.into();
        }
        let default = || match *cluster == self.settings.cluster {
            true => self.settings.network.clone(),
            false => "".into(),
        };
        let cluster_network = self.cluster_networks.get(cluster).cloned();
        cluster_network.or_else(|| self.mesh.network_of(cluster, ip)).unwrap_or_else(default)
    }
}

/// The service and revision that telemetry knows a workload by.
fn canonical(labels: &BTreeMap<String, String>, workload: &str) -> (Arc<str>, Arc<str>) {
    let first = |names: [&str; 3], default: &str| {
        let mut found = names.iter().filter_map(|name| labels.get(*name));
        found.find(|value| !value.is_empty()).map_or(default, String::as_str).into()
    };
    (
        first([label::CANONICAL_NAME, label::K8S_NAME, label::APP], workload),
        first([label::CANONICAL_REVISION, label::K8S_VERSION, label::VERSION], "latest"),
    )
}

fn shared(labels: &BTreeMap<String, String>) -> Labels {
    Arc::new(labels.clone())
}
