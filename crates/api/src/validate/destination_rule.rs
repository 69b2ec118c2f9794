//! `DestinationRule`.

use std::collections::BTreeSet;

use super::check::Check;
use super::load_balancing::load_balancer;
use super::name::{self, head};
use crate::istio::networking::{
    ClientTlsMode, ClientTlsSettings, ConnectionPoolSettings, DestinationRule, H2UpgradePolicy,
    HttpSettings, OutlierDetection, PortTrafficPolicy, Subset, TcpSettings, TrafficPolicy,
    TunnelSettings,
};

pub(super) fn check(check: &mut Check<'_>, rule: &DestinationRule) {
    check.take_at("host", name::wildcard_domain(&rule.host));
    check.some("trafficPolicy", rule.traffic_policy.as_ref(), traffic_policy);
    let mut names = BTreeSet::new();
    check.each("subsets", &rule.subsets, |check, subset| {
        check.require(names.insert(subset.name.clone()), || {
            format!("duplicate subset names: {}", head(&subset.name))
        });
        check_subset(check, subset);
    });
    check.export_to(&rule.export_to, false);
    if rule.workload_selector.is_some() && !rule.export_to.is_empty() {
        let own = check.meta().namespace.clone();
        let mine = |entry: &String| entry == "." || *entry == own;
        if !rule.export_to.iter().any(mine) {
            check.error("destination rule with workload selector cannot have exportTo beyond current namespace");
        } else if rule.export_to.len() > 1 {
            check.error(
                "destination rule with workload selector cannot have multiple entries in exportTo",
            );
        }
    }
    super::selector::workloads(check, "workloadSelector", rule.workload_selector.as_ref());
}

fn check_subset(check: &mut Check<'_>, subset: &Subset) {
    check.take_at("name", subset_name(&subset.name));
    check.labels("labels", &subset.labels);
    check.some("trafficPolicy", subset.traffic_policy.as_ref(), traffic_policy);
}

pub(super) fn subset_name(name: &str) -> Result<(), String> {
    if name.is_empty() {
        Err("subset name cannot be empty".to_owned())
    } else if name::is_label(name) {
        Ok(())
    } else {
        Err(format!("subset name is invalid: {}", head(name)))
    }
}

fn traffic_policy(check: &mut Check<'_>, policy: &TrafficPolicy) {
    if *policy == TrafficPolicy::default() {
        return check.error("traffic policy must have at least one field");
    }
    if policy.tunnel.is_some() && policy.proxy_protocol.is_some() {
        check.error("tunnel and proxyProtocol must not be set together");
    }
    let outlier = policy.outlier_detection.as_ref();
    check.some("outlierDetection", outlier, outlier_detection);
    check.some("connectionPool", policy.connection_pool.as_ref(), connection_pool);
    check.some("loadBalancer", policy.load_balancer.as_ref(), |check, settings| {
        load_balancer(check, settings, outlier);
    });
    check.some("tls", policy.tls.as_ref(), client_tls);
    check.each("portLevelSettings", &policy.port_level_settings, port_policy);
    check.some("tunnel", policy.tunnel.as_ref(), tunnel);
    check.some("retryBudget", policy.retry_budget.as_ref(), |check, budget| {
        let good = budget.percent.is_none_or(|percent| (0.0..=100.0).contains(&percent));
        check.require(good, || "retry budget percent must be in range [0.0, 100.0]");
        check.duration("budgetInterval", budget.budget_interval);
    });
}

fn port_policy(check: &mut Check<'_>, policy: &PortTrafficPolicy) {
    check.require(policy.port.is_some(), || "portTrafficPolicy must have valid port");
    let bare = PortTrafficPolicy { port: policy.port.clone(), ..PortTrafficPolicy::default() };
    if *policy == bare {
        return check.error("port traffic policy must have at least one field");
    }
    let outlier = policy.outlier_detection.as_ref();
    check.some("outlierDetection", outlier, outlier_detection);
    check.some("connectionPool", policy.connection_pool.as_ref(), connection_pool);
    check.some("loadBalancer", policy.load_balancer.as_ref(), |check, settings| {
        load_balancer(check, settings, outlier);
    });
    check.some("tls", policy.tls.as_ref(), client_tls);
}

fn tunnel(check: &mut Check<'_>, tunnel: &TunnelSettings) {
    check.require(
        ["", "CONNECT", "POST"].contains(&tunnel.protocol.as_str()),
        || "tunnel protocol must be \"CONNECT\" or \"POST\"",
    );
    let host = name::fqdn(&tunnel.target_host).or_else(|_| name::ip(&tunnel.target_host));
    check.take_at(
        "targetHost",
        host.map_err(|_| "tunnel target host must be valid FQDN or IP address".to_owned()),
    );
    let port = name::port(tunnel.target_port);
    check
        .take_at("targetPort", port.map_err(|why| format!("tunnel target port is invalid: {why}")));
}

