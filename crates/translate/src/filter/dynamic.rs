//! Names that are looked up when a request comes: those of services with `DYNAMIC_DNS`.
//!
//! In: the addresses a proxy has. Out: the filters that look a name up before the request or the
//! connection goes on, and the cluster type behind them. All share one cache, so all must say the
//! same of it.

use ironsail_proto::envoy::config::cluster::v3::cluster::{CustomClusterType, DnsLookupFamily};
use ironsail_proto::envoy::config::listener::v3::Filter;
use ironsail_proto::envoy::extensions::clusters::dynamic_forward_proxy::v3::{
    ClusterConfig, cluster_config::ClusterImplementationSpecifier,
};
use ironsail_proto::envoy::extensions::common::dynamic_forward_proxy::v3::DnsCacheConfig;
use ironsail_proto::envoy::extensions::filters::http::dynamic_forward_proxy::v3::{
    FilterConfig as HttpConfig, filter_config::ImplementationSpecifier,
};
use ironsail_proto::envoy::extensions::filters::network::http_connection_manager::v3::HttpFilter;
use ironsail_proto::envoy::extensions::filters::network::sni_dynamic_forward_proxy::v3::{
    FilterConfig as SniConfig, filter_config::PortSpecifier,
};
use ironsail_proto::pack;

use super::settings::Family;
use super::{http, network};

pub const HTTP: &str = "envoy.filters.http.dynamic_forward_proxy";
pub const SNI: &str = "envoy.filters.network.sni_dynamic_forward_proxy";
const CLUSTER: &str = "envoy.clusters.dynamic_forward_proxy";
const CACHE: &str = "dynamic_dns";

fn cache(family: Family) -> DnsCacheConfig {
    let family = match family {
        Family::V4 => DnsLookupFamily::V4Only,
        Family::V6 => DnsLookupFamily::V6Only,
        Family::Dual => DnsLookupFamily::All,
    };
    DnsCacheConfig { name: CACHE.into(), dns_lookup_family: family.into(), ..Default::default() }
}

/// Looks up the host of requests to such clusters; others pass untouched.
pub fn http(family: Family) -> HttpFilter {
    let config = HttpConfig {
        implementation_specifier: Some(ImplementationSpecifier::DnsCacheConfig(cache(family))),
        ..Default::default()
    };
    http::filter(HTTP, &config)
}

/// Looks up the server name of a TLS connection, which goes on to `port` there.
pub fn server_name(family: Family, port: u16) -> Filter {
    let config = SniConfig {
        dns_cache_config: Some(cache(family)),
        port_specifier: Some(PortSpecifier::PortValue(port.into())),
        ..Default::default()
    };
    network::filter(SNI, &config)
}

pub fn cluster(family: Family) -> CustomClusterType {
    let config = ClusterConfig {
        cluster_implementation_specifier: Some(ClusterImplementationSpecifier::DnsCacheConfig(
            cache(family),
        )),
        // Whether the server is checked is for the rule to say, as with all other clusters.
        allow_insecure_cluster_options: true,
        ..Default::default()
    };
    CustomClusterType { name: CLUSTER.into(), typed_config: Some(pack(&config)) }
}
