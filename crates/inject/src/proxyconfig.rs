//! The configuration of one proxy: defaults, then the mesh's, then `ProxyConfig` objects, then the
//! annotation of the pod. As JSON of `ProxyConfig`; what equals the defaults is not handed on.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::object::{at, section};

/// What a `ProxyConfig` object of the cluster changes.
#[derive(Debug, Clone, Default)]
pub struct Overlay {
    pub namespace: String,
    /// No labels: all pods of the namespace, or of the mesh if it is the root namespace.
    pub selector: BTreeMap<String, String>,
    pub concurrency: Option<i32>,
    pub environment: BTreeMap<String, String>,
    pub image_type: Option<String>,
}

/// What holds for a proxy that nobody configures.
pub fn defaults() -> Value {
    json!({
        "configPath": "/etc/istio/proxy",
        "binaryPath": "/usr/local/bin/envoy",
        "serviceCluster": "istio-proxy",
        "drainDuration": "45s",
        "terminationDrainDuration": "5s",
        "discoveryAddress": "istiod.istio-system.svc:15012",
        "proxyAdminPort": 15000,
        "controlPlaneAuthPolicy": "MUTUAL_TLS",
        "statNameLength": 189,
        "statusPort": 15020,
        "interceptionMode": "REDIRECT",
        "proxyMetadata": {},
    })
}

/// `over` on `config`: a field replaces the field, only `proxyMetadata` is merged.
pub fn apply(config: &mut Value, over: &Value) {
    let Some(over) = over.as_object() else { return };
    for (key, value) in over.iter().filter(|(_, value)| !value.is_null()) {
        if key == "proxyMetadata" {
            let metadata = section(config, &["proxyMetadata"]);
            for (name, value) in value.as_object().into_iter().flatten() {
                metadata.insert(name.clone(), plain(value));
            }
        } else {
            section(config, &[]).insert(key.clone(), value.clone());
        }
    }
}

/// Metadata is text even where YAML took it for a number or a boolean.
fn plain(value: &Value) -> Value {
    match value {
        Value::String(_) => value.clone(),
        other => Value::String(other.to_string()),
    }
}

/// The nearest overlay of each reach, the widest first: mesh, namespace, labels.
pub(crate) fn apply_overlays(
    config: &mut Value,
    overlays: &[Overlay],
    root: &str,
    namespace: &str,
    labels: &BTreeMap<String, String>,
) {
    let matches = |overlay: &&Overlay| {
        overlay.selector.iter().all(|(key, value)| labels.get(key) == Some(value))
    };
    let wide = |namespace: &str| {
        overlays.iter().find(|o| o.namespace == namespace && o.selector.is_empty())
    };
    let mesh = wide(root);
    let own = if namespace == root { None } else { wide(namespace) };
    let mut in_namespace = overlays.iter().filter(|o| o.namespace == namespace);
    let workload = in_namespace.find(|o| !o.selector.is_empty() && matches(o));
    for overlay in [mesh, own, workload].into_iter().flatten() {
        apply(config, &overlay.tree());
    }
}

impl Overlay {
    fn tree(&self) -> Value {
        let mut tree = Map::new();
        if let Some(concurrency) = self.concurrency {
            tree.insert("concurrency".to_owned(), concurrency.into());
        }
        if !self.environment.is_empty() {
            tree.insert("proxyMetadata".to_owned(), json!(self.environment));
        }
        if let Some(image) = &self.image_type {
            tree.insert("image".to_owned(), json!({ "imageType": image }));
        }
        Value::Object(tree)
    }
}

/// Without what equals the defaults or is nothing, as proxies get it.
pub(crate) fn stripped(config: &Value) -> Value {
    let defaults = defaults();
    let fields = config.as_object().into_iter().flatten();
    let kept = fields.filter(|(key, value)| {
        let nothing = match value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            Value::Number(number) => {
                // Zero of a wrapper is a choice, not nothing.
                number.as_f64() == Some(0.0) && *key != "concurrency"
            }
            Value::Bool(_) => false,
        };
        !nothing && defaults.get(key.as_str()) != Some(*value)
    });
    Value::Object(kept.map(|(key, value)| (key.clone(), value.clone())).collect())
}

/// What is wrong with a configuration that a user wrote.
pub(crate) fn problem(config: &Value) -> Option<String> {
    let Some(fields) = config.as_object() else {
        return Some("it is not an object".to_owned());
    };
    for (key, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        if let Err(reason) = check(key, value) {
            return Some(format!("{key}: {reason}"));
        }
    }
    None
}

