//! Works out again what is in doubt: services from their declarations, endpoints from slices, pods
//! and entries.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ironsail_api::{Diagnostic, Kind, ObjectKey, Resource, kube};

use super::Store;
use crate::ServiceKey;
use crate::endpoint::slice::Found;
use crate::endpoint::{Health, ServiceEndpoints, entry as entry_endpoint, slice};
use crate::hashed::Hashed;
use crate::network;
use crate::select::matches;
use crate::service::{self, Registry, Service};
use crate::snapshot::NoteKey;
use crate::workload::{Workload, entry, pod};

impl Store {
    pub(super) fn doubt_everything(&mut self) {
        self.all_ingresses();
        self.reindex();
        let pods: Vec<ObjectKey> = self.inventory.pods.keys().cloned().collect();
        for key in pods {
            self.refresh_pod(&key);
        }
        let entries: Vec<_> = self
            .current
            .config
            .workload_entries
            .entries()
            .map(|(key, object)| (key.clone(), object.clone()))
            .collect();
        for (key, object) in entries {
            self.refresh_entry(&key, Some(&object));
        }
        let keys: Vec<ServiceKey> = self.declared.keys().cloned().collect();
        self.doubt.services.extend(keys.iter().cloned());
        self.doubt.endpoints.extend(keys);
        self.doubt.entrances = true;
    }

    pub(super) fn derive(&mut self) {
        self.derive_services();
        for key in std::mem::take(&mut self.doubt.endpoints) {
            self.derive_endpoints(&key);
        }
        for hostname in std::mem::take(&mut self.doubt.hostnames) {
            self.note_hostname(&hostname);
        }
        if std::mem::take(&mut self.doubt.entrances) {
            self.derive_gateways();
        }
    }

    /// First the services without the addresses that we give, then the addresses, as one service's
    /// address may move another's.
    fn derive_services(&mut self) {
        let mut drafts: BTreeMap<ServiceKey, Option<Service>> = BTreeMap::new();
        let mut moved = BTreeSet::new();
        for key in std::mem::take(&mut self.doubt.services) {
            self.work.services += 1;
            let (draft, notes) = self.draft(&key);
            self.set_note(NoteKey::Service(key.clone()), notes);
            let wants = self.current.settings.allocate_addresses;
            match draft.as_ref().filter(|draft| wants && service::entry::wants_address(draft)) {
                Some(draft) => {
                    let before = draft.auto_addresses.clone();
                    self.allocator.claim(&key, draft.created, before, &mut moved);
                }
                None if self.allocator.contains(&key) => self.allocator.release(&key, &mut moved),
                None => {}
            }
            drafts.insert(key, draft);
        }
        for key in moved {
            let known = || self.current.services.get(&key).map(|service| Service::clone(service));
            drafts.entry(key.clone()).or_insert_with(known);
        }
        for (key, draft) in drafts {
            let service = draft.map(|mut draft| {
                draft.auto_addresses = self.allocator.addresses(&key);
                Arc::new(draft.sealed())
            });
            self.set(&key, service);
        }
    }

    /// The service as its objects declare it.
    fn draft(&self, key: &ServiceKey) -> (Option<Service>, Vec<Diagnostic>) {
        let (mut drafts, mut notes) = (Vec::new(), Vec::new());
        let mesh = &self.current.mesh;
        for object_key in self.declared.get(key).into_iter().flatten() {
            let converted = match object_key.kind {
                Kind::Service => {
                    let object = self.inventory.services.get(object_key);
                    object.map(|object| service::kube::convert(object_key, key, object, mesh))
                }
                _ => {
                    let object = self.current.config.service_entries.get(object_key);
                    object.map(|object| service::entry::convert(object_key, key, object, mesh))
                }
            };
            if let Some((draft, more)) = converted {
                drafts.push(draft);
                notes.extend(more);
            }
        }
        let (service, more) = service::merge::merge(drafts, &self.current.settings.cluster);
        notes.extend(more);
        (service, notes)
    }

    fn set(&mut self, key: &ServiceKey, service: Option<Arc<Service>>) {
        let known = self.current.services.get(key).map(|service| service.digest);
        if known == service.as_ref().map(|service| service.digest) {
            return;
        }
        let is_entrance =
            service.as_ref().is_some_and(|s| network::is_gateway(s, &self.current.mesh));
        let was_entrance = match is_entrance {
            true => !self.entrances.insert(key.clone()),
            false => self.entrances.remove(key),
        };
        self.doubt.entrances |= is_entrance || was_entrance;
        let bound = |service: Option<&Arc<Service>>| {
            usize::from(service.is_some_and(|service| service.is_bound_to_nodes()))
        };
        self.current.node_bound -= bound(self.current.services.get(key));
        self.current.node_bound += bound(service.as_ref());
        self.current.services.set(key, service);
        self.changes.services.insert(key.clone());
        self.doubt.hostnames.insert(key.hostname.clone());
        self.doubt.endpoints.insert(key.clone());
    }

