//! What every namespace is given: the ServiceAccount `default` and the ConfigMap with the API's
//! root certificate. In: namespaces, and those two kinds; out: the missing ones made, a changed
//! certificate put right.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use crate::drive::{Controller, Next, Reconcile};
use crate::error::ActionError;
use crate::key::Key;
use crate::queue::Queue;
use crate::store::{Ctx, ROOT_CA, is_deleted};
use crate::write;

const DEFAULT: &str = "default";

struct Accounts(Arc<Ctx>);

pub(crate) fn controller(ctx: &Arc<Ctx>) -> Controller {
    let queue = Arc::new(Queue::default());
    let q = queue.clone();
    ctx.store.namespaces.on_change(move |_, new| {
        if let Some(namespace) = new {
            q.add(Key::of(&**namespace));
        }
    });
    let q = queue.clone();
    ctx.store.accounts.on_change(move |old, new| {
        if let (Some(gone), None) = (old, new) {
            q.add(Key::new("", gone.metadata.namespace.as_deref().unwrap_or("")));
        }
    });
    let q = queue.clone();
    ctx.store.root_maps.on_change(move |old, new| {
        if let Some(map) = new.or(old) {
            q.add(Key::new("", map.metadata.namespace.as_deref().unwrap_or("")));
        }
    });
    let reconcile = Arc::new(Accounts(ctx.clone()));
    Controller { name: "serviceaccount-controller", queue, reconcile, width: 4 }
}

impl Reconcile for Accounts {
    fn reconcile<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Next, ActionError>> {
        sync(&self.0, &key.name).boxed()
    }
}

async fn sync(ctx: &Ctx, ns: &str) -> Result<Next, ActionError> {
    let namespace: Option<Arc<Namespace>> = ctx.store.namespaces.get(&Key::new("", ns));
    if namespace.is_none_or(|n| is_deleted(&n.metadata)) {
        return Ok(Next::Wait);
    }
    let meta = |name: &str| ObjectMeta {
        name: Some(name.into()),
        namespace: Some(ns.into()),
        ..ObjectMeta::default()
    };
    if ctx.store.accounts.get(&Key::new(ns, DEFAULT)).is_none() {
        let account = ServiceAccount { metadata: meta(DEFAULT), ..ServiceAccount::default() };
        let api = ctx.api::<ServiceAccount>(ns);
        done(write::create(&api, &ctx.store.accounts, &account).await.map(drop))?;
    }
    let Some(certificate) = &ctx.config.root_ca else { return Ok(Next::Wait) };
    let wanted = Some([("ca.crt".to_string(), certificate.clone())].into());
    let api = ctx.api::<ConfigMap>(ns);
    let cache = &ctx.store.root_maps;
    match cache.get(&Key::new(ns, ROOT_CA)) {
        Some(map) if map.data == wanted => {}
        Some(_) => {
            let body = json!({ "data": wanted, "binaryData": null });
            done(write::merge(&api, cache, ROOT_CA, &body).await.map(drop))?;
        }
        None => {
            let map = ConfigMap { metadata: meta(ROOT_CA), data: wanted, ..ConfigMap::default() };
            done(write::create(&api, cache, &map).await.map(drop))?;
        }
    }
    Ok(Next::Wait)
}

/// Somebody else made it, or the namespace is going: both are fine, a later event tells more.
fn done(result: Result<(), ActionError>) -> Result<(), ActionError> {
    match result {
        Err(error) if error.is_already_exists() || error.is_ending_namespace() => Ok(()),
        other => other,
    }
}
