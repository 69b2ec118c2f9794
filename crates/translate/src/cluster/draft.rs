//! A cluster in the making: the cluster and its HTTP options, which become one message at the end.
//!
//! In: a name and a way of discovery. Out: an Envoy cluster. It knows defaults, no rule of users.

use ironsail_proto::envoy::config::cluster::v3::circuit_breakers::Thresholds;
use ironsail_proto::envoy::config::cluster::v3::cluster::{
    ClusterDiscoveryType, CommonLbConfig, CustomClusterType, DiscoveryType, EdsClusterConfig,
    LbPolicy,
};
use ironsail_proto::envoy::config::cluster::v3::{CircuitBreakers, Cluster};
use ironsail_proto::envoy::config::core::v3::{
    Http1ProtocolOptions, Http2ProtocolOptions, HttpProtocolOptions as CommonHttpOptions,
    UpstreamHttpProtocolOptions,
};
use ironsail_proto::envoy::config::endpoint::v3::{ClusterLoadAssignment, LocalityLbEndpoints};
use ironsail_proto::envoy::extensions::clusters::common::dns::v3::DnsLookupFamily;
use ironsail_proto::envoy::extensions::clusters::dns::v3::DnsCluster;
use ironsail_proto::envoy::extensions::upstreams::http::v3::HttpProtocolOptions;
use ironsail_proto::envoy::extensions::upstreams::http::v3::http_protocol_options::{
    ExplicitHttpConfig, UpstreamProtocolOptions, UseDownstreamHttpConfig,
    explicit_http_config::ProtocolConfig,
};
use ironsail_proto::google::protobuf::{Duration, UInt32Value};
use ironsail_proto::{Name, pack};

use crate::filter::{dynamic, settings};
use crate::tls::ads;

/// How a cluster learns its endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Discovery {
    Eds,
    Static,
    /// Where the caller wanted to go anyway.
    OriginalDestination,
    /// All addresses of each name.
    StrictDns,
    /// One connection at a time to whatever the name means now.
    LogicalDns,
    /// Whatever name a request asks for, looked up then.
    Dynamic,
}

/// Which addresses a proxy looks up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
    Both,
}

pub(crate) struct Draft {
    pub(crate) cluster: Cluster,
    pub(crate) discovery: Discovery,
    pub(crate) http: Option<HttpProtocolOptions>,
}

impl Draft {
    pub(crate) fn new(name: String, discovery: Discovery) -> Self {
        let cluster = Cluster {
            // The bootstrap's rules for tags look for the semicolon.
            alt_stat_name: format!("{name};"),
            name,
            common_lb_config: Some(CommonLbConfig::default()),
            ..Default::default()
        };
        Self { cluster, discovery, http: None }
    }

    /// A cluster that is made elsewhere, to apply one stage to it.
    pub(crate) fn of(cluster: Cluster) -> Self {
        Self { cluster, discovery: Discovery::Eds, http: None }
    }

    pub(crate) fn http(&mut self) -> &mut HttpProtocolOptions {
        self.http.get_or_insert_default()
    }

    pub(crate) fn common_http(&mut self) -> &mut CommonHttpOptions {
        self.http().common_http_protocol_options.get_or_insert_default()
    }

    pub(crate) fn upstream_http(&mut self) -> &mut UpstreamHttpProtocolOptions {
        self.http().upstream_http_protocol_options.get_or_insert_default()
    }

    pub(crate) fn lb(&mut self) -> &mut CommonLbConfig {
        self.cluster.common_lb_config.get_or_insert_default()
    }

    pub(crate) fn thresholds(&mut self) -> &mut Thresholds {
        let breakers = self.cluster.circuit_breakers.get_or_insert_default();
        if breakers.thresholds.is_empty() {
            breakers.thresholds.push(open_thresholds());
        }
        &mut breakers.thresholds[0]
    }

    pub(crate) fn use_http2(&mut self) {
        let options = ProtocolConfig::Http2ProtocolOptions(Http2ProtocolOptions::default());
        self.http().upstream_protocol_options = Some(explicit(options));
    }

    /// HTTP/1.1 or HTTP/2, as the caller's request came.
    pub(crate) fn use_downstream_protocol(&mut self) {
        self.http().upstream_protocol_options = Some(downstream());
    }

    /// Whether the caller's request decides the protocol.
    pub(crate) fn follows_downstream(&self) -> bool {
        let options = self.http.as_ref().and_then(|http| http.upstream_protocol_options.as_ref());
        matches!(options, Some(UpstreamProtocolOptions::UseDownstreamProtocolConfig(_)))
    }

