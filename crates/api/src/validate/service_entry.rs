//! `ServiceEntry`, `WorkloadEntry` and `WorkloadGroup`.

use std::collections::BTreeSet;

use super::check::Check;
use super::http::header_name;
use super::name::{self, Protocol, head};
use crate::istio::networking::{
    HealthCheckMethod, HttpHealthCheck, ReadinessProbe, Resolution, ServiceEntry, WorkloadEntry,
    WorkloadGroup,
};

pub(super) fn check(check: &mut Check<'_>, entry: &ServiceEntry) {
    super::selector::older(check, "service entry", entry.workload_selector.as_ref());
    check.require(
        entry.workload_selector.is_none() || entry.endpoints.is_empty(),
        || "only one of WorkloadSelector or Endpoints is allowed in Service Entry",
    );
    check.require(!entry.hosts.is_empty(), || "service entry must have at least one host");
    check.each("hosts", &entry.hosts, |check, host| {
        if host == "*" {
            return check.error("invalid host *");
        }
        check.take(name::wildcard_domain(host));
        if let Err(reason) = name::partial_wildcard(host) {
            check.warn(reason);
        }
    });
    addresses(check, entry);
    let ports = ports(check, entry);
    resolution(check, entry, &ports);
    several_hosts(check, entry);
    check.export_to(&entry.export_to, true);
}

fn addresses(check: &mut Check<'_>, entry: &ServiceEntry) {
    check.each("addresses", &entry.addresses, |check, address| check.take(name::subnet(address)));
    let ranges = entry.addresses.iter().any(|address| address.contains('/'));
    let allowed = matches!(entry.resolution, Resolution::None | Resolution::Static);
    check.require(
        !ranges || allowed,
        || "CIDR addresses are allowed only for NONE/STATIC resolution types",
    );
}

/// Names of the ports.
fn ports(check: &mut Check<'_>, entry: &ServiceEntry) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut numbers = BTreeSet::new();
    check.each("ports", &entry.ports, |check, port| {
        check.require(names.insert(port.name.clone()), || {
            format!("service entry port name {:?} already defined", head(&port.name))
        });
        check.require(numbers.insert(port.number), || {
            format!("service entry port {} already defined", port.number)
        });
        if port.target_port != 0 {
            check.take_at("targetPort", name::port(port.target_port));
            if entry.resolution == Resolution::None {
                check.warn("targetPort has no effect when resolution mode is NONE");
            }
        }
        check.take_at("name", name::port_name(&port.name));
        check.take_at("protocol", name::protocol_name(&port.protocol));
        check.take_at("number", name::port(port.number));
    });
    names
}

fn resolution(check: &mut Check<'_>, entry: &ServiceEntry, ports: &BTreeSet<String>) {
    let mode = entry.resolution;
    if entry.workload_selector.is_some() && mode != Resolution::Static {
        check.warn(format!("workloadSelector should not be set when resolution mode is {mode}"));
    }
    match mode {
        Resolution::None => check.require(
            entry.endpoints.is_empty(),
            || "no endpoints should be provided for resolution type none",
        ),
        Resolution::Static => check.each("endpoints", &entry.endpoints, |check, endpoint| {
            workload_entry(check, endpoint, Some(ports), false);
        }),
        Resolution::Dns | Resolution::DnsRoundRobin => {
            let all_full = entry.hosts.iter().all(|host| name::fqdn(host).is_ok());
            check.require(!entry.endpoints.is_empty() || all_full, || {
                format!(
                    "hosts must be FQDN if no endpoints are provided for resolution mode {mode}"
                )
            });
            check.require(mode == Resolution::Dns || entry.endpoints.len() <= 1, || {
                format!("there must only be 0 or 1 endpoint for resolution mode {mode}")
            });
            check.each("endpoints", &entry.endpoints, |check, endpoint| {
                workload_entry(check, endpoint, Some(ports), true);
            });
        }
        Resolution::DynamicDns => {
            check.require(entry.endpoints.is_empty(), || {
                format!("no endpoints should be provided for resolution type {mode}")
            });
            check.require(entry.hosts.iter().all(|host| host.starts_with("*.")), || {
                format!("hosts must be wildcard for resolution mode {mode}")
            });
            let plain = |protocol: &str| {
                !matches!(name::protocol(protocol), Some(Protocol::Http | Protocol::Tls))
            };
            check.require(!entry.ports.iter().any(|port| plain(&port.protocol)), || {
                format!("only HTTP and TLS protocols are supported for resolution mode {mode}")
            });
        }
    }
}

