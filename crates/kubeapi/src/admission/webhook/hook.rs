//! One webhook of a configuration, read once.
//!
//! The configuration was checked when it was stored. What is wrong nevertheless does not end the
//! others: it becomes an error when this webhook is to be called.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::Value;

use super::condition::Condition;
use super::tls;
use crate::auth::rbac::rule::strings;

#[derive(Debug)]
pub(super) struct Hook {
    pub(super) name: String,
    pub(super) rules: Vec<Rule>,
    /// `matchPolicy: Equivalent`.
    pub(super) equivalent: bool,
    pub(super) namespace_selector: Value,
    pub(super) object_selector: Value,
    pub(super) conditions: Vec<Condition>,
    /// `failurePolicy: Fail`.
    pub(super) fail: bool,
    pub(super) timeout: Duration,
    pub(super) allows_dry_run: bool,
    /// `reinvocationPolicy: IfNeeded`.
    pub(super) reinvoke: bool,
    pub(super) speaks_v1: bool,
    pub(super) address: Address,
    pub(super) ca_bundle: String,
    pub(super) tls: OnceLock<Result<Arc<rustls::ClientConfig>, tls::Error>>,
}

#[derive(Debug)]
pub(super) enum Address {
    Service { namespace: String, name: String, path: String, port: u16 },
    Url(String),
}

#[derive(Debug)]
pub(super) struct Rule {
    pub(super) operations: Vec<String>,
    pub(super) groups: Vec<String>,
    pub(super) versions: Vec<String>,
    pub(super) resources: Vec<String>,
    pub(super) scope: Scope,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    All,
    Cluster,
    Namespaced,
}

impl Hook {
    pub(super) fn parse(value: &Value) -> Self {
        let text = |key: &str| value[key].as_str().unwrap_or_default();
        let items = |key: &str| value[key].as_array().into_iter().flatten();
        let seconds = value["timeoutSeconds"].as_u64().unwrap_or(10).clamp(1, 30);
        Self {
            name: text("name").to_owned(),
            rules: items("rules").map(Rule::parse).collect(),
            equivalent: text("matchPolicy") != "Exact",
            namespace_selector: value["namespaceSelector"].clone(),
            object_selector: value["objectSelector"].clone(),
            conditions: items("matchConditions").map(Condition::compile).collect(),
            fail: text("failurePolicy") != "Ignore",
            timeout: Duration::from_secs(seconds),
            allows_dry_run: matches!(text("sideEffects"), "None" | "NoneOnDryRun"),
            reinvoke: text("reinvocationPolicy") == "IfNeeded",
            speaks_v1: items("admissionReviewVersions").any(|v| v == "v1"),
            address: Address::parse(&value["clientConfig"]),
            ca_bundle: value["clientConfig"]["caBundle"].as_str().unwrap_or_default().to_owned(),
            tls: OnceLock::new(),
        }
    }

    /// TLS towards this webhook, set up at the first call.
    pub(super) fn tls(&self) -> Result<Arc<rustls::ClientConfig>, tls::Error> {
        self.tls.get_or_init(|| tls::client_config(&self.ca_bundle)).clone()
    }
}

impl Address {
    fn parse(config: &Value) -> Self {
        let service = &config["service"];
        if service.is_null() {
            return Self::Url(config["url"].as_str().unwrap_or_default().to_owned());
        }
        let text = |key: &str| service[key].as_str().unwrap_or_default().to_owned();
        let port = service["port"].as_u64().and_then(|p| u16::try_from(p).ok()).unwrap_or(443);
        Self::Service { namespace: text("namespace"), name: text("name"), path: text("path"), port }
    }
}

impl Rule {
    fn parse(value: &Value) -> Self {
        Self {
            operations: strings(&value["operations"]),
            groups: strings(&value["apiGroups"]),
            versions: strings(&value["apiVersions"]),
            resources: strings(&value["resources"]),
            scope: match value["scope"].as_str() {
                Some("Cluster") => Scope::Cluster,
                Some("Namespaced") => Scope::Namespaced,
                _ => Scope::All,
            },
        }
    }
}
