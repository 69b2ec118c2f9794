//! The downward API: fields of a pod and resources of its containers, as text.
//!
//! In come the pod, its addresses and the node's allocatable resources; out goes the text that an
//! environment variable or a file shows. Reads nothing else.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceFieldSelector};

use crate::quantity::Amount;

/// What the downward API can show of a pod on its node.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    pub pod: &'a Pod,
    pub pod_ips: &'a [IpAddr],
    pub host_ips: &'a [IpAddr],
    /// Stands in for a limit that is not set.
    pub allocatable: &'a BTreeMap<String, Amount>,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    #[error("unsupported fieldPath: {0}")]
    UnsupportedField(String),
    #[error("unsupported container resource: {0}")]
    UnsupportedResource(String),
    #[error("container {0} not found")]
    NoContainer(String),
    #[error("divisor {0:?} is not a quantity")]
    Divisor(String),
}

impl<'a> Facts<'a> {
    /// The text of a `fieldRef`. Whole label and annotation maps come as the lines of a file.
    pub fn field(&self, path: &str) -> Result<String, Error> {
        let meta = &self.pod.metadata;
        let spec = self.pod.spec.as_ref();
        let or_empty = |v: Option<&String>| v.cloned().unwrap_or_default();
        if let Some((map, key)) = subscript(path) {
            let map = match map {
                "metadata.labels" => meta.labels.as_ref(),
                "metadata.annotations" => meta.annotations.as_ref(),
                _ => return Err(Error::UnsupportedField(path.to_owned())),
            };
            return Ok(or_empty(map.and_then(|m| m.get(key))));
        }
        Ok(match path {
            "metadata.name" => or_empty(meta.name.as_ref()),
            "metadata.namespace" => or_empty(meta.namespace.as_ref()),
            "metadata.uid" => or_empty(meta.uid.as_ref()),
            "metadata.labels" => lines(meta.labels.as_ref()),
            "metadata.annotations" => lines(meta.annotations.as_ref()),
            "spec.nodeName" => or_empty(spec.and_then(|s| s.node_name.as_ref())),
            "spec.serviceAccountName" => {
                or_empty(spec.and_then(|s| s.service_account_name.as_ref()))
            }
            "status.hostIP" => first(self.host_ips),
            "status.hostIPs" => joined(self.host_ips),
            "status.podIP" => first(self.pod_ips),
            "status.podIPs" => joined(self.pod_ips),
            _ => return Err(Error::UnsupportedField(path.to_owned())),
        })
    }

    /// The number of a `resourceFieldRef`; `own` is the container that asks.
    pub fn resource(
        &self,
        selector: &ResourceFieldSelector,
        own: Option<&Container>,
    ) -> Result<String, Error> {
        let container = match selector.container_name.as_deref().filter(|n| !n.is_empty()) {
            Some(name) => containers(self.pod)
                .find(|c| c.name == name)
                .ok_or_else(|| Error::NoContainer(name.to_owned()))?,
            None => own.ok_or_else(|| Error::NoContainer(String::new()))?,
        };
        let (kind, resource) = selector
            .resource
            .split_once('.')
            .ok_or_else(|| Error::UnsupportedResource(selector.resource.clone()))?;
        let known = matches!(resource, "cpu" | "memory" | "ephemeral-storage")
            || resource.starts_with("hugepages-");
        if !known {
            return Err(Error::UnsupportedResource(selector.resource.clone()));
        }
        let resources = container.resources.as_ref();
        let amount = match kind {
            "limits" => resources
                .and_then(|r| r.limits.as_ref()?.get(resource))
                .and_then(Amount::of)
                .filter(|a| !a.is_zero())
                .or_else(|| self.allocatable.get(resource).copied()),
            "requests" => {
                resources.and_then(|r| r.requests.as_ref()?.get(resource)).and_then(Amount::of)
            }
            _ => return Err(Error::UnsupportedResource(selector.resource.clone())),
        };
        let divisor = match selector.divisor.as_ref() {
            Some(d) => Amount::of(d).ok_or_else(|| Error::Divisor(d.0.clone()))?,
            None => Amount::ONE,
        };
        let divisor = if divisor.is_zero() { Amount::ONE } else { divisor };
        Ok(amount.unwrap_or(Amount::whole(0)).in_units_of(divisor).to_string())
    }
}

