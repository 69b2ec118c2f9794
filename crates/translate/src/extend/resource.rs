//! What a module is and how it runs: the resources that proxies ask for by ECDS.
//!
//! The agent beside the proxy fetches the module and writes where it lies; what it needs for that is in
//! variables of the module's environment, by Istio's names, which it takes out again.

use std::collections::BTreeMap;

use ironsail_api::istio::extensions::{EnvValueSource, FailStrategy, PullPolicy, WasmConfig};
use ironsail_api::wire::Wire;
use ironsail_model::{ProxyClass, Snapshot};
use ironsail_proto::envoy::config::core::v3::TypedExtensionConfig;
use ironsail_proto::from_json;
use serde_json::{Value, json};

use super::Extensions;
use super::plugin::{Code, HTTP_WASM, NETWORK_WASM, Plugin};
use crate::problem::Problems;
use crate::{Key, Translated};

/// Variables for the agent.
const SECRET: &str = "ISTIO_META_WASM_IMAGE_PULL_SECRET";
const POLICY: &str = "ISTIO_META_WASM_IMAGE_PULL_POLICY";
const VERSION: &str = "ISTIO_META_WASM_PLUGIN_RESOURCE_VERSION";
/// The key of a Secret of type kubernetes.io/dockerconfigjson.
const DOCKER: &str = ".dockerconfigjson";

/// One resource, with all it depends on.
#[derive(Debug)]
pub struct ExtensionView<'v, 'a> {
    plugin: &'v Plugin<'a>,
    wasm: &'v WasmConfig,
    /// What is needed to pull the image, if the proxy may have it.
    secret: Option<(String, u64)>,
}

impl<'a> Extensions<'a> {
    /// The resources of modules. `may_read` says whether the proxies may read Secrets of their namespace.
    pub fn views<'v>(
        &'v self,
        snapshot: &Snapshot,
        class: &ProxyClass,
        may_read: bool,
    ) -> Vec<ExtensionView<'v, 'a>> {
        let one = |plugin: &'v Plugin<'a>| {
            let Code::Wasm(wasm) = &plugin.code else { return None };
            let own = plugin.meta.namespace == class.namespace.as_str();
            let secret = (may_read && own && !wasm.image_pull_secret.is_empty()).then(|| {
                let name = &wasm.image_pull_secret;
                let secret = snapshot.secret(&class.cluster, class.namespace.as_str(), name)?;
                let text = String::from_utf8(secret.spec.data.get(DOCKER)?.0.clone()).ok()?;
                Some((text, secret.digest))
            });
            Some(ExtensionView { plugin, wasm, secret: secret.flatten() })
        };
        self.plugins.0.iter().filter_map(one).collect()
    }
}

impl ExtensionView<'_, '_> {
    pub fn name(&self) -> String {
        self.plugin.name()
    }

    pub fn key(&self) -> u64 {
        Key::new("extension")
            .number(self.plugin.kind as u64)
            .digest(self.plugin.digest())
            .maybe(self.secret.as_ref(), |key, (_, digest)| key.digest(*digest))
            .finish()
    }

    pub fn translate(&self) -> Translated<Option<TypedExtensionConfig>> {
        let mut diagnostics = Vec::new();
        let mut problems = Problems::new(self.plugin.kind, self.plugin.meta, &mut diagnostics);
        if !self.wasm.image_pull_secret.is_empty() && self.secret.is_none() {
            let why = "it is not there, has no .dockerconfigjson, or its proxies may not read it; \
                       the image is pulled without";
            problems.missing("spec.imagePullSecret", why);
        }
        let value = match from_json(&self.json()) {
            Ok(value) => Some(value),
            Err(error) => {
                problems.invalid("spec", format!("Envoy would not take it: {error}"));
                None
            }
        };
        Translated { value, diagnostics }
    }

    fn json(&self) -> Value {
        let wasm = self.wasm;
        let kind = if self.plugin.is_network() { NETWORK_WASM } else { HTTP_WASM };
        let mut config = json!({
            "name": format!("{}.{}", self.plugin.meta.namespace, self.plugin.meta.name),
            "root_id": wasm.plugin_name,
            "vm_config": {
                "runtime": "envoy.wasm.runtime.v8",
                "code": self.code(),
                "environment_variables": self.environment(),
            },
            "failure_policy": match wasm.fail_strategy {
                FailStrategy::FailClose => "FAIL_CLOSED",
                FailStrategy::FailOpen => "FAIL_OPEN",
                FailStrategy::FailReload => "FAIL_RELOAD",
            },
        });
        if let Some(own) = &wasm.plugin_config {
            config["configuration"] = json!({
                "@type": "type.googleapis.com/google.protobuf.StringValue",
                "value": own.write().to_string(),
            });
        }
        json!({"name": self.name(), "typed_config": {"@type": kind, "config": config}})
    }

    fn code(&self) -> Value {
        let url = match self.wasm.url.split_once("://") {
            Some(("file", path)) => return json!({"local": {"filename": path}}),
            Some(_) => self.wasm.url.clone(),
            None => format!("oci://{}", self.wasm.url),
        };
        // The cluster is never used: the agent fetches it.
        json!({"remote": {"sha256": self.sha256(),
            "http_uri": {"uri": url, "timeout": "30s", "cluster": "_"}}})
    }

    /// Envoy wants one in every case; the agent knows that this is none.
    fn sha256(&self) -> &str {
        match self.wasm.sha256.as_str() {
            "" => "nil",
            own => own,
        }
    }

    fn environment(&self) -> Value {
        let variables = self.wasm.vm_config.as_ref().map_or(&[][..], |vm| &vm.env);
        let mut host = Vec::new();
        let mut values: BTreeMap<&str, String> = BTreeMap::new();
        for one in variables {
            match one.value_from {
                EnvValueSource::Inline => drop(values.insert(&one.name, one.value.clone())),
                EnvValueSource::Host => host.push(one.name.as_str()),
            }
        }
        if self.wasm.url.starts_with("file://") {
            return json!({"host_env_keys": host, "key_values": values});
        }
        let policy = match self.wasm.image_pull_policy {
            PullPolicy::Unspecified => "UNSPECIFIED_POLICY",
            PullPolicy::IfNotPresent => "IfNotPresent",
            PullPolicy::Always => "Always",
        };
        values.insert(POLICY, policy.to_owned());
        values.insert(VERSION, format!("{:016x}", self.plugin.digest()));
        if let Some((secret, _)) = &self.secret {
            values.insert(SECRET, secret.clone());
        }
        json!({"host_env_keys": host, "key_values": values})
    }
}