fn outlier_detection(check: &mut Check<'_>, outlier: &OutlierDetection) {
    check.duration("baseEjectionTime", outlier.base_ejection_time);
    check.duration("interval", outlier.interval);
    if outlier.consecutive_errors != 0 {
        check.deprecated(
            "outlier detection consecutive errors is deprecated, use consecutiveGatewayErrors or consecutive5xxErrors instead",
        );
    }
    let local = outlier.consecutive_local_origin_failures.unwrap_or(0) > 0;
    check.require(!local || outlier.split_external_local_origin_errors, || {
        "outlier detection consecutive local origin failures is specified, but split external local origin errors is set to false"
    });
    for (field, percent) in [
        ("maxEjectionPercent", outlier.max_ejection_percent),
        ("minHealthPercent", outlier.min_health_percent),
    ] {
        check.within(field, |check| {
            check.require((0..=100).contains(&percent), || {
                format!("percentage {percent} is not in range 0..100")
            });
        });
    }
}

pub(super) fn connection_pool(check: &mut Check<'_>, pool: &ConnectionPoolSettings) {
    check.require(
        pool.http.is_some() || pool.tcp.is_some(),
        || "connection pool must have at least one field",
    );
    check.some("http", pool.http.as_ref(), http_pool);
    check.some("tcp", pool.tcp.as_ref(), tcp_pool);
}

fn http_pool(check: &mut Check<'_>, http: &HttpSettings) {
    for (what, number) in [
        ("http1 max pending requests", http.http1_max_pending_requests),
        ("http2 max requests", http.http2_max_requests),
        ("max requests per connection", http.max_requests_per_connection),
        ("max retries", http.max_retries),
        ("max concurrent streams", http.max_concurrent_streams),
    ] {
        check.require(number >= 0, || format!("{what} must be non-negative"));
    }
    check.duration("idleTimeout", http.idle_timeout);
    check.some("http2KeepAlive", http.http2_keep_alive.as_ref(), |check, keepalive| {
        check.duration("interval", keepalive.interval);
        check.duration("timeout", keepalive.timeout);
    });
    let upgrades = http.h2_upgrade_policy == H2UpgradePolicy::Upgrade;
    check.require(
        !(upgrades && http.use_client_protocol),
        || "use client protocol must not be true when H2UpgradePolicy is UPGRADE",
    );
}

fn tcp_pool(check: &mut Check<'_>, tcp: &TcpSettings) {
    check.require(tcp.max_connections >= 0, || "max connections must be non-negative");
    check.duration("connectTimeout", tcp.connect_timeout);
    check.duration("maxConnectionDuration", tcp.max_connection_duration);
    // 0s turns it off.
    check.duration("idleTimeout", tcp.idle_timeout.filter(|timeout| !timeout.is_zero()));
    check.some("tcpKeepalive", tcp.tcp_keepalive.as_ref(), |check, keepalive| {
        check.duration("time", keepalive.time);
        check.duration("interval", keepalive.interval);
    });
}

pub(super) fn client_tls(check: &mut Check<'_>, tls: &ClientTlsSettings) {
    let own_files = [&tls.client_certificate, &tls.private_key, &tls.ca_crl];
    if tls.insecure_skip_verify == Some(true) {
        let verifies = !tls.ca_certificates.is_empty() || !tls.subject_alt_names.is_empty();
        match tls.mode {
            ClientTlsMode::Simple => check.require(!verifies && tls.credential_name.is_empty(), || {
                "cannot specify CaCertificates or CredentialName or SubjectAltNames when InsecureSkipVerify is set true"
            }),
            ClientTlsMode::Mutual => check.require(!verifies, || {
                "cannot specify CaCertificates or SubjectAltNames when InsecureSkipVerify is set true"
            }),
            ClientTlsMode::Disable | ClientTlsMode::IstioMutual => {}
        }
    }
    let by_secret = !tls.credential_name.is_empty();
    match tls.mode {
        ClientTlsMode::Simple | ClientTlsMode::Mutual if by_secret => {
            let files =
                own_files.iter().any(|file| !file.is_empty()) || !tls.ca_certificates.is_empty();
            check.require(!files, || {
                "cannot specify client certificates or CA certificate or CA CRL If credentialName is set"
            });
        }
        ClientTlsMode::Mutual => {
            check.require(
                !tls.client_certificate.is_empty(),
                || "client certificate required for mutual tls",
            );
            check.require(!tls.private_key.is_empty(), || "private key required for mutual tls");
        }
        ClientTlsMode::Simple | ClientTlsMode::Disable | ClientTlsMode::IstioMutual => {}
    }
}
