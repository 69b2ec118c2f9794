//! Which objects carry a status of ours already: asked once, when a replica begins to lead.
//!
//! In: lists of Istio's kinds. Out: keys. A kind whose CRD is not there has none.

use ironsail_api::{ClusterId, Kind, ObjectKey};
use ironsail_source::Backoff;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt};

use super::plan;
use crate::election::Chain;

const PAGE: u32 = 500;

pub(super) async fn marked(client: &Client, cluster: &ClusterId) -> Vec<ObjectKey> {
    let mut keys = Vec::new();
    for kind in Kind::istio() {
        let mut backoff = Backoff::default();
        loop {
            match of_kind(client, cluster, kind).await {
                Ok(found) => {
                    keys.extend(found);
                    break;
                }
                Err(error) => {
                    tracing::warn!(%kind, error = %Chain(&error), "listing for status, trying again");
                    tokio::time::sleep(backoff.pause()).await;
                }
            }
        }
    }
    keys
}

async fn of_kind(
    client: &Client,
    cluster: &ClusterId,
    kind: Kind,
) -> Result<Vec<ObjectKey>, kube::Error> {
    let gvk = GroupVersionKind::gvk(kind.group(), kind.version(), kind.name());
    let resource = ApiResource::from_gvk_with_plural(&gvk, kind.plural());
    let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
    let (mut keys, mut params) = (Vec::new(), ListParams::default().limit(PAGE));
    loop {
        let page = match api.list(&params).await {
            Ok(page) => page,
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(keys),
            Err(error) => return Err(error),
        };
        for object in page.items.iter().filter(|object| plan::is_marked(object)) {
            keys.push(ObjectKey {
                cluster: cluster.clone(),
                kind,
                namespace: object.namespace().unwrap_or_default().into(),
                name: object.name_any().into(),
            });
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(keys),
        }
    }
}
