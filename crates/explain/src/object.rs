//! The objects behind the configuration: what they are called, what names mean, which of them say what.
//!
//! In: objects as the API or a file has them. Out: answers with the object and field they come from.

mod name;
mod policy;
mod rule;

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::Value;

pub(crate) use name::{Known, Named};
pub(crate) use policy::{Mode, labels_of};

use crate::answer::Origin;

const NOTHING: Value = Value::Null;

/// All objects that matter.
#[derive(Clone, Debug)]
pub struct Objects {
    all: Vec<Value>,
    mesh: Value,
    root: String,
    domain: String,
}

impl Default for Objects {
    fn default() -> Self {
        Self::new(Vec::new(), "istio-system")
    }
}

impl Objects {
    /// `root` is the control plane's namespace; its ConfigMap `istio` is the mesh configuration.
    pub fn new(all: Vec<Value>, root: &str) -> Self {
        let mut mesh = Value::Null;
        for object in &all {
            let metadata = &object["metadata"];
            if object["kind"] == "ConfigMap"
                && metadata["name"] == "istio"
                && metadata["namespace"].as_str().unwrap_or(root) == root
            {
                let text = object["data"]["mesh"].as_str().unwrap_or_default();
                mesh = ironsail_yaml::parse(text).unwrap_or_default();
            }
        }
        let root = mesh["rootNamespace"].as_str().filter(|r| !r.is_empty()).unwrap_or(root);
        let root = root.to_owned();
        Self { all, mesh, root, domain: "cluster.local".to_owned() }
    }

    pub(crate) fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.all.iter().filter(move |object| object["kind"] == kind)
    }

    pub(crate) fn find(&self, kind: &str, namespace: &str, name: &str) -> Option<&Value> {
        self.all.iter().find(|object| {
            object["kind"] == kind
                && self::name(object) == name
                && self::namespace(object) == namespace
        })
    }

    pub(crate) fn root(&self) -> &str {
        &self.root
    }

    pub(crate) fn domain(&self) -> &str {
        &self.domain
    }

    pub(crate) fn trust_domain(&self) -> &str {
        self.mesh["trustDomain"].as_str().filter(|t| !t.is_empty()).unwrap_or("cluster.local")
    }

    /// The mesh configuration as a place to look at.
    pub(crate) fn mesh_origin(&self, field: &str) -> Origin {
        Origin::new(format!("ConfigMap {}/istio", self.root), format!("data.mesh {field}"))
    }
}

pub(crate) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

pub(crate) fn namespace(object: &Value) -> &str {
    object["metadata"]["namespace"].as_str().unwrap_or("default")
}

/// `KIND NAMESPACE/NAME`.
pub(crate) fn title(object: &Value) -> String {
    let kind = object["kind"].as_str().unwrap_or("object");
    format!("{kind} {}/{}", namespace(object), name(object))
}

pub(crate) fn origin(object: &Value, field: impl Into<String>) -> Origin {
    Origin::new(title(object), field)
}

/// By age, then by name, as the mesh orders them.
pub(crate) fn age(object: &Value) -> (&str, &str, &str) {
    let at = object["metadata"]["creationTimestamp"].as_str().unwrap_or_default();
    (at, namespace(object), name(object))
}

pub(crate) fn each<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = (usize, &'a Value)> {
    value.get(key).and_then(Value::as_array).into_iter().flatten().enumerate()
}

pub(crate) fn texts<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a str> {
    each(value, key).filter_map(|(_, one)| one.as_str())
}

/// Whether labels have all that is wanted.
pub(crate) fn selects(wanted: &Value, labels: &BTreeMap<String, String>) -> bool {
    let wanted = wanted.as_object();
    wanted
        .into_iter()
        .flatten()
        .all(|(key, value)| labels.get(key).map(String::as_str) == value.as_str())
}

pub(crate) fn spec(object: &Value) -> &Value {
    object.get("spec").unwrap_or(&NOTHING)
}

/// `/apis/GROUP/VERSION/namespaces/NS/virtual-service/NAME` as `VirtualService NS/NAME`.
pub(crate) fn from_path(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let ["apis", _, _, "namespaces", namespace, kind, name] = parts[..] else { return None };
    let kind: String = kind
        .split('-')
        .map(|word| {
            let mut letters = word.chars();
            let first = letters.next().map(|c| c.to_ascii_uppercase());
            first.into_iter().chain(letters).collect::<String>()
        })
        .collect();
    Some(format!("{kind} {namespace}/{name}"))
}

/// `ns[NS]-policy[NAME]-rule[N]` as the policy and its rule.
pub(crate) fn from_rule(name: &str) -> Option<Origin> {
    // Rules of external authorizers have a prefix of their own.
    let start = name.find("ns[")?;
    let rest = &name[start + 3..];
    let (namespace, rest) = rest.split_once("]-policy[")?;
    let (policy, rest) = rest.split_once("]-rule[")?;
    let (index, _) = rest.split_once(']')?;
    let object = format!("AuthorizationPolicy {namespace}/{policy}");
    Some(Origin::new(object, format!("spec.rules[{index}]")))
}

pub(crate) fn addresses<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = IpAddr> + 'a {
    let texts: Vec<&'a str> = texts(value, key).collect();
    texts.into_iter().filter_map(|text| text.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_configuration_lead_back_to_objects() {
        let path = "/apis/networking.istio.io/v1/namespaces/foo/virtual-service/bar";
        assert_eq!(from_path(path).as_deref(), Some("VirtualService foo/bar"));
        assert_eq!(from_path("/apis/x"), None);
        let rule = from_rule("istio-ext-authz-x-ns[foo]-policy[p.q]-rule[3]").unwrap();
        assert_eq!(rule.to_string(), "AuthorizationPolicy foo/p.q spec.rules[3]");
        assert_eq!(from_rule("none"), None);
    }
}
