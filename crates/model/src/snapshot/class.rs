//! The class of a proxy: which ports of which services it serves itself, and the rest of what its
//! configuration may depend on.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Snapshot;
use crate::proxy::{Instance, PER_POD_LABELS, PodPort, Proxy, ProxyClass};
use crate::service::{Registry, Resolution, Service, TargetPort};

/// The label by which `failoverPriority` speaks of nodes.
pub(crate) const NODE: &str = "kubernetes.io/hostname";

impl Snapshot {
    /// What the proxy's configuration may depend on. The pod, if it is known, is believed more than
    /// what the proxy said when it started: labels change.
    pub fn class_of(&self, proxy: &Proxy) -> ProxyClass {
        let mut proxy = proxy.clone();
        let mut ports = proxy.metadata.pod_ports.clone();
        let said = proxy.metadata.raw.get("NODE_NAME").and_then(|node| node.as_str());
        let mut node = said.unwrap_or_default().to_owned();
        if let Some(workload) = self.workloads.of_proxy(&proxy) {
            proxy.labels = workload.labels.clone();
            if proxy.locality.is_unknown() {
                proxy.locality = workload.locality.clone();
            }
            if proxy.network.is_empty() {
                proxy.network = workload.network.clone();
            }
            if !workload.node.is_empty() {
                node = workload.node.to_string();
            }
            if !workload.ports.is_empty() {
                ports.clone_from(&workload.ports);
            }
        }
        let instances = self.instances(&proxy, &ports);
        let mut class = ProxyClass::new(&proxy, instances, |label| {
            !PER_POD_LABELS.contains(&label) || self.selects_by(label)
        });
        if self.node_matters() {
            class.node = node.into();
        }
        class
    }

    /// Whether any traffic depends on the node that its sender runs on.
    fn node_matters(&self) -> bool {
        let names_node = |labels: &[String]| labels.iter().any(|label| label.starts_with(NODE));
        let mesh = self.mesh.config.locality_lb_setting.as_ref();
        self.node_bound > 0 || mesh.is_some_and(|setting| names_node(&setting.failover_priority))
    }

    /// By selector, ready or not; what has no selector, by the proxy's addresses.
    fn instances(&self, proxy: &Proxy, ports: &[PodPort]) -> Vec<Instance> {
        let mut found: BTreeMap<(_, u16), u16> = BTreeMap::new();
        for service in self.services.in_namespace(&proxy.namespace) {
            if !service.selects(&proxy.labels) || service.resolution == Resolution::Alias {
                continue;
            }
            for port in &service.ports {
                if let Some(target) = target(&port.target, ports) {
                    found.insert((service.key.clone(), port.number), target);
                }
            }
        }
        for ip in &proxy.ips {
            for key in self.hosts.get(ip).into_iter().flat_map(|keys| keys.iter()) {
                let Some(service) = self.services.get(key) else { continue };
                for (port, target) in self.served_at(service, *ip, proxy) {
                    found.insert((key.clone(), port), target);
                }
            }
        }
        found
            .into_iter()
            .map(|((service, port), target)| Instance { service, port, target })
            .collect()
    }

    /// The ports of `service` whose endpoints include the proxy's address.
    fn served_at(
        &self,
        service: &Arc<Service>,
        ip: std::net::IpAddr,
        proxy: &Proxy,
    ) -> Vec<(u16, u16)> {
        let Some(endpoints) = self.endpoints.get(&service.key) else { return Vec::new() };
        let mut found = Vec::new();
        for port in &service.ports {
            let mut there = endpoints.port(&port.name).iter();
            let own = there.find(|e| {
                e.ip() == Some(ip)
                    && e.workload.cluster == proxy.cluster
                    && (service.registry == Registry::ServiceEntry
                        || e.workload.namespace == proxy.namespace)
            });
            found.extend(own.map(|endpoint| (port.number, endpoint.port)));
        }
        found
    }

    /// Whether some object selects workloads by this label.
    fn selects_by(&self, label: &str) -> bool {
        self.config.selector_keys.contains_key(label)
    }
}

fn target(target: &TargetPort, ports: &[PodPort]) -> Option<u16> {
    match target {
        TargetPort::Number(number) => Some(*number),
        TargetPort::Name(name) => ports
            .iter()
            .find(|port| port.name == **name && port.protocol != "UDP")
            .map(|port| port.number),
    }
}
