//! Listeners of gateways: one for each address and port that a server has.
//!
//! In: merged servers, and VirtualServices bound to their Gateways. Out: chains for HTTP, for TLS that
//! is terminated or passed through, for TCP.

mod server;

use std::sync::Arc;

use ironsail_api::{Diagnostic, Kind};
use ironsail_model::{
    GatewayRef, Hashed, Protocol, ProxyClass, Scope, Snapshot, scope::HostPattern,
};
use ironsail_names::{ClusterDomain, ClusterName, Hostname};
use ironsail_proto::envoy::config::core::v3::TrafficDirection;
use ironsail_proto::envoy::config::listener::v3::Listener;

use super::chain::Chain;
use super::outbound::has_connection_routes;
use super::server_tls::ServerTls;
use super::tcp::{Attributes, Context, Rule, Source, Target, Targets};
use super::{Stages, additional, exact_balance, tcp};
use crate::Translated;
use crate::filter::hcm::{Class, Manager, Routes};
use crate::filter::settings::{Settings, Side};
use crate::filter::{access, inspect, network, wire};
use crate::policy::Guard;
use crate::problem::Problems;
use crate::route::Client;

pub(crate) use server::{Merged, Place, Server, ServerKind, passed_on};

/// One listener of a gateway.
#[derive(Clone, Debug, Hash)]
pub struct Listening<'a> {
    settings: Arc<Hashed<Settings>>,
    place: Place,
    chains: Vec<Planned<'a>>,
    domain: ClusterDomain,
    pub(super) guard: Arc<Hashed<Guard>>,
    told: Vec<Diagnostic>,
}

/// What one server adds to a listener.
#[derive(Clone, Debug, Hash)]
struct Planned<'a> {
    gateway: GatewayRef,
    number: u16,
    port_name: String,
    protocol: Protocol,
    kind: ServerKind,
    sni: Vec<String>,
    stat_prefix: String,
    hosts: Vec<HostPattern>,
    sources: Vec<Source<'a>>,
    targets: Targets,
    /// Clusters that connections are passed on to by server name, in order.
    passed_on: Vec<(ClusterName, Rule)>,
}

pub(super) fn listeners<'a>(
    snapshot: &'a Snapshot,
    scope: &'a Scope,
    class: &'a ProxyClass,
    settings: &Arc<Hashed<Settings>>,
) -> Vec<Listening<'a>> {
    let mut merged = Merged::of(snapshot, scope, class);
    let guard = Guard::of(snapshot, scope, class);
    let mut out = Vec::new();
    for (place, servers) in std::mem::take(&mut merged.places) {
        let mut told = merged.told.remove(&place).unwrap_or_default();
        if settings.unprivileged && place.port < 1024 {
            for server in &servers {
                Problems::new(Kind::Gateway, &server.gateway.meta, &mut told).invalid(
                    &format!("spec.servers[{}].port", server.index),
                    format!("the gateway may not bind port {}; it is left out", place.port),
                );
            }
            continue;
        }
        let chains = servers.iter().map(|server| planned(snapshot, scope, class, server)).collect();
        out.push(Listening {
            settings: settings.clone(),
            place,
            chains,
            domain: snapshot.settings.domain.clone(),
            guard: guard.clone(),
            told,
        });
    }
    // What is said about ports that nobody has in the end is said with the first.
    if let Some(first) = out.first_mut() {
        first.told.extend(merged.told.into_values().flatten());
        first.told.extend(super::ignored::told(snapshot, scope, class));
    }
    out
}

fn planned<'a>(
    snapshot: &'a Snapshot,
    scope: &'a Scope,
    class: &'a ProxyClass,
    server: &Server<'a>,
) -> Planned<'a> {
    let gateway = server.gateway_ref();
    let domain = &snapshot.settings.domain;
    let connection =
        matches!(server.kind, ServerKind::Tcp | ServerKind::TlsTcp(_) | ServerKind::Passthrough);
    let bound = snapshot.config.routes.bound_to(&gateway, &class.namespace);
    let sources: Vec<Source<'a>> = bound
        .filter(|object| connection && has_connection_routes(&object.spec))
        .filter(|object| {
            let hosts = Source(object).hosts(domain);
            hosts
                .iter()
                .any(|host| server.hosts.iter().any(|p| p.includes(host, &object.meta.namespace)))
        })
        .map(Source)
        .collect();
    let mut targets = Targets::new();
    for source in &sources {
        for host in tcp::destinations(source.0, domain) {
            let service = scope.service(&host);
            let rule = service.and_then(|service| scope.rule(snapshot, class, service));
            targets.insert(host, Target::new(service.map(|s| &**s), rule.map(|rule| &*rule.spec)));
        }
    }
    Planned {
        gateway,
        number: server.number,
        port_name: server.port_name.clone(),
        protocol: server.protocol,
        sni: if server.is_tls() { server.server_names() } else { Vec::new() },
        kind: server.kind.clone(),
        stat_prefix: server.name.clone(),
        hosts: if connection { server.hosts.clone() } else { Vec::new() },
        sources,
        targets,
        passed_on: match server.kind {
            ServerKind::AutoPassthrough => all_passed_on(snapshot, scope, class, &server.hosts),
            _ => Vec::new(),
        },
    }
}

