//! The store: events in, snapshots and change sets out. One task owns it.
//!
//! `apply` takes note of what an event makes doubtful, `take` works exactly that out again. So the
//! work follows the size of the change, and a storm of events is paid for once.

mod config;
mod derive;
mod ingress;
mod inventory;
mod note;
mod pod;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ironsail_api::istio::security::JwtRule;
use ironsail_api::mesh::{MeshConfig, MeshNetworks};
use ironsail_api::{ClusterId, Event, Kind, Object, ObjectKey};
use ironsail_names::Hostname;

use crate::allocate::Allocator;
use crate::change::{ChangeSet, Update};
use crate::config::Config;
use crate::hashed::Hashed;
use crate::keys::{Fetched, KeySource};
use crate::mesh::Mesh;
use crate::service::ServiceTable;
use crate::settings::Settings;
use crate::snapshot::{Snapshot, WorkloadTable};
use crate::table::Map;
use crate::{ServiceKey, endpoint};
use inventory::Inventory;

/// Everything there is, and what has changed since it was last asked.
#[derive(Debug)]
pub struct Store {
    inventory: Inventory,
    /// What the next snapshot will be, except for what is in doubt.
    current: Snapshot,
    doubt: Doubt,
    changes: ChangeSet,
    allocator: Allocator,
    /// The objects that declare each service.
    declared: BTreeMap<ServiceKey, BTreeSet<ObjectKey>>,
    route_hosts: note::RouteHosts,
    /// Services that are gateways between networks.
    entrances: BTreeSet<ServiceKey>,
    synced: BTreeSet<(ClusterId, Kind)>,
    started: bool,
    /// How much was worked out again, for tests and metrics.
    work: Work,
}

/// What has to be worked out again.
#[derive(Debug, Default)]
struct Doubt {
    services: BTreeSet<ServiceKey>,
    endpoints: BTreeSet<ServiceKey>,
    hostnames: BTreeSet<Hostname>,
    entrances: bool,
}

/// How many things were worked out since the store began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    pub services: u64,
    pub endpoints: u64,
    pub workloads: u64,
}

impl Store {
    pub fn new(settings: Settings) -> Self {
        let mesh = Arc::new(Mesh::new(MeshConfig::default(), MeshNetworks::default()));
        let current = Snapshot {
            number: 0,
            settings: Arc::new(settings),
            mesh,
            services: ServiceTable::default(),
            endpoints: endpoint::EndpointTable::new(),
            hosts: Map::new(),
            workloads: WorkloadTable::default(),
            config: Config::default(),
            namespaces: Map::new(),
            secrets: Map::new(),
            config_maps: Map::new(),
            gateways: Arc::default(),
            keys: Map::new(),
            notes: Map::new(),
            endpoint_count: 0,
            node_bound: 0,
        };
        Self {
            inventory: Inventory::default(),
            current,
            doubt: Doubt::default(),
            changes: ChangeSet { full: true, ..ChangeSet::default() },
            allocator: Allocator::new(),
            declared: BTreeMap::new(),
            route_hosts: BTreeMap::new(),
            entrances: BTreeSet::new(),
            synced: BTreeSet::new(),
            started: false,
            work: Work::default(),
        }
    }

    /// Sets the mesh-wide settings; if they differ, everything is worked out again.
    pub fn set_mesh(&mut self, config: MeshConfig, networks: MeshNetworks) {
        let mesh: Hashed<Mesh> = Mesh::new(config, networks);
        if mesh.digest() == self.current.mesh.digest() {
            return;
        }
        self.current.mesh = Arc::new(mesh);
        self.changes.full = true;
        self.doubt_everything();
    }

    pub fn apply(&mut self, event: Event) {
        match event {
            Event::Apply { cluster, object } => {
                let key = object.key(&cluster);
                self.put(&key, object);
            }
            Event::Delete(key) => self.remove(&key),
            Event::Synced { cluster, kind } => {
                self.synced.insert((cluster, kind));
            }
        }
    }

    /// Keeps the keys of a token issuer, or forgets them.
    pub fn set_keys(&mut self, source: &KeySource, fetched: Option<Fetched>) {
        if self.current.keys.get(source) == fetched.as_ref() {
            return;
        }
        match fetched {
            Some(fetched) => self.current.keys.insert(source.clone(), fetched),
            None => drop(self.current.keys.remove(source)),
        }
        let uses = |rule: &JwtRule| KeySource::of(rule).as_ref() == Some(source);
        for (key, policy) in self.current.config.request_authentications.entries() {
            if policy.spec.jwt_rules.iter().any(uses) {
                self.changes.objects.insert(key.clone());
            }
        }
    }

    /// Whether all of these kinds have been reported by the cluster.
    pub fn is_synced(&self, cluster: &ClusterId, kinds: &[Kind]) -> bool {
        kinds.iter().all(|kind| self.synced.contains(&(cluster.clone(), *kind)))
    }

    /// The new state, if it differs from the one last taken. The first is always given.
    pub fn take(&mut self) -> Option<Update> {
        self.derive();
        if self.started && self.changes.is_empty() {
            return None;
        }
        self.started = true;
        self.current.number += 1;
        let changes = std::mem::take(&mut self.changes);
        Some(Update { snapshot: Arc::new(self.current.clone()), changes })
    }

    pub fn work(&self) -> Work {
        self.work
    }

    fn put(&mut self, key: &ObjectKey, object: Object) {
        match object {
            Object::Service(object) => self.set_service(key, Some(object)),
            Object::EndpointSlice(object) => self.set_slice(key, Some(object)),
            Object::Pod(object) => self.set_pod(key, Some(&object)),
            Object::Node(object) => self.set_node(key, Some(object)),
            Object::Namespace(object) => self.set_namespace(key, Some(object)),
            Object::Ingress(object) => self.set_ingress(key, Some(object)),
            Object::IngressClass(object) => self.set_ingress_class(key, Some(object)),
            Object::Secret(object) => {
                let known = self.current.secrets.get(key).map(|old| old.digest);
                if known != Some(object.digest) {
                    self.current.secrets.insert(key.clone(), object);
                    self.changes.objects.insert(key.clone());
                }
            }
            Object::ConfigMap(object) => {
                let known = self.current.config_maps.get(key).map(|old| old.digest);
                if known != Some(object.digest) {
                    self.current.config_maps.insert(key.clone(), object);
                    self.changes.objects.insert(key.clone());
                }
            }
            // Identities follow from the accounts' names, which pods have.
            Object::ServiceAccount(_) => {}
            object => self.put_config(key, object),
        }
    }

    fn remove(&mut self, key: &ObjectKey) {
        match key.kind {
            Kind::Service => self.set_service(key, None),
            Kind::EndpointSlice => self.set_slice(key, None),
            Kind::Pod => self.set_pod(key, None),
            Kind::Node => self.set_node(key, None),
            Kind::Namespace => self.set_namespace(key, None),
            Kind::Ingress => self.set_ingress(key, None),
            Kind::IngressClass => self.set_ingress_class(key, None),
            Kind::Secret => {
                if self.current.secrets.remove(key) {
                    self.changes.objects.insert(key.clone());
                }
            }
            Kind::ConfigMap => {
                if self.current.config_maps.remove(key) {
                    self.changes.objects.insert(key.clone());
                }
            }
            Kind::ServiceAccount => {}
            _ => self.remove_config(key),
        }
    }
}

#[cfg(test)]
mod tests;