fn check(key: &str, value: &Value) -> Result<(), String> {
    let is = |right: bool, wanted: &str| {
        if right { Ok(()) } else { Err(format!("{value} is not {wanted}")) }
    };
    match key {
        "drainDuration" | "terminationDrainDuration" | "fileFlushInterval" => {
            is(value.as_str().is_some_and(is_duration), "a duration such as 5s")
        }
        "proxyAdminPort" | "statusPort" => {
            is(value.as_u64().is_some_and(|port| port <= 65535), "a port")
        }
        "concurrency" | "statNameLength" | "fileFlushMinSizeKb" => {
            is(value.as_u64().is_some_and(|n| n <= u64::from(u32::MAX)), "a number from 0 on")
        }
        "holdApplicationUntilProxyStarts" => is(value.is_boolean(), "true or false"),
        "interceptionMode" => {
            let known = ["REDIRECT", "TPROXY", "NONE"];
            is(value.as_str().is_some_and(|mode| known.contains(&mode)), "REDIRECT, TPROXY or NONE")
        }
        "controlPlaneAuthPolicy" => {
            is(matches!(value.as_str(), Some("NONE" | "MUTUAL_TLS")), "NONE or MUTUAL_TLS")
        }
        "discoveryAddress" => {
            is(value.as_str().is_some_and(is_host_and_port), "an address with a port")
        }
        "configPath"
        | "binaryPath"
        | "serviceCluster"
        | "tracingServiceName"
        | "meshId"
        | "customConfigFile"
        | "proxyBootstrapTemplatePath"
        | "statsdUdpAddress" => is(value.is_string(), "text"),
        "proxyMetadata" | "runtimeValues" => {
            let scalar = |v: &Value| !v.is_object() && !v.is_array();
            is(value.as_object().is_some_and(|map| map.values().all(scalar)), "names with texts")
        }
        "extraStatTags" | "caCertificatesPem" => is(value.is_array(), "a list"),
        "tracing"
        | "envoyAccessLogService"
        | "envoyMetricsService"
        | "readinessProbe"
        | "proxyStatsMatcher"
        | "privateKeyProvider"
        | "proxyHeaders" => is(value.is_object(), "an object"),
        "image" => {
            let image_type = at(value, &["imageType"]);
            is(value.is_object() && (image_type.is_null() || image_type.is_string()), "an image")
        }
        // A field of another version: whoever reads the configuration decides.
        _ => Ok(()),
    }
}

/// Seconds with a fraction, as durations are in JSON.
fn is_duration(text: &str) -> bool {
    let Some(number) = text.strip_suffix('s') else { return false };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits =
        |s: &str, most| !s.is_empty() && s.len() <= most && s.bytes().all(|b| b.is_ascii_digit());
    digits(whole, 12) && digits(fraction, 9)
}

fn is_host_and_port(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_from_the_defaults_is_handed_on() {
        let mut config = defaults();
        assert_eq!(stripped(&config), json!({}));
        apply(
            &mut config,
            &json!({ "concurrency": 0, "drainDuration": "45s", "statusPort": 1, "meshId": "",
                     "proxyMetadata": { "A": true }, "holdApplicationUntilProxyStarts": false }),
        );
        apply(&mut config, &json!({ "proxyMetadata": { "B": "b" }, "tracing": null }));
        assert_eq!(
            stripped(&config),
            json!({ "concurrency": 0, "statusPort": 1, "holdApplicationUntilProxyStarts": false,
                    "proxyMetadata": { "A": "true", "B": "b" } })
        );
    }

    #[test]
    fn the_nearest_object_of_each_reach_applies() {
        let overlay = |namespace: &str, label: &str, concurrency, name: &str| Overlay {
            namespace: namespace.to_owned(),
            selector: (!label.is_empty())
                .then(|| ("app".to_owned(), label.to_owned()))
                .into_iter()
                .collect(),
            concurrency: Some(concurrency),
            environment: BTreeMap::from([(name.to_owned(), "1".to_owned())]),
            image_type: None,
        };
        let overlays = [
            overlay("root", "", 1, "MESH"),
            overlay("ns", "", 2, "NAMESPACE"),
            overlay("ns", "other", 3, "OTHER"),
            overlay("ns", "app", 4, "WORKLOAD"),
        ];
        let labels = BTreeMap::from([("app".to_owned(), "app".to_owned())]);
        let mut config = defaults();
        apply_overlays(&mut config, &overlays, "root", "ns", &labels);
        assert_eq!(
            stripped(&config),
            json!({ "concurrency": 4,
                    "proxyMetadata": { "MESH": "1", "NAMESPACE": "1", "WORKLOAD": "1" } })
        );
    }

    #[test]
    fn mistakes_are_named() {
        for (config, field) in [
            (json!({ "drainDuration": "5 minutes" }), "drainDuration"),
            (json!({ "statusPort": 70000 }), "statusPort"),
            (json!({ "concurrency": -1 }), "concurrency"),
            (
                json!({ "holdApplicationUntilProxyStarts": "yes" }),
                "holdApplicationUntilProxyStarts",
            ),
            (json!({ "interceptionMode": "redirect" }), "interceptionMode"),
            (json!({ "discoveryAddress": "istiod" }), "discoveryAddress"),
            (json!({ "proxyMetadata": { "A": [] } }), "proxyMetadata"),
            (json!([]), "object"),
        ] {
            let problem = problem(&config).unwrap();
            assert!(problem.contains(field), "{problem}");
        }
        assert_eq!(problem(&json!({ "drainDuration": "1.5s", "concurrency": 2, "new": 1 })), None);
    }
}
