//! The module that counts the mesh's metrics: what Envoy is told about it at its start.
//!
//! A node that says it has the module gets it; who the module speaks for is in the node already.

use ironsail_telemetry::config::{self, Local};
use serde_json::{Map, Value, json};

use crate::cluster::type_url;
use crate::{Node, Settings};

/// Without it the module's statistics would be called `envoy_istiocustom_…`.
const STRIP: &str = "envoy.reloadable_features.dynamic_modules_strip_custom_stat_prefix";

/// Whether the proxy has the module.
pub(crate) fn is_there(node: &Node) -> bool {
    node.metadata.get(config::NODE_KEY).is_some_and(|value| value == config::NODE_VALUE)
}

/// The flag that gives the metrics their names.
pub(crate) fn runtime(node: &Node, flags: &mut Value) {
    if is_there(node) {
        flags[STRIP] = true.into();
    }
}

fn told() -> Value {
    json!({
        "name": config::MODULE,
        "do_not_close": true,
        "metrics_namespace": config::STAT_NAMESPACE,
    })
}

/// How Istio's own filters call their statistics inside Envoy; users set buckets by it.
const ISTIO_NAMESPACE: &str = "istiocustom";

/// Has the module's statistics kept, and gives its histograms the buckets that are set for Istio's.
pub(crate) fn keep(node: &Node, stats: &mut Value) {
    if !is_there(node) {
        return;
    }
    if let Some(patterns) = stats["stats_matcher"]["inclusion_list"]["patterns"].as_array_mut() {
        patterns.push(json!({"prefix": config::STAT_NAMESPACE}));
    }
    if let Some(Value::Array(buckets)) = stats.get_mut("histogram_bucket_settings") {
        let mut ours = Vec::new();
        for one in buckets.iter() {
            let prefix = one["match"]["prefix"].as_str().unwrap_or_default();
            if let Some(rest) = prefix.strip_prefix(ISTIO_NAMESPACE) {
                let prefix = format!("{}{rest}", config::STAT_NAMESPACE);
                ours.push(json!({"match": {"prefix": prefix}, "buckets": one["buckets"]}));
            }
        }
        buckets.extend(ours);
    }
}

/// The cluster that owns the metrics; it has no hosts.
pub(crate) fn owner(node: &Node) -> Option<Value> {
    let kind = "envoy.extensions.clusters.dynamic_modules.v3.ClusterConfig";
    is_there(node).then(|| {
        json!({
            "name": config::OWNER,
            "connect_timeout": "1s",
            "lb_policy": "CLUSTER_PROVIDED",
            "cluster_type": {
                "name": "envoy.clusters.dynamic_modules",
                "typed_config": {
                    "@type": type_url(kind),
                    "dynamic_module_config": told(),
                    "cluster_name": "telemetry",
                },
            },
        })
    })
}

pub(crate) fn extension(settings: &Settings) -> Option<Value> {
    let node = &settings.node;
    if !is_there(node) {
        return None;
    }
    let local = serde_json::to_string(&local(settings)).ok()?;
    let kind = "envoy.extensions.bootstrap.dynamic_modules.v3.DynamicModuleBootstrapExtension";
    Some(json!({
        "name": "ironsail.telemetry",
        "typed_config": {
            "@type": type_url(kind),
            "dynamic_module_config": told(),
            "extension_name": "telemetry",
            "extension_config": {
                "@type": type_url("google.protobuf.StringValue"),
                "value": local,
            },
        },
    }))
}

fn local(settings: &Settings) -> Local {
    let metadata = &settings.node.metadata;
    let text = |key: &str| text(metadata, key);
    let labels = match metadata.get("LABELS") {
        Some(Value::Object(labels)) => labels
            .iter()
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect(),
        _ => Default::default(),
    };
    // Beside the agent's sockets, where the agent writes it.
    let folder = settings.xds_socket.rsplit_once('/').map_or(".", |(folder, _)| folder);
    Local {
        id: settings.node.id.clone(),
        name: text("NAME"),
        namespace: text("NAMESPACE"),
        workload: text("WORKLOAD_NAME"),
        cluster: text("CLUSTER_ID"),
        owner: text("OWNER"),
        labels,
        version: text("ISTIO_VERSION"),
        table: format!("{folder}/{}", config::TABLE),
        extra_labels: settings.stats.extra_tags.clone(),
    }
}

fn text(metadata: &Map<String, Value>, key: &str) -> String {
    metadata.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_node_with_the_module_says_so() {
        let mut node = Node::default();
        assert!(!is_there(&node));
        let mut flags = json!({});
        runtime(&node, &mut flags);
        assert_eq!(flags, json!({}));
        node.metadata.insert(config::NODE_KEY.into(), config::NODE_VALUE.into());
        runtime(&node, &mut flags);
        assert_eq!(flags[STRIP], true);
        assert_eq!(owner(&node).unwrap()["name"], config::OWNER);
        let histogram = crate::Histogram { prefix: "istiocustom.a".into(), buckets: vec![1.0] };
        let stats = crate::Stats { histograms: vec![histogram], ..Default::default() };
        let mut stats = crate::stats::config(&stats);
        keep(&node, &mut stats);
        let wanted = format!("{}.a", config::STAT_NAMESPACE);
        assert_eq!(stats["histogram_bucket_settings"][1]["match"]["prefix"], wanted);
    }
}
