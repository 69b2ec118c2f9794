//! A bootstrap around translated resources, and the Envoy that reads it.

use std::path::{Path, PathBuf};

use ironsail_sys::{env::Env, exec};
use serde_json::{Value, json};

/// Envoy with these resources and the clusters that every bootstrap of the agent has.
pub(crate) fn of(mut clusters: Vec<Value>, listeners: &[Value]) -> Value {
    clusters.push(pipe("sds-grpc", "./var/run/secrets/workload-spiffe-uds/socket"));
    clusters.push(pipe("xds-grpc", "./etc/istio/proxy/XDS"));
    let xds = json!({"api_type": "GRPC", "transport_api_version": "V3",
        "grpc_services": [{"envoy_grpc": {"cluster_name": "xds-grpc"}}]});
    json!({
        "node": {
            "id": "sidecar~10.0.0.1~a.b~b.svc.cluster.local", "cluster": "a.b",
            "metadata": {"NAMESPACE": "b", "MESH_ID": "m", "LABELS": {"app": "a"}}
        },
        "dynamic_resources": {"ads_config": xds},
        "static_resources": {"clusters": clusters, "listeners": listeners},
    })
}

/// A listener whose only task is to have the routes.
pub(crate) fn serving(index: usize, routes: &Value) -> Value {
    let hcm = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
    let filter = |name: &str, config: &str| json!({"name": name, "typed_config": {"@type": format!("type.googleapis.com/envoy.extensions.filters.http.{config}")}});
    json!({
        "name": format!("routes-{index}"),
        "address": {"socket_address": {"address": "127.0.0.1", "port_value": 20000 + index}},
        "bind_to_port": false,
        "filter_chains": [{"filters": [{"name": "hcm", "typed_config": {
            "@type": hcm, "stat_prefix": "x", "route_config": routes,
            "http_filters": [
                filter("envoy.filters.http.fault", "fault.v3.HTTPFault"),
                filter("envoy.filters.http.cors", "cors.v3.Cors"),
                filter("envoy.filters.http.router", "router.v3.Router"),
            ]
        }}]}]
    })
}

fn pipe(name: &str, path: &str) -> Value {
    json!({
        "name": name, "type": "STATIC",
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                "explicit_http_config": {"http2_protocol_options": {}}
            }
        },
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [
            {"endpoint": {"address": {"pipe": {"path": path}}}}
        ]}]}
    })
}

pub(crate) fn validate(file: &Path) -> Result<(), String> {
    let output = exec::command(program())
        .args(["--mode", "validate", "--config-path"])
        .arg(file)
        .output()
        .expect("envoy is on PATH or among the tools that scripts/setup installs");
    let log = String::from_utf8_lossy(&output.stderr);
    let loud = |line: &&str| {
        ["[warning]", "[error]", "[critical]"].iter().any(|level| line.contains(level))
    };
    let said: Vec<&str> = log.lines().filter(loud).filter(|line| !line.contains(KNOWN)).collect();
    match output.status.success() && said.is_empty() {
        true => Ok(()),
        false => Err(format!("{}\n{}", output.status, said.join("\n"))),
    }
}

/// Its successor does not treat `grpc-timeout` the same way, so Istio stays with it, and so do we.
const KNOWN: &str = "max_grpc_timeout";

/// From `IRONSAIL_ENVOY`, from where scripts/setup puts it, or from PATH.
pub(crate) fn program() -> PathBuf {
    let env = Env::of_process();
    if let Some(path) = env.var("IRONSAIL_ENVOY") {
        return path.into();
    }
    let cache = match (env.var("IRONSAIL_CACHE"), env.var("HOME")) {
        (Some(cache), _) => PathBuf::from(cache),
        (None, home) => PathBuf::from(home.unwrap_or("/root")).join(".cache/ironsail"),
    };
    let installed = cache.join("tools/bin/envoy");
    if installed.exists() { installed } else { "envoy".into() }
}
