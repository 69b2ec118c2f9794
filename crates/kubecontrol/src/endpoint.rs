//! Endpoints of Services: EndpointSlices and the legacy Endpoints object for Services with a
//! selector, and EndpointSlices that mirror hand-made Endpoints of Services without one.
//! In: Services, pods, nodes; out: slices and Endpoints. Decided in [`backend`] (what is behind a
//! Service), [`slice`] (how that is cut into slices), [`legacy`] and [`mirror`].

mod backend;
mod legacy;
mod mirror;
mod slice;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Endpoints, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::DeleteParams;
use serde_json::{Map, Value, json};

use crate::drive::{Controller, Next, Reconcile};
use crate::error::ActionError;
use crate::key::Key;
use crate::queue::{BURST, Queue};
use crate::selector;
use crate::store::{Ctx, is_deleted, label, name};
use crate::write;

pub(super) const SERVICE_NAME: &str = "kubernetes.io/service-name";
pub(super) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";

struct Services(Arc<Ctx>);

/// One controller writes all three, so that they never contradict each other.
pub(crate) fn controller(ctx: &Arc<Ctx>) -> Controller {
    let queue = Arc::new(Queue::every(BURST));
    let q = queue.clone();
    ctx.store.services.on_change(move |old, new| {
        if let Some(service) = new.or(old) {
            q.add(Key::of(&**service));
        }
    });
    let q = queue.clone();
    ctx.store.endpoints.on_change(move |old, new| {
        if let Some(endpoints) = new.or(old) {
            q.add(Key::of(&**endpoints));
        }
    });
    let q = queue.clone();
    ctx.store.slices.on_change(move |old, new| {
        for slice in [old, new].into_iter().flatten() {
            if let Some(service) = label(&slice.metadata, SERVICE_NAME) {
                q.add(Key::new(slice.metadata.namespace.as_deref().unwrap_or(""), service));
            }
        }
    });
    let (q, weak) = (queue.clone(), Arc::downgrade(ctx));
    ctx.store.pods.on_change(move |old, new| {
        if let (Some(old), Some(new)) = (old, new)
            && !backend::differs(old, new)
        {
            return;
        }
        let Some(ctx) = weak.upgrade() else { return };
        for pod in [old, new].into_iter().flatten() {
            for service in ctx.store.services.namespace(&Key::of(&**pod).ns) {
                if selects(&service, pod) {
                    q.add(Key::of(&*service));
                }
            }
        }
    });
    let (q, weak) = (queue.clone(), Arc::downgrade(ctx));
    ctx.store.nodes.on_change(move |old, new| {
        // Of a node, endpoints carry only the zone.
        let zone = |n: Option<&Arc<Node>>| n.and_then(|n| backend::zone(n).map(str::to_string));
        if zone(old) == zone(new) {
            return;
        }
        let Some(ctx) = weak.upgrade() else { return };
        for service in ctx.store.services.all() {
            q.add(Key::of(&*service));
        }
    });
    let reconcile = Arc::new(Services(ctx.clone()));
    Controller { name: "endpoint-controller", queue, reconcile, width: 8 }
}

fn selects(service: &Service, pod: &Pod) -> bool {
    let wanted = service.spec.as_ref().and_then(|s| s.selector.as_ref());
    wanted.is_some_and(|s| !s.is_empty() && selector::contains(s, pod.metadata.labels.as_ref()))
}

impl Reconcile for Services {
    fn reconcile<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Next, ActionError>> {
        async move {
            match sync(&self.0, key).await {
                Err(_) if self.0.is_ending(&key.ns) => Ok(Next::Wait),
                other => other,
            }
        }
        .boxed()
    }
}

