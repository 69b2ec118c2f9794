//! Watches of a Kubernetes API as events.
//!
//! In: a client, which kinds, which namespaces. Out: events and findings. One task a collection;
//! each lists, watches, goes on after whatever happens to its connection, and lists again with the
//! difference told when it must. A CRD that is missing counts as synced and empty; its objects come
//! when it does. An object that cannot be read is named on the board and keeps its last good state.
//!
//! Namespaces are always watched, because discovery selectors need their labels. Secrets and
//! ConfigMaps are watched only in the namespaces asked for.

mod collection;
pub(crate) mod follow;
mod line;
mod scope;
mod served;
pub(crate) mod target;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use ::kube::Client;
use ironsail_api::{ClusterId, Event, Kind};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::board::Board;
use crate::selection::{Selected, Selectors};

pub use scope::Scope;

/// What is watched, and how.
pub struct Config {
    pub client: Client,
    pub cluster: ClusterId,
    /// Namespaces, Secrets and ConfigMaps need not be named.
    pub kinds: Vec<Kind>,
    /// `discoverySelectors` of the mesh configuration.
    pub selectors: watch::Receiver<Arc<Selectors>>,
    pub secrets: Scope,
    pub config_maps: Scope,
}

impl Config {
    /// Every kind, no Secrets and no ConfigMaps, all namespaces.
    pub fn new(client: Client, cluster: ClusterId) -> Self {
        let narrow = [Kind::Namespace, Kind::Secret, Kind::ConfigMap, Kind::ServiceAccount];
        Self {
            client,
            cluster,
            kinds: Kind::ALL.iter().copied().filter(|kind| !narrow.contains(kind)).collect(),
            selectors: watch::Sender::new(Arc::default()).subscribe(),
            secrets: Scope::Nowhere,
            config_maps: Scope::Nowhere,
        }
    }
}

/// What all tasks of one cluster share.
#[derive(Clone)]
struct Shared {
    client: Client,
    cluster: ClusterId,
    events: mpsc::Sender<Event>,
    board: Board,
    /// Nothing until the namespaces are known.
    selected: watch::Receiver<Option<Selected>>,
    served: watch::Receiver<u64>,
    stream_lists: bool,
}

/// Watches until `stop`, or until nobody takes the events.
pub async fn run(
    config: Config,
    events: mpsc::Sender<Event>,
    board: Board,
    stop: CancellationToken,
) {
    let (selection, selected) = watch::channel(None);
    let (serving, served) = watch::channel(0);
    let stream_lists = tokio::select! {
        () = stop.cancelled() => return,
        can = can_stream_lists(&config.client) => can,
    };
    let shared = Shared {
        client: config.client,
        cluster: config.cluster,
        events,
        board,
        selected,
        served,
        stream_lists,
    };
    let mut tasks = JoinSet::new();
    tasks.spawn(served::follow(shared.clone(), serving, stop.clone()));
    tasks.spawn(collection::namespaces(shared.clone(), config.selectors, selection, stop.clone()));
    for kind in config.kinds {
        if !matches!(kind, Kind::Namespace | Kind::Secret | Kind::ConfigMap) {
            tasks.spawn(collection::everywhere(shared.clone(), kind, stop.clone()));
        }
    }
    tasks.spawn(scope::follow(shared.clone(), Kind::Secret, config.secrets, stop.clone()));
    tasks.spawn(scope::follow(shared.clone(), Kind::ConfigMap, config.config_maps, stop.clone()));
    drop(shared);
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            // Half a picture of a cluster is worse than none: the caller ends the program.
            tracing::error!(%error, "a watch ended unexpectedly");
            stop.cancel();
        }
    }
}

/// Servers before 1.27 would ignore the wish in silence; later ones that cannot, say so.
pub(crate) async fn can_stream_lists(client: &Client) -> bool {
    let mut backoff = crate::Backoff::default();
    loop {
        match client.apiserver_version().await {
            Ok(version) => {
                let digits: String =
                    version.minor.chars().take_while(char::is_ascii_digit).collect();
                return version.major != "1" || digits.parse().unwrap_or(0) >= 27;
            }
            Err(::kube::Error::Api(_)) => return false,
            Err(error) => {
                tracing::warn!(%error, "asking the Kubernetes API for its version, trying again");
                tokio::time::sleep(backoff.pause()).await;
            }
        }
    }
}