/// Every port and subset of the services that the hosts mean.
fn all_passed_on(
    snapshot: &Snapshot,
    scope: &Scope,
    class: &ProxyClass,
    hosts: &[HostPattern],
) -> Vec<(ClusterName, Rule)> {
    let mut out = Vec::new();
    for service in scope.services.iter().filter(|s| passed_on(snapshot, class, s)) {
        if !hosts.iter().any(|pattern| server::is_meant(service, pattern)) {
            continue;
        }
        let merged = scope.rule(snapshot, class, service);
        let rule = merged.map(|rule| Rule::of(&rule.spec)).unwrap_or_default();
        for port in service.ports.iter().filter(|port| port.protocol != Protocol::Udp) {
            let subsets = merged.map_or(&[][..], |rule| &rule.spec.subsets);
            let names = std::iter::once("").chain(subsets.iter().map(|s| s.name.as_str()));
            out.extend(names.map(|subset| {
                let host = service.hostname().clone();
                (ClusterName::outbound(port.number, subset, host), rule.clone())
            }));
        }
    }
    out
}

impl Listening<'_> {
    fn bind(&self) -> &str {
        match self.place.bind.as_str() {
            "" => self.settings.family.wildcard(),
            bind => bind,
        }
    }

    pub fn name(&self) -> String {
        format!("{}_{}", self.bind(), self.place.port)
    }

    pub(super) fn translate(&self, stages: &Stages) -> Translated<Listener> {
        let mut found = self.told.clone();
        let mut chains: Vec<Chain> = Vec::new();
        for planned in &self.chains {
            // All plain HTTP servers of a port have one chain; their routes tell them apart.
            if matches!(planned.kind, ServerKind::Http(_)) && !chains.is_empty() {
                continue;
            }
            for (chain, owner) in self.chains_of(planned, stages, &mut found) {
                match chains.iter().any(|have| have.clashes_with(&chain)) {
                    false => chains.push(chain),
                    true => {
                        if let Some(owner) = owner {
                            let text = "another route has these server names on the port; it has no effect";
                            Problems::new(Kind::VirtualService, &owner.0.meta, &mut found)
                                .conflict("spec.tls", text);
                        }
                    }
                }
            }
        }
        Translated { value: self.listener(chains), diagnostics: found }
    }

    fn chains_of<'s>(
        &'s self,
        planned: &'s Planned<'s>,
        stages: &Stages,
        found: &mut Vec<Diagnostic>,
    ) -> Vec<(Chain, Option<&'s Source<'s>>)> {
        let client = Client::default();
        let context = Context {
            settings: &self.settings,
            slots: &stages.outbound_network,
            port: planned.number,
            port_name: &planned.port_name,
            gateway: &planned.gateway,
            client: &client,
            domain: &self.domain,
            sources: &planned.sources,
            targets: &planned.targets,
        };
        match &planned.kind {
            ServerKind::Http(routes) => vec![(self.http(planned, routes, None, stages), None)],
            ServerKind::Https(routes, tls) => {
                vec![(self.http(planned, routes, Some(tls), stages), None)]
            }
            ServerKind::Tcp => self.tcp(planned, &context, None, found),
            ServerKind::TlsTcp(tls) => self.tcp(planned, &context, Some(tls), found),
            ServerKind::Passthrough => passthrough(planned, &context, found),
            ServerKind::AutoPassthrough => pass_on(planned, &context),
        }
    }

    fn http(
        &self,
        planned: &Planned<'_>,
        routes: &str,
        tls: Option<&ServerTls>,
        stages: &Stages,
    ) -> Chain {
        let stat_prefix = match planned.stat_prefix.as_str() {
            name if tls.is_some() && !name.is_empty() => name.to_owned(),
            _ => format!("outbound_{}", self.name()),
        };
        let manager = Manager {
            class: Class::Gateway,
            stat_prefix,
            routes: Routes::Rds(routes.to_owned()),
            grpc_web: planned.protocol == Protocol::GrpcWeb,
            http2: false,
            absolute_url: false,
            slots: &stages.outbound_http,
        };
        Chain {
            sni: if tls.is_some() { planned.sni.clone() } else { Vec::new() },
            tls: tls.map(|tls| tls.context(false)),
            filters: vec![manager.filter(&self.settings)],
            ..Default::default()
        }
    }

    /// The first `tcp` route that fits; a server without one takes no connections.
    fn tcp<'s>(
        &self,
        planned: &'s Planned<'s>,
        context: &Context<'_>,
        tls: Option<&ServerTls>,
        found: &mut Vec<Diagnostic>,
    ) -> Vec<(Chain, Option<&'s Source<'s>>)> {
        for source in &planned.sources {
            for (i, route) in source.0.spec.tcp.iter().enumerate() {
                let fits = route.r#match.is_empty()
                    || route.r#match.iter().any(|m| context.applies(source, &Attributes::from(m)));
                if !fits {
                    continue;
                }
                if let Some(to) =
                    context.forward(source, &route.route, &format!("spec.tcp[{i}]"), found)
                {
                    let chain = Chain {
                        sni: planned.sni.clone(),
                        tls: tls.map(|tls| tls.context(true)),
                        filters: network::stack(context.settings, to, context.slots),
                        ..Default::default()
                    };
                    return vec![(chain, Some(source))];
                }
            }
        }
        Vec::new()
    }

    fn listener(&self, chains: Vec<Chain>) -> Listener {
        let mut listener_filters = Vec::new();
        if self.settings.headers.proxy_protocol {
            listener_filters.push(inspect::proxy_protocol());
        }
        if chains.iter().any(|chain| !chain.sni.is_empty() || chain.tls.is_some()) {
            listener_filters.push(inspect::tls_inspector());
        }
        let binds: Vec<&str> = match self.place.bind.as_str() {
            "" => self.settings.family.wildcards().to_vec(),
            bind => vec![bind],
        };
        Listener {
            name: self.name(),
            address: Some(wire::address(self.bind(), self.place.port)),
            additional_addresses: additional(&binds, self.place.port),
            traffic_direction: TrafficDirection::Outbound.into(),
            listener_filters,
            // Nothing is guessed at a gateway: what is looked at must come.
            listener_filters_timeout: wire::never(),
            connection_balance_config: exact_balance(self.settings.exact_balance_outbound),
            access_log: access::listener(&self.settings, Side::Client),
            filter_chains: chains.into_iter().map(Chain::build).collect(),
            ..Default::default()
        }
    }

    /// Whether any server of it takes connections: Envoy refuses a listener without chains.
    pub(crate) fn is_empty(&self) -> bool {
        self.chains.iter().all(|planned| {
            matches!(
                planned.kind,
                ServerKind::Tcp | ServerKind::TlsTcp(_) | ServerKind::Passthrough
            ) && planned.sources.is_empty()
                || planned.kind == ServerKind::AutoPassthrough && planned.passed_on.is_empty()
        })
    }
}

