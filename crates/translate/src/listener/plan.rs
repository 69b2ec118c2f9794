//! Which outbound listeners a sidecar has, and who claims what on each.
//!
//! HTTP shares one listener a port, on all addresses. TCP has one for each virtual address, for each
//! endpoint of headless services, and shares the one on all addresses where there is no address. A
//! Sidecar may say address, port and protocol itself; such a listener is closed to all others.

mod entry;

use std::collections::BTreeMap;
use std::sync::Arc;

use ironsail_api::Resource;
use ironsail_api::istio::networking::CaptureMode;
use ironsail_api::istio::networking::VirtualService;
use ironsail_model::{
    Egress, Hashed, Protocol, ProxyClass, Registry, Resolution, Scope, Service, ServicePort,
    Snapshot,
};
use ironsail_names::Hostname;

use super::outbound::{
    Claim, HTTP_PROXY, HttpClaim, Outbound, TcpClaim, asks_for_source, has_connection_routes,
};
use super::tcp::{self, Rule, Source, Target};
use crate::filter::settings::{Interception, Settings};
use crate::route::{Client, aliases, domain};
use crate::{place, route};

use entry::{Entry, Spoken};

/// One port of one service on its way to a listener.
struct Wish<'a> {
    service: &'a Service,
    port: u16,
    port_name: &'a Arc<str>,
    protocol: Protocol,
    /// None: where the service's addresses say.
    bind: Option<Vec<String>>,
    bound: bool,
    routes: &'a [Arc<Resource<VirtualService>>],
}

struct Plan<'a> {
    snapshot: &'a Snapshot,
    scope: &'a Scope,
    class: &'a ProxyClass,
    settings: Arc<Hashed<Settings>>,
    aliases: BTreeMap<&'a Hostname, Vec<Hostname>>,
    entries: BTreeMap<(String, u16), Entry<'a>>,
}

pub(super) fn outbound<'a>(
    snapshot: &'a Snapshot,
    scope: &'a Scope,
    class: &'a ProxyClass,
    settings: &Arc<Hashed<Settings>>,
) -> Vec<Outbound<'a>> {
    let mut plan = Plan {
        snapshot,
        scope,
        class,
        settings: settings.clone(),
        aliases: aliases(scope),
        entries: BTreeMap::new(),
    };
    for egress in &scope.egress {
        plan.listen(egress);
    }
    let mut listeners = plan.finish();
    listeners.extend(http_proxy(snapshot, class, settings));
    listeners
}

/// The port for clients that know they use a proxy.
fn http_proxy<'a>(
    snapshot: &'a Snapshot,
    class: &ProxyClass,
    settings: &Arc<Hashed<Settings>>,
) -> Option<Outbound<'a>> {
    let own = class.metadata.get("HTTP_PROXY_PORT").and_then(|port| port.parse().ok());
    let mesh = || u16::try_from(snapshot.mesh.config.proxy_http_port).ok();
    let port = own.or_else(mesh).filter(|port| *port != 0)?;
    let claim = HttpClaim { routes: HTTP_PROXY.into(), grpc_web: false, proxy: true };
    Some(Outbound {
        settings: settings.clone(),
        binds: owned(settings.family.localhosts()),
        port,
        bound: true,
        claims: vec![Claim::Http(claim)],
        sources: Vec::new(),
        targets: BTreeMap::new(),
        client: Client::default(),
        domain: snapshot.settings.domain.clone(),
        refused: Vec::new(),
    })
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&t| t.to_owned()).collect()
}

impl<'a> Plan<'a> {
    fn listen(&mut self, egress: &'a Egress) {
        let none = self.settings.interception == Interception::None;
        let bound =
            none || egress.capture == CaptureMode::None || egress.bind.starts_with("unix://");
        let bind = match (egress.bind.as_str(), bound) {
            ("", false) => None,
            ("", true) => Some(owned(self.settings.family.localhosts())),
            (own, _) => Some(vec![own.to_owned()]),
        };
        if egress.port.is_none() {
            // Ports that the Sidecar has spoken of get nothing from here.
            for entry in self.entries.values_mut() {
                entry.locked = true;
            }
        }
        let mut services: Vec<&'a Arc<Service>> = egress.services.iter().collect();
        services.sort_by_key(|service| (service.created, &service.key));
        for service in services.into_iter().filter(|s| s.resolution != Resolution::Alias) {
            match &egress.port {
                Some(port) => {
                    // The first port that fits lends its name; the Sidecar says all else.
                    let name = service.port(port.number).or(service.ports.first());
                    let Some(name) = name.map(|port| &port.name) else { continue };
                    self.wish(&Wish {
                        service,
                        port: port.number,
                        port_name: name,
                        protocol: port.protocol,
                        bind: bind.clone(),
                        bound,
                        routes: &egress.virtual_services,
                    });
                }
                None => {
                    for port in &service.ports {
                        self.of_service(service, port, bind.clone(), bound, egress);
                    }
                }
            }
        }
    }

