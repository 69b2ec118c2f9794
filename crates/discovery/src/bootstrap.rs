//! What Envoy starts with, for agents that ask for it before they start theirs.
//!
//! In: a node whose first request is for a bootstrap; out: the bootstrap that its agent would have
//! written, with the patches of EnvoyFilters. The stream is for this alone and counts as no proxy.

use std::sync::Arc;

use futures::future::BoxFuture;
use ironsail_bootstrap::{Node, Settings};
use ironsail_model::ProxyClass;
use ironsail_names::Locality;
use ironsail_proto::envoy::config::bootstrap::v3::Bootstrap;
use ironsail_proto::envoy::config::core::v3;
use ironsail_proto::{Message, from_json};
use ironsail_translate::patch::Patches;
use ironsail_xds::server::{Dirty, Feed, Report};
use ironsail_xds::{Interest, Resource, Set, TypeUrl};
use tracing::warn;

use crate::Publication;

pub(crate) const BOOTSTRAP: &str = "type.googleapis.com/envoy.config.bootstrap.v3.Bootstrap";

/// The stream of an agent whose Envoy has not started.
pub(crate) struct BootstrapFeed(Arc<Set>);

impl BootstrapFeed {
    pub(crate) fn new(node: v3::Node, class: &ProxyClass, publication: &Publication) -> Self {
        let made = make(node, class, publication);
        let resource = made.map(|made| Resource::new("bootstrap", made.encode_to_vec()));
        Self(Arc::new(resource.into_iter().collect()))
    }
}

fn make(node: v3::Node, class: &ProxyClass, publication: &Publication) -> Option<Bootstrap> {
    let place = node.locality.unwrap_or_default();
    let own = Node {
        id: node.id,
        cluster: node.cluster,
        locality: Locality::new(&place.region, &place.zone, &place.sub_zone),
        metadata: node.metadata.as_ref().map(serde_json::Map::from).unwrap_or_default(),
    };
    let id = own.id.clone();
    let (settings, faults) = Settings::of_node(own);
    faults.iter().for_each(|fault| warn!(target: "ads", "bootstrap of {id}: {fault}"));
    let made = from_json::<Bootstrap>(&ironsail_bootstrap::envoy(&settings));
    let made = made.map_err(|error| warn!(target: "ads", "bootstrap of {id}: {error}")).ok()?;
    let patched = Patches::of(&publication.snapshot, class).bootstrap(class.kind, made);
    // The owners of patches learn it from the listeners' view, which every proxy has.
    patched.diagnostics.iter().for_each(|one| warn!(target: "ads", "bootstrap of {id}: {one}"));
    Some(patched.value)
}

impl Feed for BootstrapFeed {
    fn set<'a>(&'a mut self, type_url: &'a TypeUrl, _: &'a Interest) -> BoxFuture<'a, Arc<Set>> {
        let set = if &**type_url == BOOTSTRAP { self.0.clone() } else { Arc::default() };
        Box::pin(std::future::ready(set))
    }

    fn changed(&mut self) -> BoxFuture<'_, Option<Dirty>> {
        Box::pin(std::future::pending())
    }

    fn report(&mut self, _: Report<'_>) {}
}
