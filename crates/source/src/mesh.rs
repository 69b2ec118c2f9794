//! The mesh configuration and the networks of a mesh, as one watched value.
//!
//! In: the file `/etc/istio/config/mesh` or, where there is none, the ConfigMap `istio` (or
//! `istio-REVISION`); below it the shared ConfigMap, if one is named; below that the defaults. Out: a
//! [`Mesh`] that is always whole. A text that cannot be used is named on the board, and the last
//! good one stays.

mod layer;
mod origin;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use ::kube::Client;
use ironsail_api::kube::LabelSelector;
use ironsail_api::mesh::{MeshConfig, MeshNetworks};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::board::Board;
use crate::selection::{self, Selector, Selectors};

use layer::Layers;

/// Where Istio's installation mounts the ConfigMap.
pub const FILE: &str = "/etc/istio/config/mesh";
pub const NETWORKS_FILE: &str = "/etc/istio/config/meshNetworks";

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mesh {
    pub config: MeshConfig,
    pub networks: MeshNetworks,
}

pub struct Config {
    /// Used if it is there at the start; then no ConfigMap `istio` is read.
    pub file: PathBuf,
    pub networks_file: PathBuf,
    /// Without one, there are no ConfigMaps.
    pub client: Option<Client>,
    /// Of the ConfigMaps.
    pub namespace: String,
    pub revision: String,
    /// `SHARED_MESH_CONFIG`: a ConfigMap that several revisions share.
    pub shared: Option<String>,
}

impl Config {
    /// As in an installation.
    pub fn new(client: Option<Client>, namespace: &str, revision: &str) -> Self {
        Self {
            file: FILE.into(),
            networks_file: NETWORKS_FILE.into(),
            client,
            namespace: namespace.to_owned(),
            revision: revision.to_owned(),
            shared: None,
        }
    }

    /// `istio`, or `istio-REVISION`.
    fn map_name(&self) -> String {
        match &*self.revision {
            "" | "default" => "istio".to_owned(),
            revision => format!("istio-{revision}"),
        }
    }
}

/// Reads everything once, and then follows it until `stop` in a task of its own. A ConfigMap that is
/// not there says nothing; an API that cannot be reached is waited for.
pub async fn follow(
    config: Config,
    board: Board,
    stop: CancellationToken,
) -> watch::Receiver<Arc<Mesh>> {
    let mut origins = origin::Origins::start(&config, &stop).await;
    let mut layers = Layers::default();
    let first = layers.mesh(&origins.texts(), &board);
    let (sender, receiver) = watch::channel(Arc::new(first));
    tokio::spawn(async move {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = origins.changed() => {}
            }
            let mesh = layers.mesh(&origins.texts(), &board);
            sender.send_if_modified(|known| {
                let changed = **known != mesh;
                if changed {
                    tracing::info!("the mesh configuration changed");
                    *known = Arc::new(mesh);
                }
                changed
            });
        }
    });
    receiver
}

/// The namespaces that `discoverySelectors` select.
pub fn selectors(config: &MeshConfig) -> Result<Selectors, selection::Error> {
    let one = |selector: &LabelSelector| {
        let mut expressions = selector.match_expressions.iter();
        expressions.try_fold(Selector::labels(&selector.match_labels), |all, one| {
            all.expression(&one.key, &one.operator, &one.values)
        })
    };
    config.discovery_selectors.iter().map(one).collect()
}

/// The selectors as a watched value of their own, which changes only when they do. Selectors that
/// make no sense leave the former ones in force.
pub fn follow_selectors(
    mut mesh: watch::Receiver<Arc<Mesh>>,
    stop: CancellationToken,
) -> watch::Receiver<Arc<Selectors>> {
    let (sender, receiver) = watch::channel(Arc::default());
    let update = move |mesh: &mut watch::Receiver<Arc<Mesh>>| {
        let now = mesh.borrow_and_update().clone();
        match selectors(&now.config) {
            Ok(selectors) => {
                sender.send_if_modified(|known: &mut Arc<Selectors>| {
                    let changed = **known != selectors;
                    if changed {
                        *known = Arc::new(selectors);
                    }
                    changed
                });
            }
            Err(error) => tracing::warn!(%error, "discoverySelectors of the mesh configuration"),
        }
    };
    // At once, so that the first namespaces are already selected rightly.
    update(&mut mesh);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                changed = mesh.changed() => if changed.is_err() { return },
            }
            update(&mut mesh);
        }
    });
    receiver
}
