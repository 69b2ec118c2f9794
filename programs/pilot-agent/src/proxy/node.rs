//! Who the proxy says it is: its id and its metadata, under the names that the control plane knows.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ironsail_api::mesh::{ProxyClusterName, ProxyConfig, TracingServiceName};
use ironsail_bootstrap::Node;
use ironsail_names::Locality;
use serde_json::{Map, Value, json};

/// What a node is made of.
pub(crate) struct Facts<'a> {
    /// `sidecar` or `router`.
    pub(crate) role: &'a str,
    pub(crate) ips: &'a [IpAddr],
    pub(crate) name: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) service_account: &'a str,
    pub(crate) domain: &'a str,
    pub(crate) labels: &'a BTreeMap<String, String>,
    pub(crate) annotations: &'a BTreeMap<String, String>,
    pub(crate) config: &'a ProxyConfig,
    pub(crate) config_json: Value,
    /// All variables, those of the proxy config included.
    pub(crate) environment: &'a BTreeMap<String, String>,
    pub(crate) prometheus_port: u16,
    pub(crate) ready_port: u16,
    pub(crate) outlier_log: &'a str,
    pub(crate) pilot_names: &'a [String],
}

const PLAIN: &str = "ISTIO_META_";
const AS_JSON: &str = "ISTIO_METAJSON_";

impl Facts<'_> {
    pub(crate) fn node(self) -> Node {
        let ip = self.ips.first().map(IpAddr::to_string).unwrap_or_default();
        let id = format!("{}~{ip}~{}.{}~{}", self.role, self.name, self.namespace, self.domain);
        Node { id, cluster: self.cluster(), locality: self.locality(), metadata: self.metadata() }
    }

    /// The service that traces and statistics name.
    fn cluster(&self) -> String {
        let label = |key: &str| self.labels.get(key).filter(|value| !value.is_empty());
        let canonical = || label("service.istio.io/canonical-name").or_else(|| label("app"));
        let with_namespace = |name: &String| format!("{name}.{}", self.namespace);
        let named = match &self.config.cluster_name {
            ProxyClusterName::ServiceCluster(name) if name == "istio-proxy" => {
                label("app").map(with_namespace)
            }
            ProxyClusterName::ServiceCluster(name) => Some(name.clone()),
            ProxyClusterName::TracingServiceName(rule) => match rule {
                TracingServiceName::AppLabelAndNamespace => label("app").map(with_namespace),
                TracingServiceName::CanonicalNameOnly => canonical().cloned(),
                TracingServiceName::CanonicalNameAndNamespace => canonical().map(with_namespace),
            },
            _ => None,
        };
        named.unwrap_or_else(|| "istio-proxy".to_owned())
    }

    fn locality(&self) -> Locality {
        let text = self
            .labels
            .get("istio-locality")
            .or_else(|| self.environment.get("ISTIO_META_LOCALITY"));
        text.and_then(|text| Locality::from_label(text).ok()).unwrap_or_default()
    }

    fn metadata(&self) -> Map<String, Value> {
        let mut metadata = Map::new();
        for (key, value) in self.environment {
            if let Some(name) = key.strip_prefix(AS_JSON)
                && let Ok(Value::Object(object)) = serde_json::from_str(value)
            {
                metadata.insert(name.to_owned(), Value::Object(object));
            } else if let Some(name) = key.strip_prefix(PLAIN) {
                metadata.insert(name.to_owned(), value.as_str().into());
            }
        }
        for (key, value) in self.annotations {
            if key.starts_with("sidecar.istio.io/stats") {
                metadata.insert(key.clone(), value.as_str().into());
            }
        }
        let mut put = |key: &str, value: Value| {
            let empty = match &value {
                Value::String(text) => text.is_empty(),
                Value::Object(object) => object.is_empty(),
                Value::Array(list) => list.is_empty(),
                _ => false,
            };
            if !empty {
                metadata.insert(key.to_owned(), value);
            }
        };
        let ips: Vec<String> = self.ips.iter().map(IpAddr::to_string).collect();
        put("NAME", self.name.into());
        put("NAMESPACE", self.namespace.into());
        put("SERVICE_ACCOUNT", self.service_account.into());
        put("INSTANCE_IPS", ips.join(",").into());
        put("LABELS", json!(self.labels));
        put("ANNOTATIONS", json!(self.annotations));
        put("PROXY_CONFIG", self.config_json.clone());
        put("PILOT_SAN", json!(self.pilot_names));
        put("ISTIO_VERSION", version().into());
        put("ENVOY_PROMETHEUS_PORT", self.prometheus_port.into());
        put("ENVOY_STATUS_PORT", self.ready_port.into());
        put("OUTLIER_LOG_PATH", self.outlier_log.into());
        metadata
    }
}

/// What this program calls itself to the control plane.
pub(crate) fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}
