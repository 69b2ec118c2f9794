//! A Sidecar's egress listeners: which services and routes each may use.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ironsail_api::Resource;
use ironsail_api::istio::networking as net;
use ironsail_names::{Hostname, Namespace};

use super::{HostPattern, Visible};
use crate::Protocol;
use crate::config::full_host;
use crate::hashed::digest;
use crate::service::Service;
use crate::snapshot::Snapshot;

/// What one egress listener may use.
#[derive(Clone, Debug)]
pub struct Egress {
    /// None: all ports that no other listener has.
    pub port: Option<EgressPort>,
    /// Empty: chosen by us.
    pub bind: String,
    pub capture: net::CaptureMode,
    /// In the order of hostnames. A listener with a port has services with that port only.
    pub services: Vec<Arc<Service>>,
    /// Oldest first.
    pub virtual_services: Vec<Arc<Resource<net::VirtualService>>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EgressPort {
    pub number: u16,
    pub name: String,
    pub protocol: Protocol,
}

impl Egress {
    pub(super) fn everything(
        services: &[Arc<Service>],
        virtual_services: &[Arc<Resource<net::VirtualService>>],
    ) -> Self {
        Self {
            port: None,
            bind: String::new(),
            capture: net::CaptureMode::Default,
            services: services.to_vec(),
            virtual_services: virtual_services.to_vec(),
        }
    }

    pub(super) fn digest(&self) -> u64 {
        let services: Vec<u64> = self.services.iter().map(|service| service.digest).collect();
        let routes: Vec<u64> = self.virtual_services.iter().map(|object| object.digest).collect();
        digest(&(&self.port, &self.bind, self.capture, services, routes))
    }

