//! Mesh-wide settings: MeshConfig, the networks, and what follows from them.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use ironsail_api::ClusterId;
use ironsail_api::mesh::{MeshConfig, MeshNetworks};
use ironsail_api::wire::Wire;
use ironsail_names::{Hostname, Namespace, TrustDomain, TrustDomains};

use crate::hashed::{Hashed, digest};

/// MeshConfig and MeshNetworks, read.
#[derive(Clone, Debug)]
pub struct Mesh {
    pub config: MeshConfig,
    pub networks: MeshNetworks,
    /// The own domain and its aliases; those that are no names are left out.
    pub trust: TrustDomains,
    /// Where mesh-wide configuration lives.
    pub root_namespace: Namespace,
    registries: Vec<(ClusterId, Arc<str>)>,
    blocks: Vec<(IpNet, Arc<str>)>,
}

impl Mesh {
    pub fn new(config: MeshConfig, networks: MeshNetworks) -> Hashed<Self> {
        let digest = digest(&(config.write().to_string(), networks.write().to_string()));
        let own = config.trust_domain.parse().unwrap_or_else(|_| cluster_local());
        let aliases = config.trust_domain_aliases.iter().filter_map(|alias| alias.parse().ok());
        let trust = TrustDomains::new(own, aliases);
        let (registries, blocks) = crate::network::members(&networks);
        let root_namespace = config.root_namespace.parse().unwrap_or_else(|_| istio_system());
        Hashed::with_digest(
            Self { config, networks, trust, root_namespace, registries, blocks },
            digest,
        )
    }

    /// Whether clients of a service use endpoints of their own cluster only (`serviceSettings`). Of the
    /// hosts that fit, the one that says most decides.
    pub fn is_cluster_local(&self, hostname: &Hostname) -> bool {
        let settings = self.config.service_settings.iter().flat_map(|settings| {
            let local = settings.settings.as_ref().is_some_and(|one| one.cluster_local);
            settings.hosts.iter().map(move |host| (host, local))
        });
        let fits = |host: &str| match host.strip_prefix('*') {
            Some(end) => hostname.as_str().ends_with(end),
            None => hostname.as_str() == host,
        };
        let fitting = settings.filter(|(host, _)| fits(host));
        fitting.max_by_key(|(host, _)| (!host.starts_with('*'), host.len())).is_some_and(|(_, l)| l)
    }

    /// The network that MeshNetworks has an address of `cluster` in.
    pub(crate) fn network_of(&self, cluster: &ClusterId, ip: Option<IpAddr>) -> Option<Arc<str>> {
        let by_cluster = self.registries.iter().find(|(id, _)| id == cluster).map(|(_, name)| name);
        let by_block = || {
            let ip = ip?;
            self.blocks.iter().find(|(block, _)| block.contains(&ip)).map(|(_, name)| name)
        };
        by_cluster.or_else(by_block).cloned()
    }
}

fn cluster_local() -> TrustDomain {
    "cluster.local".parse().expect("a plain name")
}

fn istio_system() -> Namespace {
    "istio-system".parse().expect("a plain label")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_host_that_says_most_decides_whether_a_service_stays_in_its_cluster() {
        let config = json!({"serviceSettings": [
            {"settings": {"clusterLocal": true}, "hosts": ["*.a.svc.cluster.local", "b.b.svc.cluster.local"]},
            {"settings": {"clusterLocal": false}, "hosts": ["shared.a.svc.cluster.local"]},
        ]});
        let mesh = Mesh::new(MeshConfig::parse(&config).value, MeshNetworks::default());
        for (host, local) in [
            ("x.a.svc.cluster.local", true),
            ("shared.a.svc.cluster.local", false),
            ("b.b.svc.cluster.local", true),
            ("c.b.svc.cluster.local", false),
        ] {
            assert_eq!(mesh.is_cluster_local(&host.parse().unwrap()), local, "{host}");
        }
    }
}
