//! A cluster for one port of the proxy's own workload.
//!
//! In: the services behind that port, a Sidecar's listener for it if there is one. Out: a cluster that
//! passes on to where the packet was going, or to the endpoint that the listener names.

use std::net::IpAddr;

use ironsail_api::istio::networking::ConnectionPoolSettings;
use ironsail_model::{MergedRule, Protocol, Service, ServicePort};
use ironsail_names::ClusterName;
use ironsail_proto::envoy::config::cluster::v3::Cluster;
use ironsail_proto::envoy::config::cluster::v3::cluster::{LbConfig, OriginalDstLbConfig};
use ironsail_proto::envoy::config::endpoint::v3::{
    Endpoint, LbEndpoint, LocalityLbEndpoints, lb_endpoint::HostIdentifier,
};
use ironsail_proto::google::protobuf::{Duration, UInt32Value};

use super::defaults::Defaults;
use super::draft::{Discovery, Draft, Family};
use super::policy::Policy;
use super::{fixed, pool, stat, unsupported};
use crate::metadata::{self, ServiceRef};
use crate::{Key, Translated, address};

/// About 292 years, the longest that Envoy takes: the hosts of such a cluster are few and fixed.
const NEVER: Duration = Duration { seconds: 9_223_372_035, nanos: 0 };

/// Where a listener of a Sidecar sends what it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Where the packet was going.
    Original,
    /// To the pod's own address, on another port.
    Pod(u16),
    Tcp(IpAddr, u16),
    Unix(String),
}

#[derive(Clone, Debug)]
pub(crate) struct Inbound<'a> {
    /// Of the workload.
    pub(crate) port: u16,
    /// The first decides about protocol and rule; the others share the port.
    pub(crate) services: Vec<(&'a Service, &'a ServicePort)>,
    /// As the port is spoken, if a Sidecar says so.
    pub(crate) protocol: Protocol,
    /// The rule for the first service, of which only the connection pool counts here.
    pub(crate) rule: Option<&'a MergedRule>,
    /// From a Sidecar; wins over the rule's.
    pub(crate) pool: Option<&'a ConnectionPoolSettings>,
    pub(crate) pool_digest: u64,
    pub(crate) target: Target,
    /// What stands for the service if there is none: the Sidecar.
    pub(crate) fallback: Option<(&'a str, &'a str)>,
    pub(crate) family: Family,
}

impl Inbound<'_> {
    /// The hosts of the services behind the port.
    pub(super) fn hosts(&self) -> Vec<&str> {
        self.services.iter().map(|(service, _)| service.hostname().as_str()).collect()
    }

    pub(crate) fn name(&self) -> ClusterName {
        ClusterName::inbound(self.port)
    }

    pub(crate) fn write(&self, key: Key) -> Key {
        let key = key
            .number(self.port.into())
            .each(&self.services, |k, (service, port)| {
                k.digest(service.digest).number(port.number.into())
            })
            .text(self.protocol.as_str())
            .maybe(self.rule, |k, r| k.digest(r.digest))
            .flag(self.pool.is_some())
            .digest(self.pool_digest)
            .maybe(self.fallback, |k, (name, namespace)| k.text(name).text(namespace))
            .number(self.family as u64);
        match &self.target {
            Target::Original => key.number(0),
            Target::Tcp(ip, port) => key.number(1).display(ip).number((*port).into()),
            Target::Unix(path) => key.number(2).text(path),
            Target::Pod(port) => key.number(3).number((*port).into()),
        }
    }

    pub(crate) fn translate(&self, mesh: &Defaults<'_>) -> Translated<Cluster> {
        let discovery = match self.target {
            Target::Original | Target::Pod(_) => Discovery::OriginalDestination,
            Target::Tcp(..) | Target::Unix(_) => Discovery::Static,
        };
        let mut draft = Draft::new(self.name().to_string(), discovery);
        self.aim(&mut draft);
        if self.protocol.is_http2() {
            draft.use_http2();
        } else if self.protocol.is_auto() {
            draft.use_downstream_protocol();
        }
        let own = self.services.first().and_then(|(_, port)| {
            let rule = self.rule?;
            Policy::of(&rule.spec, None, port.number).connection_pool
        });
        pool::apply(&mut draft, self.pool.or(own), mesh);
        pool::http2(&mut draft, self.pool.or(own));
        if let (Some((service, port)), false) =
            (self.services.first(), mesh.inbound_stat_name.is_empty())
        {
            draft.cluster.alt_stat_name =
                stat::name(mesh.inbound_stat_name, service, port, "", Some(self.port));
        }
        self.describe(&mut draft);
        draft.finish().into()
    }

    fn aim(&self, draft: &mut Draft) {
        let address = match &self.target {
            Target::Original | Target::Pod(_) => {
                draft.cluster.cleanup_interval = Some(NEVER);
                draft.cluster.upstream_bind_config = Some(fixed::bind_self(self.family));
                if let Target::Pod(port) = self.target {
                    let port = Some(UInt32Value { value: port.into() });
                    let config =
                        OriginalDstLbConfig { upstream_port_override: port, ..Default::default() };
                    draft.cluster.lb_config = Some(LbConfig::OriginalDstLbConfig(config));
                }
                return;
            }
            Target::Tcp(ip, port) => {
                if !ip.is_loopback() {
                    // Else the packet rules would send it back to this proxy.
                    draft.cluster.upstream_bind_config = Some(fixed::bind_self(self.family));
                }
                address::tcp(&ip.to_string(), *port)
            }
            Target::Unix(path) => address::pipe(path),
        };
        let endpoint = Endpoint { address: Some(address), ..Default::default() };
        draft.load(vec![LocalityLbEndpoints {
            lb_endpoints: vec![LbEndpoint {
                host_identifier: Some(HostIdentifier::Endpoint(endpoint)),
                ..Default::default()
            }],
            ..Default::default()
        }]);
    }

    fn describe(&self, draft: &mut Draft) {
        let named = |(service, _): &(&Service, &ServicePort)| {
            let (host, namespace) =
                (service.hostname().to_string(), service.namespace().to_string());
            (host, service.name.to_string(), namespace)
        };
        let mut all: Vec<(String, String, String)> = self.services.iter().map(named).collect();
        all.extend(self.fallback.map(|(name, namespace)| {
            (format!("{name}.{namespace}"), name.to_owned(), namespace.to_owned())
        }));
        all.sort();
        all.dedup();
        let refs = all.iter().map(|(host, name, namespace)| ServiceRef { host, name, namespace });
        let mut about = metadata::services(refs);
        if let Some(rule) = self.rule.filter(|r| r.spec.traffic_policy.is_some()) {
            metadata::set(&mut about, "config", metadata::text(unsupported::path(rule)));
        }
        draft.cluster.metadata = Some(about);
    }
}

/// A Sidecar's `defaultEndpoint`: `127.0.0.1:PORT`, `0.0.0.0:PORT` (the pod's own address),
/// `unix://PATH` or nothing. None if it is neither.
pub(crate) fn parse_target(text: &str) -> Option<Target> {
    if text.is_empty() {
        return Some(Target::Original);
    }
    if let Some(path) = text.strip_prefix("unix://") {
        return Some(Target::Unix(path.to_owned()));
    }
    let (host, port) = text.rsplit_once(':')?;
    let port = port.parse().ok()?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let ip: IpAddr = host.parse().ok()?;
    // The packet was going to the pod's own address; only the port is another.
    Some(if ip.is_unspecified() { Target::Pod(port) } else { Target::Tcp(ip, port) })
}
