//! `Sidecar`.

use std::collections::{BTreeMap, BTreeSet};

use super::check::Check;
use super::destination_rule::connection_pool;
use super::gateway;
use super::name::{self, Protocol, head};
use super::route::destination;
use crate::istio::networking::{
    CaptureMode, IstioEgressListener, IstioIngressListener, OutboundMode, OutboundTrafficPolicy,
    ServerTlsMode, ServerTlsSettings, Sidecar, SidecarPort,
};

pub(super) fn check(check: &mut Check<'_>, sidecar: &Sidecar) {
    super::selector::older(check, "sidecar", sidecar.workload_selector.as_ref());
    let empty = sidecar.egress.is_empty()
        && sidecar.ingress.is_empty()
        && sidecar.outbound_traffic_policy.is_none()
        && sidecar.inbound_connection_pool.is_none();
    if empty {
        return check.error("sidecar: empty configuration provided");
    }
    let mut ports = BTreeSet::new();
    check.each("ingress", &sidecar.ingress, |check, listener| ingress(check, listener, &mut ports));
    check.some("inboundConnectionPool", sidecar.inbound_connection_pool.as_ref(), connection_pool);
    egress(check, &sidecar.egress);
    check.some(
        "outboundTrafficPolicy",
        sidecar.outbound_traffic_policy.as_ref(),
        outbound_traffic_policy,
    );
}

fn ingress(check: &mut Check<'_>, listener: &IstioIngressListener, ports: &mut BTreeSet<u32>) {
    let Some(port) = &listener.port else {
        return check.error("sidecar: port is required for ingress listeners");
    };
    check.within("port", |check| {
        listener_port(check, port);
        check.take_at("number", name::port(port.number));
    });
    if !listener.bind.is_empty() {
        check.take_at("bind", name::ip(&listener.bind));
    }
    check.require(
        ports.insert(port.number),
        || "sidecar: ports on IP bound listeners must be unique",
    );
    check.take_at("defaultEndpoint", default_endpoint(&listener.default_endpoint));
    check.some("tls", listener.tls.as_ref(), ingress_tls);
    check.some("connectionPool", listener.connection_pool.as_ref(), |check, pool| {
        connection_pool(check, pool);
        if pool.http.is_some() && name::protocol(&port.protocol) != Some(Protocol::Http) {
            check.warn(format!(
                "sidecar: HTTP connection pool settings are configured for port {} ({:?}) but its protocol is not HTTP ({}); only TCP settings will apply",
                port.number, port.name, port.protocol
            ));
        }
    });
}

fn listener_port(check: &mut Check<'_>, port: &SidecarPort) {
    check.require(port.target_port == 0, || "targetPort has no impact on Sidecars");
    if !port.name.is_empty() {
        check.take_at("name", name::port_name(&port.name));
    }
    check.take_at("protocol", name::protocol_name(&port.protocol));
}

/// Where the application listens: `127.0.0.1:port`, `:port`, a socket, or nothing said.
fn default_endpoint(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Ok(());
    }
    if let Some(path) = text.strip_prefix("unix://") {
        return name::unix(path);
    }
    let (host, port) = text
        .rsplit_once(':')
        .ok_or_else(|| format!("address {}: missing port in address", head(text)))?;
    if !["", "127.0.0.1", "0.0.0.0", "[::1]", "[::]"].contains(&host) {
        return Err("sidecar: defaultEndpoint must be of form 127.0.0.1:<port>,0.0.0.0:<port>,[::1]:port,[::]:port,unix://filepath or unset".to_owned());
    }
    let number = port
        .parse()
        .map_err(|_| format!("sidecar: defaultEndpoint port ({}) is not a number", head(port)))?;
    name::port(number)
}

