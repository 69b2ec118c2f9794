//! Where TCP and TLS connections go: to a service, or where a VirtualService says.
//!
//! In: what a service claims on a listener, the VirtualServices with `tls` and `tcp` routes for it, and
//! what its destinations come to. Out: chains. What can be decided now (port, gateway, client) is; what
//! the proxy must look at (server name, address) becomes the chain's match.

mod rule;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ironsail_api::istio::networking::{
    L4MatchAttributes, RouteDestination, TlsMatchAttributes, VirtualService,
};
use ironsail_api::{Diagnostic, Kind, Resource};
use ironsail_model::{GatewayRef, full_host, select};
use ironsail_names::{ClusterDomain, ClusterName, Hostname, Namespace};

use super::chain::Chain;
use crate::filter::network::{self, Tcp};
use crate::filter::settings::Settings;
use crate::problem::Problems;
use crate::route::{Client, config_path};
use crate::{metadata, stat};

pub(crate) use rule::{Rule, Target, Targets};

/// A VirtualService with routes for connections. Hashes by content.
#[derive(Clone, Debug)]
pub(crate) struct Source<'a>(pub(crate) &'a Arc<Resource<VirtualService>>);

impl std::hash::Hash for Source<'_> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.digest.hash(state);
    }
}

/// Where and for whom chains are made.
pub(crate) struct Context<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) slots: &'a network::Slots,
    pub(crate) port: u16,
    pub(crate) port_name: &'a str,
    pub(crate) gateway: &'a GatewayRef,
    pub(crate) client: &'a Client,
    pub(crate) domain: &'a ClusterDomain,
    pub(crate) sources: &'a [Source<'a>],
    pub(crate) targets: &'a Targets,
}

/// The service that has the listener, if no VirtualService says otherwise.
pub(crate) struct Own<'a> {
    pub(crate) host: &'a Hostname,
    pub(crate) name: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) ports: &'a [u16],
    pub(crate) rule: &'a Rule,
    pub(crate) ranges: &'a [String],
    /// Only connections that ask for one of these; all if empty.
    pub(crate) sni: &'a [String],
    /// Looked up by the server name.
    pub(crate) dynamic: bool,
}

