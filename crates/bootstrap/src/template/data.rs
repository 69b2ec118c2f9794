//! The names under which a bootstrap template finds the settings.

use ironsail_gotemplate::{Error, Numbers, Value as Data};
use serde_json::{Map, Value, json};

use super::Template;
use crate::envoy::runtime_flags;
use crate::{Remote, Tracer, cluster};

/// Texts of the proxy's configuration that are empty unless set: a template may print them.
const TEXTS: [&str; 8] = [
    "AvailabilityZone",
    "CustomConfigFile",
    "EnvoyMetricsServiceAddress",
    "MeshId",
    "ProxyBootstrapTemplatePath",
    "ServiceCluster",
    "StatsdUdpAddress",
    "ZipkinAddress",
];
/// Fields whose keys are the user's own.
const MAPS: [&str; 2] = ["proxyMetadata", "runtimeValues"];

/// The metadata's fields as a template calls them.
const METADATA: [(&str, &str); 26] = [
    ("ANNOTATIONS", "Annotations"),
    ("APP_CONTAINERS", "AppContainers"),
    ("CLUSTER_ID", "ClusterID"),
    ("DNS_AUTO_ALLOCATE", "DNSAutoAllocate"),
    ("DNS_CAPTURE", "DNSCapture"),
    ("ENVOY_PROMETHEUS_PORT", "EnvoyPrometheusPort"),
    ("ENVOY_STATUS_PORT", "EnvoyStatusPort"),
    ("EXIT_ON_ZERO_ACTIVE_CONNECTIONS", "ExitOnZeroActiveConnections"),
    ("INSTANCE_IPS", "InstanceIPs"),
    ("INTERCEPTION_MODE", "InterceptionMode"),
    ("ISTIO_REVISION", "IstioRevision"),
    ("ISTIO_VERSION", "IstioVersion"),
    ("LABELS", "Labels"),
    ("MESH_ID", "MeshID"),
    ("NAME", "InstanceName"),
    ("NAMESPACE", "Namespace"),
    ("NETWORK", "Network"),
    ("NODE_NAME", "NodeName"),
    ("OUTLIER_LOG_PATH", "OutlierLogPath"),
    ("OWNER", "Owner"),
    ("PILOT_SAN", "PilotSubjectAltName"),
    ("PLATFORM_METADATA", "PlatformMetadata"),
    ("PROXY_CONFIG", "ProxyConfig"),
    ("ROUTER_MODE", "RouterMode"),
    ("SERVICE_ACCOUNT", "ServiceAccount"),
    ("WORKLOAD_NAME", "WorkloadName"),
];

pub(super) fn of(template: &Template<'_>) -> Result<Data, Error> {
    let mut all = Map::new();
    who(template, &mut all);
    places(template, &mut all);
    statistics(template, &mut all);
    remotes(template, &mut all);
    // A field that is a Go struct's has whole numbers.
    Data::from_json(&Value::Object(all), Numbers::Int)
}

fn put(all: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    all.insert(key.to_owned(), value.into());
}

/// Left out if it is empty, so that `if` sees nothing.
fn put_some(all: &mut Map<String, Value>, key: &str, text: &str) {
    if !text.is_empty() {
        put(all, key, text);
    }
}

fn who(template: &Template<'_>, all: &mut Map<String, Value>) {
    let node = &template.settings.node;
    put(all, "nodeID", node.id.as_str());
    put(all, "nodeType", node.id.split('~').next().unwrap_or_default());
    put(all, "cluster", node.cluster.as_str());
    put_some(all, "region", node.locality.region());
    put_some(all, "zone", node.locality.zone());
    put_some(all, "sub_zone", node.locality.subzone());
    put(all, "meta_json_str", Value::Object(node.metadata.clone()).to_string());
    let mut metadata = node.metadata.clone();
    for (key, name) in METADATA {
        if let Some(value) = node.metadata.get(key) {
            metadata.insert(name.to_owned(), value.clone());
        }
    }
    if let Some(Value::String(ips)) = node.metadata.get("INSTANCE_IPS") {
        let ips: Vec<&str> = ips.split(',').collect();
        metadata.insert("InstanceIPs".to_owned(), json!(ips));
    }
    put(all, "metadata", metadata);
    put(all, "metadata_discovery", false);
    let mut config = go_names(template.config);
    if let Value::Object(config) = &mut config {
        for name in TEXTS {
            config.entry(name).or_insert_with(|| "".into());
        }
    }
    put(all, "config", config);
}

