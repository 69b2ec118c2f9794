//! Where Ingresses that the mesh serves are reached, shown in their `status.loadBalancer`.
//!
//! In: the addresses of the ingress gateway's Service and the Ingresses that are served, as a watched
//! value. Out: status, written only where it says something else. To be run by the leader only.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ironsail_model::{Snapshot, ingress};
use k8s_openapi::api::networking::v1::Ingress;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::election::Chain;

/// Until a failed write is tried again.
const PAUSE: Duration = Duration::from_secs(5);

/// What is to be shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    pub addresses: BTreeSet<IpAddr>,
    /// Namespace and name of each Ingress.
    pub ingresses: BTreeSet<(String, String)>,
}

pub type All = Arc<Served>;

/// The Ingresses that a Gateway stands for, and the addresses of the gateway's Service.
pub fn of_snapshot(snapshot: &Snapshot) -> All {
    let mesh = &snapshot.mesh.config;
    let root = snapshot.root_namespace();
    let gateways = snapshot.config.gateways.iter();
    let ingresses = gateways
        .filter(|gateway| gateway.meta.namespace == root.as_str())
        .filter_map(|gateway| ingress::stands_for(&gateway.meta.name))
        .map(|(namespace, name)| (namespace.to_owned(), name.to_owned()));
    let service = snapshot.services.in_namespace(root);
    let mut service = service.filter(|service| *service.name == *mesh.ingress_service);
    let addresses = service.next().map(|service| service.external_addresses.clone());
    Arc::new(Served {
        ingresses: ingresses.collect(),
        addresses: addresses.unwrap_or_default().into_iter().collect(),
    })
}

/// Shows them until `stop`.
pub async fn run(client: Client, mut served: watch::Receiver<All>, stop: CancellationToken) {
    loop {
        let now = served.borrow_and_update().clone();
        let mut failed = false;
        for (namespace, name) in &now.ingresses {
            if let Err(error) = show(&client, namespace, name, &now.addresses).await {
                let error = Chain(&error);
                tracing::warn!(%namespace, ingress = %name, %error, "showing addresses, trying again");
                failed = true;
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            changed = served.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(PAUSE), if failed => {}
        }
    }
}

async fn show(
    client: &Client,
    namespace: &str,
    name: &str,
    addresses: &BTreeSet<IpAddr>,
) -> kube::Result<()> {
    let api: Api<Ingress> = Api::namespaced(client.clone(), namespace);
    let Some(known) = api.get_opt(name).await? else { return Ok(()) };
    let wanted: Value = addresses.iter().map(|ip| json!({"ip": ip.to_string()})).collect();
    let status = serde_json::to_value(&known.status).unwrap_or_default();
    let shown = &status["loadBalancer"]["ingress"];
    if *shown == wanted || (shown.is_null() && addresses.is_empty()) {
        return Ok(());
    }
    let patch = json!({"status": {"loadBalancer": {"ingress": wanted}}});
    match api.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => other.map(drop),
    }
}
