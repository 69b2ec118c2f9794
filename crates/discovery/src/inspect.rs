//! What others may look at: for debug pages, metrics and tests.

use std::sync::Arc;

use ironsail_model::Snapshot;
use ironsail_xds::Set;

use crate::class::Class;
use crate::connection::Connection;
use crate::{Counters, Counts, Engine, Kind};

/// How much is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    pub connections: usize,
    pub classes: usize,
    /// Translated resources that are in use.
    pub resources: usize,
    /// Different sets of them.
    pub sets: usize,
    /// Of the last publication.
    pub revision: u64,
}

impl Engine {
    pub fn counts(&self) -> Counts {
        self.counters.read()
    }

    /// With the distributions of durations.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// How often routes of a VirtualService, or of a service without one, were translated; a route
    /// configuration is put together from what is there already.
    pub fn routes_made(&self) -> u64 {
        self.cache.routes.counts().0
    }

    pub fn sizes(&self) -> Sizes {
        let (resources, sets) = self.cache.len();
        Sizes {
            connections: self.connections.len(),
            classes: self.classes().len(),
            resources,
            sets,
            revision: self.publication().map_or(0, |p| p.revision),
        }
    }

    /// The world as proxies see it now.
    pub fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.publication().map(|p| p.snapshot.clone())
    }

    /// The number of the last publication.
    pub fn revision(&self) -> u64 {
        self.publication().map_or(0, |p| p.revision)
    }

    /// Everybody who is connected, in the order they came.
    pub fn connections(&self) -> Vec<Arc<Connection>> {
        self.connections.all()
    }

    /// The connection of a proxy, by the proxy's id (`POD.NAMESPACE`) or the connection's own.
    pub fn connection(&self, id: &str) -> Option<Arc<Connection>> {
        let all = self.connections.all();
        all.into_iter().rfind(|c| *c.proxy.id == *id || c.id == id)
    }

    /// The classes of the connected proxies.
    pub fn proxy_classes(&self) -> Vec<Arc<Class>> {
        self.classes()
    }

    /// The set of a type that a proxy should have.
    pub fn resources(&self, proxy: &str, kind: Kind) -> Option<Arc<Set>> {
        self.connection(proxy)?.resources(kind)
    }
}
