//! Which objects are about a workload: by namespace, selector and target.

use std::collections::BTreeMap;
use std::sync::Arc;

use ironsail_api::Resource;
use ironsail_api::istio::{
    PolicyTargetReference, WorkloadSelector, extensions as ext, networking as net, security as sec,
    telemetry as tel,
};
use ironsail_api::ratelimit::RateLimitPolicy;
use ironsail_names::{Namespace, label};

use super::ConfigTable;
use crate::proxy::{ProxyClass, ProxyKind};
use crate::select::matches;

/// An object that says which workloads it is about.
pub trait Selected {
    /// None, or empty: all of the namespace.
    fn selector(&self) -> Option<&BTreeMap<String, String>>;

    /// Objects it is attached to; if there are any, the selector does not count.
    fn targets(&self) -> Vec<&PolicyTargetReference> {
        Vec::new()
    }

    /// Whether waypoints take it without being named as its target.
    fn reaches_waypoints(&self) -> bool {
        false
    }
}

/// A workload, for asking which objects are about it.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    pub namespace: &'a Namespace,
    pub labels: &'a BTreeMap<String, String>,
    pub waypoint: bool,
}

impl<'a> Target<'a> {
    pub fn workload(namespace: &'a Namespace, labels: &'a BTreeMap<String, String>) -> Self {
        Self { namespace, labels, waypoint: false }
    }

    /// Whether the object of `namespace` is about this workload.
    pub fn is_meant_by(&self, object: &impl Selected, namespace: &str) -> bool {
        let targets = object.targets();
        if !targets.is_empty() {
            return targets.iter().any(|target| self.is_target(target, namespace));
        }
        match object.selector().filter(|labels| !labels.is_empty()) {
            _ if self.waypoint && !object.reaches_waypoints() => false,
            None => true,
            Some(wanted) => !self.waypoint && matches(wanted, self.labels),
        }
    }

    fn is_target(&self, target: &PolicyTargetReference, namespace: &str) -> bool {
        let own = |name: &str| self.labels.get(name).is_some_and(|value| *value == target.name);
        if target.canonical_group() != "gateway.networking.k8s.io" {
            return false;
        }
        match target.kind.as_str() {
            "Gateway" => own(label::GATEWAY_NAME) && namespace == self.namespace.as_str(),
            "GatewayClass" => own(label::GATEWAY_CLASS),
            _ => false,
        }
    }
}

impl<'a> From<&'a ProxyClass> for Target<'a> {
    fn from(class: &'a ProxyClass) -> Self {
        Self {
            namespace: &class.namespace,
            labels: &class.labels,
            waypoint: class.kind == ProxyKind::Waypoint,
        }
    }
}

impl<S: Selected> ConfigTable<S> {
    /// Those of the root namespace, then those of the workload's own, oldest first within each.
    pub fn for_workload<'a>(
        &'a self,
        root: &'a Namespace,
        target: Target<'_>,
    ) -> Vec<&'a Arc<Resource<S>>> {
        let mut found: Vec<_> = self
            .in_namespace(root)
            .filter(|object| target.is_meant_by(&object.spec, root.as_str()))
            .collect();
        if target.namespace != root {
            let own = self.in_namespace(target.namespace);
            let name = target.namespace.as_str();
            found.extend(own.filter(|object| target.is_meant_by(&object.spec, name)));
        }
        found
    }

    /// Those of the workload's own namespace only.
    pub fn in_namespace_of<'a>(&'a self, target: Target<'_>) -> Vec<&'a Arc<Resource<S>>> {
        let name = target.namespace.as_str();
        self.in_namespace(target.namespace)
            .filter(|object| target.is_meant_by(&object.spec, name))
            .collect()
    }
}

fn labels(selector: Option<&WorkloadSelector>) -> Option<&BTreeMap<String, String>> {
    selector.map(|selector| &selector.match_labels)
}

macro_rules! by_selector {
    ($($type:ty, $waypoints:literal;)+) => { $(
        impl Selected for $type {
            fn selector(&self) -> Option<&BTreeMap<String, String>> {
                labels(self.selector.as_ref())
            }

            fn targets(&self) -> Vec<&PolicyTargetReference> {
                self.target_refs.iter().chain(&self.target_ref).collect()
            }

            fn reaches_waypoints(&self) -> bool {
                $waypoints
            }
        }
    )+ };
}

by_selector! {
    sec::AuthorizationPolicy, false;
    sec::RequestAuthentication, false;
    tel::Telemetry, true;
    ext::WasmPlugin, true;
}

impl Selected for RateLimitPolicy {
    fn selector(&self) -> Option<&BTreeMap<String, String>> {
        labels(self.selector.as_ref())
    }

    fn targets(&self) -> Vec<&PolicyTargetReference> {
        self.target_refs.iter().collect()
    }
}

impl Selected for ext::TrafficExtension {
    fn selector(&self) -> Option<&BTreeMap<String, String>> {
        labels(self.selector.as_ref())
    }

    fn targets(&self) -> Vec<&PolicyTargetReference> {
        self.target_refs.iter().collect()
    }

    fn reaches_waypoints(&self) -> bool {
        true
    }
}

impl Selected for sec::PeerAuthentication {
    fn selector(&self) -> Option<&BTreeMap<String, String>> {
        labels(self.selector.as_ref())
    }
}

impl Selected for net::ProxyConfig {
    fn selector(&self) -> Option<&BTreeMap<String, String>> {
        labels(self.selector.as_ref())
    }
}

impl Selected for net::EnvoyFilter {
    fn selector(&self) -> Option<&BTreeMap<String, String>> {
        self.workload_selector.as_ref().map(|selector| &selector.labels)
    }

    fn targets(&self) -> Vec<&PolicyTargetReference> {
        self.target_refs.iter().collect()
    }

    fn reaches_waypoints(&self) -> bool {
        true
    }
}

impl Selected for net::Sidecar {
    fn selector(&self) -> Option<&BTreeMap<String, String>> {
        self.workload_selector.as_ref().map(|selector| &selector.labels)
    }
}

impl Selected for net::Gateway {
    fn selector(&self) -> Option<&BTreeMap<String, String>> {
        Some(&self.selector)
    }
}

impl Selected for net::DestinationRule {
    fn selector(&self) -> Option<&BTreeMap<String, String>> {
        labels(self.workload_selector.as_ref())
    }
}
