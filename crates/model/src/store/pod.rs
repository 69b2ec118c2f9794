//! Pods and WorkloadEntries: the workloads made from them, and the services that feel a change.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ironsail_api::istio::networking::WorkloadEntry;
use ironsail_api::{ClusterId, Kind, ObjectKey, Resource, kube};
use ironsail_names::Namespace;

use super::Store;
use super::inventory::{same, slice_service};
use crate::hashed::Hashed;
use crate::select::matches;
use crate::workload::{Context, Workload, entry, pod};
use crate::{ServiceKey, service};

impl Store {
    pub(super) fn set_pod(&mut self, key: &ObjectKey, object: Option<&Arc<Resource<kube::Pod>>>) {
        let old = self.inventory.pods.get(key).cloned();
        if same(old.as_ref(), object) {
            return;
        }
        let ips: Vec<IpAddr> = [old.as_ref(), object]
            .into_iter()
            .flatten()
            .flat_map(|pod| pod::ips(&pod.spec))
            .collect();
        let before = self.holders(&ips, &key.cluster);
        if let Some(old) = &old {
            self.index_pod(key, old, false);
        }
        match object {
            Some(object) => {
                self.index_pod(key, object, true);
                self.inventory.pods.insert(key.clone(), object.clone());
            }
            None => drop(self.inventory.pods.remove(key)),
        }
        self.refresh_pod(key);
        self.doubt_moved(&ips, &key.cluster, &before);
        // Entries that select pods look at readiness and addresses themselves.
        for object in [old.as_ref(), object].into_iter().flatten() {
            self.doubt_selecting_entries(&key.namespace, &object.meta.labels);
        }
    }

    fn index_pod(&mut self, key: &ObjectKey, object: &Resource<kube::Pod>, add: bool) {
        let node = ObjectKey {
            cluster: key.cluster.clone(),
            kind: Kind::Node,
            namespace: "".into(),
            name: object.spec.node_name.as_str().into(),
        };
        let inventory = &mut self.inventory;
        match add {
            true => {
                inventory.pods_on.add(node, key);
                inventory.pods_in.add(key.namespace.clone(), key);
            }
            false => {
                inventory.pods_on.drop(&node, key);
                inventory.pods_in.drop(&key.namespace, key);
            }
        }
        // A pod in its node's network shares the address; one that has ended no longer has it.
        if object.spec.host_network || pod::is_over(&object.spec) {
            return;
        }
        let ips: Vec<IpAddr> = pod::ips(&object.spec).collect();
        for ip in ips {
            self.index_address(ip, key, add);
        }
    }

    fn index_address(&mut self, ip: IpAddr, key: &ObjectKey, add: bool) {
        let place = (ip, key.cluster.clone());
        match add {
            true => self.inventory.at.add(place.clone(), key),
            false => self.inventory.at.drop(&place, key),
        }
        // Pods sort before WorkloadEntries.
        let first = self.inventory.at.of(&place).next().cloned();
        match first {
            Some(first) => self.current.workloads.ips.insert(place, first),
            None => drop(self.current.workloads.ips.remove(&place)),
        }
    }

    /// Works out a pod's workload again, after a change of the pod or of what it depends on.
    pub(super) fn refresh_pod(&mut self, key: &ObjectKey) {
        let workload =
            self.inventory.pods.get(key).filter(|pod| !pod::is_over(&pod.spec)).and_then(|pod| {
                let node = ObjectKey {
                    cluster: key.cluster.clone(),
                    kind: Kind::Node,
                    namespace: "".into(),
                    name: pod.spec.node_name.as_str().into(),
                };
                let node = self.inventory.nodes.get(&node);
                pod::of_pod(key, pod, node.map(|node| &**node), &self.context())
            });
        if !self.set_workload(key, workload) {
            return;
        }
        let slices: Vec<ObjectKey> = self.inventory.slices_by_pod.of(key).cloned().collect();
        self.doubt_slices(&slices);
        let pod = self.inventory.pods.get(key).cloned();
        for ip in pod.iter().flat_map(|pod| pod::ips(&pod.spec)) {
            self.doubt_address(ip, &key.cluster);
        }
        if let Some(pod) = pod {
            self.doubt_selecting_entries(&key.namespace, &pod.meta.labels);
        }
    }

    /// Whether it differs from the former one.
    fn set_workload(&mut self, key: &ObjectKey, workload: Option<Arc<Hashed<Workload>>>) -> bool {
        self.work.workloads += 1;
        let table = &mut self.current.workloads.keys;
        let known = table.get(key).map(|workload| workload.digest());
        if known == workload.as_ref().map(|workload| workload.digest()) {
            return false;
        }
        match workload {
            Some(workload) => table.insert(key.clone(), workload),
            None => drop(table.remove(key)),
        }
        self.changes.workloads.insert(key.clone());
        true
    }