impl Context<'_> {
    /// Chains of a port with TLS that the proxy does not open.
    pub(crate) fn tls_chains(&self, own: &Own<'_>, found: &mut Vec<Diagnostic>) -> Vec<Chain> {
        let mut out = Vec::new();
        let mut seen = BTreeSet::new();
        for source in self.sources_for(own.host) {
            for (i, route) in source.0.spec.tls.iter().enumerate() {
                for (j, rule) in route.r#match.iter().enumerate() {
                    if !self.applies(source, &Attributes::from(rule)) {
                        continue;
                    }
                    // Of two routes with the same match the second can never be reached.
                    if !seen.insert((rule.sni_hosts.clone(), rule.destination_subnets.clone())) {
                        continue;
                    }
                    let field = format!("spec.tls[{i}].match[{j}]");
                    let Some(ranges) =
                        self.ranges(source, &rule.destination_subnets, &field, found)
                    else {
                        continue;
                    };
                    let ranges = if ranges.is_empty() { own.ranges.to_vec() } else { ranges };
                    let field = format!("spec.tls[{i}]");
                    if let Some(tcp) = self.forward(source, &route.route, &field, found) {
                        out.push(Chain {
                            sni: rule.sni_hosts.clone(),
                            ranges,
                            metadata: Some(metadata::config(&config_path(&source.0.meta))),
                            ..self.chain(tcp)
                        });
                    }
                }
            }
        }
        if out.is_empty() {
            let tcp = self.to_own(own);
            out.push(Chain {
                sni: own.sni.to_vec(),
                ranges: own.ranges.to_vec(),
                ..self.chain(tcp)
            });
        }
        out
    }

    /// Chains of a port with plain TCP.
    pub(crate) fn tcp_chains(&self, own: &Own<'_>, found: &mut Vec<Diagnostic>) -> Vec<Chain> {
        let mut out = Vec::new();
        for source in self.sources_for(own.host) {
            for (i, route) in source.0.spec.tcp.iter().enumerate() {
                let field = format!("spec.tcp[{i}]");
                let mut subnets = Vec::new();
                // Without a match everything fits.
                let mut all = route.r#match.is_empty();
                for rule in &route.r#match {
                    if self.applies(source, &Attributes::from(rule)) {
                        all |= rule.destination_subnets.is_empty();
                        subnets.extend(rule.destination_subnets.iter().cloned());
                    }
                }
                if !all && subnets.is_empty() {
                    continue;
                }
                let Some(subnets) = self.ranges(source, &subnets, &field, found) else { continue };
                let ranges = if all { own.ranges.to_vec() } else { subnets };
                let same = same(&ranges, own.ranges);
                if let Some(tcp) = self.forward(source, &route.route, &field, found) {
                    out.push(Chain {
                        ranges,
                        metadata: Some(metadata::config(&config_path(&source.0.meta))),
                        ..self.chain(tcp)
                    });
                    if all || same {
                        return out;
                    }
                }
            }
        }
        out.push(Chain { ranges: own.ranges.to_vec(), ..self.chain(self.to_own(own)) });
        out
    }

    fn sources_for(&self, host: &Hostname) -> impl Iterator<Item = &Source<'_>> {
        self.sources.iter().filter(move |source| {
            let Ok(namespace) = source.0.meta.namespace.parse() else { return false };
            let full = |h: &String| full_host(h, &namespace, self.domain).ok();
            source.0.spec.hosts.iter().filter_map(full).any(|h| h.matches(host))
        })
    }

    fn chain(&self, tcp: Tcp) -> Chain {
        Chain { filters: network::stack(self.settings, tcp, self.slots), ..Default::default() }
    }

    /// To the service itself. If it has another port than the listener, its only one is meant.
    fn to_own(&self, own: &Own<'_>) -> Tcp {
        let port = match own.ports {
            [only] => *only,
            _ => self.port,
        };
        let cluster = ClusterName::outbound(port, "", own.host.clone()).to_string();
        let stat_prefix = match self.settings.outbound_stat_name.as_str() {
            "" => cluster.clone(),
            pattern => stat::name(
                pattern,
                &stat::Parts {
                    host: own.host.as_str(),
                    name: own.name,
                    namespace: own.namespace,
                    subset: "",
                    port,
                    port_name: self.port_name,
                },
            ),
        };
        let tcp = own.rule.tcp(stat_prefix, vec![(cluster, 1)], "");
        Tcp { dynamic: own.dynamic.then_some(port), ..tcp }
    }

    /// To where a VirtualService says; None if that is nowhere.
    pub(crate) fn forward(
        &self,
        source: &Source<'_>,
        routes: &[RouteDestination],
        field: &str,
        found: &mut Vec<Diagnostic>,
    ) -> Option<Tcp> {
        let meta = &source.0.meta;
        let namespace: Namespace = meta.namespace.parse().ok()?;
        let mut problems = Problems::new(Kind::VirtualService, meta, found);
        let mut clusters = Vec::new();
        let mut rule = None;
        let mut dynamic = None;
        for (i, to) in routes.iter().enumerate() {
            let weight = match routes.len() {
                1 => 1,
                _ => u32::try_from(to.weight).unwrap_or_default(),
            };
            let field = format!("{field}.route[{i}].destination.host");
            let host = match full_host(&to.destination.host, &namespace, self.domain) {
                Ok(host) => host,
                Err(error) => {
                    problems.invalid(&field, format!("{error}; connections do not go there"));
                    continue;
                }
            };
            let target = self.targets.get(&host);
            if !target.is_some_and(|target| target.known) {
                problems.missing(
                    &field,
                    format!("no service {host} is visible here; connections fail"),
                );
            }
            if target.is_some_and(|target| target.dynamic) {
                let port = to.destination.port_number().and_then(|port| u16::try_from(port).ok());
                dynamic = port.or(Some(self.port));
            }
            if i == 0 {
                rule = target.map(|target| &target.rule);
            }
            if weight > 0 {
                clusters.push((cluster(to, &host, target, self.port), weight));
            }
        }
        if clusters.is_empty() {
            problems
                .invalid(&format!("{field}.route"), "it leads nowhere; the route matches nothing");
            return None;
        }
        let subset = routes.first().map_or("", |to| &to.destination.subset);
        let stat_prefix = match clusters.as_slice() {
            [(only, _)] => only.clone(),
            _ => format!("{}.{}", meta.name, meta.namespace),
        };
        let subset = if clusters.len() == 1 { subset } else { "" };
        let tcp = rule.unwrap_or(&Rule::default()).tcp(stat_prefix, clusters, subset);
        Some(Tcp { dynamic, ..tcp })
    }

    /// None, and told, if one of them is no range: the match could mean anything.
    fn ranges(
        &self,
        source: &Source<'_>,
        subnets: &[String],
        field: &str,
        found: &mut Vec<Diagnostic>,
    ) -> Option<Vec<String>> {
        for subnet in subnets {
            if crate::filter::wire::cidr(subnet).is_none() {
                let text =
                    format!("{subnet:?} is no range of addresses; the route matches nothing");
                let field = format!("{field}.destinationSubnets");
                Problems::new(Kind::VirtualService, &source.0.meta, found).invalid(&field, text);
                return None;
            }
        }
        Some(subnets.to_vec())
    }

    pub(crate) fn applies(&self, source: &Source<'_>, rule: &Attributes<'_>) -> bool {
        let Ok(own) = source.0.meta.namespace.parse() else { return false };
        let gateway = rule.gateways.is_empty()
            || rule.gateways.iter().any(|g| GatewayRef::parse(g, &own) == *self.gateway);
        gateway
            && (rule.port == 0 || rule.port == u32::from(self.port))
            && select::matches(rule.labels, &self.client.labels)
            && (rule.namespace.is_empty() || rule.namespace == self.client.namespace)
    }
}

