//! The servers of all Gateways that select a proxy, merged by port.
//!
//! In: Gateways, oldest first. Out: servers by address and port. One that cannot share the port with an
//! older one is left out and told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ironsail_api::istio::networking::{Gateway, ServerTlsMode, ServerTlsSettings};
use ironsail_api::{Diagnostic, Kind, Resource};
use ironsail_model::{
    GatewayRef, Protocol, ProxyClass, ProxyKind, Scope, Service, Snapshot, scope::HostPattern,
    select,
};
use ironsail_names::RouteName;

use crate::listener::server_tls::{ServerTls, TlsDefaults};
use crate::problem::Problems;

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
    /// mTLS of the mesh, not opened: the server name says the cluster.
    AutoPassthrough,
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
        let defaults = TlsDefaults::of(&snapshot.mesh.config);
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
                    merged.add(gateway, index, place, number, &defaults);
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
        defaults: &TlsDefaults<'_>,
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
        let terminated = tls.and_then(|tls| ServerTls::of(tls, defaults)).map(Box::new);
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
            (_, true, None) if tls.is_some_and(is_automatic) => ServerKind::AutoPassthrough,
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

fn is_automatic(tls: &ServerTlsSettings) -> bool {
    tls.mode == ServerTlsMode::AutoPassthrough
}

/// Whether a gateway of the class passes mTLS for `service` on by its server name.
pub(crate) fn passed_on(snapshot: &Snapshot, class: &ProxyClass, service: &Service) -> bool {
    if class.kind != ProxyKind::Router || service.external || service.alias.is_some() {
        return false;
    }
    let means = |gateway: &Resource<Gateway>| {
        let Ok(own) = gateway.meta.namespace.parse() else { return false };
        let servers = gateway.spec.servers.iter();
        let servers = servers.filter(|server| server.tls.as_ref().is_some_and(is_automatic));
        let mut hosts = servers.flat_map(|server| &server.hosts);
        hosts.any(|host| HostPattern::parse(host, &own).is_some_and(|p| is_meant(service, &p)))
    };
    let mut all = snapshot.config.gateways.iter();
    all.any(|gateway| select::matches(&gateway.spec.selector, &class.labels) && means(gateway))
}

/// Whether all that the service is called is covered by the pattern.
pub(crate) fn is_meant(service: &Service, pattern: &HostPattern) -> bool {
    service.hostname().is_subset_of(&pattern.host)
        && pattern.includes(service.hostname(), service.namespace().as_str())
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
            // What is passed on has server names of its own, which no host of users looks like.
            (ServerKind::AutoPassthrough, _) | (_, ServerKind::AutoPassthrough) => None,
            _ => {
                let theirs = older.server_names();
                let both = self.server_names().into_iter().find(|name| theirs.contains(name));
                both.map(|host| format!("{other} has {host} on the port"))
            }
        }
    }
}