    /// After the WorkloadEntry itself has been stored or removed.
    pub(super) fn refresh_entry(
        &mut self,
        key: &ObjectKey,
        old: Option<&Arc<Resource<WorkloadEntry>>>,
    ) {
        let new = self.current.config.workload_entries.get(key).cloned();
        let ip = |object: Option<&Arc<Resource<WorkloadEntry>>>| {
            object?.spec.address.parse::<IpAddr>().ok()
        };
        let ips: Vec<IpAddr> = ip(old).into_iter().chain(ip(new.as_ref())).collect();
        let before = self.holders(&ips, &key.cluster);
        if let Some(ip) = ip(old) {
            self.index_address(ip, key, false);
        }
        if let Some(ip) = ip(new.as_ref()) {
            self.index_address(ip, key, true);
        }
        let workload = new.as_ref().and_then(|object| {
            entry::of_entry(key, &object.spec, &object.meta.labels, &self.context())
        });
        if self.set_workload(key, workload) {
            for ip in &ips {
                self.doubt_address(*ip, &key.cluster);
            }
        }
        self.doubt_moved(&ips, &key.cluster, &before);
        self.changes.entries.insert(key.clone());
        for object in [old, new.as_ref()].into_iter().flatten() {
            let labels = entry::merged(&object.spec, &object.meta.labels);
            self.doubt_selecting_entries(&key.namespace, &labels);
            self.doubt_selecting_services(key, &labels);
        }
    }

    pub(super) fn context(&self) -> Context<'_> {
        Context {
            settings: &self.current.settings,
            mesh: &self.current.mesh,
            cluster_networks: &self.inventory.networks,
        }
    }

    /// Who is at each of the addresses.
    fn holders(&self, ips: &[IpAddr], cluster: &ClusterId) -> Vec<Option<ObjectKey>> {
        let place = |ip: &IpAddr| (*ip, cluster.clone());
        ips.iter().map(|ip| self.current.workloads.ips.get(&place(ip)).cloned()).collect()
    }

    /// Doubts the addresses that have got another holder.
    fn doubt_moved(&mut self, ips: &[IpAddr], cluster: &ClusterId, before: &[Option<ObjectKey>]) {
        let after = self.holders(ips, cluster);
        for (ip, (before, after)) in ips.iter().zip(before.iter().zip(&after)) {
            if before != after {
                self.changes.workloads.extend(before.iter().chain(after).cloned());
                self.doubt_address(*ip, cluster);
            }
        }
    }

    /// Slices that have the address without saying whose it is.
    fn doubt_address(&mut self, ip: IpAddr, cluster: &ClusterId) {
        let slices: Vec<ObjectKey> =
            self.inventory.slices_by_ip.of(&(ip, cluster.clone())).cloned().collect();
        self.doubt_slices(&slices);
    }

    fn doubt_slices(&mut self, slices: &[ObjectKey]) {
        for key in slices {
            let slice = self.inventory.slices.get(key);
            let service = slice.and_then(|slice| slice_service(key, slice));
            let service =
                service.and_then(|key| service::kube::key(&key, &self.current.settings.domain));
            self.doubt.endpoints.extend(service);
        }
    }

    /// Services that have an endpoint without a pod on the node.
    pub(super) fn services_naming_node(&self, node: &ObjectKey) -> Vec<ServiceKey> {
        let slices = self.inventory.slices.iter().filter(|(key, slice)| {
            key.cluster == node.cluster
                && slice.spec.endpoints.iter().any(|endpoint| {
                    *endpoint.node_name == *node.name && endpoint.target_ref.is_none()
                })
        });
        slices
            .filter_map(|(key, slice)| slice_service(key, slice))
            .filter_map(|key| service::kube::key(&key, &self.current.settings.domain))
            .collect()
    }

    /// ServiceEntries of the namespace that select workloads with these labels.
    fn doubt_selecting_entries(&mut self, namespace: &str, labels: &BTreeMap<String, String>) {
        let Ok(namespace) = namespace.parse::<Namespace>() else { return };
        let entries = self.current.config.service_entries.in_namespace_with_keys(&namespace);
        for (key, object) in entries {
            let selector = object.spec.workload_selector.as_ref();
            if selector.is_some_and(|selector| matches(&selector.labels, labels)) {
                self.doubt.endpoints.extend(service::entry::keys(&key, object));
            }
        }
    }

    /// Kubernetes Services of the namespace that select workloads with these labels.
    fn doubt_selecting_services(&mut self, entry: &ObjectKey, labels: &BTreeMap<String, String>) {
        let start = ObjectKey {
            cluster: entry.cluster.clone(),
            kind: Kind::Service,
            namespace: entry.namespace.clone(),
            name: "".into(),
        };
        let services = self.inventory.services.range(start..).take_while(|(key, _)| {
            key.cluster == entry.cluster && key.namespace == entry.namespace
        });
        for (key, service) in services {
            if !service.spec.selector.is_empty() && matches(&service.spec.selector, labels) {
                self.doubt.endpoints.extend(service::kube::key(key, &self.current.settings.domain));
            }
        }
    }
}
