//! The end of a namespace: deletes everything in it, of every kind that the API serves, then lets
//! the namespace go. In: namespaces being deleted; out: deletions, conditions that say what is
//! still there, and the last finalizer removed. What the conditions say is decided in [`report`].

mod report;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, ListParams};

use crate::discovery::{Found, Served, discover};
use crate::drive::{Controller, Next, Reconcile};
use crate::error::ActionError;
use crate::key::Key;
use crate::queue::Queue;
use crate::store::{Ctx, is_deleted, until};
use crate::write;
use report::Remains;

const FINALIZER: &str = "kubernetes";
/// How soon to look again at first while something is still there.
const SOON: Duration = Duration::from_millis(300);
/// The same while pods are ending, whose last one wakes us anyway.
const LATER: Duration = Duration::from_secs(5);
/// The longest time between two looks at a namespace that somebody else's finalizers hold.
const LATEST: Duration = Duration::from_secs(30);

struct Namespaces(Arc<Ctx>);

pub(crate) fn controller(ctx: &Arc<Ctx>) -> Controller {
    let queue = Arc::new(Queue::default());
    let q = queue.clone();
    ctx.store.namespaces.on_change(move |old, new| {
        if let Some(namespace) = new
            && is_deleted(&namespace.metadata)
            && old.is_none_or(|o| !is_deleted(&o.metadata))
        {
            q.add(Key::of(&**namespace));
        }
    });
    let (q, weak) = (queue.clone(), Arc::downgrade(ctx));
    ctx.store.pods.on_change(move |old, new| {
        let (Some(gone), None) = (old, new) else { return };
        let ns = gone.metadata.namespace.as_deref().unwrap_or("");
        let Some(ctx) = weak.upgrade() else { return };
        if ctx.is_ending(ns) && ctx.store.pods.namespace(ns).is_empty() {
            q.add(Key::new("", ns));
        }
    });
    let reconcile = Arc::new(Namespaces(ctx.clone()));
    Controller { name: "namespace-controller", queue, reconcile, width: 4 }
}

impl Reconcile for Namespaces {
    fn reconcile<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Next, ActionError>> {
        sync(&self.0, key).boxed()
    }
}

async fn sync(ctx: &Ctx, key: &Key) -> Result<Next, ActionError> {
    let ns = &*key.name;
    let Some(namespace) = ctx.store.namespaces.get(key) else { return Ok(Next::Wait) };
    if !is_deleted(&namespace.metadata) {
        return Ok(Next::Wait);
    }
    let finalizers = namespace.spec.as_ref().and_then(|s| s.finalizers.as_deref());
    if !finalizers.unwrap_or_default().iter().any(|f| f == FINALIZER) {
        return Ok(Next::Wait);
    }
    let failed = |verb| move |e| ActionError::new(verb, format!("the content of {ns}"), e);
    let found: Found = discover(&ctx.client).await.map_err(failed("discover"))?;
    let mut remains = Remains::new(found.failed);
    for served in found.served.values() {
        if !served.namespaced || !served.can("list") || !served.can("delete") {
            continue;
        }
        if let Err(error) = Box::pin(empty(ctx, ns, served, &mut remains)).await {
            remains.failed.push(format!("{}: {}", served.title(), error.message()));
        }
    }
    let api = ctx.cluster::<Namespace>();
    let status = report::status(&namespace, &remains, ctx.now());
    let old = namespace.status.as_ref();
    write::status(&api, &ctx.store.namespaces, ns, old, &status).await?;
    if !remains.is_empty() {
        let pods = !ctx.store.pods.namespace(ns).is_empty();
        let began = namespace.metadata.deletion_timestamp.as_ref().map_or(ctx.now(), |t| t.0);
        let age = until(began, ctx.now());
        return Ok(Next::After((age / 10).clamp(if pods { LATER } else { SOON }, LATEST)));
    }
    let mut last = (*namespace).clone();
    if let Some(finalizers) = last.spec.as_mut().and_then(|s| s.finalizers.as_mut()) {
        finalizers.retain(|f| f != FINALIZER);
    }
    // The status just written moved the version on; the finalizers are what must not have changed.
    last.metadata.resource_version = None;
    match api.replace_subresource("finalize", ns, &write::post(), &last).await {
        Ok(_) => Ok(Next::Wait),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(Next::Wait),
        Err(error) => Err(ActionError::new("finalize", format!("Namespace {ns}"), error)),
    }
}

/// Deletes all objects of one kind and notes what is still there afterwards.
async fn empty(
    ctx: &Ctx,
    ns: &str,
    served: &Served,
    remains: &mut Remains,
) -> Result<(), ActionError> {
    let api = served.api(&ctx.client, ns);
    let failed = |verb| move |e| ActionError::new(verb, format!("{} in {ns}", served.title()), e);
    let params = ListParams::default();
    let first = match api.list_metadata(&params).await {
        Ok(list) => list,
        // Gone between discovery and now: a kind that was taken out of service.
        Err(kube::Error::Api(status)) if status.is_not_found() || status.code == 405 => {
            return Ok(());
        }
        Err(error) => return Err(failed("list")(error)),
    };
    if first.items.is_empty() {
        return Ok(());
    }
    let background = DeleteParams::background();
    if served.can("deletecollection") {
        api.delete_collection(&background, &params).await.map_err(failed("delete"))?;
    } else {
        for object in &first.items {
            match api.delete(object.metadata.name.as_deref().unwrap_or(""), &background).await {
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                other => drop(other.map_err(failed("delete"))?),
            }
        }
    }
    let left = api.list_metadata(&params).await.map_err(failed("list"))?;
    remains.note(&served.title(), left.items.iter().map(|o| &o.metadata));
    Ok(())
}