fn ingress_tls(check: &mut Check<'_>, tls: &ServerTlsSettings) {
    check.require(
        tls.subject_alt_names.is_empty(),
        || "sidecar: subjectAltNames is not supported in ingress tls",
    );
    check.require(!tls.https_redirect, || "sidecar: httpsRedirect is not supported");
    check.require(
        tls.credential_name.is_empty() && tls.credential_names.is_empty(),
        || "sidecar: credentialName is not currently supported",
    );
    if matches!(tls.mode, ServerTlsMode::IstioMutual | ServerTlsMode::AutoPassthrough) {
        let mode = tls.mode;
        check.error(format!(
            "configuration is invalid: cannot set mode to {mode} in sidecar ingress tls"
        ));
    }
    gateway::tls(check, tls);
}

fn egress(check: &mut Check<'_>, listeners: &[IstioEgressListener]) {
    let mut ports = BTreeSet::new();
    let mut sockets = BTreeSet::new();
    let mut catch_all = false;
    let last = listeners.len().saturating_sub(1);
    let mut index = 0;
    check.each("egress", listeners, |check, listener| {
        match &listener.port {
            None if catch_all => check.error("sidecar: egress can have only one listener with empty port"),
            None => {
                catch_all = true;
                check.require(index == last, || {
                    "sidecar: the egress listener with empty port should be the last listener in the list"
                });
            }
            Some(port) => {
                egress_port(check, listener, port);
                if port.number == 0 {
                    check.require(sockets.insert(listener.bind.clone()), || {
                        "sidecar: unix domain socket values for listeners must be unique"
                    });
                } else {
                    check.require(ports.insert(port.number), || {
                        "sidecar: ports on IP bound listeners must be unique"
                    });
                }
            }
        }
        egress_hosts(check, listener);
        index += 1;
    });
}

fn egress_port(check: &mut Check<'_>, listener: &IstioEgressListener, port: &SidecarPort) {
    check.within("port", |check| listener_port(check, port));
    if port.number != 0 {
        check.take_at("port.number", name::port(port.number));
        if !listener.bind.is_empty() {
            check.take_at("bind", name::ip(&listener.bind));
        }
        return;
    }
    match listener.bind.strip_prefix("unix://") {
        Some(path) => check.take_at("bind", name::unix(path)),
        None => {
            check.error("sidecar: ports with 0 value must have a unix domain socket bind address");
        }
    }
    check.require(
        listener.capture_mode != CaptureMode::Iptables,
        || "sidecar: captureMode must be DEFAULT/NONE for unix domain socket listeners",
    );
}

fn egress_hosts(check: &mut Check<'_>, listener: &IstioEgressListener) {
    check.require(
        !listener.hosts.is_empty(),
        || "sidecar: egress listener must contain at least one host",
    );
    let own = check.meta().namespace.clone();
    let mut seen: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for (index, entry) in listener.hosts.iter().enumerate() {
        check.within(&format!("hosts[{index}]"), |check| {
            gateway::host(check, entry, false);
            let Some((namespace, host)) = entry.split_once('/') else { return };
            let namespace = if namespace == "." { own.as_str() } else { namespace };
            let hosts = seen.entry(namespace.to_owned()).or_default();
            let covered = if host == "*" {
                !hosts.is_empty()
            } else {
                hosts.contains(host) || hosts.contains("*")
            };
            if covered {
                check.warn(format!("duplicated egress host: {}", head(entry)));
            }
            hosts.insert(host);
        });
    }
    if seen.len() > 1 && seen.get("*").is_some_and(|hosts| hosts.contains("*")) {
        check.within("hosts", |check| {
            check.warn("`*/*` host select all resources, no other hosts can be added");
        });
    }
}

fn outbound_traffic_policy(check: &mut Check<'_>, policy: &OutboundTrafficPolicy) {
    let Some(proxy) = &policy.egress_proxy else { return };
    if policy.mode != OutboundMode::AllowAny {
        return check.error(
            "sidecar: egress_proxy must be set only with ALLOW_ANY outbound_traffic_policy mode",
        );
    }
    check.within("egressProxy", |check| {
        check.take_at("host", name::fqdn(&proxy.host));
        check.require(proxy.port.is_some(), || "sidecar: egress_proxy port must be non-nil");
        destination(check, proxy);
    });
}
