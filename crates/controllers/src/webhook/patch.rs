//! What must change in a webhook configuration. No IO.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use serde_json::{Map, Value, json};

/// Webhooks of injection end so: `namespace.sidecar-injector.istio.io` and the like.
const INJECTOR: &str = "sidecar-injector.istio.io";
/// Webhooks of validation end so: `rev.validation.istio.io` and the like.
const VALIDATOR: &str = "validation.istio.io";
const FAIL: &str = "Fail";

/// A webhook configuration and its cure.
pub(super) trait Patched {
    /// A strategic merge patch, or nothing when all is well. `works` says that the webhook was
    /// seen doing its job.
    fn patch(&self, bundle: &str, works: bool) -> Option<Value>;
}

impl Patched for MutatingWebhookConfiguration {
    fn patch(&self, bundle: &str, _works: bool) -> Option<Value> {
        let webhooks = self.webhooks.iter().flatten().filter(|hook| hook.name.ends_with(INJECTOR));
        wrap(webhooks.filter_map(|hook| change(&hook.name, &hook.client_config, bundle, None)))
    }
}

impl Patched for ValidatingWebhookConfiguration {
    fn patch(&self, bundle: &str, works: bool) -> Option<Value> {
        let webhooks = self.webhooks.iter().flatten().filter(|hook| hook.name.ends_with(VALIDATOR));
        wrap(webhooks.filter_map(|hook| {
            let closed = hook.failure_policy.as_deref().is_none_or(|policy| policy == FAIL);
            let policy = (works && !closed).then_some(FAIL);
            change(&hook.name, &hook.client_config, bundle, policy)
        }))
    }
}

fn change(
    name: &str,
    client: &WebhookClientConfig,
    bundle: &str,
    policy: Option<&str>,
) -> Option<Value> {
    let mut change = Map::new();
    let current = client.ca_bundle.as_ref().map(|ByteString(bytes)| bytes.as_slice());
    if !bundle.is_empty() && current != Some(bundle.as_bytes()) {
        change.insert("clientConfig".to_owned(), json!({"caBundle": STANDARD.encode(bundle)}));
    }
    if let Some(policy) = policy {
        change.insert("failurePolicy".to_owned(), policy.into());
    }
    if change.is_empty() {
        return None;
    }
    change.insert("name".to_owned(), name.into());
    Some(Value::Object(change))
}

fn wrap(changes: impl Iterator<Item = Value>) -> Option<Value> {
    let changes: Vec<_> = changes.collect();
    (!changes.is_empty()).then(|| json!({"webhooks": changes}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn validating(policy: &str, bundle: &str) -> ValidatingWebhookConfiguration {
        serde_json::from_value(json!({
            "metadata": {"name": "istio-validator-istio-system"},
            "webhooks": [{
                "name": "rev.validation.istio.io",
                "clientConfig": {"caBundle": STANDARD.encode(bundle)},
                "failurePolicy": policy,
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }],
        }))
        .unwrap()
    }

    #[test]
    fn a_bundle_is_patched_only_where_it_differs_and_only_in_our_webhooks() {
        let hook = |name: &str, bundle: &str| {
            json!({
                "name": name, "clientConfig": {"caBundle": STANDARD.encode(bundle)},
                "sideEffects": "None", "admissionReviewVersions": ["v1"],
            })
        };
        let config: MutatingWebhookConfiguration = serde_json::from_value(json!({"webhooks": [
            hook("rev.namespace.sidecar-injector.istio.io", "old"),
            hook("rev.object.sidecar-injector.istio.io", "new"),
            hook("webhook.example.com", "old"),
        ]}))
        .unwrap();
        let patch = config.patch("new", false).unwrap();
        assert_eq!(
            patch,
            json!({"webhooks": [{
                "name": "rev.namespace.sidecar-injector.istio.io",
                "clientConfig": {"caBundle": STANDARD.encode("new")},
            }]})
        );
        assert_eq!(config.patch("", false), None);
    }

    #[test]
    fn validation_fails_closed_only_when_it_works_and_is_never_opened() {
        assert_eq!(validating("Ignore", "ca").patch("ca", false), None);
        let patch = validating("Ignore", "ca").patch("ca", true).unwrap();
        let expected =
            json!({"webhooks": [{"name": "rev.validation.istio.io", "failurePolicy": "Fail"}]});
        assert_eq!(patch, expected);
        assert_eq!(validating("Fail", "ca").patch("ca", true), None);
        let patch = validating("Fail", "old").patch("ca", false).unwrap();
        assert!(patch["webhooks"][0].get("failurePolicy").is_none());
    }
}
