//! What a proxy may see of the mesh, by a Sidecar resource or by default.
//!
//! [`Visible`] depends on the namespace and the Sidecar only, and is shared by all proxies they are
//! the same for; [`Scope`] adds what the proxy itself serves.

mod egress;
mod host;

use std::collections::BTreeMap;
use std::sync::Arc;

use ironsail_api::istio::networking as net;
use ironsail_api::{ObjectKey, Resource};
use ironsail_names::{Hostname, Namespace};

pub use egress::{Egress, EgressPort};
pub use host::HostPattern;

use crate::config::{Client, GatewayRef, MergedRule, Selected, Target};
use crate::proxy::{ProxyClass, ProxyKind};
use crate::service::{Registry, Resolution, Service};
use crate::snapshot::Snapshot;

/// What one proxy may see, and what it serves.
#[derive(Clone, Debug)]
pub struct Scope {
    pub visible: Arc<Visible>,
    /// The ports that the proxy serves itself, in order of service and port.
    pub instances: Vec<OwnPort>,
}

/// What proxies of one namespace and Sidecar may see.
#[derive(Clone, Debug)]
pub struct Visible {
    pub namespace: Namespace,
    pub sidecar: Option<Arc<Resource<net::Sidecar>>>,
    /// One for each hostname, in the order of hostnames.
    pub services: Vec<Arc<Service>>,
    /// VirtualServices of the mesh gateway, oldest first.
    pub virtual_services: Vec<Arc<Resource<net::VirtualService>>>,
    /// One for each egress listener of the Sidecar; a single one for all ports without a Sidecar.
    pub egress: Vec<Egress>,
    /// Of everything above.
    pub digest: u64,
}

/// What [`Visible`] depends on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScopeKey {
    pub namespace: Namespace,
    pub sidecar: Option<ObjectKey>,
}

/// A port of a service that the proxy itself serves.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnPort {
    pub service: Arc<Service>,
    /// The service's port.
    pub port: u16,
    /// The workload's port.
    pub target: u16,
}

impl Scope {
    pub fn of(snapshot: &Snapshot, class: &ProxyClass) -> Self {
        let key = Self::key(snapshot, class);
        Self::with(snapshot, class, Arc::new(Visible::of(snapshot, &key)))
    }

    /// The same, with the shared part at hand.
    pub fn with(snapshot: &Snapshot, class: &ProxyClass, visible: Arc<Visible>) -> Self {
        let own = class.instances.iter().filter_map(|instance| {
            let service = snapshot.services.get(&instance.service)?.clone();
            Some(OwnPort { service, port: instance.port, target: instance.target })
        });
        Self { visible, instances: own.collect() }
    }

    /// Proxies of equal key share [`Visible`].
    pub fn key(snapshot: &Snapshot, class: &ProxyClass) -> ScopeKey {
        ScopeKey { namespace: class.namespace.clone(), sidecar: sidecar_of(snapshot, class) }
    }

    /// The DestinationRule for traffic of this proxy to `service`.
    pub fn rule<'a>(
        &self,
        snapshot: &'a Snapshot,
        class: &ProxyClass,
        service: &Service,
    ) -> Option<&'a Arc<MergedRule>> {
        let client = Client {
            namespace: &class.namespace,
            labels: &class.labels,
            root: snapshot.root_namespace(),
        };
        snapshot.config.rules.lookup(client, service)
    }
}

impl std::ops::Deref for Scope {
    type Target = Visible;

    fn deref(&self) -> &Visible {
        &self.visible
    }
}

impl Visible {
    pub fn of(snapshot: &Snapshot, key: &ScopeKey) -> Self {
        let sidecar =
            key.sidecar.as_ref().and_then(|key| snapshot.config.sidecars.get(key)).cloned();
        let all = Self::everything(snapshot, &key.namespace);
        let listeners = sidecar.as_ref().map_or(&[][..], |sidecar| &sidecar.spec.egress);
        let mut visible = match listeners.is_empty() {
            true => {
                let egress = Egress::everything(&all.services, &all.virtual_services);
                Self { egress: vec![egress], ..all }
            }
            false => egress::narrow(snapshot, all, listeners),
        };
        visible.sidecar = sidecar;
        visible.digest = visible.compute_digest();
        visible
    }

