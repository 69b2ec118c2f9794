//! The configuration of one proxy: the mesh's, then `ProxyConfig` objects, then the annotation of the
//! pod. Proxies get only what differs from the defaults, which they know.

use std::collections::BTreeMap;

use ironsail_api::Resource;
use ironsail_api::istio::networking::{self, ProxyImage};
use ironsail_api::mesh::{InterceptionMode, ProxyConfig};
use ironsail_api::wire::{What, Wire};
use serde_json::{Map, Value};

use crate::object::section;

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

/// The nearest overlay of each reach, the widest first: mesh, namespace, labels.
pub(crate) fn apply_overlays(
    config: &mut ProxyConfig,
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
        overlay.apply(config);
    }
}

impl Overlay {
    /// What an object of the cluster says.
    pub fn of(object: &Resource<networking::ProxyConfig>) -> Self {
        let spec = &object.spec;
        Self {
            namespace: object.meta.namespace.clone(),
            selector: spec.selector.clone().unwrap_or_default().match_labels,
            concurrency: spec.concurrency,
            environment: spec.environment_variables.clone(),
            image_type: spec.image.as_ref().map(|image| image.image_type.clone()),
        }
    }

    fn apply(&self, config: &mut ProxyConfig) {
        if self.concurrency.is_some() {
            config.concurrency = self.concurrency;
        }
        config.proxy_metadata.extend(self.environment.clone());
        if let Some(image_type) = &self.image_type {
            config.image = Some(ProxyImage { image_type: image_type.clone() });
        }
    }
}

/// As templates see it: what is never left out in Go is there.
pub(crate) fn tree(config: &ProxyConfig) -> Value {
    let mut tree = config.write();
    let fields = section(&mut tree, &[]);
    fields.entry("proxyMetadata").or_insert_with(|| Value::Object(Map::new()));
    fields.entry("interceptionMode").or_insert_with(|| InterceptionMode::default().write());
    tree
}

/// Without what equals the defaults, as proxies get it.
pub(crate) fn stripped(config: &Value) -> Value {
    let defaults = tree(&ProxyConfig::default());
    let fields = config.as_object().into_iter().flatten();
    let kept = fields
        .filter(|(key, value)| !value.is_null() && defaults.get(key.as_str()) != Some(*value));
    Value::Object(kept.map(|(key, value)| (key.clone(), value.clone())).collect())
}

/// `over`, as a user wrote it, on `config`. A field that we do not know may be one of another version
/// and is no reason to refuse a pod.
pub(crate) fn overlaid(config: ProxyConfig, over: &Value) -> Result<ProxyConfig, String> {
    if !over.is_object() && !over.is_null() {
        return Err("it is not an object".to_owned());
    }
    let read = config.overlaid(over);
    for problem in read.problems {
        if let What::Invalid(reason) = problem.what {
            return Err(format!("{}: {reason}", problem.field));
        }
    }
    let config = read.value;
    for (field, port) in
        [("statusPort", config.status_port), ("proxyAdminPort", config.proxy_admin_port)]
    {
        if u16::try_from(port).is_err() {
            return Err(format!("{field}: {port} is not a port"));
        }
    }
    if let Some(threads) = config.concurrency.filter(|threads| *threads < 0) {
        return Err(format!("concurrency: {threads} is less than none"));
    }
    if !is_host_and_port(&config.discovery_address) {
        let address = config.discovery_address;
        return Err(format!("discoveryAddress: {address:?} is not an address with a port"));
    }
    Ok(config)
}

fn is_host_and_port(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn over(config: ProxyConfig, over: &Value) -> ProxyConfig {
        overlaid(config, over).unwrap()
    }

    #[test]
    fn only_what_differs_from_the_defaults_is_handed_on() {
        let config = ProxyConfig::default();
        assert_eq!(stripped(&tree(&config)), json!({}));
        let config = over(
            config,
            &json!({ "concurrency": 0, "drainDuration": "45s", "statusPort": 1, "meshId": "",
                     "proxyMetadata": { "A": "a" }, "holdApplicationUntilProxyStarts": false }),
        );
        let config = over(config, &json!({ "proxyMetadata": { "B": "b" }, "tracing": null }));
        assert_eq!(
            stripped(&tree(&config)),
            json!({ "concurrency": 0, "statusPort": 1, "holdApplicationUntilProxyStarts": false,
                    "proxyMetadata": { "A": "a", "B": "b" } })
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
        let mut config = ProxyConfig::default();
        apply_overlays(&mut config, &overlays, "root", "ns", &labels);
        assert_eq!(
            stripped(&tree(&config)),
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
            let problem = overlaid(ProxyConfig::default(), &config).unwrap_err();
            assert!(problem.contains(field), "{problem}");
        }
        let good = json!({ "drainDuration": "1.5s", "concurrency": 2, "new": 1 });
        assert!(overlaid(ProxyConfig::default(), &good).is_ok());
    }
}