    fn derive_endpoints(&mut self, key: &ServiceKey) {
        self.work.endpoints += 1;
        let service = self.current.services.get(key).cloned();
        let new = service
            .as_ref()
            .map(|service| self.endpoints(service))
            .filter(|new| !new.ports.is_empty());
        let old = self.current.endpoints.get(key).cloned();
        if old.as_ref().map(|old| old.digest) != new.as_ref().map(|new| new.digest) {
            let identities = |all: Option<&ServiceEndpoints>| {
                all.map(|all| all.identities.clone()).unwrap_or_default()
            };
            if identities(old.as_deref()) != identities(new.as_ref()) {
                self.changes.identities.insert(key.clone());
            }
            self.changes.endpoints.insert(key.clone());
            self.current.endpoint_count -= old.as_ref().map_or(0, |old| old.len());
            self.current.endpoint_count += new.as_ref().map_or(0, ServiceEndpoints::len);
        }
        self.index_hosts(key, service.as_deref(), old.as_deref(), new.as_ref());
        match new {
            Some(new) => self.current.endpoints.insert(key.clone(), Arc::new(new)),
            None => drop(self.current.endpoints.remove(key)),
        }
    }

    /// Keeps, for services that are not known by a selector, who is at which address.
    fn index_hosts(
        &mut self,
        key: &ServiceKey,
        service: Option<&Service>,
        old: Option<&ServiceEndpoints>,
        new: Option<&ServiceEndpoints>,
    ) {
        let by_address = service.is_some_and(|service| {
            service.registry == Registry::ServiceEntry || service.selector.is_none()
        });
        let ips = |all: Option<&ServiceEndpoints>| -> BTreeSet<IpAddr> {
            all.into_iter().flat_map(ServiceEndpoints::iter).filter_map(|(_, e)| e.ip()).collect()
        };
        let now = if by_address { ips(new) } else { BTreeSet::new() };
        for ip in ips(old).difference(&now) {
            let remove = |keys: &mut Arc<BTreeSet<ServiceKey>>| {
                Arc::make_mut(keys).remove(key);
            };
            self.current.hosts.update(ip, remove, |keys| keys.is_empty());
        }
        for ip in now {
            let add = |keys: &mut Arc<BTreeSet<ServiceKey>>| {
                Arc::make_mut(keys).insert(key.clone());
            };
            self.current.hosts.update(&ip, add, |keys| keys.is_empty());
        }
    }

    fn endpoints(&self, service: &Service) -> ServiceEndpoints {
        let mut found = Found::new();
        for source in &service.sources {
            match source.kind {
                Kind::Service => self.add_kube(source, &mut found),
                _ => self.add_entry(source, &service.key, &mut found),
            }
        }
        found.retain(|name, _| service.port_named(name).is_some());
        if service.publish_not_ready {
            for endpoint in found.values_mut().flatten().filter(|e| e.health == Health::Unhealthy) {
                endpoint.health = Health::Healthy;
            }
        }
        ServiceEndpoints::new(found)
    }

    fn add_kube(&self, key: &ObjectKey, found: &mut Found) {
        let Some(object) = self.inventory.services.get(key) else { return };
        for slice_key in self.inventory.slices_of.of(key) {
            let Some(slice) = self.inventory.slices.get(slice_key) else { continue };
            let workload =
                |endpoint: &kube::SliceEndpoint, ip| self.workload_at(slice_key, endpoint, ip);
            slice::add_slice(&slice.spec, workload, found);
        }
        if object.spec.selector.is_empty() {
            return;
        }
        let Some(service_key) = service::kube::key(key, &self.current.settings.domain) else {
            return;
        };
        let Some(service) = self.current.services.get(&service_key) else { return };
        let entries =
            self.current.config.workload_entries.in_namespace_with_keys(&service_key.namespace);
        for (entry_key, object_entry) in entries {
            let Some(workload) = self.current.workloads.get(&entry_key) else { continue };
            if entry_key.cluster == key.cluster && matches(&object.spec.selector, &workload.labels)
            {
                let selected = (&object_entry.spec, entry::health(object_entry));
                slice::add_selected(&service.ports, selected, workload, found);
            }
        }
    }