async fn sync(ctx: &Ctx, key: &Key) -> Result<Next, ActionError> {
    let mut slices = ctx.store.slices.namespace(&key.ns);
    slices.retain(|slice| label(&slice.metadata, SERVICE_NAME) == Some(&key.name));
    let (ours, mirrored) = (managed(&slices, slice::MANAGER), managed(&slices, mirror::MANAGER));
    let service = ctx.store.services.get(key).filter(|s| !is_deleted(&s.metadata));
    let endpoints = ctx.store.endpoints.get(key);
    let Some(service) = service else {
        apply(ctx, key, slice::none(&ours)).await?;
        apply(ctx, key, slice::none(&mirrored)).await?;
        if let Some(endpoints) = endpoints.filter(|e| legacy::is_ours(e)) {
            remove(ctx, key, &endpoints).await?;
        }
        return Ok(Next::Wait);
    };
    if !backend::has_selector(&service) {
        apply(ctx, key, slice::none(&ours)).await?;
        if let Some(stale) = endpoints.clone().filter(|e| legacy::is_ours(e)) {
            // The selector was taken away: what we wrote is nobody's custom Endpoints.
            remove(ctx, key, &stale).await?;
            return Ok(Next::Wait);
        }
        let custom = endpoints.filter(|e| !is_deleted(&e.metadata));
        return apply(ctx, key, mirror::plan(&service, custom.as_deref(), &mirrored)).await;
    }
    apply(ctx, key, slice::none(&mirrored)).await?;
    let mut pods = ctx.store.pods.namespace(&key.ns);
    pods.retain(|pod| selects(&service, pod));
    let node = |name: &str| ctx.store.nodes.get(&Key::new("", name));
    let backends = backend::of(&service, &pods, &node);
    apply(ctx, key, slice::plan(&service, &backends, &ours)).await?;
    write_legacy(ctx, key, &service, &backends, endpoints).await?;
    Ok(Next::Wait)
}

fn managed(slices: &[Arc<EndpointSlice>], by: &str) -> Vec<Arc<EndpointSlice>> {
    let ours = |s: &&Arc<EndpointSlice>| label(&s.metadata, MANAGED_BY) == Some(by);
    slices.iter().filter(ours).cloned().collect()
}

async fn apply(ctx: &Ctx, key: &Key, plan: slice::Plan) -> Result<Next, ActionError> {
    let api = ctx.api::<EndpointSlice>(&key.ns);
    let cache = &ctx.store.slices;
    for made in plan.create {
        write::create(&api, cache, &made).await?;
    }
    for (old, changed) in plan.update {
        let body = json!({
            "metadata": {
                "resourceVersion": old.metadata.resource_version,
                "labels": label_patch(&old.metadata, &changed.metadata),
                "annotations": changed.metadata.annotations,
            },
            "endpoints": changed.endpoints,
            "ports": changed.ports,
        });
        write::merge(&api, cache, name(&old.metadata), &body).await?;
    }
    for gone in plan.delete {
        write::delete(&api, cache, &gone.metadata, DeleteParams::background()).await?;
    }
    Ok(Next::Wait)
}

async fn remove(ctx: &Ctx, key: &Key, endpoints: &Endpoints) -> Result<(), ActionError> {
    let api = ctx.api::<Endpoints>(&key.ns);
    write::delete(&api, &ctx.store.endpoints, &endpoints.metadata, DeleteParams::background()).await
}

async fn write_legacy(
    ctx: &Ctx,
    key: &Key,
    service: &Service,
    backends: &backend::Backends,
    old: Option<Arc<Endpoints>>,
) -> Result<(), ActionError> {
    let new = legacy::compose(service, backends);
    let api = ctx.api::<Endpoints>(&key.ns);
    let cache = &ctx.store.endpoints;
    let Some(old) = old else {
        write::create(&api, cache, &new).await?;
        return Ok(());
    };
    if legacy::is_same(&old, &new) {
        return Ok(());
    }
    let body = json!({
        "metadata": {
            "resourceVersion": old.metadata.resource_version,
            "labels": label_patch(&old.metadata, &new.metadata),
            "annotations": new.metadata.annotations,
        },
        "subsets": new.subsets,
    });
    write::merge(&api, cache, &key.name, &body).await?;
    Ok(())
}

/// The labels as a merge patch: those that went away become null.
fn label_patch(old: &ObjectMeta, new: &ObjectMeta) -> Value {
    let gone = |key: &&String| new.labels.as_ref().is_none_or(|l| !l.contains_key(*key));
    let old = old.labels.iter().flat_map(BTreeMap::keys).filter(gone);
    let mut patch: Map<String, Value> = old.map(|key| (key.clone(), Value::Null)).collect();
    let new = new.labels.iter().flatten();
    patch.extend(new.map(|(key, value)| (key.clone(), value.clone().into())));
    patch.into()
}

#[cfg(test)]
mod tests;
