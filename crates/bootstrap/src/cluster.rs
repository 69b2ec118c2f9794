//! Clusters that Envoy has from the start: the agent, itself, and collectors.

use serde_json::{Value, json};

use crate::{Family, Keepalive, Remote, RemoteTls, Settings, Tracer};

const HTTP_OPTIONS: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";

/// A typed extension's `@type`.
pub(crate) fn type_url(name: &str) -> String {
    format!("type.googleapis.com/{name}")
}

/// The proxy's own service: Envoy compares its zones with those of a destination.
pub(crate) const LOCAL: &str = "local_cluster";

/// Whether the proxy wants to know where its like are (`ISTIO_META_ENABLE_SELF_DISCOVERY`).
pub(crate) fn finds_itself(settings: &Settings) -> bool {
    settings.node.metadata.get("ENABLE_SELF_DISCOVERY").is_some_and(|wants| wants == "true")
}

pub(crate) fn all(settings: &Settings) -> Vec<Value> {
    let loopback = settings.family.loopback();
    let mut clusters = vec![
        local("prometheus_stats", loopback, settings.admin_port),
        local("agent", loopback, settings.agent_port),
        socket("sds-grpc", &settings.sds_socket),
        xds(&settings.xds_socket),
    ];
    if finds_itself(settings) {
        clusters.push(json!({
            "name": LOCAL,
            "alt_stat_name": format!("{LOCAL};"),
            "type": "EDS",
            "connect_timeout": "1s",
            "eds_cluster_config": {"eds_config": {
                "ads": {}, "initial_fetch_timeout": "1s", "resource_api_version": "V3",
            }},
        }));
    }
    match &settings.tracer {
        Some(Tracer::Zipkin(remote)) => {
            let mut cluster = outside("zipkin", remote, settings.family, false);
            cluster["dns_refresh_rate"] = "30s".into();
            clusters.push(cluster);
        }
        Some(Tracer::Datadog(remote)) => {
            clusters.push(outside("datadog_agent", remote, settings.family, false));
        }
        None => {}
    }
    let services = [
        ("envoy_metrics_service", &settings.metrics_service),
        ("envoy_accesslog_service", &settings.access_log_service),
    ];
    for (name, remote) in services {
        if let Some(remote) = remote {
            clusters.push(outside(name, remote, settings.family, true));
        }
    }
    clusters.extend(crate::module::owner(&settings.node));
    clusters
}

fn assignment(name: &str, address: &Value) -> Value {
    let endpoint = json!({"endpoint": {"address": address}});
    json!({"cluster_name": name, "endpoints": [{"lb_endpoints": [endpoint]}]})
}

fn local(name: &str, loopback: &str, port: u16) -> Value {
    let address =
        json!({"socket_address": {"protocol": "TCP", "address": loopback, "port_value": port}});
    json!({
        "name": name,
        "alt_stat_name": format!("{name};"),
        "type": "STATIC",
        "connect_timeout": "0.250s",
        "lb_policy": "ROUND_ROBIN",
        "load_assignment": assignment(name, &address),
    })
}

fn http2() -> Value {
    let options = json!({
        "@type": type_url(HTTP_OPTIONS),
        "explicit_http_config": {"http2_protocol_options": {}},
    });
    json!({ HTTP_OPTIONS: options })
}

fn socket(name: &str, path: &str) -> Value {
    json!({
        "name": name,
        "alt_stat_name": format!("{name};"),
        "type": "STATIC",
        "connect_timeout": "1s",
        "lb_policy": "ROUND_ROBIN",
        "typed_extension_protocol_options": http2(),
        "load_assignment": assignment(name, &json!({"pipe": {"path": path}})),
    })
}

fn xds(path: &str) -> Value {
    let limits = |priority: &str| {
        json!({
            "priority": priority,
            "max_connections": 100_000,
            "max_pending_requests": 100_000,
            "max_requests": 100_000,
        })
    };
    let mut cluster = socket("xds-grpc", path);
    cluster["circuit_breakers"] = json!({"thresholds": [limits("DEFAULT"), limits("HIGH")]});
    cluster["upstream_connection_options"] = json!({"tcp_keepalive": {"keepalive_time": 300}});
    // A new stream is a new connection, so that none is kept to an agent that went away.
    cluster["max_requests_per_connection"] = 1.into();
    cluster
}

fn outside(name: &str, remote: &Remote, family: Family, grpc: bool) -> Value {
    let address = json!({"socket_address": {"address": remote.host, "port_value": remote.port}});
    let mut cluster = json!({
        "name": name,
        "alt_stat_name": format!("{name};"),
        "type": "STRICT_DNS",
        "respect_dns_ttl": true,
        "dns_lookup_family": family.lookup(),
        "connect_timeout": "1s",
        "lb_policy": "ROUND_ROBIN",
        "load_assignment": assignment(name, &address),
    });
    if grpc {
        cluster["typed_extension_protocol_options"] = http2();
    }
    if let Some(tls) = &remote.tls {
        cluster["transport_socket"] = transport(tls, grpc);
    }
    if let Some(options) = remote.keepalive.map(keepalive) {
        cluster["upstream_connection_options"] = options;
    }
    cluster
}

pub(crate) fn keepalive(keepalive: Keepalive) -> Value {
    let mut values = serde_json::Map::new();
    let mut put = |key: &str, value: Option<u64>| {
        if let Some(value) = value {
            values.insert(key.to_owned(), value.into());
        }
    };
    put("keepalive_probes", keepalive.probes.map(u64::from));
    put("keepalive_time", keepalive.time);
    put("keepalive_interval", keepalive.interval);
    json!({ "tcp_keepalive": values })
}

pub(crate) fn transport(tls: &RemoteTls, grpc: bool) -> Value {
    let (root, certificate) = match (tls.mesh, &tls.client) {
        (true, _) => ("ROOTCA".to_owned(), Some("default".to_owned())),
        (false, client) => (
            format!("file-root:{}", tls.ca.as_deref().unwrap_or("system")),
            client.as_ref().map(|(cert, key)| format!("file-cert:{cert}~{key}")),
        ),
    };
    let names: Vec<Value> =
        tls.subject_alt_names.iter().map(|name| json!({"exact": name})).collect();
    let checks = match names.is_empty() {
        true => json!({}),
        false => json!({"match_subject_alt_names": names}),
    };
    let mut common = json!({
        "combined_validation_context": {
            "default_validation_context": checks,
            "validation_context_sds_secret_config": secret(&root),
        },
    });
    if let Some(certificate) = certificate {
        common["tls_certificate_sds_secret_configs"] = json!([secret(&certificate)]);
    }
    if grpc {
        common["alpn_protocols"] = json!(["h2"]);
    }
    let kind = "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext";
    let mut context = json!({"@type": type_url(kind), "common_tls_context": common});
    if let Some(sni) = &tls.sni {
        context["sni"] = sni.clone().into();
    }
    json!({"name": "envoy.transport_sockets.tls", "typed_config": context})
}

/// A secret that the agent's SDS serves.
fn secret(name: &str) -> Value {
    json!({
        "name": name,
        "sds_config": {
            "api_config_source": {
                "api_type": "GRPC",
                "grpc_services": [{"envoy_grpc": {"cluster_name": "sds-grpc"}}],
                "set_node_on_first_message_only": true,
                "transport_api_version": "V3",
            },
            "resource_api_version": "V3",
        },
    })
}