/// Hosts behind one plain TCP port cannot be told apart.
fn several_hosts(check: &mut Check<'_>, entry: &ServiceEntry) {
    if entry.resolution == Resolution::None || entry.hosts.len() < 2 {
        return;
    }
    let tellable =
        |protocol: &str| matches!(name::protocol(protocol), Some(Protocol::Http | Protocol::Tls));
    check.require(
        entry.ports.iter().all(|port| tellable(&port.protocol)),
        || "multiple hosts provided with non-HTTP, non-TLS ports",
    );
}

/// `ports` are those of the service, if it is known; names for DNS may or may not be allowed.
pub(super) fn workload_entry(
    check: &mut Check<'_>,
    entry: &WorkloadEntry,
    ports: Option<&BTreeSet<String>>,
    names_allowed: bool,
) {
    let address = entry.address.as_str();
    if address.is_empty() {
        if entry.network.is_empty() {
            return check.error("address is required");
        }
        check.warn(format!("address is unset with network {:?}", head(&entry.network)));
    } else if let Some(path) = address.strip_prefix("unix://") {
        check.take_at("address", name::unix(path));
        check.require(entry.ports.is_empty(), || {
            format!("unix endpoint {} must not include ports", head(address))
        });
        check.require(
            ports.is_none_or(|ports| ports.len() == 1),
            || "exactly 1 service port required for unix endpoints",
        );
    } else if !name::is_ip(address) {
        let shown = head(address);
        if !names_allowed {
            check.error(format!("endpoint address {shown:?} is not a valid IP address"));
        } else if name::fqdn(address).is_err() {
            check.error(format!("endpoint address {shown:?} is not a valid FQDN or an IP address"));
        }
    }
    for (name, port) in &entry.ports {
        check.within("ports", |check| {
            check.require(ports.is_none_or(|ports| ports.contains(name)), || {
                format!("endpoint port {port} is not defined by the service entry")
            });
            check.take(name::port_name(name));
            check.take(name::port(*port));
        });
    }
    check.labels("labels", &entry.labels);
}

pub(super) fn workload_group(check: &mut Check<'_>, group: &WorkloadGroup) {
    // An address is filled in for each machine, so the template is not checked as an entry.
    let Some(template) = &group.template else {
        return check.error("template is required");
    };
    check.within("template", |check| {
        check.labels("labels", &template.labels);
        for (name, port) in &template.ports {
            check.take_at("ports", name::port_name(name));
            check.take_at("ports", name::port(*port));
        }
    });
    check.some("metadata", group.metadata.as_ref(), |check, metadata| {
        check.labels("labels", &metadata.labels);
    });
    check.some("probe", group.probe.as_ref(), probe);
}

fn probe(check: &mut Check<'_>, probe: &ReadinessProbe) {
    for (field, number) in [
        ("periodSeconds", probe.period_seconds),
        ("initialDelaySeconds", probe.initial_delay_seconds),
        ("timeoutSeconds", probe.timeout_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
    ] {
        check.require(number >= 0, || format!("{field} must be non-negative"));
    }
    match &probe.method {
        HealthCheckMethod::HttpGet(get) => check.within("httpGet", |check| http_get(check, get)),
        HealthCheckMethod::TcpSocket(socket) => {
            check.take_at("tcpSocket.port", name::port(socket.port));
        }
        HealthCheckMethod::Exec(exec) => {
            check.require(!exec.command.is_empty(), || "exec.command is required");
        }
        HealthCheckMethod::Grpc(grpc) => check.take_at("grpc.port", name::port(grpc.port)),
        HealthCheckMethod::Unset => check.error("a health check method is required"),
    }
}

fn http_get(check: &mut Check<'_>, get: &HttpHealthCheck) {
    check.take_at("port", name::port(get.port));
    check.require(
        ["", "HTTP", "HTTPS"].contains(&get.scheme.as_str()),
        || "httpGet.scheme must be one of \"HTTPS\", \"HTTP\"",
    );
    check.each("httpHeaders", &get.http_headers, |check, header| {
        check.take(header_name(&header.name));
    });
}
