//! What TCP proxies need of services and DestinationRules, and nothing else of them.

use std::collections::BTreeMap;
use std::time::Duration;

use ironsail_api::istio::networking::{DestinationRule, HashKey, LbPolicy, TrafficPolicy};
use ironsail_model::{Resolution, Service};
use ironsail_names::Hostname;
use ironsail_proto::envoy::extensions::filters::network::tcp_proxy::v3::tcp_proxy::TunnelingConfig;

use crate::filter::network::Tcp;
use crate::route::domain;

/// What TCP proxies need of a DestinationRule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Rule {
    idle_timeout: Option<Duration>,
    max_duration: Option<Duration>,
    source_ip: bool,
    tunnel: Option<Tunnel>,
    /// Where a subset says something else about the last two.
    subsets: BTreeMap<String, (Option<bool>, Option<Tunnel>)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Tunnel {
    target: String,
    post: bool,
}

/// A host that connections are sent to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Target {
    pub(crate) ports: Vec<u16>,
    pub(crate) alias: Option<Hostname>,
    pub(crate) rule: Rule,
    pub(crate) known: bool,
    /// Looked up by name when a connection comes.
    pub(crate) dynamic: bool,
}

pub(crate) type Targets = BTreeMap<Hostname, Target>;

impl Target {
    pub(crate) fn new(service: Option<&Service>, rule: Option<&DestinationRule>) -> Self {
        Self {
            ports: service.map(|s| s.ports.iter().map(|p| p.number).collect()).unwrap_or_default(),
            alias: service.and_then(|s| s.alias.clone()),
            rule: Rule::with(service.is_some_and(|s| s.sticky), rule),
            known: service.is_some(),
            dynamic: service.is_some_and(|s| s.resolution == Resolution::DynamicDns),
        }
    }
}

impl Rule {
    /// A client of a `sticky` service keeps its endpoint, unless the rule balances in its own way.
    pub(crate) fn with(sticky: bool, rule: Option<&DestinationRule>) -> Self {
        let mut own = rule.map(Self::of).unwrap_or_default();
        let policy = rule.and_then(|rule| rule.traffic_policy.as_ref());
        own.source_ip |= sticky && policy.is_none_or(|policy| policy.load_balancer.is_none());
        own
    }

    pub(crate) fn of(rule: &DestinationRule) -> Self {
        let policy = rule.traffic_policy.as_ref();
        let tcp =
            policy.and_then(|p| p.connection_pool.as_ref()).and_then(|pool| pool.tcp.as_ref());
        let subsets = rule.subsets.iter().filter_map(|subset| {
            let policy = subset.traffic_policy.as_ref()?;
            let said = (policy.load_balancer.is_some().then(|| source_ip(policy)), tunnel(policy));
            (said != (None, None)).then(|| (subset.name.clone(), said))
        });
        Self {
            idle_timeout: tcp.and_then(|tcp| tcp.idle_timeout),
            max_duration: tcp.and_then(|tcp| tcp.max_connection_duration),
            source_ip: policy.is_some_and(source_ip),
            tunnel: policy.and_then(tunnel),
            subsets: subsets.collect(),
        }
    }

    /// A TCP proxy to the clusters, under this rule.
    pub(crate) fn tcp(
        &self,
        stat_prefix: String,
        clusters: Vec<(String, u32)>,
        subset: &str,
    ) -> Tcp {
        let (source_ip, tunnel) = self.subsets.get(subset).cloned().unwrap_or_default();
        Tcp {
            stat_prefix,
            clusters,
            idle_timeout: self.idle_timeout,
            max_duration: self.max_duration,
            hash_source: source_ip.unwrap_or(self.source_ip),
            tunnel: tunnel.or_else(|| self.tunnel.clone()).map(|tunnel| TunnelingConfig {
                hostname: tunnel.target,
                use_post: tunnel.post,
                ..Default::default()
            }),
            ..Tcp::default()
        }
    }
}

fn source_ip(policy: &TrafficPolicy) -> bool {
    let balancer = policy.load_balancer.as_ref().map(|lb| &lb.policy);
    matches!(balancer, Some(LbPolicy::ConsistentHash(hash)) if hash.key == HashKey::UseSourceIp(true))
}

fn tunnel(policy: &TrafficPolicy) -> Option<Tunnel> {
    let tunnel = policy.tunnel.as_ref()?;
    let port = u16::try_from(tunnel.target_port).ok()?;
    let target = domain::with_port(&tunnel.target_host, port);
    Some(Tunnel { target, post: tunnel.protocol.eq_ignore_ascii_case("POST") })
}
