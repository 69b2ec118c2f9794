//! Which route configurations a sidecar has, and what each may depend on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ironsail_api::Resource;
use ironsail_api::istio::networking::VirtualService;
use ironsail_model::{
    Egress, Protocol, ProxyClass, Registry, Resolution, Scope, Service, ServicePort, Snapshot,
    Visibility,
};
use ironsail_names::{Hostname, RouteName};

use super::destination::{Hashing, Target, Targets};
use super::outbound::{Host, Outbound};
use super::virtual_service::Source;
use super::{Client, Retries, aliases, client_of};
use crate::filter::settings::{Interception, Settings};
use crate::listener::HTTP_PROXY;
use crate::place;

pub(super) fn all<'a>(
    snapshot: &'a Snapshot,
    scope: &'a Scope,
    class: &'a ProxyClass,
    settings: &Settings,
) -> Vec<Outbound<'a>> {
    let plan = Plan::new(snapshot, scope, class, settings);
    plan.names().iter().filter_map(|name| plan.view(name)).collect()
}

pub(super) fn one<'a>(
    snapshot: &'a Snapshot,
    scope: &'a Scope,
    class: &'a ProxyClass,
    settings: &Settings,
    name: &str,
) -> Option<Outbound<'a>> {
    Plan::new(snapshot, scope, class, settings).view(name)
}

struct Plan<'a, 's> {
    snapshot: &'a Snapshot,
    scope: &'a Scope,
    class: &'a ProxyClass,
    settings: &'s Settings,
    aliases: BTreeMap<&'a Hostname, Vec<Hostname>>,
    /// Complete, oldest first.
    sources: Vec<Source<'a>>,
    retries: Retries,
}

impl<'a, 's> Plan<'a, 's> {
    fn new(
        snapshot: &'a Snapshot,
        scope: &'a Scope,
        class: &'a ProxyClass,
        settings: &'s Settings,
    ) -> Self {
        let http = scope.virtual_services.iter().filter(|object| !object.spec.http.is_empty());
        let sources = http.map(|object| source(snapshot, object));
        Self {
            snapshot,
            scope,
            class,
            settings,
            aliases: aliases(scope),
            sources: sources.collect(),
            retries: Retries::of(snapshot),
        }
    }

    /// The names that listeners of the class use.
    fn names(&self) -> BTreeSet<String> {
        let mut out = BTreeSet::new();
        let proxy = self.class.metadata.contains_key("HTTP_PROXY_PORT")
            || self.snapshot.mesh.config.proxy_http_port > 0;
        if proxy {
            out.insert(HTTP_PROXY.to_owned());
        }
        for egress in &self.scope.egress {
            if let Some(port) = &egress.port {
                if port.protocol.is_http() || port.protocol.is_auto() {
                    out.insert(port.number.to_string());
                }
                if port.protocol.is_auto() && !egress.bind.is_empty() {
                    out.extend(
                        egress.services.iter().map(|s| format!("{}:{}", s.hostname(), port.number)),
                    );
                }
                continue;
            }
            let bound = self.settings.interception == Interception::None || !egress.bind.is_empty();
            for service in egress.services.iter().filter(|s| s.resolution != Resolution::Alias) {
                let placeless = !bound && self.is_placeless(service);
                for port in &service.ports {
                    if port.protocol.is_http()
                        && !bound
                        && place::reserved(port.number, self.settings)
                    {
                        continue;
                    }
                    if port.protocol.is_http() || (port.protocol.is_auto() && placeless) {
                        out.insert(port.number.to_string());
                    } else if port.protocol.is_auto() {
                        out.insert(format!("{}:{}", service.hostname(), port.number));
                    }
                }
            }
        }
        out
    }

    /// Whether listeners for it are on all addresses.
    fn is_placeless(&self, service: &Service) -> bool {
        let headless = service.resolution == Resolution::Passthrough
            && (service.registry == Registry::Kubernetes || service.selector.is_some());
        !headless && place::addresses(service, self.class).is_empty()
    }

