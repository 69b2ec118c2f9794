//! Where a service's traffic can go.

pub(crate) mod entry;
pub(crate) mod slice;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ironsail_names::SpiffeId;

use crate::ServiceKey;
use crate::hashed::Hashed;
use crate::workload::Workload;

/// One address and port behind a service.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    pub address: Address,
    pub port: u16,
    pub health: Health,
    /// As given; 0 and 1 mean the same.
    pub weight: u32,
    /// The pod's own name under a headless Service (`hostname`), for DNS.
    pub hostname: Option<Arc<str>>,
    pub workload: Arc<Hashed<Workload>>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    Ip(IpAddr),
    /// A name for the proxy to resolve, lower case.
    Name(Arc<str>),
    /// A Unix socket's path.
    Unix(Arc<str>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Health {
    Healthy,
    Unhealthy,
    /// Terminating, but still serving: only for sessions that stick to it.
    Draining,
    Terminating,
}

/// All endpoints of one service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceEndpoints {
    /// By the name of the service's port. Sorted by address and port inside.
    pub ports: BTreeMap<Arc<str>, Arc<[Endpoint]>>,
    /// Who may answer for the service; clusters depend on it (subject alternative names).
    pub identities: Arc<BTreeSet<SpiffeId>>,
    pub digest: u64,
}

impl Endpoint {
    pub fn is_healthy(&self) -> bool {
        self.health == Health::Healthy
    }

    pub fn ip(&self) -> Option<IpAddr> {
        match self.address {
            Address::Ip(ip) => Some(ip),
            Address::Name(_) | Address::Unix(_) => None,
        }
    }
}

impl ServiceEndpoints {
    pub fn port(&self, name: &str) -> &[Endpoint] {
        self.ports.get(name).map_or(&[], |endpoints| endpoints)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Endpoint)> {
        self.ports.iter().flat_map(|(name, all)| all.iter().map(move |e| (&**name, e)))
    }

    pub fn len(&self) -> usize {
        self.ports.values().map(|endpoints| endpoints.len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.ports.values().all(|endpoints| endpoints.is_empty())
    }

    /// Sorts, drops what is there twice, and computes the rest.
    pub(crate) fn new(found: BTreeMap<Arc<str>, Vec<Endpoint>>) -> Self {
        let mut ports = BTreeMap::new();
        let mut identities = BTreeSet::new();
        for (name, mut endpoints) in found {
            let place = |e: &Endpoint| (e.address.clone(), e.port);
            endpoints.sort_by_cached_key(|e| (place(e), e.health, e.workload.source.clone()));
            endpoints.dedup_by_key(|e| place(e));
            identities.extend(endpoints.iter().filter_map(|e| e.workload.identity.clone()));
            ports.insert(name, Arc::from(endpoints));
        }
        let digest = crate::hashed::digest(&ports);
        Self { ports, identities: Arc::new(identities), digest }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ip(ip) => ip.fmt(f),
            Self::Name(name) => f.write_str(name),
            Self::Unix(path) => write!(f, "unix://{path}"),
        }
    }
}

/// The endpoints of every service: cheap to clone, cheap to change in one place.
pub type EndpointTable = crate::table::Map<ServiceKey, Arc<ServiceEndpoints>>;