    /// What is exported to the namespace.
    fn everything(snapshot: &Snapshot, namespace: &Namespace) -> Self {
        let mut services: BTreeMap<&Hostname, &Arc<Service>> = BTreeMap::new();
        for service in snapshot.services.iter() {
            if !service.export_to.includes(namespace) {
                continue;
            }
            let place = services.entry(service.hostname()).or_insert(service);
            if rank(service, namespace) < rank(place, namespace) {
                *place = service;
            }
        }
        let routes = snapshot.config.routes.bound_to(&GatewayRef::Mesh, namespace);
        Self {
            namespace: namespace.clone(),
            sidecar: None,
            services: services.into_values().cloned().collect(),
            virtual_services: routes.cloned().collect(),
            egress: Vec::new(),
            digest: 0,
        }
    }

    pub fn service(&self, host: &Hostname) -> Option<&Arc<Service>> {
        let found = self.services.binary_search_by(|service| service.hostname().cmp(host));
        found.ok().map(|index| &self.services[index])
    }

    /// The service that a request for `host` is for: itself, or the most specific wildcard.
    pub fn service_matching(&self, host: &Hostname) -> Option<&Arc<Service>> {
        let wildcards = self.services.partition_point(|service| !service.hostname().is_wildcard());
        self.service(host).or_else(|| {
            self.services[wildcards..].iter().find(|service| host.is_subset_of(service.hostname()))
        })
    }

    fn compute_digest(&self) -> u64 {
        let services: Vec<u64> = self.services.iter().map(|service| service.digest).collect();
        let routes: Vec<u64> = self.virtual_services.iter().map(|object| object.digest).collect();
        let sidecar = self.sidecar.as_ref().map(|sidecar| sidecar.digest);
        let egress: Vec<u64> = self.egress.iter().map(Egress::digest).collect();
        crate::hashed::digest(&(&self.namespace, services, routes, sidecar, egress))
    }
}

/// Of several services with one hostname a proxy sees that of its own namespace, else Kubernetes'
/// own, else the oldest.
fn rank<'a>(
    service: &'a Service,
    namespace: &Namespace,
) -> (bool, bool, Registry, Option<jiff::Timestamp>, &'a crate::ServiceKey) {
    (
        service.namespace() != namespace,
        service.resolution == Resolution::Alias,
        service.registry,
        service.created,
        &service.key,
    )
}

/// The oldest Sidecar of the namespace that selects the proxy, else the oldest without selector, else
/// that of the root namespace. Only sidecars have one.
fn sidecar_of(snapshot: &Snapshot, class: &ProxyClass) -> Option<ObjectKey> {
    if !matches!(class.kind, ProxyKind::Sidecar | ProxyKind::GrpcClient) {
        return None;
    }
    let sidecars = &snapshot.config.sidecars;
    let target = Target::from(class);
    let has_selector = |sidecar: &Resource<net::Sidecar>| {
        sidecar.spec.selector().is_some_and(|labels| !labels.is_empty())
    };
    let own = |selected: bool| {
        sidecars.in_namespace_with_keys(&class.namespace).find(move |(_, sidecar)| {
            has_selector(sidecar) == selected
                && target.is_meant_by(&sidecar.spec, class.namespace.as_str())
        })
    };
    let root = || {
        let root = snapshot.root_namespace();
        sidecars.in_namespace_with_keys(root).find(|(_, sidecar)| !has_selector(sidecar))
    };
    own(true).or_else(|| own(false)).or_else(root).map(|(key, _)| key)
}

#[cfg(test)]
mod tests;
