//! The part of a proxy that its configuration may depend on.
//!
//! Proxies of equal class get equal bytes. The pods of one Deployment are of one class: neither the
//! pod's name nor its address is here.

use std::collections::BTreeMap;
use std::sync::Arc;

use ironsail_api::ClusterId;
use ironsail_names::{Locality, Namespace, ServiceAccount};
use serde_json::Value;

use super::{Interception, Proxy, ProxyKind, Version};
use crate::ServiceKey;
use crate::hashed::Hashed;

/// Labels that Kubernetes gives to one pod only. They are dropped, unless some object selects by them.
pub const PER_POD_LABELS: [&str; 4] = [
    "statefulset.kubernetes.io/pod-name",
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/job-completion-index",
    "controller-revision-hash",
];

/// Metadata that differs from pod to pod, and what is kept elsewhere in the class.
const PER_POD_METADATA: [&str; 6] =
    ["NAME", "INSTANCE_IPS", "ISTIO_PROXY_SHA", "NODE_NAME", "HOST_IP", "POD_NAME"];

/// What configuration may depend on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProxyClass {
    pub kind: ProxyKind,
    pub namespace: Namespace,
    pub service_account: Option<ServiceAccount>,
    pub labels: Arc<BTreeMap<String, String>>,
    pub cluster: ClusterId,
    pub network: Arc<str>,
    pub locality: Locality,
    /// Where it runs, if some service's traffic depends on that; else empty.
    pub node: Arc<str>,
    pub version: Version,
    pub domain: Arc<str>,
    pub service_cluster: Arc<str>,
    pub workload_name: Arc<str>,
    pub ipv4: bool,
    pub ipv6: bool,
    pub interception: Interception,
    pub dns_capture: bool,
    pub dns_auto_allocate: bool,
    pub http10: bool,
    pub hbone: bool,
    pub unprivileged: bool,
    pub generator: Option<Arc<str>>,
    pub router_mode: Option<Arc<str>>,
    pub network_view: Vec<String>,
    pub idle_timeout: Option<Arc<str>>,
    pub proxy_config: Option<Arc<Hashed<Value>>>,
    /// The other texts of the node's metadata: EnvoyFilters may match on them.
    pub metadata: Arc<BTreeMap<String, String>>,
    /// The ports of services that this proxy itself serves, in order of service and port.
    pub instances: Arc<[Instance]>,
    /// Annotations of the pod that configuration looks at (`traffic.sidecar.istio.io/…`, `sidecar.istio.io/…`).
    pub annotations: Arc<BTreeMap<String, String>>,
}

/// One port of a service, and the port on the workload that it leads to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instance {
    pub service: ServiceKey,
    /// The service's port.
    pub port: u16,
    /// The workload's port.
    pub target: u16,
}

impl ProxyClass {
    /// `instances` must be what the snapshot says of the proxy; see `Snapshot::class_of`.
    pub fn new(proxy: &Proxy, instances: Vec<Instance>, keep_label: impl Fn(&str) -> bool) -> Self {
        let metadata = &proxy.metadata;
        let labels = match proxy.labels.keys().all(|name| keep_label(name)) {
            true => proxy.labels.clone(),
            false => {
                let kept = proxy.labels.iter().filter(|(name, _)| keep_label(name));
                Arc::new(kept.map(|(name, value)| (name.clone(), value.clone())).collect())
            }
        };
        let rest = metadata
            .raw
            .iter()
            .filter(|(key, _)| !PER_POD_METADATA.contains(&key.as_str()))
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        let annotations = metadata.annotations.iter().filter(|(key, _)| key.contains("istio.io/"));
        let text = |text: &Option<String>| text.as_deref().map(Arc::from);
        Self {
            kind: proxy.kind,
            namespace: proxy.namespace.clone(),
            service_account: proxy.service_account.clone(),
            labels,
            cluster: proxy.cluster.clone(),
            network: proxy.network.clone(),
            locality: proxy.locality.clone(),
            node: "".into(),
            version: proxy.version,
            domain: proxy.domain.clone(),
            service_cluster: proxy.service_cluster.clone(),
            workload_name: metadata.workload_name.as_deref().unwrap_or_default().into(),
            ipv4: proxy.supports_ipv4(),
            ipv6: proxy.supports_ipv6(),
            interception: metadata.interception,
            dns_capture: metadata.dns_capture,
            dns_auto_allocate: metadata.dns_auto_allocate,
            http10: metadata.http10,
            hbone: metadata.hbone,
            unprivileged: metadata.unprivileged,
            generator: text(&metadata.generator),
            router_mode: text(&metadata.router_mode),
            network_view: metadata.network_view.clone(),
            idle_timeout: text(&metadata.idle_timeout),
            proxy_config: metadata.proxy_config.clone().map(Arc::new),
            metadata: Arc::new(rest.collect()),
            instances: instances.into(),
            annotations: Arc::new(annotations.map(|(k, v)| (k.clone(), v.clone())).collect()),
        }
    }

    /// One number for the class.
    pub fn key(&self) -> u64 {
        crate::hashed::digest(self)
    }
}
