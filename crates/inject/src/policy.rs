//! Which pods get a proxy: by their own word, by selectors, by the labels of their namespace.

use std::collections::BTreeMap;
use std::fmt;

use ironsail_names::{annotation, label};
use serde_json::Value;

use crate::config::{Config, Policy};
use crate::object::{annotations, at, flag, labels};

/// Namespaces whose pods the cluster itself needs.
pub const IGNORED_NAMESPACES: [&str; 4] =
    ["kube-system", "kube-public", "kube-node-lease", "local-path-storage"];

/// Why a pod stays as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Skip {
    /// Its packet rules would be those of the node.
    HostNetwork,
    IgnoredNamespace(String),
    /// The pod says so.
    Refused,
    NeverSelected,
    /// Nothing asks for a proxy, and the policy is not to add one.
    NotAsked,
}

/// What is said of the pod: `… has host networking enabled`.
impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HostNetwork => f.write_str("has host networking enabled"),
            Self::IgnoredNamespace(namespace) => write!(f, "is in namespace {namespace}"),
            Self::Refused => f.write_str("has sidecar injection disabled"),
            Self::NeverSelected => f.write_str("matches a neverInjectSelector"),
            Self::NotAsked => f.write_str("does not ask for injection, which is disabled"),
        }
    }
}

/// Whether the pod gets a proxy once the webhook sees it.
pub(crate) fn skips(config: &Config, pod: &Value, namespace: &str) -> Option<Skip> {
    if flag(at(pod, &["spec", "hostNetwork"])) {
        return Some(Skip::HostNetwork);
    }
    if IGNORED_NAMESPACES.contains(&namespace) {
        return Some(Skip::IgnoredNamespace(namespace.to_owned()));
    }
    let labels = labels(pod);
    let annotations = annotations(pod);
    // The label is the newer word and goes first.
    let said = labels.get(label::SIDECAR_INJECT).or_else(|| annotations.get(annotation::INJECT));
    match said.map(String::as_str) {
        Some("true") => return None,
        Some("false") => return Some(Skip::Refused),
        // Anything else says nothing.
        _ => {}
    }
    let selected = |selectors: &[crate::Selector]| {
        selectors.iter().any(|selector| !selector.is_empty() && selector.matches(&labels))
    };
    if selected(&config.never_inject_selector) {
        return Some(Skip::NeverSelected);
    }
    if selected(&config.always_inject_selector) || config.policy == Policy::Enabled {
        return None;
    }
    Some(Skip::NotAsked)
}

/// Whether the API server calls the injector of `revision` for a pod: what the selectors of its
/// webhook configuration say about the labels of namespace and pod. `tags` are other names of the
/// revision; one of them may be `default`, which also answers to `istio-injection`.
pub fn webhook_selects(
    revision: &str,
    tags: &[&str],
    namespace: &BTreeMap<String, String>,
    pod: &BTreeMap<String, String>,
    by_default: bool,
) -> bool {
    let revision = if revision.is_empty() { "default" } else { revision };
    let ours = |name: &str| name == revision || tags.contains(&name);
    let get = |labels: &BTreeMap<String, String>, key: &str| labels.get(key).cloned();
    let inject = get(pod, label::SIDECAR_INJECT);
    if inject.as_deref() == Some("false") {
        return false;
    }
    let injection = get(namespace, label::INJECTION);
    let namespace_revision = get(namespace, label::REVISION);
    let pod_revision = get(pod, label::REVISION);
    match (injection.as_deref(), namespace_revision.as_deref()) {
        (Some(word), _) => word == "enabled" && ours("default"),
        (None, Some(wanted)) => ours(wanted),
        (None, None) => match pod_revision.as_deref() {
            Some(wanted) => ours(wanted),
            None => ours("default") && (by_default || inject.as_deref() == Some("true")),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn skip(config: &Config, label: Option<&str>, annotation: Option<&str>) -> Option<Skip> {
        let mut pod = json!({ "metadata": { "labels": { "app": "a" } }, "spec": {} });
        if let Some(value) = label {
            pod["metadata"]["labels"][label::SIDECAR_INJECT] = value.into();
        }
        if let Some(value) = annotation {
            pod["metadata"]["annotations"] = json!({ annotation::INJECT: value });
        }
        skips(config, &pod, "ns")
    }

    fn selecting(app: &str) -> Vec<crate::Selector> {
        vec![serde_json::from_value(json!({ "matchLabels": { "app": app } })).unwrap()]
    }

    #[test]
    fn the_label_goes_before_the_annotation_and_both_before_selectors() {
        let config = Config { never_inject_selector: selecting("a"), ..Config::default() };
        assert_eq!(skip(&config, None, None), Some(Skip::NeverSelected));
        assert_eq!(skip(&config, Some("true"), Some("false")), None);
        assert_eq!(skip(&config, Some("false"), Some("true")), Some(Skip::Refused));
        assert_eq!(skip(&config, None, Some("true")), None);
        assert_eq!(skip(&config, Some("perhaps"), None), Some(Skip::NeverSelected));
    }

    #[test]
    fn the_policy_decides_what_nobody_else_does() {
        let disabled = Config { policy: Policy::Disabled, ..Config::default() };
        assert_eq!(skip(&disabled, None, None), Some(Skip::NotAsked));
        let always = Config { always_inject_selector: selecting("a"), ..disabled };
        assert_eq!(skip(&always, None, None), None);
        assert_eq!(skip(&Config::default(), None, None), None);
        // An empty selector selects nothing.
        let empty =
            Config { never_inject_selector: vec![crate::Selector::default()], ..Config::default() };
        assert_eq!(skip(&empty, None, None), None);
    }

    #[test]
    fn pods_of_the_node_and_of_the_cluster_are_left_alone() {
        let config = Config::default();
        let host = json!({ "spec": { "hostNetwork": true } });
        assert_eq!(skips(&config, &host, "ns"), Some(Skip::HostNetwork));
        let system = Some(Skip::IgnoredNamespace("kube-system".to_owned()));
        assert_eq!(skips(&config, &json!({ "spec": {} }), "kube-system"), system);
    }

    #[test]
    fn labels_of_namespace_and_pod_choose_the_revision() {
        let set = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
        };
        let asks = |revision: &str, namespace: &[(&str, &str)], pod: &[(&str, &str)]| {
            webhook_selects(revision, &[], &set(namespace), &set(pod), false)
        };
        assert!(asks("", &[(label::INJECTION, "enabled")], &[]));
        assert!(!asks("", &[(label::INJECTION, "enabled")], &[(label::SIDECAR_INJECT, "false")]));
        assert!(!asks("", &[(label::INJECTION, "disabled")], &[(label::SIDECAR_INJECT, "true")]));
        assert!(!asks("canary", &[(label::INJECTION, "enabled")], &[]));
        assert!(asks("canary", &[(label::REVISION, "canary")], &[]));
        assert!(!asks("", &[(label::REVISION, "canary")], &[]));
        assert!(asks("canary", &[], &[(label::REVISION, "canary")]));
        assert!(asks("", &[], &[(label::SIDECAR_INJECT, "true")]));
        assert!(!asks("", &[], &[]));
        assert!(webhook_selects("", &[], &set(&[]), &set(&[]), true));
        assert!(webhook_selects(
            "v2",
            &["prod"],
            &set(&[(label::REVISION, "prod")]),
            &set(&[]),
            false
        ));
    }
}