    /// Whether the listener is an HTTP proxy, which takes services of all ports.
    fn is_proxy(&self) -> bool {
        self.port.as_ref().is_some_and(|port| port.protocol == Protocol::HttpProxy)
    }
}

/// Leaves of `all` what the listeners ask for.
pub(super) fn narrow(
    snapshot: &Snapshot,
    all: Visible,
    listeners: &[net::IstioEgressListener],
) -> Visible {
    let mut services: BTreeMap<Hostname, Arc<Service>> = BTreeMap::new();
    let mut routes: BTreeSet<usize> = BTreeSet::new();
    let mut egress = Vec::new();
    for listener in listeners {
        let (one, used) = listen(snapshot, &all, listener);
        for service in &one.services {
            // The whole service wins over the same service cut down to one port.
            let whole = all.service(service.hostname()).unwrap_or(service);
            services.entry(service.hostname().clone()).or_insert_with(|| whole.clone());
        }
        routes.extend(used);
        egress.push(one);
    }
    let virtual_services =
        routes.into_iter().map(|index| all.virtual_services[index].clone()).collect();
    Visible { services: services.into_values().collect(), virtual_services, egress, ..all }
}

/// One listener, and the places of its routes in `all`.
fn listen(
    snapshot: &Snapshot,
    all: &Visible,
    listener: &net::IstioEgressListener,
) -> (Egress, Vec<usize>) {
    let own = &all.namespace;
    let patterns: Vec<HostPattern> =
        listener.hosts.iter().filter_map(|text| HostPattern::parse(text, own)).collect();
    let port = listener.port.as_ref().and_then(|port| {
        Some(EgressPort {
            number: u16::try_from(port.number).ok().filter(|number| *number != 0)?,
            name: port.name.clone(),
            protocol: Protocol::parse(&port.protocol).unwrap_or_default(),
        })
    });
    let mut egress = Egress {
        port,
        bind: listener.bind.clone(),
        capture: listener.capture_mode,
        services: Vec::new(),
        virtual_services: Vec::new(),
    };
    let used: Vec<usize> = all
        .virtual_services
        .iter()
        .enumerate()
        .filter(|(_, route)| is_imported(route, &patterns, snapshot))
        .map(|(index, _)| index)
        .collect();
    egress.virtual_services =
        used.iter().map(|index| all.virtual_services[*index].clone()).collect();

    let mut services: BTreeMap<Hostname, Arc<Service>> = BTreeMap::new();
    for service in imported(snapshot, own, &patterns) {
        let fitting = match &egress.port {
            Some(port) if !egress.is_proxy() => on_port(&service, port.number),
            _ => Some(service),
        };
        services.extend(fitting.map(|service| (service.hostname().clone(), service)));
    }
    // Where a route leads, the proxy must be able to go, asked for or not.
    for route in &egress.virtual_services {
        for host in destinations(route, snapshot) {
            if let Some(service) = all.service_matching(&host) {
                services.entry(service.hostname().clone()).or_insert_with(|| service.clone());
            }
        }
    }
    egress.services = services.into_values().collect();
    (egress, used)
}

/// The services that the patterns name, one for each hostname: the pattern's namespace decides
/// before the usual order does.
fn imported(snapshot: &Snapshot, own: &Namespace, patterns: &[HostPattern]) -> Vec<Arc<Service>> {
    let mut found: BTreeMap<&Hostname, &Arc<Service>> = BTreeMap::new();
    for service in snapshot.services.iter().filter(|service| service.export_to.includes(own)) {
        let namespace = service.namespace().as_str();
        if !patterns.iter().any(|pattern| pattern.includes(service.hostname(), namespace)) {
            continue;
        }
        let place = found.entry(service.hostname()).or_insert(service);
        if super::rank(service, own) < super::rank(place, own) {
            *place = service;
        }
    }
    found.into_values().cloned().collect()
}

/// The service cut down to one port.
fn on_port(service: &Arc<Service>, number: u16) -> Option<Arc<Service>> {
    service.port(number)?;
    if service.ports.len() == 1 {
        return Some(service.clone());
    }
    let mut cut = Service::clone(service);
    cut.ports.retain(|port| port.number == number);
    Some(Arc::new(cut.sealed()))
}

fn is_imported(
    route: &Resource<net::VirtualService>,
    patterns: &[HostPattern],
    snapshot: &Snapshot,
) -> bool {
    let Ok(namespace) = route.meta.namespace.parse::<Namespace>() else { return false };
    let domain = &snapshot.settings.domain;
    let hosts = route.spec.hosts.iter().filter_map(|host| full_host(host, &namespace, domain).ok());
    let hosts: Vec<Hostname> = hosts.collect();
    patterns
        .iter()
        .any(|pattern| hosts.iter().any(|host| pattern.includes(host, namespace.as_str())))
}

/// All hosts that a VirtualService, or one that it delegates to, sends traffic to.
fn destinations(route: &Resource<net::VirtualService>, snapshot: &Snapshot) -> BTreeSet<Hostname> {
    let mut found = BTreeSet::new();
    collect(route, snapshot, &mut found);
    for http in &route.spec.http {
        let Some(delegate) = &http.delegate else { continue };
        let namespace = match delegate.namespace.as_str() {
            "" => route.meta.namespace.as_str(),
            namespace => namespace,
        };
        let named = namespace.parse().ok().and_then(|namespace| {
            snapshot.config.virtual_services.named(&namespace, &delegate.name)
        });
        if let Some(delegate) = named {
            collect(delegate, snapshot, &mut found);
        }
    }
    found
}

fn collect(
    route: &Resource<net::VirtualService>,
    snapshot: &Snapshot,
    found: &mut BTreeSet<Hostname>,
) {
    let Ok(namespace) = route.meta.namespace.parse::<Namespace>() else { return };
    let spec = &route.spec;
    let http = spec.http.iter().flat_map(|http| {
        let routes = http.route.iter().map(|route| &route.destination);
        let mirrors = http.mirrors.iter().map(|mirror| &mirror.destination);
        routes.chain(&http.mirror).chain(mirrors)
    });
    let tls = spec.tls.iter().flat_map(|tls| &tls.route);
    let tcp = spec.tcp.iter().flat_map(|tcp| &tcp.route);
    let rest = tls.chain(tcp).map(|route| &route.destination);
    for destination in http.chain(rest) {
        found.extend(full_host(&destination.host, &namespace, &snapshot.settings.domain));
    }
}
