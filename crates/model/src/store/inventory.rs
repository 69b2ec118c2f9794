//! The Kubernetes objects that services and endpoints are made from, and who refers to whom.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ironsail_api::{ClusterId, Kind, ObjectKey, Resource, kube};
use ironsail_names::label;

use super::Store;
use crate::ServiceKey;
use crate::endpoint::slice;
use crate::network;
use crate::service;
use crate::workload::pod::of_node;

/// Objects as they came, and indexes over them.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    pub(super) services: BTreeMap<ObjectKey, Arc<Resource<kube::Service>>>,
    pub(super) slices: BTreeMap<ObjectKey, Arc<Resource<kube::EndpointSlice>>>,
    pub(super) pods: BTreeMap<ObjectKey, Arc<Resource<kube::Pod>>>,
    pub(super) nodes: BTreeMap<ObjectKey, Arc<Resource<kube::Node>>>,
    pub(super) ingresses: BTreeMap<ObjectKey, Arc<Resource<kube::Ingress>>>,
    pub(super) ingress_classes: BTreeMap<ObjectKey, Arc<Resource<kube::IngressClass>>>,
    /// What stands for an Ingress.
    pub(super) stand_ins: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// The network that the root namespace's label names, by cluster.
    pub(super) networks: BTreeMap<ClusterId, Arc<str>>,
    /// Slices of a Service; that are of a pod; that have an address without saying whose.
    pub(super) slices_of: Index<ObjectKey>,
    pub(super) slices_by_pod: Index<ObjectKey>,
    pub(super) slices_by_ip: Index<(IpAddr, ClusterId)>,
    /// Pods on a node; in a namespace; at an address of their own.
    pub(super) pods_on: Index<ObjectKey>,
    pub(super) pods_in: Index<Arc<str>>,
    /// Pods and WorkloadEntries.
    pub(super) at: Index<(IpAddr, ClusterId)>,
}

/// Which objects belong to something.
#[derive(Debug)]
pub(super) struct Index<K>(BTreeMap<K, BTreeSet<ObjectKey>>);

impl<K: Ord> Index<K> {
    pub(super) fn of(&self, key: &K) -> impl Iterator<Item = &ObjectKey> {
        self.0.get(key).into_iter().flatten()
    }

    pub(super) fn add(&mut self, key: K, object: &ObjectKey) {
        self.0.entry(key).or_default().insert(object.clone());
    }

    pub(super) fn drop(&mut self, key: &K, object: &ObjectKey) {
        if let Some(objects) = self.0.get_mut(key) {
            objects.remove(object);
            if objects.is_empty() {
                self.0.remove(key);
            }
        }
    }
}

impl<K> Default for Index<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl Store {
    pub(super) fn set_service(
        &mut self,
        key: &ObjectKey,
        object: Option<Arc<Resource<kube::Service>>>,
    ) {
        let old = self.inventory.services.get(key);
        if same(old, object.as_ref()) {
            return;
        }
        match object {
            Some(object) => drop(self.inventory.services.insert(key.clone(), object)),
            None => drop(self.inventory.services.remove(key)),
        }
        let declares = self.inventory.services.contains_key(key);
        if let Some(service) = service::kube::key(key, &self.current.settings.domain) {
            self.declare(&service, key, declares);
        }
        self.ports_changed(key);
    }

    /// Takes down that an object declares a service, or no longer does.
    pub(super) fn declare(&mut self, service: &ServiceKey, object: &ObjectKey, declares: bool) {
        let objects = self.declared.entry(service.clone()).or_default();
        match declares {
            true => drop(objects.insert(object.clone())),
            false => drop(objects.remove(object)),
        }
        if objects.is_empty() {
            self.declared.remove(service);
        }
        self.doubt.services.insert(service.clone());
        self.doubt.endpoints.insert(service.clone());
    }

    pub(super) fn set_slice(
        &mut self,
        key: &ObjectKey,
        object: Option<Arc<Resource<kube::EndpointSlice>>>,
    ) {
        let old = self.inventory.slices.get(key).cloned();
        if same(old.as_ref(), object.as_ref()) {
            return;
        }
        for (slice, add) in [(&old, false), (&object, true)] {
            let Some(slice) = slice else { continue };
            self.index_slice(key, slice, add);
            let service = slice_service(key, slice);
            let service =
                service.and_then(|s| service::kube::key(&s, &self.current.settings.domain));
            self.doubt.endpoints.extend(service);
        }
        match object {
            Some(object) => drop(self.inventory.slices.insert(key.clone(), object)),
            None => drop(self.inventory.slices.remove(key)),
        }
    }

