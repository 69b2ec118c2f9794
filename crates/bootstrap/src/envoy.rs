//! `envoy-rev.json`: the whole bootstrap.

use serde_json::{Map, Value, json};

use crate::cluster::{self, type_url};
use crate::{Remote, Settings, Tracer, listener, module, stats};

/// Envoy's own log lines, in the shape of the agent's.
const LOG_FORMAT: &str = "%Y-%m-%dT%T.%fZ\t%l\tenvoy %n %g:%#\t%v\tthread=%t";

/// The bootstrap of an Envoy with these settings.
pub fn envoy(settings: &Settings) -> Value {
    let mut root = Map::new();
    let mut put = |key: &str, value: Value| root.insert(key.to_owned(), value);
    put("application_log_config", log_config(settings.log_as_json));
    put("node", node(settings));
    put("layered_runtime", runtime(settings));
    let mut extensions = vec![internal_listener()];
    extensions.extend(module::extension(settings));
    put("bootstrap_extensions", extensions.into());
    let mut kept = stats::config(&settings.stats);
    module::keep(&settings.node, &mut kept);
    put("stats_config", kept);
    if let Some(seconds) = settings.stats.flush_interval {
        put("stats_flush_interval", format!("{seconds}s").into());
    }
    if let Some(seconds) = settings.stats.eviction_interval
        && settings.stats.check().is_ok()
    {
        put("stats_eviction_interval", format!("{seconds}s").into());
    }
    put("admin", admin(settings));
    put("dynamic_resources", dynamic_resources());
    let resources =
        json!({"clusters": cluster::all(settings), "listeners": listener::all(settings)});
    put("static_resources", resources);
    put("overload_manager", overload(settings.max_connections));
    if let Some(tracer) = &settings.tracer {
        put("tracing", tracing(tracer, &settings.node.cluster));
    }
    let sinks = sinks(settings);
    if !sinks.is_empty() {
        put("stats_sinks", sinks.into());
    }
    let mut manager = json!({"enable_deferred_cluster_creation": true});
    if let Some(path) = &settings.outlier_log {
        manager["outlier_detection"] = json!({"event_log_path": path});
    }
    if let Some(load) = &settings.load_stats {
        manager["load_stats_config"] = load.clone();
    }
    if cluster::finds_itself(settings) {
        manager["local_cluster_name"] = cluster::LOCAL.into();
    }
    put("cluster_manager", manager);
    put("deferred_stat_options", json!({"enable_deferred_creation_stats": true}));
    Value::Object(root)
}

fn log_config(as_json: bool) -> Value {
    let format = match as_json {
        false => json!({"text_format": LOG_FORMAT}),
        true => json!({"json_format": {
            "time": "%Y-%m-%dT%T.%fZ", "level": "%l", "scope": "envoy %n", "caller": "%g:%#",
            "msg": "%j", "thread": "%t",
        }}),
    };
    json!({ "log_format": format })
}

fn node(settings: &Settings) -> Value {
    let node = &settings.node;
    let mut locality = Map::new();
    let parts = [
        ("region", node.locality.region()),
        ("zone", node.locality.zone()),
        ("sub_zone", node.locality.subzone()),
    ];
    for (key, value) in parts {
        if !value.is_empty() {
            locality.insert(key.to_owned(), value.into());
        }
    }
    json!({
        "id": node.id,
        "cluster": node.cluster,
        "locality": locality,
        "metadata": node.metadata,
    })
}

fn runtime(settings: &Settings) -> Value {
    json!({"layers": [
        {"name": "global config", "static_layer": runtime_flags(settings)},
        {"name": "admin", "admin_layer": {}},
    ]})
}