/// Every container of a pod: init containers first.
pub fn containers(pod: &Pod) -> impl Iterator<Item = &Container> {
    let spec = pod.spec.as_ref();
    let init = spec.and_then(|s| s.init_containers.as_deref()).unwrap_or_default();
    let main = spec.map(|s| s.containers.as_slice()).unwrap_or_default();
    init.iter().chain(main)
}

/// `metadata.labels['key']` as its two parts.
fn subscript(path: &str) -> Option<(&str, &str)> {
    let (map, rest) = path.split_once("['")?;
    Some((map, rest.strip_suffix("']")?))
}

fn first(ips: &[IpAddr]) -> String {
    ips.first().map(IpAddr::to_string).unwrap_or_default()
}

fn joined(ips: &[IpAddr]) -> String {
    ips.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(",")
}

/// `key="quoted value"` lines, the form Kubernetes gives to downward files.
fn lines(map: Option<&BTreeMap<String, String>>) -> String {
    let line = |(k, v): (&String, &String)| format!("{k}={}", quoted(v));
    map.map(|m| m.iter().map(line).collect::<Vec<_>>().join("\n")).unwrap_or_default()
}

fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod() -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"a": "1", "b": "x\"y"},
                         "annotations": {"k/z": "v"}},
            "spec": {"nodeName": "node0", "serviceAccountName": "sa", "containers": [
                {"name": "c", "resources": {"limits": {"memory": "64Mi"}, "requests": {"cpu": "250m"}}}]}
        }))
        .unwrap()
    }

    #[test]
    fn fields_read_as_the_downward_api_shows_them() {
        let pod = pod();
        let ips: Vec<IpAddr> = vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()];
        let none = BTreeMap::new();
        let facts = Facts { pod: &pod, pod_ips: &ips, host_ips: &ips[..1], allocatable: &none };
        let table = [
            ("metadata.name", "p"),
            ("metadata.uid", "u"),
            ("metadata.labels['a']", "1"),
            ("metadata.annotations['k/z']", "v"),
            ("metadata.annotations['none']", ""),
            ("metadata.labels", "a=\"1\"\nb=\"x\\\"y\""),
            ("spec.nodeName", "node0"),
            ("spec.serviceAccountName", "sa"),
            ("status.podIP", "10.0.0.1"),
            ("status.podIPs", "10.0.0.1,fd00::1"),
            ("status.hostIP", "10.0.0.1"),
        ];
        for (path, want) in table {
            assert_eq!(facts.field(path).as_deref(), Ok(want), "{path}");
        }
        assert_eq!(facts.field("spec.x"), Err(Error::UnsupportedField("spec.x".into())));
    }

    #[test]
    fn resources_are_divided_and_fall_back_to_the_node() {
        let pod = pod();
        let node = [("cpu".to_owned(), Amount::whole(2))].into();
        let facts = Facts { pod: &pod, pod_ips: &[], host_ips: &[], allocatable: &node };
        let own = &pod.spec.as_ref().unwrap().containers[0];
        let ask = |resource: &str, divisor: &str| {
            let selector =
                serde_json::from_value(json!({"resource": resource, "divisor": divisor})).unwrap();
            facts.resource(&selector, Some(own))
        };
        assert_eq!(ask("limits.memory", "1Mi").as_deref(), Ok("64"));
        assert_eq!(ask("limits.cpu", "0").as_deref(), Ok("2"));
        assert_eq!(ask("requests.cpu", "1m").as_deref(), Ok("250"));
        assert_eq!(ask("requests.memory", "1").as_deref(), Ok("0"));
        assert!(ask("limits.apples", "1").is_err());
    }
}