    /// The pod that the endpoint names, or that has the address; where none has, something that is
    /// known by its address only.
    fn workload_at(
        &self,
        slice: &ObjectKey,
        endpoint: &kube::SliceEndpoint,
        ip: IpAddr,
    ) -> Option<Arc<Hashed<Workload>>> {
        if let Some(pod) = slice::pod_of(slice, endpoint) {
            return self.current.workloads.get(&pod).cloned();
        }
        if let Some(workload) = self.current.workloads.at(&slice.cluster, ip) {
            return Some(workload.clone());
        }
        let node = ObjectKey {
            cluster: slice.cluster.clone(),
            kind: Kind::Node,
            namespace: "".into(),
            name: endpoint.node_name.as_str().into(),
        };
        let node: Option<&Resource<kube::Node>> =
            self.inventory.nodes.get(&node).map(|node| &**node);
        Some(Arc::new(Hashed::new(Workload {
            source: slice.clone(),
            name: "".into(),
            owner_kind: "".into(),
            namespace: slice.namespace.parse().ok()?,
            cluster: slice.cluster.clone(),
            labels: Arc::default(),
            locality: node.map(pod::of_node).unwrap_or_default(),
            network: self.context().network(&slice.cluster, None, Some(ip)),
            identity: None,
            tls: crate::workload::TlsMode::Disabled,
            canonical_name: "".into(),
            canonical_revision: "".into(),
            node: endpoint.node_name.as_str().into(),
            ports: Vec::new(),
            hbone: false,
            bare: false,
        })))
    }

    fn add_entry(&self, key: &ObjectKey, service: &ServiceKey, found: &mut Found) {
        use ironsail_api::istio::networking::Resolution;

        let Some(object) = self.current.config.service_entries.get(key) else { return };
        let spec = &object.spec;
        for endpoint in &spec.endpoints {
            let none = BTreeMap::new();
            if let Some(workload) = entry::of_entry(key, endpoint, &none, &self.context()) {
                let listed = (endpoint, Health::Healthy);
                entry_endpoint::add_workload(&spec.ports, listed, &workload, found);
            }
        }
        if let Some(selector) = &spec.workload_selector {
            self.add_selected(&service.namespace, &selector.labels, &spec.ports, found);
        } else if spec.endpoints.is_empty()
            && matches!(spec.resolution, Resolution::Dns | Resolution::DnsRoundRobin)
        {
            let none = (Default::default(), BTreeMap::new());
            if let Some(workload) = entry::of_entry(key, &none.0, &none.1, &self.context()) {
                entry_endpoint::add_host(&spec.ports, service, &workload, found);
            }
        }
    }

    /// Entries and pods that a ServiceEntry selects.
    fn add_selected(
        &self,
        namespace: &ironsail_names::Namespace,
        selector: &BTreeMap<String, String>,
        ports: &[ironsail_api::istio::networking::ServicePort],
        found: &mut Found,
    ) {
        for (key, object) in self.current.config.workload_entries.in_namespace_with_keys(namespace)
        {
            let Some(workload) = self.current.workloads.get(&key) else { continue };
            if matches(selector, &workload.labels) {
                let selected = (&object.spec, entry::health(object));
                entry_endpoint::add_workload(ports, selected, workload, found);
            }
        }
        for key in self.inventory.pods_in.of(&namespace.as_str().into()) {
            let Some(object) = self.inventory.pods.get(key) else { continue };
            let Some(workload) = self.current.workloads.get(key) else { continue };
            if matches(selector, &object.meta.labels)
                && pod::is_serving(object)
                && let Some(ip) = pod::ips(&object.spec).next()
            {
                entry_endpoint::add_pod(ports, ip, workload, found);
            }
        }
    }

    fn derive_gateways(&mut self) {
        // The mesh config may have come to name other services.
        if self.changes.full {
            let all =
                self.current.services.iter().filter(|s| network::is_gateway(s, &self.current.mesh));
            self.entrances = all.map(|service| service.key.clone()).collect();
        }
        let services = self.entrances.iter().filter_map(|key| self.current.services.get(key));
        let nodes = self.inventory.nodes.iter().map(|(key, node)| (&key.cluster, &**node));
        let nodes: Vec<_> = nodes.collect();
        let gateways = network::gateways(&self.current.mesh, services, &nodes);
        if *self.current.gateways != gateways {
            self.current.gateways = Arc::new(gateways);
            self.changes.full = true;
        }
    }
}
