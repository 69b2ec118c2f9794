//! Cutting a node off: `kubectl annotate node NAME podlet.ironsail/cut=true` takes its cable out of the
//! backbone, and removing the annotation puts it back. For tests of what a mesh does then.

use futures::StreamExt;
use ironsail_podnet::Network;
use k8s_openapi::api::core::v1::Node;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt};

const CUT: &str = "podlet.ironsail/cut";

/// Follows the annotation of every node for ever.
pub(crate) async fn follow(client: Client, network: Network) {
    let nodes: Api<Node> = Api::all(client);
    let mut events = watcher::watcher(nodes, watcher::Config::default()).default_backoff().boxed();
    while let Some(event) = events.next().await {
        let Ok(Event::Apply(object) | Event::InitApply(object)) = event else { continue };
        let Some(node) = network.node(&object.name_any()) else { continue };
        let wanted = object.annotations().get(CUT).is_some_and(|v| v == "true");
        if wanted == node.is_cut() {
            continue;
        }
        let done = if wanted { node.cut().await } else { node.heal().await };
        match done {
            Ok(()) if wanted => tracing::info!("{} is cut off", node.name()),
            Ok(()) => tracing::info!("{} is connected again", node.name()),
            Err(error) => tracing::error!("cutting or healing {}: {error}", node.name()),
        }
    }
}
