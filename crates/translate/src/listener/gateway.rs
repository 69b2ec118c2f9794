//! Listeners of gateways: the servers of all Gateways that select the proxy, merged by port.
//!
//! In: Gateways, oldest first, and VirtualServices bound to them. Out: one listener for each address
//! and port. Servers that cannot share a port with an older one are left out and told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ironsail_api::istio::networking::{Gateway, ServerTlsMode};
use ironsail_api::{Diagnostic, Kind, Resource};
use ironsail_model::{
    GatewayRef, Protocol, ProxyClass, Scope, Snapshot, scope::HostPattern, select,
};
use ironsail_names::{ClusterDomain, Hostname, RouteName};
use ironsail_proto::envoy::config::core::v3::TrafficDirection;
use ironsail_proto::envoy::config::listener::v3::Listener;

use super::chain::Chain;
use super::outbound::has_connection_routes;
use super::server_tls::ServerTls;
use super::tcp::{Attributes, Context, Source, Target, Targets};
use super::{Stages, additional, exact_balance, tcp};
use crate::Translated;
use crate::filter::hcm::{Class, Manager, Routes};
use crate::filter::settings::Settings;
use crate::filter::{access, inspect, network, wire};
use crate::problem::Problems;
use crate::route::Client;

/// Where a gateway listens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    /// Of the pod.
    pub(crate) port: u16,
    /// Empty: all addresses.
    pub(crate) bind: String,
}

/// A server of a Gateway.
#[derive(Clone, Debug)]
pub(crate) struct Server<'a> {
    pub(crate) gateway: &'a Arc<Resource<Gateway>>,
    pub(crate) index: usize,
    /// As the Gateway has it; that of the pod may be another.
    pub(crate) number: u16,
    pub(crate) port_name: String,
    pub(crate) protocol: Protocol,
    pub(crate) hosts: Vec<HostPattern>,
    pub(crate) kind: ServerKind,
    pub(crate) https_redirect: bool,
    pub(crate) name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ServerKind {
    /// Plain, with the name of its routes.
    Http(String),
    /// Behind TLS that is terminated here.
    Https(String, Box<ServerTls>),
    Tcp,
    /// TCP behind TLS that is terminated here.
    TlsTcp(Box<ServerTls>),
    /// By server name, not opened.
    Passthrough,
}

/// All servers of a proxy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Merged<'a> {
    pub(crate) places: BTreeMap<Place, Vec<Server<'a>>>,
    pub(crate) told: BTreeMap<Place, Vec<Diagnostic>>,
}

impl<'a> Merged<'a> {
    pub(crate) fn of(snapshot: &'a Snapshot, scope: &Scope, class: &ProxyClass) -> Self {
        let mut merged = Self::default();
        let curves =
            snapshot.mesh.config.tls_defaults.as_ref().map_or(&[][..], |tls| &tls.ecdh_curves);
        for gateway in snapshot.config.gateways.iter() {
            if !select::matches(&gateway.spec.selector, &class.labels) {
                continue;
            }
            for (index, spec) in gateway.spec.servers.iter().enumerate() {
                let Some(number) = spec.port.as_ref().and_then(|p| u16::try_from(p.number).ok())
                else {
                    continue;
                };
                for port in targets(number, scope) {
                    let place = Place { port, bind: spec.bind.clone() };
                    merged.add(gateway, index, place, number, curves);
                }
            }
        }
        merged
    }