fn same(a: &[String], b: &[String]) -> bool {
    let set = |list: &[String]| list.iter().cloned().collect::<BTreeSet<_>>();
    !a.is_empty() && set(a) == set(b)
}

fn cluster(to: &RouteDestination, host: &Hostname, target: Option<&Target>, port: u16) -> String {
    let port = match (to.destination.port_number(), target.map(|t| t.ports.as_slice())) {
        (Some(port), _) => u16::try_from(port).unwrap_or_default(),
        (None, Some([only])) => *only,
        (None, _) => port,
    };
    let host = target.and_then(|t| t.alias.clone()).unwrap_or_else(|| host.clone());
    ClusterName::outbound(port, &to.destination.subset, host).to_string()
}

/// The conditions that are decided before there is a connection.
pub(crate) struct Attributes<'a> {
    port: u32,
    labels: &'a BTreeMap<String, String>,
    namespace: &'a str,
    gateways: &'a [String],
}

impl<'a> From<&'a TlsMatchAttributes> for Attributes<'a> {
    fn from(rule: &'a TlsMatchAttributes) -> Self {
        Self {
            port: rule.port,
            labels: &rule.source_labels,
            namespace: &rule.source_namespace,
            gateways: &rule.gateways,
        }
    }
}

impl<'a> From<&'a L4MatchAttributes> for Attributes<'a> {
    fn from(rule: &'a L4MatchAttributes) -> Self {
        Self {
            port: rule.port,
            labels: &rule.source_labels,
            namespace: &rule.source_namespace,
            gateways: &rule.gateways,
        }
    }
}

/// Whether the VirtualService's connection routes ask who the client is.
pub(crate) fn asks_for_source(spec: &VirtualService) -> bool {
    let tls = spec.tls.iter().flat_map(|r| &r.r#match).map(Attributes::from);
    let tcp = spec.tcp.iter().flat_map(|r| &r.r#match).map(Attributes::from);
    tls.chain(tcp).any(|rule| !rule.labels.is_empty() || !rule.namespace.is_empty())
}

/// Every host that the connection routes of a VirtualService lead to.
pub(crate) fn destinations(
    object: &Resource<VirtualService>,
    domain: &ClusterDomain,
) -> Vec<Hostname> {
    let Ok(namespace) = object.meta.namespace.parse::<Namespace>() else { return Vec::new() };
    let tls = object.spec.tls.iter().flat_map(|route| &route.route);
    let tcp = object.spec.tcp.iter().flat_map(|route| &route.route);
    tls.chain(tcp)
        .filter_map(|to| full_host(&to.destination.host, &namespace, domain).ok())
        .collect()
}
