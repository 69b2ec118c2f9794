//! DaemonSets: one pod on every node that may have one. In: a DaemonSet, its pods, the nodes; out:
//! pods made for a node and deleted, and the status. Decided in [`plan`]; the scheduler binds each
//! pod to the one node its affinity names.

mod plan;

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;

use crate::drive::{Controller, Next, Reconcile};
use crate::error::ActionError;
use crate::key::Key;
use crate::placement;
use crate::queue::{BURST, Queue};
use crate::revision::{self, Kept};
use crate::store::{Ctx, is_deleted, label, name};
use crate::{batch, owner, selector, write};

const COMPONENT: &str = "daemonset-controller";

struct DaemonSets(Arc<Ctx>);

pub(crate) fn controller(ctx: &Arc<Ctx>) -> Controller {
    let queue = Arc::new(Queue::every(BURST));
    let q = queue.clone();
    ctx.store.daemon_sets.on_change(move |old, new| {
        if let Some(set) = new.or(old) {
            q.add(Key::of(&**set));
        }
    });
    let (q, weak) = (queue.clone(), Arc::downgrade(ctx));
    ctx.store.pods.on_change(move |old, new| {
        for pod in [old, new].into_iter().flatten() {
            if let Some(key) = owner::controller_key::<DaemonSet>(&pod.metadata) {
                q.add(key);
            } else if owner::controller(&pod.metadata).is_none()
                && let Some(ctx) = weak.upgrade()
            {
                for set in ctx.store.daemon_sets.namespace(&Key::of(&**pod).ns) {
                    let wanted = set.spec.as_ref().map(|s| &s.selector);
                    if wanted.is_some_and(|s| selector::matches(s, pod.metadata.labels.as_ref())) {
                        q.add(Key::of(&*set));
                    }
                }
            }
        }
    });
    let (q, weak) = (queue.clone(), Arc::downgrade(ctx));
    ctx.store.nodes.on_change(move |old, new| {
        let view = |n: Option<&Arc<k8s_openapi::api::core::v1::Node>>| {
            n.map(|n| (n.metadata.labels.clone(), placement::taints(n)))
        };
        if view(old) == view(new) {
            return;
        }
        let Some(ctx) = weak.upgrade() else { return };
        for set in ctx.store.daemon_sets.all() {
            q.add(Key::of(&*set));
        }
    });
    let reconcile = Arc::new(DaemonSets(ctx.clone()));
    Controller { name: COMPONENT, queue, reconcile, width: 4 }
}

impl Reconcile for DaemonSets {
    fn reconcile<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Next, ActionError>> {
        sync(&self.0, key).boxed()
    }
}

async fn sync(ctx: &Ctx, key: &Key) -> Result<Next, ActionError> {
    let Some(set) = ctx.store.daemon_sets.get(key) else { return Ok(Next::Wait) };
    let Some(spec) = &set.spec else { return Ok(Next::Wait) };
    let sets = ctx.api::<DaemonSet>(&key.ns);
    let pods_api = ctx.api::<Pod>(&key.ns);
    let claim = owner::claim(&set.metadata, &spec.selector, ctx.store.pods.namespace(&key.ns));
    let pods = owner::settle(&sets, &*set, &pods_api, &ctx.store.pods, claim).await?;
    if is_deleted(&set.metadata) {
        return Ok(Next::Wait);
    }
    let salt = set.status.as_ref().and_then(|s| s.collision_count);
    let history = match revision::keep(ctx, &*set, &spec.template, &spec.selector, salt).await {
        Ok(Kept::History(history)) => history,
        Ok(Kept::Collision) => return count_collision(ctx, &set).await,
        Err(_) if ctx.is_ending(&key.ns) => return Ok(Next::Wait),
        Err(error) => return Err(error),
    };
    let hash = history.last().and_then(|r| label(&r.metadata, revision::HASH)).unwrap_or("");
    let nodes = ctx.store.nodes.all();
    let made = plan::plan(&set, &nodes, &pods, hash, ctx.now());
    batch::delete(ctx, COMPONENT, &*set, &made.delete).await?;
    let created = batch::create(ctx, COMPONENT, &*set, made.create).await;
    let old = set.status.as_ref();
    write::status(&sets, &ctx.store.daemon_sets, &key.name, old, &made.status).await?;
    if let Err(error) = created {
        return if ctx.is_ending(&key.ns) { Ok(Next::Wait) } else { Err(error) };
    }
    revision::prune(ctx, &history, spec.revision_history_limit, |old| {
        let used = label(&old.metadata, revision::HASH);
        pods.iter().any(|p| label(&p.metadata, revision::HASH) == used)
    })
    .await?;
    Ok(Next::maybe(made.again))
}

async fn count_collision(ctx: &Ctx, set: &DaemonSet) -> Result<Next, ActionError> {
    let mut status = set.status.clone().unwrap_or_default();
    status.collision_count = Some(status.collision_count.unwrap_or(0) + 1);
    let api = ctx.api::<DaemonSet>(set.metadata.namespace.as_deref().unwrap_or(""));
    let cache = &ctx.store.daemon_sets;
    write::status(&api, cache, name(&set.metadata), set.status.as_ref(), &status).await?;
    Ok(Next::After(std::time::Duration::ZERO))
}
