//! Listeners that Envoy has from the start: metrics on 15090, readiness on 15021.

use serde_json::{Value, json};

use crate::Settings;
use crate::cluster::type_url;

pub(crate) fn all(settings: &Settings) -> Vec<Value> {
    let mut filters = Vec::new();
    if settings.stats.compression {
        filters.extend(["brotli", "zstd", "gzip"].map(compressor));
    }
    let local = settings.prometheus_local_only;
    let metrics = Served {
        local,
        port: settings.prometheus_port,
        stat_prefix: "stats",
        path: "/stats/prometheus",
        cluster: "prometheus_stats",
    };
    let ready = Served {
        local: false,
        port: settings.ready_port,
        stat_prefix: "agent",
        path: "/healthz/ready",
        cluster: "agent",
    };
    vec![metrics.listener(settings, filters), ready.listener(settings, Vec::new())]
}

/// One path that goes to one cluster.
struct Served {
    /// On loopback only.
    local: bool,
    port: u16,
    stat_prefix: &'static str,
    path: &'static str,
    cluster: &'static str,
}

impl Served {
    fn listener(&self, settings: &Settings, mut filters: Vec<Value>) -> Value {
        let family = settings.family;
        let (any, other) = match self.local {
            false => (family.any(), family.other_any()),
            true => (family.loopback(), None),
        };
        filters.push(router());
        // The whole path: behind a prefix, `..` would lead to every page of the admin port.
        let route = json!({"match": {"path": self.path}, "route": {"cluster": self.cluster}});
        let manager = "http_connection_manager";
        let config = json!({
            "@type": type_url(&format!(
                "envoy.extensions.filters.network.{manager}.v3.HttpConnectionManager"
            )),
            "codec_type": "AUTO",
            "stat_prefix": self.stat_prefix,
            "route_config": {
                "virtual_hosts": [{"name": "backend", "domains": ["*"], "routes": [route]}],
            },
            "http_filters": filters,
        });
        let filter =
            json!({"name": format!("envoy.filters.network.{manager}"), "typed_config": config});
        let address = |any: &str| {
            let socket = json!({"protocol": "TCP", "address": any, "port_value": self.port});
            json!({ "socket_address": socket })
        };
        let mut listener = json!({
            "name": format!("{any}_{}", self.port),
            "address": address(any),
            "ignore_global_conn_limit": true,
            "bypass_overload_manager": true,
            "filter_chains": [{"filters": [filter]}],
        });
        if let Some(other) = other {
            listener["additional_addresses"] = json!([{"address": address(other)}]);
        }
        listener
    }
}

fn router() -> Value {
    json!({
        "name": "envoy.filters.http.router",
        "typed_config": {"@type": type_url("envoy.extensions.filters.http.router.v3.Router")},
    })
}

fn compressor(kind: &str) -> Value {
    let type_name = match kind {
        "brotli" => "Brotli",
        "zstd" => "Zstd",
        _ => "Gzip",
    };
    let library =
        type_url(&format!("envoy.extensions.compression.{kind}.compressor.v3.{type_name}"));
    json!({
        "name": format!("envoy.filters.http.compressor.{kind}"),
        "typed_config": {
            "@type": type_url("envoy.extensions.filters.http.compressor.v3.Compressor"),
            "compressor_library": {
                "name": format!("stats_{kind}"),
                "typed_config": {"@type": library},
            },
            "response_direction_config": {
                "common_config": {
                    "content_type": [
                        "text/plain",
                        "application/vnd.google.protobuf",
                        "application/openmetrics-text",
                        "application/openmetrics-protobuf",
                    ],
                },
            },
        },
    })
}