/// Fields by the names that Go gives them: `statusPort` is `StatusPort`.
fn go_names(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let renamed = fields.iter().map(|(key, value)| {
                let value = match MAPS.contains(&key.as_str()) {
                    true => value.clone(),
                    false => go_names(value),
                };
                let mut letters = key.chars();
                let first = letters.next().map(|c| c.to_ascii_uppercase());
                (first.into_iter().chain(letters).collect(), value)
            });
            Value::Object(renamed.collect())
        }
        Value::Array(items) => items.iter().map(go_names).collect(),
        other => other.clone(),
    }
}

fn places(template: &Template<'_>, all: &mut Map<String, Value>) {
    let settings = template.settings;
    let host = template.discovery_address;
    put(all, "discovery_address", host);
    put(all, "discovery_host", host.rsplit_once(':').map_or(host, |(host, _)| host));
    if let Ok(remote) = Remote::parse("discoveryAddress", host) {
        put(all, "pilot_grpc_address", address(&remote));
    }
    let names = template.pilot_names.iter().map(|name| json!({"exact": name}));
    put(all, "pilot_SAN", Value::from_iter(names).to_string());
    put(all, "xds_root_cert", template.xds_root);
    put(all, "xds_type", "DELTA_GRPC");
    let socket = settings.sds_socket.rsplit('/').next().unwrap_or_default();
    put(all, "workload_identity_socket_file", socket);
    let family = settings.family;
    put(all, "localhost", family.loopback());
    put(all, "wildcard", family.any());
    put(all, "dns_lookup_family", family.lookup());
    if let Some(other) = family.other_any() {
        put(all, "dual_stack", true);
        put(all, "additional_wildcard", other);
        put(all, "additional_localhost", if family.is_v6() { "127.0.0.1" } else { "::1" });
    }
    put(all, "envoy_status_port", settings.ready_port);
    put(all, "envoy_prometheus_port", settings.prometheus_port);
    put(all, "metrics_localhost_access_only", settings.prometheus_local_only);
    put(all, "runtime_flags", runtime_flags(settings).to_string());
    put(all, "log_json", settings.log_as_json);
    put_some(all, "outlier_log_path", settings.outlier_log.as_deref().unwrap_or_default());
    if let Some(load) = &settings.load_stats {
        put(all, "load_stats_config_json_str", load.to_string());
    }
    for key in ["deferred_cluster_creation", "deferred_stats_creation", "bypass_overload_manager"] {
        put(all, key, true);
    }
}

fn statistics(template: &Template<'_>, all: &mut Map<String, Value>) {
    let stats = &template.settings.stats;
    put(all, "inclusionPrefix", json!(stats.all_prefixes()));
    put(all, "inclusionSuffix", json!(stats.all_suffixes()));
    put(all, "inclusionRegexps", json!(stats.all_regexes()));
    if !stats.extra_tags.is_empty() {
        put(all, "extraStatTags", json!(stats.extra_tags));
    }
    put(all, "histogram_buckets", stats.histogram_settings());
    put(all, "stats_compression", stats.compression);
    put(all, "delimited_stats_tags_enabled", true);
    let mut seconds = |key: &str, seconds: Option<u64>| {
        if let Some(seconds) = seconds {
            put(all, key, format!("{seconds}s"));
        }
    };
    seconds("stats_flush_interval", stats.flush_interval);
    seconds("stats_eviction_interval", stats.eviction_interval);
}

fn address(remote: &Remote) -> String {
    json!({"address": remote.host, "port_value": remote.port}).to_string()
}

/// Each as JSON in a text, which a template puts where a message is.
fn remotes(template: &Template<'_>, all: &mut Map<String, Value>) {
    let settings = template.settings;
    if let Some(remote) = &settings.statsd {
        put(all, "statsd", address(remote));
    }
    let tracer = match &settings.tracer {
        Some(Tracer::Zipkin(remote)) => Some(("zipkin", remote)),
        Some(Tracer::Datadog(remote)) => Some(("datadog", remote)),
        None => None,
    };
    if let Some((key, remote)) = tracer {
        put(all, key, address(remote));
        if let Some(tls) = &remote.tls {
            put(all, "tracing_tls", cluster::transport(tls, false).to_string());
        }
    }
    let services = [
        ("envoy_metrics_service", &settings.metrics_service),
        ("envoy_accesslog_service", &settings.access_log_service),
    ];
    for (name, remote) in services {
        let Some(remote) = remote else { continue };
        put(all, &format!("{name}_address"), address(remote));
        if let Some(tls) = &remote.tls {
            put(all, &format!("{name}_tls"), cluster::transport(tls, true).to_string());
        }
        if let Some(options) = remote.keepalive.map(cluster::keepalive) {
            put(all, &format!("{name}_tcp_keepalive"), options.to_string());
        }
    }
}