    fn index_slice(&mut self, key: &ObjectKey, slice: &Resource<kube::EndpointSlice>, add: bool) {
        let inventory = &mut self.inventory;
        let (pods, ips) = slice::references(key, slice);
        for pod in pods {
            match add {
                true => inventory.slices_by_pod.add(pod, key),
                false => inventory.slices_by_pod.drop(&pod, key),
            }
        }
        for ip in ips {
            let place = (ip, key.cluster.clone());
            match add {
                true => inventory.slices_by_ip.add(place, key),
                false => inventory.slices_by_ip.drop(&place, key),
            }
        }
        if let Some(service) = slice_service(key, slice) {
            match add {
                true => inventory.slices_of.add(service, key),
                false => inventory.slices_of.drop(&service, key),
            }
        }
    }

    pub(super) fn set_node(&mut self, key: &ObjectKey, object: Option<Arc<Resource<kube::Node>>>) {
        let old = self.inventory.nodes.get(key);
        if same(old, object.as_ref()) {
            return;
        }
        let place = |node: Option<&Arc<Resource<kube::Node>>>| {
            node.map(|node| of_node(node)).unwrap_or_default()
        };
        let moved = place(old) != place(object.as_ref());
        // Gateways between networks may be reached through it.
        let through_nodes = |key| {
            let service = self.current.services.get(key);
            service.is_some_and(|service| network::node_selector(service).is_some())
        };
        self.doubt.entrances |= self.entrances.iter().any(through_nodes);
        match object {
            Some(object) => drop(self.inventory.nodes.insert(key.clone(), object)),
            None => drop(self.inventory.nodes.remove(key)),
        }
        if !moved {
            return;
        }
        let pods: Vec<ObjectKey> = self.inventory.pods_on.of(key).cloned().collect();
        for pod in pods {
            self.refresh_pod(&pod);
        }
        // Endpoints without a pod that name the node themselves are few; their slices say so.
        let on_node: Vec<ServiceKey> = self.services_naming_node(key);
        self.doubt.endpoints.extend(on_node);
    }

    pub(super) fn set_namespace(
        &mut self,
        key: &ObjectKey,
        object: Option<Arc<Resource<kube::Namespace>>>,
    ) {
        let old = self.current.namespaces.get(key);
        if same(old, object.as_ref()) {
            return;
        }
        let network = object
            .as_ref()
            .and_then(|object| object.meta.label(label::NETWORK))
            .filter(|network| !network.is_empty())
            .map(Arc::<str>::from);
        match object {
            Some(object) => self.current.namespaces.insert(key.clone(), object),
            None => drop(self.current.namespaces.remove(key)),
        }
        self.changes.objects.insert(key.clone());
        if *key.name != *self.current.settings.root_namespace.as_str() {
            return;
        }
        let before = match &network {
            Some(network) => self.inventory.networks.insert(key.cluster.clone(), network.clone()),
            None => self.inventory.networks.remove(&key.cluster),
        };
        if before != network {
            self.changes.full = true;
            self.doubt_everything();
        }
    }
}

/// The Service that a slice is of.
pub(super) fn slice_service(
    key: &ObjectKey,
    slice: &Resource<kube::EndpointSlice>,
) -> Option<ObjectKey> {
    let name = slice.meta.label(label::SERVICE_NAME)?;
    Some(ObjectKey {
        cluster: key.cluster.clone(),
        kind: Kind::Service,
        namespace: key.namespace.clone(),
        name: name.into(),
    })
}

/// Whether nothing that matters differs.
pub(super) fn same<S>(old: Option<&Arc<Resource<S>>>, new: Option<&Arc<Resource<S>>>) -> bool {
    match (old, new) {
        (None, None) => true,
        (Some(old), Some(new)) => {
            old.digest == new.digest
                && old.meta.created == new.meta.created
                && old.meta.deleted == new.meta.deleted
        }
        _ => false,
    }
}