    fn add(
        &mut self,
        gateway: &'a Arc<Resource<Gateway>>,
        index: usize,
        place: Place,
        number: u16,
        curves: &[String],
    ) {
        let spec = &gateway.spec.servers[index];
        let port = place.port;
        let told = self.told.entry(place.clone()).or_default();
        let mut problems = Problems::new(Kind::Gateway, &gateway.meta, told);
        let field = format!("spec.servers[{index}]");
        let Ok(own) = gateway.meta.namespace.parse() else { return };
        let server_port = spec.port.as_ref();
        let protocol =
            server_port.and_then(|p| Protocol::parse(&p.protocol)).unwrap_or(Protocol::Tcp);
        let port_name = server_port.map(|p| p.name.clone()).unwrap_or_default();
        let tls = spec.tls.as_ref();
        if tls.is_some_and(|tls| tls.mode == ServerTlsMode::AutoPassthrough) && !protocol.is_http()
        {
            problems.unsupported(&format!("{field}.tls.mode"));
            return;
        }
        let terminated = tls.and_then(|tls| ServerTls::of(tls, curves)).map(Box::new);
        let routes = || RouteName::GatewayHttps {
            port: number,
            port_name: port_name.clone(),
            gateway: gateway.meta.name.clone(),
            namespace: gateway.meta.namespace.parse().unwrap_or_else(|_| own_namespace()),
        };
        let bind = if spec.bind.is_empty() { String::new() } else { format!(".{}", spec.bind) };
        let kind = match (protocol, tls.is_some(), terminated) {
            (p, _, _) if p.is_http() => {
                ServerKind::Http(format!("{}{bind}", RouteName::GatewayHttp(port)))
            }
            (Protocol::Https, _, Some(tls)) => {
                ServerKind::Https(format!("{}{bind}", routes()), tls)
            }
            (Protocol::Https | Protocol::Tls, false, None) => {
                problems.invalid(&field, "it needs tls settings; the server is left out");
                return;
            }
            (_, true, Some(tls)) => ServerKind::TlsTcp(tls),
            (_, true, None) => ServerKind::Passthrough,
            (_, false, _) => ServerKind::Tcp,
        };
        let hosts: Vec<HostPattern> =
            spec.hosts.iter().filter_map(|text| HostPattern::parse(text, &own)).collect();
        if hosts.len() < spec.hosts.len() {
            problems
                .invalid(&format!("{field}.hosts"), "some of them are no hosts; they are left out");
        }
        let server = Server {
            gateway,
            index,
            number,
            port_name: port_name.clone(),
            protocol,
            hosts,
            kind,
            https_redirect: tls.is_some_and(|tls| tls.https_redirect),
            name: spec.name.clone(),
        };
        let there = self.places.entry(place).or_default();
        match there.iter().find_map(|other| server.conflict(other)) {
            Some(why) => problems.conflict(&field, format!("{why}; the server is left out")),
            None => there.push(server),
        }
    }
}

fn own_namespace() -> ironsail_names::Namespace {
    "default".parse().expect("a plain name")
}

/// The ports of the pod behind a port of the gateway's Service; the port itself if no Service has it.
fn targets(number: u16, scope: &Scope) -> BTreeSet<u16> {
    let own = scope.instances.iter().filter(|own| own.port == number);
    let found: BTreeSet<u16> = own.map(|own| own.target).filter(|port| *port != 0).collect();
    match found.is_empty() {
        true => BTreeSet::from([number]),
        false => found,
    }
}

impl Server<'_> {
    pub(crate) fn gateway_ref(&self) -> GatewayRef {
        GatewayRef::named(&self.gateway.meta.namespace, &self.gateway.meta.name)
    }

    pub(crate) fn is_tls(&self) -> bool {
        !matches!(self.kind, ServerKind::Http(_) | ServerKind::Tcp)
    }

    /// The hosts that TLS clients ask for; `*` for all.
    pub(crate) fn server_names(&self) -> Vec<String> {
        let names: BTreeSet<String> = self.hosts.iter().map(|h| h.host.to_string()).collect();
        names.into_iter().collect()
    }

    /// Why both cannot have the port.
    fn conflict(&self, older: &Self) -> Option<String> {
        let other = format!("Gateway {}/{}", older.gateway.meta.namespace, older.gateway.meta.name);
        match (&self.kind, &older.kind) {
            (ServerKind::Http(_), ServerKind::Http(_)) => None,
            (ServerKind::Http(_) | ServerKind::Tcp, _)
            | (_, ServerKind::Http(_) | ServerKind::Tcp) => {
                Some(format!("{other} has the port for {}", older.protocol))
            }
            (ServerKind::Https(name, _), ServerKind::Https(others, _)) if name == others => {
                Some(format!("{other} has a port of the same name"))
            }
            _ => {
                let theirs = older.server_names();
                let both = self.server_names().into_iter().find(|name| theirs.contains(name));
                both.map(|host| format!("{other} has {host} on the port"))
            }
        }
    }
}

/// One listener of a gateway.
#[derive(Clone, Debug, Hash)]
pub struct Listening<'a> {
    settings: Arc<Settings>,
    place: Place,
    chains: Vec<Planned<'a>>,
    domain: ClusterDomain,
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
}

pub(super) fn listeners<'a>(
    snapshot: &'a Snapshot,
    scope: &'a Scope,
    class: &'a ProxyClass,
    settings: &Arc<Settings>,
) -> Vec<Listening<'a>> {
    let mut merged = Merged::of(snapshot, scope, class);
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
            told,
        });
    }
    // What is said about ports that nobody has in the end is said with the first.
    if let Some(first) = out.first_mut() {
        first.told.extend(merged.told.into_values().flatten());
        first.told.extend(super::ignored::told(snapshot, class));
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
    }
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
            access_log: access::listener(&self.settings.access),
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
        })
    }
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
