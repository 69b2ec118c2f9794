//! Names in translated resources: which clusters and routes they mention; and what all listeners have in
//! common, made short.

use std::collections::BTreeSet;

use serde_json::{Value, json};

/// All clusters that something sends traffic to.
pub(crate) fn clusters(value: &Value, out: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match (key.as_str(), value) {
                    ("cluster", Value::String(name)) => drop(out.insert(name.clone())),
                    ("weightedClusters", value) => {
                        for one in value["clusters"].as_array().unwrap_or(&Vec::new()) {
                            out.insert(one["name"].as_str().unwrap_or_default().to_owned());
                        }
                    }
                    // Clusters of the bootstrap, not of discovery.
                    ("sdsConfig" | "accessLog", _) => {}
                    _ => clusters(value, out),
                }
            }
        }
        Value::Array(all) => all.iter().for_each(|value| clusters(value, out)),
        _ => {}
    }
}

/// All route configurations that listeners ask for.
pub(crate) fn routes(value: &Value, out: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            if let Some(name) = map.get("routeConfigName").and_then(Value::as_str) {
                out.insert(name.to_owned());
            }
            map.values().for_each(|value| routes(value, out));
        }
        Value::Array(all) => all.iter().for_each(|value| routes(value, out)),
        _ => {}
    }
}

/// Replaces by a word what is the same everywhere and is tested where it is made.
pub(crate) fn shorten(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if map.contains_key("retryHostPredicate") && map["retryOn"].as_str() == Some(RETRY) {
                *value = json!("(default)");
                return;
            }
            for (key, value) in map.iter_mut() {
                match key.as_str() {
                    "sdsConfig" | "configSource" => *value = json!("(discovery)"),
                    "httpFilters" => *value = filters(value),
                    "customTags" | "upgradeConfigs" | "requestIdExtension" => {
                        *value = json!("(usual)");
                    }
                    "cipherSuites" => *value = json!("(usual)"),
                    _ => shorten(value),
                }
            }
        }
        Value::Array(all) => all.iter_mut().for_each(shorten),
        _ => {}
    }
}

const RETRY: &str = "connect-failure,refused-stream,unavailable,cancelled,retriable-status-codes";

fn filters(value: &Value) -> Value {
    let name = |filter: &Value| filter["name"].clone();
    Value::Array(value.as_array().map_or(&[][..], Vec::as_slice).iter().map(name).collect())
}