    fn of_service(
        &mut self,
        service: &'a Service,
        port: &'a ServicePort,
        bind: Option<Vec<String>>,
        bound: bool,
        egress: &'a Egress,
    ) {
        let wish = |bind: Option<Vec<String>>| Wish {
            service,
            port: port.number,
            port_name: &port.name,
            protocol: port.protocol,
            bind,
            bound,
            routes: &egress.virtual_services,
        };
        let own_addresses = bind.is_none()
            && service.resolution == Resolution::Passthrough
            && place::addresses(service, self.class).is_empty()
            && service.ranges.is_empty()
            && (port.protocol.is_tcp() || port.protocol.is_auto());
        if !own_addresses {
            self.wish(&wish(bind));
            return;
        }
        // Clients of headless services call pods by their own addresses.
        let endpoints = self.snapshot.endpoints.get(&service.key);
        let endpoints = endpoints.map_or(&[][..], |all| all.port(&port.name));
        let by_hand = service.registry == Registry::ServiceEntry && service.selector.is_none();
        if endpoints.is_empty() && by_hand {
            self.wish(&wish(None));
        }
        for ip in endpoints.iter().filter_map(ironsail_model::Endpoint::ip) {
            if place::usable(ip, self.class) {
                self.wish(&wish(Some(vec![ip.to_string()])));
            }
        }
    }

    /// Puts a claim on the listeners where it belongs.
    fn wish(&mut self, wish: &Wish<'a>) {
        let family = self.settings.family;
        let http = wish.protocol.is_http();
        if !http && !wish.protocol.is_tcp() && !wish.protocol.is_auto() {
            return;
        }
        if !self.can_bind(wish) {
            return;
        }
        let mut places: Vec<(Vec<String>, Vec<String>)> = Vec::new();
        match &wish.bind {
            Some(binds) => places.push((binds.clone(), Vec::new())),
            None if http => places.push((owned(family.wildcards()), Vec::new())),
            None => {
                places.extend(
                    place::binds(wish.service, self.class).into_iter().map(|b| (b, Vec::new())),
                );
                if !wish.service.ranges.is_empty() {
                    let ranges = wish.service.ranges.iter().map(ToString::to_string).collect();
                    places.push((owned(family.wildcards()), ranges));
                }
                if places.is_empty() {
                    places.push((owned(family.wildcards()), Vec::new()));
                }
            }
        }
        for (binds, ranges) in places {
            self.claim(wish, binds, ranges);
        }
    }

    fn can_bind(&self, wish: &Wish<'_>) -> bool {
        if wish.bound && self.settings.unprivileged && wish.port < 1024 && wish.port != 0 {
            return false;
        }
        let wildcard = match &wish.bind {
            Some(binds) => binds.first().is_some_and(|b| b == self.settings.family.wildcard()),
            None => wish.protocol.is_http(),
        };
        !(wildcard && place::reserved(wish.port, &self.settings))
    }

    fn claim(&mut self, wish: &Wish<'a>, binds: Vec<String>, ranges: Vec<String>) {
        let Some(bind) = binds.first().cloned() else { return };
        let wildcard = bind == self.settings.family.wildcard();
        let (claim, spoken) = self.make(wish, &bind, ranges, wildcard);
        let key = (bind, wish.port);
        let Some(entry) = self.entries.get_mut(&key) else {
            let entry = Entry {
                binds,
                bound: wish.bound,
                locked: false,
                spoken,
                protocol: wish.protocol,
                claims: vec![claim],
                routes: wish.routes,
                refused: Vec::new(),
            };
            self.entries.insert(key, entry);
            return;
        };
        let owner = wish.service.sources.first();
        entry.add(claim, spoken, wish.protocol, owner);
    }

