//! `VirtualService`: hosts, gateways and the routes of TLS and TCP; HTTP is in `route`.

use std::collections::BTreeMap;

use ironsail_names::Hostname;

use super::check::Check;
use super::http::is_claim;
use super::name::{self, head};
use super::reach;
use super::route::{Role, destination, http_route, total_weight};
use crate::istio::networking::{RouteDestination, StringMatch, TcpRoute, TlsRoute, VirtualService};

/// The name that stands for all sidecars among gateways.
const MESH: &str = "mesh";

pub(super) fn check(check: &mut Check<'_>, service: &VirtualService) {
    let delegate = service.hosts.is_empty();
    if delegate {
        for (what, set) in [
            ("gateways", !service.gateways.is_empty()),
            ("tls route", !service.tls.is_empty()),
            ("tcp route", !service.tcp.is_empty()),
        ] {
            check.require(!set, || {
                format!("delegate virtual service must have no {what} specified")
            });
        }
    }
    gateway_names(check, "gateways", &service.gateways);
    let at_gateway = is_at_gateway(service);
    if !at_gateway {
        claims(check, service);
    }
    hosts(check, service, at_gateway);
    check.require(
        !(service.http.is_empty() && service.tcp.is_empty() && service.tls.is_empty()),
        || "http, tcp or tls must be provided in virtual service",
    );
    check.each("http", &service.http, |check, route| {
        let role = match route.delegate {
            _ if delegate => Role::Delegate,
            Some(_) => Role::Root,
            None => Role::Independent,
        };
        http_route(check, route, role);
    });
    check.each("tls", &service.tls, |check, route| tls_route(check, route, service));
    check.each("tcp", &service.tcp, tcp_route);
    check.export_to(&service.export_to, false);
    reach::http(check, &service.http);
    reach::connections(check, "tls", service.tls.iter().map(|route| route.r#match.as_slice()));
    reach::connections(check, "tcp", service.tcp.iter().map(|route| route.r#match.as_slice()));
}

/// Whether the routes are for gateways only.
fn is_at_gateway(service: &VirtualService) -> bool {
    !service.gateways.is_empty() && !service.gateways.iter().any(|name| name == MESH)
}

/// Only a gateway knows the claims of a token before it routes.
fn claims(check: &mut Check<'_>, service: &VirtualService) {
    check.each("http", &service.http, |check, route| {
        check.each("match", &route.r#match, |check, condition| {
            let both: [(&str, &BTreeMap<String, StringMatch>); 2] =
                [("headers", &condition.headers), ("withoutHeaders", &condition.without_headers)];
            for (field, headers) in both {
                for key in headers.keys().filter(|key| is_claim(key)) {
                    check.within(field, |check| {
                        check.error(format!(
                            "JWT claim based routing (key: {}) is only supported for gateway, found no gateways: {:?}",
                            head(key), service.gateways
                        ));
                    });
                }
            }
        });
    });
}

fn hosts(check: &mut Check<'_>, service: &VirtualService, at_gateway: bool) {
    let sni =
        service.tls.iter().flat_map(|route| &route.r#match).any(|one| !one.sni_hosts.is_empty());
    let mut valid = true;
    check.each("hosts", &service.hosts, |check, host| {
        let result =
            if at_gateway { name::gateway_domain(sni, host) } else { name::wildcard_domain(host) };
        if result.is_err() && name::is_ip(host) {
            return;
        }
        valid &= result.is_ok();
        check.take(result);
        if host == "*" && !at_gateway {
            valid = false;
            check.error(
                "wildcard host * is not allowed for virtual services bound to the mesh gateway",
            );
        }
    });
    if !valid {
        return;
    }
    // `*.foo.com` and `*.com` are the same host twice as well.
    let names: Vec<_> =
        service.hosts.iter().map(|host| (host, host.parse::<Hostname>().ok())).collect();
    for (index, (host, name)) in names.iter().enumerate() {
        for (other, other_name) in &names[index + 1..] {
            let same = match (name, other_name) {
                (Some(name), Some(other)) => name.matches(other),
                _ => host == other,
            };
            if same {
                check.within("hosts", |check| {
                    check.error(format!("duplicate hosts in virtual service: {host} & {other}"));
                });
            }
        }
    }
}

/// `namespace/name`, or the older `name` and `name.namespace.svc.cluster.local`.
pub(super) fn gateway_names(check: &mut Check<'_>, field: &str, names: &[String]) {
    check.each(field, names, |check, name| match name.split_once('/') {
        Some((namespace, gateway)) => {
            check.require(!namespace.is_empty() && !gateway.is_empty(), || {
                "config namespace and gateway name cannot be empty"
            });
            check.require(name::is_label(namespace), || {
                format!("invalid value for namespace: {:?}", head(namespace))
            });
            check.require(name::is_label(gateway), || {
                format!("invalid value for gateway name: {:?}", head(gateway))
            });
        }
        None => {
            let mut parts = name.split('.');
            if let (Some(gateway), Some(namespace)) = (parts.next(), parts.next()) {
                check.warn(format!(
                    "using legacy gatewayName format {:?}; prefer the <namespace>/<name> format: {:?}",
                    head(name),
                    format!("{namespace}/{gateway}")
                ));
            }
            check.take(name::fqdn(name));
        }
    });
}

fn tls_route(check: &mut Check<'_>, route: &TlsRoute, service: &VirtualService) {
    check.require(!route.r#match.is_empty(), || "TLS route must have at least one match condition");
    check.each("match", &route.r#match, |check, condition| {
        check.require(
            !condition.sni_hosts.is_empty(),
            || "TLS match must have at least one SNI host",
        );
        check.each("sniHosts", &condition.sni_hosts, |check, host| sni_host(check, host, service));
        connection(check, &condition.destination_subnets, condition.port);
        check.labels("sourceLabels", &condition.source_labels);
        gateway_names(check, "gateways", &condition.gateways);
    });
    check.require(!route.route.is_empty(), || "TLS route is required");
    destinations(check, &route.route);
}

fn sni_host(check: &mut Check<'_>, host: &str, service: &VirtualService) {
    let at_gateway = is_at_gateway(service);
    let result =
        if at_gateway { name::gateway_domain(true, host) } else { name::wildcard_domain(host) };
    if result.is_err() && name::is_ip(host) {
        check.warn(format!(
            "using an IP address ({host:?}) goes against SNI spec and most clients do not support this"
        ));
        return;
    }
    if result.is_err() {
        return check.take(result);
    }
    let covered = |other: &String| match (host.parse::<Hostname>(), other.parse::<Hostname>()) {
        (Ok(host), Ok(other)) => host.is_subset_of(&other),
        _ => host == other,
    };
    check.require(service.hosts.iter().any(covered), || {
        format!(
            "SNI host {host:?} is not a compatible subset of any of the virtual service hosts: [{}]",
            service.hosts.join(", ")
        )
    });
}

fn tcp_route(check: &mut Check<'_>, route: &TcpRoute) {
    check.each("match", &route.r#match, |check, condition| {
        connection(check, &condition.destination_subnets, condition.port);
        if !condition.source_subnet.is_empty() {
            check.take_at("sourceSubnet", name::subnet(&condition.source_subnet));
        }
        check.labels("sourceLabels", &condition.source_labels);
        gateway_names(check, "gateways", &condition.gateways);
    });
    check.require(!route.route.is_empty(), || "TCP route is required");
    destinations(check, &route.route);
}

fn connection(check: &mut Check<'_>, subnets: &[String], port: u32) {
    check.each("destinationSubnets", subnets, |check, subnet| check.take(name::subnet(subnet)));
    if port != 0 {
        check.take_at("port", name::port(port));
    }
}

fn destinations(check: &mut Check<'_>, destinations: &[RouteDestination]) {
    check.each("route", destinations, |check, one| {
        check.within("destination", |check| destination(check, &one.destination));
        check.require(one.weight >= 0, || format!("weight {} < 0", one.weight));
    });
    let weights: Vec<_> = destinations.iter().map(|one| one.weight).collect();
    total_weight(check, &weights);
}