    pub(crate) fn http2(&mut self) -> Option<&mut Http2ProtocolOptions> {
        let options = self.http.as_mut()?.upstream_protocol_options.as_mut()?;
        match options {
            UpstreamProtocolOptions::ExplicitHttpConfig(ExplicitHttpConfig {
                protocol_config: Some(ProtocolConfig::Http2ProtocolOptions(options)),
            }) => Some(options),
            _ => None,
        }
    }

    /// Traffic goes where its caller sent it, whatever was planned before.
    pub(crate) fn use_original_destination(&mut self) {
        self.discovery = Discovery::OriginalDestination;
        self.cluster.load_assignment = None;
    }

    pub(crate) fn load(&mut self, endpoints: Vec<LocalityLbEndpoints>) {
        self.cluster.load_assignment = Some(ClusterLoadAssignment {
            cluster_name: self.cluster.name.clone(),
            endpoints,
            ..Default::default()
        });
    }

    /// How the names of a DNS cluster are looked up; without effect on others.
    pub(crate) fn look_up(&mut self, refresh: Option<Duration>, family: Family) {
        let single = match self.discovery {
            Discovery::Dynamic => {
                let family = match family {
                    Family::V4 => settings::Family::V4,
                    Family::V6 => settings::Family::V6,
                    Family::Both => settings::Family::Dual,
                };
                self.cluster.cluster_discovery_type =
                    Some(ClusterDiscoveryType::ClusterType(dynamic::cluster(family)));
                return;
            }
            Discovery::StrictDns => false,
            Discovery::LogicalDns => true,
            _ => return,
        };
        let family = match family {
            Family::V4 => DnsLookupFamily::V4Only,
            Family::V6 => DnsLookupFamily::V6Only,
            Family::Both => DnsLookupFamily::All,
        };
        // The plain fields of a cluster for this are deprecated in Envoy 1.40.
        let config = DnsCluster {
            dns_refresh_rate: refresh,
            dns_jitter: Some(Duration { seconds: 0, nanos: 100_000_000 }),
            respect_dns_ttl: true,
            dns_lookup_family: family.into(),
            all_addresses_in_single_endpoint: single,
            ..Default::default()
        };
        self.cluster.cluster_discovery_type =
            Some(ClusterDiscoveryType::ClusterType(CustomClusterType {
                name: "envoy.cluster.dns".into(),
                typed_config: Some(pack(&config)),
            }));
    }

    pub(crate) fn finish(mut self) -> Cluster {
        let plain = match self.discovery {
            Discovery::Eds => Some(DiscoveryType::Eds),
            Discovery::Static => Some(DiscoveryType::Static),
            Discovery::OriginalDestination => Some(DiscoveryType::OriginalDst),
            Discovery::StrictDns | Discovery::LogicalDns | Discovery::Dynamic => None,
        };
        if let Some(plain) = plain {
            self.cluster.cluster_discovery_type = Some(ClusterDiscoveryType::Type(plain.into()));
        }
        match self.discovery {
            Discovery::Eds => {
                self.cluster.eds_cluster_config = Some(EdsClusterConfig {
                    eds_config: Some(ads()),
                    service_name: self.cluster.name.clone(),
                });
            }
            Discovery::OriginalDestination | Discovery::Dynamic => {
                self.cluster.lb_policy = LbPolicy::ClusterProvided.into();
            }
            _ => {}
        }
        if let Some(mut http) = self.http {
            // Envoy refuses options that do not say which protocol.
            let plain =
                || explicit(ProtocolConfig::HttpProtocolOptions(Http1ProtocolOptions::default()));
            http.upstream_protocol_options.get_or_insert_with(plain);
            let name = HttpProtocolOptions::full_name();
            self.cluster.typed_extension_protocol_options.insert(name, pack(&http));
        }
        self.cluster
    }
}

fn explicit(config: ProtocolConfig) -> UpstreamProtocolOptions {
    UpstreamProtocolOptions::ExplicitHttpConfig(ExplicitHttpConfig {
        protocol_config: Some(config),
    })
}

fn downstream() -> UpstreamProtocolOptions {
    UpstreamProtocolOptions::UseDownstreamProtocolConfig(UseDownstreamHttpConfig {
        http_protocol_options: Some(Http1ProtocolOptions::default()),
        http2_protocol_options: Some(Http2ProtocolOptions::default()),
        ..Default::default()
    })
}

/// Envoy's own limits are low enough to be hit when pods come and go; these are never.
pub(crate) fn open_thresholds() -> Thresholds {
    let max = Some(UInt32Value { value: u32::MAX });
    Thresholds {
        max_connections: max,
        max_pending_requests: max,
        max_requests: max,
        max_retries: max,
        track_remaining: true,
        ..Default::default()
    }
}

pub(crate) fn open_breakers() -> CircuitBreakers {
    CircuitBreakers { thresholds: vec![open_thresholds()], ..Default::default() }
}