    fn make(
        &self,
        wish: &Wish<'a>,
        bind: &str,
        ranges: Vec<String>,
        wildcard: bool,
    ) -> (Claim, Spoken) {
        let protocol = wish.protocol;
        let http = |sniffed: bool| HttpClaim {
            routes: match (wish.port, sniffed && !wildcard) {
                (0, _) => bind.to_owned(),
                (port, true) => format!("{}:{port}", wish.service.hostname()),
                (port, false) => port.to_string(),
            },
            grpc_web: protocol == Protocol::GrpcWeb,
            proxy: protocol == Protocol::HttpProxy,
        };
        if protocol.is_http() {
            // On all addresses other traffic may come too, so it is looked at.
            let spoken = if wildcard && protocol != Protocol::HttpProxy {
                Spoken::Auto
            } else {
                Spoken::Http
            };
            return (Claim::Http(http(false)), spoken);
        }
        let service = wish.service;
        let rule = self.scope.rule(self.snapshot, self.class, service);
        // Without an address of its own only the server's name tells the service.
        let sni = wildcard || !ranges.is_empty();
        let tcp = TcpClaim {
            host: service.hostname().clone(),
            name: service.name.clone(),
            namespace: service.namespace().to_string(),
            port_name: wish.port_name.clone(),
            protocol,
            ports: service.ports.iter().map(|port| port.number).collect(),
            rule: Rule::with(service.sticky, rule.map(|rule| &*rule.spec)),
            ranges,
            sni: if sni && protocol.is_tls() { self.server_names(service) } else { Vec::new() },
            dynamic: service.resolution == Resolution::DynamicDns && protocol.is_tls(),
            owner: service.sources.first().cloned(),
        };
        match protocol.is_auto() {
            true => (Claim::Auto(tcp, http(true)), Spoken::Auto),
            false => (Claim::Tcp(tcp), Spoken::Tcp),
        }
    }

    fn server_names(&self, service: &Service) -> Vec<String> {
        let mut names = vec![service.hostname().to_string()];
        for alias in self.aliases.get(service.hostname()).into_iter().flatten() {
            names.push(alias.to_string());
            names.extend(domain::short_names(alias.as_str(), &self.class.domain));
        }
        names
    }

    fn finish(self) -> Vec<Outbound<'a>> {
        let Self { snapshot, scope, class, settings, entries, .. } = self;
        let cluster_domain = &snapshot.settings.domain;
        let connection: Vec<&'a Arc<Resource<VirtualService>>> = scope
            .virtual_services
            .iter()
            .filter(|object| has_connection_routes(&object.spec))
            .collect();
        let build = |((_, port), entry): ((String, u16), Entry<'a>)| {
            let sources = match connection.is_empty() {
                true => Vec::new(),
                false => relevant(&entry, cluster_domain),
            };
            let mut targets = BTreeMap::new();
            for source in &sources {
                for host in tcp::destinations(source.0, cluster_domain) {
                    let service = scope.service_matching(&host);
                    let rule = service.and_then(|service| scope.rule(snapshot, class, service));
                    let target = Target::new(service.map(|s| &**s), rule.map(|rule| &*rule.spec));
                    targets.insert(host, target);
                }
            }
            let client = match asks_for_source(&sources) {
                true => route::client_of(class),
                false => Client::default(),
            };
            Outbound {
                settings: settings.clone(),
                binds: entry.binds,
                port,
                bound: entry.bound,
                claims: entry.claims,
                sources,
                targets,
                client,
                domain: cluster_domain.clone(),
                refused: entry.refused,
            }
        };
        entries.into_iter().map(build).collect()
    }
}

/// The VirtualServices with routes for connections to one of the claims' hosts.
fn relevant<'a>(entry: &Entry<'a>, domain: &ironsail_names::ClusterDomain) -> Vec<Source<'a>> {
    let hosts: Vec<&Hostname> = entry
        .claims
        .iter()
        .filter_map(|claim| match claim {
            Claim::Http(_) => None,
            Claim::Tcp(tcp) | Claim::Auto(tcp, _) => Some(&tcp.host),
        })
        .collect();
    let means = |object: &Resource<VirtualService>| {
        let Ok(namespace) = object.meta.namespace.parse() else { return false };
        object.spec.hosts.iter().any(|host| {
            ironsail_model::full_host(host, &namespace, domain)
                .is_ok_and(|host| hosts.iter().any(|own| host.matches(own)))
        })
    };
    entry
        .routes
        .iter()
        .filter(|object| has_connection_routes(&object.spec) && means(object))
        .map(Source)
        .collect()
}
