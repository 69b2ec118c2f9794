//! Under which addresses a class of proxies reaches a service.

use std::net::IpAddr;

use ironsail_model::{ProxyClass, Registry, Service};

use crate::filter::settings::Settings;

/// Whether the proxy can send to the address at all.
pub(crate) fn usable(ip: IpAddr, class: &ProxyClass) -> bool {
    match ip {
        IpAddr::V4(_) => class.ipv4 || !class.ipv6,
        IpAddr::V6(_) => class.ipv6,
    }
}

/// Virtual addresses, those that we gave included where the proxy's DNS tells them to clients.
pub(crate) fn addresses(service: &Service, class: &ProxyClass) -> Vec<IpAddr> {
    let fits = |ip: &&IpAddr| usable(**ip, class) && !ip.is_unspecified();
    let own: Vec<IpAddr> =
        service.addresses_in(&class.cluster).iter().filter(fits).copied().collect();
    match own.is_empty() && class.dns_capture && service.ranges.is_empty() {
        true => service.auto_addresses.iter().filter(fits).copied().collect(),
        false => own,
    }
}

/// The same as addresses of listeners: each inner list is one listener. The addresses of a Kubernetes
/// Service are one service in two families; those of a ServiceEntry stand for themselves.
pub(crate) fn binds(service: &Service, class: &ProxyClass) -> Vec<Vec<String>> {
    let all: Vec<String> = addresses(service, class).iter().map(ToString::to_string).collect();
    match (service.registry, all.is_empty()) {
        (_, true) => Vec::new(),
        (Registry::Kubernetes, false) => vec![all],
        (Registry::ServiceEntry, false) => all.into_iter().map(|one| vec![one]).collect(),
    }
}

/// Ports on all addresses that the proxy needs itself.
pub(crate) fn reserved(port: u16, settings: &Settings) -> bool {
    port == settings.outbound_port
        || port == settings.inbound_port
        || port == ironsail_names::port::HEALTH
        || port == ironsail_names::port::PROXY_METRICS
}