/// Ours and the user's over them; an empty one takes ours away.
pub(crate) fn runtime_flags(settings: &Settings) -> Value {
    let mut flags = json!({
        "envoy.deprecated_features:envoy.config.listener.v3.Listener.hidden_envoy_deprecated_use_original_dst": true,
        "envoy.reloadable_features.coalesce_lb_rebuilds_on_batch_update": false,
        "envoy.reloadable_features.fixed_heap_use_allocated": true,
        "envoy.reloadable_features.http_reject_path_with_fragment": false,
        "re2.max_program_size.error_level": "32768",
    });
    module::runtime(&settings.node, &mut flags);
    for (key, value) in &settings.runtime {
        flags[key] = match value.as_str() {
            "true" => true.into(),
            "false" => false.into(),
            text => text.into(),
        };
    }
    if let Value::Object(flags) = &mut flags {
        flags.retain(|_, value| value != "");
    }
    flags
}

fn internal_listener() -> Value {
    json!({
        "name": "envoy.bootstrap.internal_listener",
        "typed_config": {
            "@type": type_url("envoy.extensions.bootstrap.internal_listener.v3.InternalListener"),
            "buffer_size_kb": 64,
        },
    })
}

fn admin(settings: &Settings) -> Value {
    let loopback = settings.family.loopback();
    json!({
        "access_log": [{
            "name": "envoy.access_loggers.file",
            "typed_config": {
                "@type": type_url("envoy.extensions.access_loggers.file.v3.FileAccessLog"),
                "path": "/dev/null",
            },
        }],
        "profile_path": "/var/lib/istio/data/envoy.prof",
        "address": {
            "socket_address": {"address": loopback, "port_value": settings.admin_port},
        },
    })
}

fn dynamic_resources() -> Value {
    let ads = json!({"ads": {}, "initial_fetch_timeout": "0s", "resource_api_version": "V3"});
    json!({
        "lds_config": ads,
        "cds_config": ads,
        "ads_config": {
            "api_type": "DELTA_GRPC",
            "set_node_on_first_message_only": true,
            "transport_api_version": "V3",
            "grpc_services": [{"envoy_grpc": {"cluster_name": "xds-grpc"}}],
        },
    })
}

fn overload(limit: Option<u32>) -> Value {
    let kind =
        "envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig";
    json!({"resource_monitors": [{
        "name": "envoy.resource_monitors.global_downstream_max_connections",
        "typed_config": {
            "@type": type_url(kind),
            "max_active_downstream_connections": limit.unwrap_or(i32::MAX.unsigned_abs()),
        },
    }]})
}

fn tracing(tracer: &Tracer, service: &str) -> Value {
    let (name, config) = match tracer {
        Tracer::Zipkin(_) => (
            "envoy.tracers.zipkin",
            json!({
                "@type": type_url("envoy.config.trace.v3.ZipkinConfig"),
                "collector_cluster": "zipkin",
                "collector_endpoint": "/api/v2/spans",
                "collector_endpoint_version": "HTTP_JSON",
                "trace_id_128bit": true,
                "shared_span_context": false,
            }),
        ),
        Tracer::Datadog(_) => (
            "envoy.tracers.datadog",
            json!({
                "@type": type_url("envoy.config.trace.v3.DatadogConfig"),
                "collector_cluster": "datadog_agent",
                "service_name": service,
            }),
        ),
    };
    json!({"http": {"name": name, "typed_config": config}})
}

fn sinks(settings: &Settings) -> Vec<Value> {
    let mut sinks = Vec::new();
    if settings.metrics_service.is_some() {
        let service = json!({"envoy_grpc": {"cluster_name": "envoy_metrics_service"}});
        sinks.push(json!({
            "name": "envoy.stat_sinks.metrics_service",
            "typed_config": {
                "@type": type_url("envoy.config.metrics.v3.MetricsServiceConfig"),
                "transport_api_version": "V3",
                "grpc_service": service,
            },
        }));
    }
    if let Some(Remote { host, port, .. }) = &settings.statsd {
        sinks.push(json!({
            "name": "envoy.stat_sinks.statsd",
            "typed_config": {
                "@type": type_url("envoy.config.metrics.v3.StatsdSink"),
                "address": {"socket_address": {"address": host, "port_value": port}},
            },
        }));
    }
    sinks
}
