//! What a resource makes Envoy ask for next: endpoints of a cluster, routes of a listener.
//!
//! Thousands of proxies get the same bytes, so the answer for some bytes is worked out once.

use std::sync::Arc;

use bytes::Bytes;
use ironsail_proto::Message;
use ironsail_proto::envoy::config::cluster::v3::Cluster;
use ironsail_proto::envoy::config::cluster::v3::cluster::{ClusterDiscoveryType, DiscoveryType};
use ironsail_proto::envoy::config::listener::v3::filter::ConfigType;
use ironsail_proto::envoy::config::listener::v3::{FilterChain, Listener};
use ironsail_proto::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, http_connection_manager::RouteSpecifier,
};
use ironsail_xds::{CDS, LDS};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

/// A name as a number, to keep thousands of lists small.
pub(crate) type NameId = u32;

#[derive(Default)]
pub(crate) struct Extract {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    ids: FxHashMap<Arc<str>, NameId>,
    names: Vec<Arc<str>>,
    found: FxHashMap<u64, (NameId, Arc<[NameId]>)>,
}

impl Extract {
    /// The name of a resource of clusters or listeners, and what it depends on.
    pub(crate) fn of(&self, type_url: &str, body: &Bytes) -> Option<(NameId, Arc<[NameId]>)> {
        let hash = xxhash_rust::xxh3::xxh3_64(body);
        if let Some(found) = self.inner.lock().found.get(&hash) {
            return Some(found.clone());
        }
        let (name, wanted) = match type_url {
            CDS => cluster(&Cluster::decode(body.clone()).ok()?),
            LDS => listener(&Listener::decode(body.clone()).ok()?),
            _ => return None,
        };
        let mut inner = self.inner.lock();
        let found = (inner.id(&name), wanted.iter().map(|w| inner.id(w)).collect());
        inner.found.insert(hash, found);
        inner.found.get(&hash).cloned()
    }

    pub(crate) fn id(&self, name: &str) -> NameId {
        self.inner.lock().id(name)
    }

    pub(crate) fn names(&self, ids: impl IntoIterator<Item = NameId>) -> Vec<String> {
        let inner = self.inner.lock();
        ids.into_iter().filter_map(|id| Some(inner.names.get(id as usize)?.to_string())).collect()
    }
}

impl Inner {
    fn id(&mut self, name: &str) -> NameId {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let id = NameId::try_from(self.names.len()).unwrap_or(NameId::MAX);
        let name: Arc<str> = name.into();
        self.names.push(name.clone());
        self.ids.insert(name, id);
        id
    }
}

fn cluster(cluster: &Cluster) -> (String, Vec<String>) {
    let eds = cluster.cluster_discovery_type
        == Some(ClusterDiscoveryType::Type(DiscoveryType::Eds.into()));
    let named = cluster.eds_cluster_config.as_ref().map(|e| e.service_name.clone());
    let name = named.filter(|n| !n.is_empty()).unwrap_or_else(|| cluster.name.clone());
    (cluster.name.clone(), if eds { vec![name] } else { Vec::new() })
}

fn listener(listener: &Listener) -> (String, Vec<String>) {
    let chains = listener.filter_chains.iter().chain(&listener.default_filter_chain);
    let mut routes: Vec<String> = chains.flat_map(routes).collect();
    routes.sort();
    routes.dedup();
    (listener.name.clone(), routes)
}

fn routes(chain: &FilterChain) -> Vec<String> {
    let managers = chain.filters.iter().filter_map(|filter| match &filter.config_type {
        Some(ConfigType::TypedConfig(any)) if any.type_url.ends_with(".HttpConnectionManager") => {
            HttpConnectionManager::decode(any.value.clone()).ok()
        }
        _ => None,
    });
    managers
        .filter_map(|manager| match manager.route_specifier {
            Some(RouteSpecifier::Rds(rds)) => Some(rds.route_config_name),
            _ => None,
        })
        .collect()
}
