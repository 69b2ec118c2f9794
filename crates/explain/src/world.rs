//! All that is known: pods, what their proxies have, and the objects behind it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::config::Config;
use crate::object::Objects;

/// A pod, or whatever runs at an address.
#[derive(Clone, Debug, Default)]
pub struct Pod {
    /// `POD.NAMESPACE`.
    pub id: String,
    pub namespace: String,
    pub ips: Vec<IpAddr>,
    pub labels: BTreeMap<String, String>,
    pub account: String,
    /// It has a proxy of the mesh.
    pub proxied: bool,
    /// What that proxy has, if it could be had.
    pub config: Option<Config>,
    /// Ports on which traffic passes the proxy by.
    pub bypassed: Vec<u16>,
}

#[derive(Clone, Debug, Default)]
pub struct World {
    pods: BTreeMap<String, Pod>,
    pub objects: Objects,
}

impl World {
    pub fn new(objects: Objects) -> Self {
        Self { pods: BTreeMap::new(), objects }
    }

    pub fn add(&mut self, pod: Pod) {
        self.pods.insert(pod.id.clone(), pod);
    }

    pub fn pod(&self, id: &str) -> Option<&Pod> {
        self.pods.get(id)
    }

    pub fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods.values()
    }

    /// For filling in what a proxy has.
    pub fn pod_mut(&mut self, id: &str) -> Option<&mut Pod> {
        self.pods.get_mut(id)
    }

    pub fn pod_at(&self, ip: IpAddr) -> Option<&Pod> {
        self.pods.values().find(|pod| pod.ips.contains(&ip))
    }

    /// The identity that the mesh gives a pod.
    pub(crate) fn principal(&self, pod: &Pod) -> String {
        let account = if pod.account.is_empty() { "default" } else { &pod.account };
        let domain = self.objects.trust_domain();
        format!("spiffe://{domain}/ns/{}/sa/{account}", pod.namespace)
    }
}
