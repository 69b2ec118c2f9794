//! Network filters: the TCP proxy and where it sends a connection.

use std::time::Duration;

use ironsail_proto::envoy::config::listener::v3::{Filter, filter::ConfigType};
use ironsail_proto::envoy::extensions::filters::network::tcp_proxy::v3::{
    TcpProxy,
    tcp_proxy::{
        ClusterSpecifier, TcpAccessLogOptions, TunnelingConfig, WeightedCluster,
        weighted_cluster::ClusterWeight,
    },
};
use ironsail_proto::envoy::r#type::v3::{HashPolicy, hash_policy};
use ironsail_proto::{Name, pack};

use ironsail_telemetry::Service;

use super::settings::{Settings, Side};
use super::{access, dynamic, wire};

pub const TCP_PROXY: &str = "envoy.filters.network.tcp_proxy";

/// Network filters of stages, by the place where they stand: all before the TCP proxy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Slots {
    pub exchange: Vec<Filter>,
    pub authorization: Vec<Filter>,
    pub statistics: Vec<Filter>,
}

/// What one TCP proxy does.
#[derive(Clone, Debug, Default)]
pub struct Tcp {
    pub stat_prefix: String,
    /// Cluster and weight. One cluster needs no weight.
    pub clusters: Vec<(String, u32)>,
    /// Before that of the proxy's own settings.
    pub idle_timeout: Option<Duration>,
    pub max_duration: Option<Duration>,
    /// The client's address decides which endpoint it gets.
    pub hash_source: bool,
    pub tunnel: Option<TunnelingConfig>,
    /// The server name is looked up, and this port is called there.
    pub dynamic: Option<u16>,
    pub side: Side,
    /// The service that is served, which the name of an inbound cluster does not say.
    pub service: Option<Service>,
}

impl Tcp {
    pub fn to(cluster: impl Into<String>) -> Self {
        let cluster = cluster.into();
        Self { stat_prefix: cluster.clone(), clusters: vec![(cluster, 1)], ..Default::default() }
    }
}

pub fn filter<M: Name>(name: &str, config: &M) -> Filter {
    Filter { name: name.into(), config_type: Some(ConfigType::TypedConfig(pack(config))) }
}

/// A whole stack that ends in a TCP proxy.
pub fn stack(settings: &Settings, tcp: Tcp, slots: &Slots) -> Vec<Filter> {
    let mut filters = slots.exchange.clone();
    filters.extend(slots.authorization.iter().cloned());
    filters.extend(slots.statistics.iter().cloned());
    filters.extend(tcp.dynamic.map(|port| dynamic::server_name(settings.family, port)));
    filters.push(proxy(settings, tcp));
    filters
}

/// The TCP proxy alone, with its log.
pub fn proxy(settings: &Settings, tcp: Tcp) -> Filter {
    let idle = tcp.idle_timeout.or(settings.idle_timeout);
    let hash_policy = tcp.hash_source.then_some(HashPolicy {
        policy_specifier: Some(hash_policy::PolicySpecifier::SourceIp(hash_policy::SourceIp {})),
    });
    let config = TcpProxy {
        stat_prefix: tcp.stat_prefix,
        cluster_specifier: Some(specifier(tcp.clusters)),
        idle_timeout: idle.and_then(wire::span),
        max_downstream_connection_duration: tcp.max_duration.and_then(wire::span),
        access_log: access::tcp(settings, tcp.side, tcp.service.as_ref()),
        access_log_options: settings.metrics.as_ref().map(|metrics| TcpAccessLogOptions {
            access_log_flush_interval: wire::span(metrics.interval),
            ..Default::default()
        }),
        hash_policy: hash_policy.into_iter().collect(),
        tunneling_config: tcp.tunnel,
        ..Default::default()
    };
    filter(TCP_PROXY, &config)
}

/// A TCP proxy to where nothing goes, without a log.
pub fn black_hole() -> Filter {
    let config = TcpProxy {
        stat_prefix: ironsail_names::BLACK_HOLE_CLUSTER.into(),
        cluster_specifier: Some(ClusterSpecifier::Cluster(
            ironsail_names::BLACK_HOLE_CLUSTER.into(),
        )),
        ..Default::default()
    };
    filter(TCP_PROXY, &config)
}

fn specifier(mut clusters: Vec<(String, u32)>) -> ClusterSpecifier {
    if clusters.len() == 1 {
        return ClusterSpecifier::Cluster(clusters.remove(0).0);
    }
    // What gets nothing is left out: Envoy takes no weight of zero.
    let clusters = clusters
        .into_iter()
        .filter(|(_, weight)| *weight > 0)
        .map(|(name, weight)| ClusterWeight { name, weight, ..Default::default() })
        .collect();
    ClusterSpecifier::WeightedClusters(WeightedCluster { clusters })
}
