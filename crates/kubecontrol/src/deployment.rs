//! Deployments: rolls a pod template out over ReplicaSets. In: a Deployment, its ReplicaSets and
//! their pods; out: ReplicaSets made, scaled and deleted, and the status that `kubectl rollout`
//! reads. Every step is decided in [`plan`]; one reconcile takes at most one step of a rollout.

mod condition;
mod plan;
mod replicas;
mod scale;

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use serde_json::json;

use crate::drive::{Controller, Next, Reconcile};
use crate::error::ActionError;
use crate::event::Fact;
use crate::key::Key;
use crate::queue::{BURST, Queue};
use crate::store::{Ctx, name};
use crate::{owner, selector, write};
use plan::{Plan, Step};

const COMPONENT: &str = "deployment-controller";

struct Deployments(Arc<Ctx>);

pub(crate) fn controller(ctx: &Arc<Ctx>) -> Controller {
    let queue = Arc::new(Queue::every(BURST));
    let q = queue.clone();
    ctx.store.deployments.on_change(move |old, new| {
        if let Some(deployment) = new.or(old) {
            q.add(Key::of(&**deployment));
        }
    });
    let (q, weak) = (queue.clone(), Arc::downgrade(ctx));
    ctx.store.replica_sets.on_change(move |old, new| {
        for set in [old, new].into_iter().flatten() {
            if let Some(key) = owner::controller_key::<Deployment>(&set.metadata) {
                q.add(key);
            } else if owner::controller(&set.metadata).is_none()
                && let Some(ctx) = weak.upgrade()
            {
                for deployment in ctx.store.deployments.namespace(&Key::of(&**set).ns) {
                    let wanted = deployment.spec.as_ref().map(|s| &s.selector);
                    if wanted.is_some_and(|s| selector::matches(s, set.metadata.labels.as_ref())) {
                        q.add(Key::of(&*deployment));
                    }
                }
            }
        }
    });
    let (q, weak) = (queue.clone(), Arc::downgrade(ctx));
    ctx.store.pods.on_change(move |old, new| {
        // Recreate waits for the last old pod to be gone; nothing else depends on single pods.
        if new.is_some() {
            return;
        }
        let Some(pod) = old else { return };
        let Some(set) = owner::controller_key::<ReplicaSet>(&pod.metadata) else { return };
        let Some(set) = weak.upgrade().and_then(|ctx| ctx.store.replica_sets.get(&set)) else {
            return;
        };
        if let Some(key) = owner::controller_key::<Deployment>(&set.metadata) {
            q.add(key);
        }
    });
    let reconcile = Arc::new(Deployments(ctx.clone()));
    Controller { name: COMPONENT, queue, reconcile, width: 8 }
}

impl Reconcile for Deployments {
    fn reconcile<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Next, ActionError>> {
        sync(&self.0, key).boxed()
    }
}

async fn sync(ctx: &Ctx, key: &Key) -> Result<Next, ActionError> {
    let Some(deployment) = ctx.store.deployments.get(key) else { return Ok(Next::Wait) };
    let Some(spec) = &deployment.spec else { return Ok(Next::Wait) };
    let api = ctx.api::<Deployment>(&key.ns);
    let sets_api = ctx.api::<ReplicaSet>(&key.ns);
    let sets = ctx.store.replica_sets.namespace(&key.ns);
    let claim = owner::claim(&deployment.metadata, &spec.selector, sets);
    let cache = &ctx.store.replica_sets;
    let sets = owner::settle(&api, &*deployment, &sets_api, cache, claim).await?;
    let mut pods: Vec<Arc<Pod>> = ctx.store.pods.namespace(&key.ns);
    pods.retain(|pod| sets.iter().any(|set| owner::is_controlled_by(&pod.metadata, &set.metadata)));

    let now = ctx.now();
    let Plan { steps, status, again, facts } = plan::plan(&deployment, &sets, &pods, now);
    for fact in facts {
        ctx.events.tell(COMPONENT, &*deployment, fact);
    }
    for step in steps {
        if let Err(error) = take(ctx, &deployment, step).await {
            return if ctx.is_ending(&key.ns) { Ok(Next::Wait) } else { Err(error) };
        }
    }
    let cache = &ctx.store.deployments;
    write::status(&api, cache, &key.name, deployment.status.as_ref(), &status).await?;
    Ok(Next::maybe(again))
}

async fn take(ctx: &Ctx, deployment: &Deployment, step: Step) -> Result<(), ActionError> {
    let ns = deployment.metadata.namespace.as_deref().unwrap_or("");
    let cache = &ctx.store.replica_sets;
    let sets = ctx.api::<ReplicaSet>(ns);
    match step {
        Step::Create(set) => return create(ctx, deployment, &set).await,
        Step::Patch { set, body } => {
            write::merge(&sets, cache, name(&set.metadata), &body).await?;
        }
        Step::Delete(set) => {
            write::delete(&sets, cache, &set.metadata, DeleteParams::background()).await?;
        }
        Step::Annotate(body) => {
            let api = ctx.api::<Deployment>(ns);
            write::merge(&api, &ctx.store.deployments, name(&deployment.metadata), &body).await?;
        }
    }
    Ok(())
}

/// Makes the new ReplicaSet. If its name is taken by a set of another template, the collision
/// count goes up and the next try makes another name.
async fn create(ctx: &Ctx, deployment: &Deployment, set: &ReplicaSet) -> Result<(), ActionError> {
    let ns = deployment.metadata.namespace.as_deref().unwrap_or("");
    let sets = ctx.api::<ReplicaSet>(ns);
    let cache = &ctx.store.replica_sets;
    let error = match Box::pin(write::create(&sets, cache, set)).await {
        Ok(_) => return Ok(()),
        Err(error) => error,
    };
    if !error.is_already_exists() {
        if !ctx.is_ending(ns) {
            let message = format!(
                "Failed to create new replica set {:?}: {}",
                name(&set.metadata),
                error.message()
            );
            ctx.events.tell(COMPONENT, deployment, Fact::warning("FailedCreate", message));
        }
        return Err(error);
    }
    let live = sets.get(name(&set.metadata)).await;
    let live = live.map_err(|e| ActionError::new("read", name(&set.metadata), e))?;
    let same = owner::is_controlled_by(&live.metadata, &deployment.metadata)
        && plan::same_template(deployment, &live);
    if same {
        cache.observe(live);
        return Err(error);
    }
    let count = deployment.status.as_ref().and_then(|s| s.collision_count).unwrap_or(0) + 1;
    let api = ctx.api::<Deployment>(ns);
    let mut status = deployment.status.clone().unwrap_or_default();
    status.collision_count = Some(count);
    let old = deployment.status.as_ref();
    write::status(&api, &ctx.store.deployments, name(&deployment.metadata), old, &status).await?;
    tracing::debug!(set = %json!(set.metadata.name), count, "two templates met at one hash");
    Err(error)
}

#[cfg(test)]
mod tests;