    fn view(&self, name: &str) -> Option<Outbound<'a>> {
        if name == HTTP_PROXY {
            let egress =
                self.scope.egress.iter().find(|e| e.port.is_none()).or(self.scope.egress.first());
            return Some(self.outbound(name, 0, None, egress?));
        }
        let (port, sniffed) = match name.parse().ok()? {
            RouteName::Port(port) => (port, None),
            RouteName::Service(host, port) => (port, Some(host)),
            RouteName::Inbound(_) | RouteName::GatewayHttp(_) | RouteName::GatewayHttps { .. } => {
                return None;
            }
        };
        let own = |egress: &&Egress| egress.port.as_ref().is_some_and(|p| p.number == port);
        let egress = self
            .scope
            .egress
            .iter()
            .find(own)
            .or_else(|| self.scope.egress.iter().find(|egress| egress.port.is_none()))?;
        let proxy = egress.port.as_ref().is_some_and(|p| p.protocol == Protocol::HttpProxy);
        Some(self.outbound(name, if proxy { 0 } else { port }, sniffed, egress))
    }

    fn outbound(
        &self,
        name: &str,
        port: u16,
        sniffed: Option<Hostname>,
        egress: &'a Egress,
    ) -> Outbound<'a> {
        let mut hosts = Vec::new();
        // They are in the order of hostnames.
        let services = match &sniffed {
            None => egress.services.as_slice(),
            Some(host) => egress
                .services
                .binary_search_by(|service| service.hostname().cmp(host))
                .map_or(&[][..], |found| &egress.services[found..=found]),
        };
        for service in services.iter().filter(|s| s.resolution != Resolution::Alias) {
            let ports = service.ports.iter().filter(|p| port == 0 || p.number == port);
            hosts.extend(ports.map(|port| self.host(service, port)));
        }
        let sources = self.relevant(port, sniffed.is_some(), &hosts, egress);
        let elsewhere = self.elsewhere(&sources, &hosts);
        let targets = targets(self.snapshot, self.scope, self.class, &sources);
        let client = match sources.iter().any(Source::asks_for_source) {
            true => client_of(self.class),
            false => Client::default(),
        };
        Outbound {
            name: name.to_owned(),
            port,
            sniffed,
            hosts,
            sources,
            elsewhere,
            targets,
            client,
            proxy_domain: self.class.domain.clone(),
            cluster_domain: self.snapshot.settings.domain.clone(),
            egress: self.settings.egress.clone(),
            attempt_count: self.settings.headers.attempt_count,
            forwarded_host: self.settings.headers.forwarded_host,
            retries: self.retries.clone(),
        }
    }

    /// Hosts of VirtualServices that are services, but not on this port.
    fn elsewhere(&self, sources: &[Source<'a>], hosts: &[Host]) -> BTreeSet<Hostname> {
        let here = |name: &Hostname| !named(hosts, name).is_empty();
        let all = sources.iter().flat_map(Source::hosts);
        all.filter(|name| !here(name) && self.scope.service(name).is_some()).cloned().collect()
    }

    fn host(&self, service: &Service, port: &ServicePort) -> Host {
        let http = port.protocol.is_http() || port.protocol.is_auto();
        let rule = http.then(|| self.scope.rule(self.snapshot, self.class, service)).flatten();
        Host {
            name: service.hostname().clone(),
            port: port.number,
            http,
            addresses: place::addresses(service, self.class),
            headless: service.resolution == Resolution::Passthrough
                && service.registry == Registry::Kubernetes,
            aliases: self.aliases.get(service.hostname()).cloned().unwrap_or_default(),
            hash: Hashing::with(service.sticky && http, rule.map(|rule| &*rule.spec))
                .of_destination("", Some(port.number))
                .cloned(),
        }
    }

    /// The VirtualServices that say something about one of the hosts. On port 80 they may be for hosts
    /// that no service has.
    fn relevant(
        &self,
        port: u16,
        sniffed: bool,
        hosts: &[Host],
        egress: &Egress,
    ) -> Vec<Source<'a>> {
        let mut names: Vec<&Hostname> = hosts.iter().map(|host| &host.name).collect();
        names.dedup();
        let known = |object: &Arc<Resource<VirtualService>>| {
            egress.virtual_services.iter().any(|own| Arc::ptr_eq(own, object))
        };
        // Most scopes have one listener that has them all.
        let every = egress.virtual_services.len() == self.scope.virtual_services.len();
        let nobodys =
            |pattern: &Hostname| port == 80 && !sniffed && self.scope.service(pattern).is_none();
        // Names of services that are patterns themselves.
        let wild: Vec<&Hostname> =
            names.iter().copied().filter(|name| name.is_wildcard()).collect();
        let wanted = |patterns: &[Hostname]| {
            let here = |pattern: &Hostname| match pattern.is_wildcard() {
                true => names.iter().any(|name| pattern.matches(name)),
                false => {
                    names.binary_search(&pattern).is_ok()
                        || wild.iter().any(|name| pattern.matches(name))
                }
            };
            patterns.iter().any(|pattern| here(pattern) || nobodys(pattern))
        };
        self.sources
            .iter()
            .filter(|source| (every || known(source.object)) && wanted(source.hosts()))
            .cloned()
            .collect()
    }
}

/// Those of `hosts`, which are in the order of their names, that are called `name`: one a port.
pub(super) fn named<'h>(hosts: &'h [Host], name: &Hostname) -> &'h [Host] {
    let start = hosts.partition_point(|host| host.name < *name);
    let count = hosts[start..].iter().take_while(|host| host.name == *name).count();
    &hosts[start..start + count]
}

/// A VirtualService with the delegates that it may use.
pub(super) fn source<'a>(
    snapshot: &'a Snapshot,
    object: &'a Arc<Resource<VirtualService>>,
) -> Source<'a> {
    let defaults = &snapshot.mesh.config.default_virtual_service_export_to;
    Source::new(object, &snapshot.settings.domain, |namespace, name| {
        let own = namespace.parse().ok()?;
        let found = snapshot.config.virtual_services.named(&own, name)?;
        let (visible, _) = Visibility::parse(&found.spec.export_to, defaults, &own);
        let root = object.meta.namespace.parse().ok()?;
        (found.spec.hosts.is_empty() && visible.includes(&root)).then_some(found)
    })
}

/// What the destinations of VirtualServices come to.
pub(super) fn targets(
    snapshot: &Snapshot,
    scope: &Scope,
    class: &ProxyClass,
    sources: &[Source<'_>],
) -> Targets {
    let mut out = Targets::new();
    for source in sources {
        for host in source.destinations() {
            if out.contains_key(host) {
                continue;
            }
            let service = scope.service(host);
            let rule = service.and_then(|service| scope.rule(snapshot, class, service));
            let target = Target::new(service.map(|s| &**s), rule.map(|rule| &*rule.spec));
            out.insert(host.clone(), target);
        }
    }
    out
}
