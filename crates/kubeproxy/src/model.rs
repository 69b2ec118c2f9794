//! The Services and their endpoints as last seen.
//!
//! In: objects as they are watched; out: what tables, names and forwards are made from. Holds only
//! the fields that matter here. Pure.

mod read;

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::time::Duration;

use ironsail_podnet::Protocol;
use k8s_openapi::api::core::v1::Service as KubeService;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;

use crate::report::Unsupported;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// With addresses of its own.
    Addressed,
    Headless,
    External(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServicePort {
    pub(crate) name: String,
    /// None is a protocol that is not forwarded (SCTP).
    pub(crate) protocol: Option<Protocol>,
    pub(crate) port: u16,
    pub(crate) node_port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Service {
    pub(crate) uid: String,
    pub(crate) kind: Kind,
    pub(crate) cluster_ips: Vec<IpAddr>,
    pub(crate) external_ips: Vec<IpAddr>,
    pub(crate) ports: Vec<ServicePort>,
    pub(crate) affinity: Option<Duration>,
    pub(crate) internal_local: bool,
    pub(crate) external_local: bool,
    pub(crate) publish_not_ready: bool,
    /// Whether it wants a load balancer from us.
    pub(crate) balanced: bool,
    /// The load balancer's addresses in its status.
    pub(crate) ingress: Vec<IpAddr>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlicePort {
    pub(crate) name: String,
    pub(crate) protocol: Option<Protocol>,
    pub(crate) port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) address: IpAddr,
    pub(crate) hostname: Option<String>,
    pub(crate) node: Option<String>,
    pub(crate) ready: bool,
    pub(crate) serving: bool,
    pub(crate) terminating: bool,
}

impl Endpoint {
    /// The label under its Service's name by which it is found.
    pub(crate) fn label(&self) -> String {
        match &self.hostname {
            Some(hostname) => hostname.to_ascii_lowercase(),
            None => self.address.to_string().replace(['.', ':'], "-"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    pub(crate) service: Key,
    pub(crate) ports: Vec<SlicePort>,
    pub(crate) endpoints: Vec<Endpoint>,
}

#[derive(Debug, Default)]
pub(crate) struct Model {
    services: BTreeMap<Key, Service>,
    /// By the Service they belong to, then by their own name.
    slices: HashMap<Key, BTreeMap<String, Slice>>,
    /// Which Service a slice belongs to, by the slice's own key.
    owners: HashMap<Key, Key>,
}

impl Model {
    /// Takes a Service as it is now. Says whether anything that matters changed.
    pub(crate) fn apply_service(&mut self, object: &KubeService) -> bool {
        let Some(key) = key(object) else { return false };
        let service = read::service(object);
        if self.services.get(&key) == Some(&service) {
            return false;
        }
        self.services.insert(key, service);
        true
    }

    pub(crate) fn remove_service(&mut self, key: &Key) -> bool {
        self.services.remove(key).is_some()
    }

    pub(crate) fn apply_slice(&mut self, object: &EndpointSlice) -> bool {
        let Some(key) = key(object) else { return false };
        let Some(slice) = read::slice(object) else { return self.remove_slice(&key) };
        let known = self.slices.get(&slice.service).and_then(|s| s.get(&key.name));
        if known == Some(&slice) {
            return false;
        }
        self.remove_slice(&key);
        self.owners.insert(key.clone(), slice.service.clone());
        self.slices.entry(slice.service.clone()).or_default().insert(key.name, slice);
        true
    }

    pub(crate) fn remove_slice(&mut self, key: &Key) -> bool {
        let Some(owner) = self.owners.remove(key) else { return false };
        if let Some(slices) = self.slices.get_mut(&owner) {
            slices.remove(&key.name);
            if slices.is_empty() {
                self.slices.remove(&owner);
            }
        }
        true
    }

    pub(crate) fn services(&self) -> impl Iterator<Item = (&Key, &Service)> {
        self.services.iter()
    }

    pub(crate) fn service(&self, key: &Key) -> Option<&Service> {
        self.services.get(key)
    }

    pub(crate) fn has_namespace(&self, namespace: &str) -> bool {
        let first = Key { namespace: namespace.to_owned(), name: String::new() };
        self.services.range(first..).next().is_some_and(|(key, _)| key.namespace == namespace)
    }

    pub(crate) fn slices(&self, service: &Key) -> impl Iterator<Item = &Slice> {
        self.slices.get(service).into_iter().flat_map(BTreeMap::values)
    }

    /// The ports that nobody will serve.
    pub(crate) fn unsupported_ports(&self) -> Vec<Unsupported> {
        let addressed = self.services.iter().filter(|(_, s)| s.kind == Kind::Addressed);
        let unsupported = addressed.flat_map(|(key, service)| {
            service.ports.iter().filter(|p| p.protocol.is_none()).map(|p| Unsupported {
                service: key.clone(),
                uid: service.uid.clone(),
                port: p.port,
            })
        });
        unsupported.collect()
    }

    /// The slices known, by their own keys.
    pub(crate) fn slice_keys(&self) -> impl Iterator<Item = &Key> {
        self.owners.keys()
    }
}

pub(crate) fn key(object: &impl ResourceExt) -> Option<Key> {
    Some(Key { namespace: object.namespace()?, name: object.name_any() })
}
