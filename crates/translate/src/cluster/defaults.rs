//! What clusters take from the mesh configuration.

use std::time::Duration;

use ironsail_api::istio::networking::TcpKeepalive;
use ironsail_api::mesh::{InboundMode, MeshConfig, MeshH2UpgradePolicy};
use ironsail_model::Mesh;
use ironsail_names::TrustDomains;

use crate::compliance::Compliance;
use crate::endpoint::Wide;

/// Settings of the mesh that clusters depend on.
#[derive(Clone, Debug)]
pub(crate) struct Defaults<'a> {
    pub(crate) connect_timeout: Duration,
    pub(crate) keepalive: Option<&'a TcpKeepalive>,
    pub(crate) h2_upgrade: bool,
    pub(crate) ecdh_curves: &'a [String],
    pub(crate) cipher_suites: &'a [String],
    pub(crate) compliance: Compliance,
    pub(crate) dns_refresh: Option<Duration>,
    pub(crate) preference: Wide<'a>,
    pub(crate) outbound_stat_name: &'a str,
    pub(crate) inbound_stat_name: &'a str,
    pub(crate) trust_domains: &'a TrustDomains,
}

impl<'a> Defaults<'a> {
    pub(crate) fn of(mesh: &'a Mesh) -> Self {
        let config = &mesh.config;
        let tls = config.tls_defaults.as_ref();
        Self {
            connect_timeout: config.connect_timeout.unwrap_or(Duration::from_secs(10)),
            keepalive: config.tcp_keepalive.as_ref(),
            h2_upgrade: config.h2_upgrade_policy == MeshH2UpgradePolicy::Upgrade,
            ecdh_curves: tls.map_or(&[], |t| &t.ecdh_curves),
            cipher_suites: tls.map_or(&[], |t| &t.cipher_suites),
            compliance: Compliance::of(config),
            dns_refresh: config.dns_refresh_rate,
            preference: Wide::of(config),
            outbound_stat_name: &config.outbound_cluster_stat_name,
            inbound_stat_name: &config.inbound_cluster_stat_name,
            trust_domains: &mesh.trust,
        }
    }
}

/// Whether inbound traffic goes to the loopback address, as it once did everywhere.
pub(crate) fn inbound_to_localhost(mesh: &MeshConfig) -> bool {
    mesh.inbound_traffic_policy.as_ref().is_some_and(|p| p.mode == InboundMode::Localhost)
}
