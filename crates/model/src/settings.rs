//! What the model is told once, at the start.

use std::sync::Arc;

use ironsail_api::ClusterId;
use ironsail_names::{ClusterDomain, Namespace};

use crate::keys::KeyFetch;

#[derive(Clone, Debug)]
pub struct Settings {
    /// The cluster this control plane runs in.
    pub cluster: ClusterId,
    pub domain: ClusterDomain,
    /// Where mesh-wide configuration lives: `istio-system`.
    pub root_namespace: Namespace,
    /// Empty or `default`: no revision.
    pub revision: String,
    /// The network of workloads that nothing else tells it of; empty: the default one.
    pub network: Arc<str>,
    /// Give addresses to ServiceEntries that have none.
    pub allocate_addresses: bool,
    /// Who fetches the keys of token issuers (`PILOT_JWT_ENABLE_REMOTE_JWKS`).
    pub key_fetch: KeyFetch,
    /// Several external authorizers may decide on one workload
    /// (`PILOT_ENABLE_MULTIPLE_CUSTOM_AUTHZ_PROVIDERS`).
    pub several_authorizers: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            cluster: ClusterId::from("Kubernetes"),
            domain: ClusterDomain::default(),
            root_namespace: "istio-system".parse().expect("a plain DNS label"),
            revision: String::new(),
            network: "".into(),
            allocate_addresses: true,
            key_fetch: KeyFetch::default(),
            several_authorizers: false,
        }
    }
}