/// A chain for each cluster, for connections with mTLS of the mesh that ask for it.
fn pass_on<'s>(
    planned: &'s Planned<'s>,
    context: &Context<'_>,
) -> Vec<(Chain, Option<&'s Source<'s>>)> {
    let each = planned.passed_on.iter().map(|(cluster, rule)| {
        let name = cluster.sni();
        let tcp = rule.tcp(name.clone(), vec![(name.clone(), 1)], &cluster.subset);
        let chain = Chain {
            sni: vec![name],
            protocols: crate::tls::alpn(crate::tls::ALPN_MESH_MATCH),
            filters: network::stack(context.settings, tcp, context.slots),
            ..Default::default()
        };
        (chain, None)
    });
    each.collect()
}

/// A chain for each `tls` route with server names of this server.
fn passthrough<'s>(
    planned: &'s Planned<'s>,
    context: &Context<'_>,
    found: &mut Vec<Diagnostic>,
) -> Vec<(Chain, Option<&'s Source<'s>>)> {
    let mut out = Vec::new();
    for source in &planned.sources {
        for (i, route) in source.0.spec.tls.iter().enumerate() {
            for rule in &route.r#match {
                if !context.applies(source, &Attributes::from(rule)) {
                    continue;
                }
                let field = format!("spec.tls[{i}]");
                if let Some(to) = context.forward(source, &route.route, &field, found) {
                    let chain = Chain {
                        sni: rule.sni_hosts.clone(),
                        filters: network::stack(context.settings, to, context.slots),
                        ..Default::default()
                    };
                    out.push((chain, Some(source)));
                }
            }
        }
    }
    out
}

impl Source<'_> {
    pub(crate) fn hosts(&self, domain: &ClusterDomain) -> Vec<Hostname> {
        let Ok(namespace) = self.0.meta.namespace.parse() else { return Vec::new() };
        let full = |host: &String| ironsail_model::full_host(host, &namespace, domain).ok();
        self.0.spec.hosts.iter().filter_map(full).collect()
    }
}
