//! Where routes may lead: the clusters that stand for destinations, and by what requests stick to an
//! endpoint.
//!
//! Only what routes depend on is kept of services and DestinationRules, so that a change of anything
//! else leaves them alone.

use std::collections::BTreeMap;
use std::time::Duration;

use ironsail_api::istio::networking::{
    Destination, DestinationRule, HashKey, LbPolicy, LoadBalancerSettings, PortTrafficPolicy,
    TrafficPolicy,
};
use ironsail_model::Service;
use ironsail_names::{ClusterName, Hostname};
use ironsail_proto::envoy::config::route::v3::route_action::{HashPolicy, hash_policy};

use crate::filter::wire;

/// A host that a VirtualService sends traffic to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Target {
    /// Ports of its service; empty if there is no such service.
    pub(crate) ports: Vec<u16>,
    /// What its service is another name of.
    pub(crate) alias: Option<Hostname>,
    pub(crate) hashing: Hashing,
    pub(crate) known: bool,
}

/// By host.
pub(crate) type Targets = BTreeMap<Hostname, Target>;

/// What decides the endpoint of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum HashBy {
    Header(String),
    Cookie { name: String, path: String, ttl: Option<Duration>, attributes: Vec<(String, String)> },
    SourceIp,
    Query(String),
}

/// The consistent hashing of a DestinationRule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Hashing {
    all: Level,
    subsets: BTreeMap<String, Level>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Level {
    own: Option<HashBy>,
    ports: BTreeMap<u16, HashBy>,
}

impl Target {
    pub(crate) fn new(service: Option<&Service>, rule: Option<&DestinationRule>) -> Self {
        Self {
            ports: service.map(|s| s.ports.iter().map(|p| p.number).collect()).unwrap_or_default(),
            alias: service.and_then(|s| s.alias.clone()),
            hashing: Hashing::with(service.is_some_and(|s| s.sticky), rule),
            known: service.is_some(),
        }
    }
}

impl Hashing {
    /// A client of a `sticky` service keeps its endpoint, unless the rule balances in its own way.
    pub(crate) fn with(sticky: bool, rule: Option<&DestinationRule>) -> Self {
        let mut hashing = rule.map(Self::of).unwrap_or_default();
        let policy = rule.and_then(|rule| rule.traffic_policy.as_ref());
        if sticky && policy.is_none_or(|policy| policy.load_balancer.is_none()) {
            hashing.all.own = Some(HashBy::SourceIp);
        }
        hashing
    }

    pub(crate) fn of(rule: &DestinationRule) -> Self {
        let subsets =
            rule.subsets.iter().map(|s| (s.name.clone(), Level::of(s.traffic_policy.as_ref())));
        Self {
            all: Level::of(rule.traffic_policy.as_ref()),
            subsets: subsets.filter(|(_, level)| *level != Level::default()).collect(),
        }
    }

    /// The most specific: subset and port, subset, port, all.
    pub(crate) fn of_destination(&self, subset: &str, port: Option<u16>) -> Option<&HashBy> {
        let subset = self.subsets.get(subset);
        subset
            .and_then(|level| port.and_then(|port| level.ports.get(&port)).or(level.own.as_ref()))
            .or_else(|| port.and_then(|port| self.all.ports.get(&port)))
            .or(self.all.own.as_ref())
    }
}

impl Level {
    fn of(policy: Option<&TrafficPolicy>) -> Self {
        let Some(policy) = policy else { return Self::default() };
        let port = |setting: &PortTrafficPolicy| {
            let number = u16::try_from(setting.port.as_ref()?.number).ok()?;
            Some((number, hash_by(setting.load_balancer.as_ref())?))
        };
        Self {
            own: hash_by(policy.load_balancer.as_ref()),
            ports: policy.port_level_settings.iter().filter_map(port).collect(),
        }
    }
}

fn hash_by(balancer: Option<&LoadBalancerSettings>) -> Option<HashBy> {
    let LbPolicy::ConsistentHash(hash) = &balancer?.policy else { return None };
    match &hash.key {
        HashKey::HttpHeaderName(name) => Some(HashBy::Header(name.clone())),
        HashKey::HttpCookie(cookie) => Some(HashBy::Cookie {
            name: cookie.name.clone(),
            path: cookie.path.clone(),
            ttl: cookie.ttl,
            attributes: cookie
                .attributes
                .iter()
                .map(|a| (a.name.clone(), a.value.clone()))
                .collect(),
        }),
        HashKey::UseSourceIp(true) => Some(HashBy::SourceIp),
        HashKey::HttpQueryParameterName(name) => Some(HashBy::Query(name.clone())),
        HashKey::UseSourceIp(false) | HashKey::Unset => None,
    }
}

impl HashBy {
    pub(crate) fn policy(&self) -> HashPolicy {
        use hash_policy::{
            ConnectionProperties, Cookie, CookieAttribute, Header, PolicySpecifier, QueryParameter,
        };
        let specifier = match self {
            Self::Header(name) => {
                PolicySpecifier::Header(Header { header_name: name.clone(), ..Default::default() })
            }
            Self::Cookie { name, path, ttl, attributes } => PolicySpecifier::Cookie(Cookie {
                name: name.clone(),
                path: path.clone(),
                ttl: ttl.and_then(wire::span),
                attributes: attributes
                    .iter()
                    .map(|(name, value)| CookieAttribute {
                        name: name.clone(),
                        value: value.clone(),
                    })
                    .collect(),
            }),
            Self::SourceIp => {
                PolicySpecifier::ConnectionProperties(ConnectionProperties { source_ip: true })
            }
            Self::Query(name) => {
                PolicySpecifier::QueryParameter(QueryParameter { name: name.clone() })
            }
        };
        HashPolicy { policy_specifier: Some(specifier), ..Default::default() }
    }
}

/// The cluster of a destination whose full host is `host`.
pub(crate) fn cluster(
    destination: &Destination,
    host: &Hostname,
    targets: &Targets,
    listen_port: u16,
) -> String {
    let target = targets.get(host);
    let port = match (destination.port_number(), target.map(|t| t.ports.as_slice())) {
        (Some(port), _) => u16::try_from(port).unwrap_or_default(),
        (None, Some([only])) => *only,
        (None, _) => listen_port,
    };
    let host = target.and_then(|t| t.alias.clone()).unwrap_or_else(|| host.clone());
    ClusterName::outbound(port, &destination.subset, host).to_string()
}
