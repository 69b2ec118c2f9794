//! All services: by key, by namespace, by address, by alias.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use ironsail_names::{Hostname, Namespace};

use super::Service;
use crate::ServiceKey;
use crate::table::Map;

/// Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ServiceTable {
    keys: Map<ServiceKey, Arc<Service>>,
    namespaces: Map<Namespace, Map<Hostname, Arc<Service>>>,
    addresses: Map<IpAddr, Arc<BTreeSet<ServiceKey>>>,
    /// Names that stand for the host.
    aliases: Map<Hostname, Arc<BTreeSet<ServiceKey>>>,
}

impl ServiceTable {
    pub fn get(&self, key: &ServiceKey) -> Option<&Arc<Service>> {
        self.keys.get(key)
    }

    /// By hostname (most specific first) and namespace.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Service>> {
        self.keys.values()
    }

    pub fn keys(&self) -> impl Iterator<Item = &ServiceKey> {
        self.keys.keys()
    }

    /// The same hostname in all namespaces that declare it.
    pub fn with_hostname<'a>(
        &'a self,
        hostname: &'a Hostname,
    ) -> impl Iterator<Item = &'a Arc<Service>> {
        // No namespace sorts before "0".
        let least = "0".parse().expect("a plain label");
        let start = ServiceKey::new(hostname.clone(), least);
        self.keys
            .range(start..)
            .take_while(move |(key, _)| key.hostname == *hostname)
            .map(|(_, service)| service)
    }

    pub fn in_namespace(&self, namespace: &Namespace) -> impl Iterator<Item = &Arc<Service>> {
        self.namespaces.get(namespace).into_iter().flat_map(Map::values)
    }

    /// Services with this virtual address, given or allocated, in any cluster.
    pub fn with_address(&self, ip: IpAddr) -> impl Iterator<Item = &Arc<Service>> {
        let keys = self.addresses.get(&ip).into_iter().flat_map(|keys| keys.iter());
        keys.filter_map(|key| self.keys.get(key))
    }

    /// ExternalName Services that stand for `host`, directly or through each other.
    pub fn aliases_of(&self, host: &Hostname) -> BTreeSet<ServiceKey> {
        let mut found = BTreeSet::new();
        let mut open = vec![host.clone()];
        while let Some(host) = open.pop() {
            for key in self.aliases.get(&host).into_iter().flat_map(|keys| keys.iter()) {
                if found.insert(key.clone()) {
                    open.push(key.hostname.clone());
                }
            }
        }
        found.retain(|key| key.hostname != *host);
        found
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Puts it in, or takes it out; the former one comes back.
    pub(crate) fn set(
        &mut self,
        key: &ServiceKey,
        service: Option<Arc<Service>>,
    ) -> Option<Arc<Service>> {
        let old = self.keys.get(key).cloned();
        if let Some(old) = &old {
            self.index(old, |keys, key| {
                keys.remove(key);
            });
        }
        let change = |services: &mut Map<Hostname, Arc<Service>>| match &service {
            Some(service) => services.insert(key.hostname.clone(), service.clone()),
            None => drop(services.remove(&key.hostname)),
        };
        self.namespaces.update(&key.namespace, change, Map::is_empty);
        match service {
            Some(service) => {
                self.index(&service, |keys, key| {
                    keys.insert(key.clone());
                });
                self.keys.insert(key.clone(), service);
            }
            None => drop(self.keys.remove(key)),
        }
        old
    }

    fn index(
        &mut self,
        service: &Service,
        change: impl Fn(&mut BTreeSet<ServiceKey>, &ServiceKey),
    ) {
        let change =
            |keys: &mut Arc<BTreeSet<ServiceKey>>| change(Arc::make_mut(keys), &service.key);
        let clusters = service.cluster_addresses.values().flatten();
        let all = service.addresses.iter().chain(&service.auto_addresses).chain(clusters);
        for ip in all.collect::<BTreeSet<_>>() {
            self.addresses.update(ip, change, |keys| keys.is_empty());
        }
        if let Some(target) = &service.alias {
            self.aliases.update(target, change, |keys| keys.is_empty());
        }
    }
}
