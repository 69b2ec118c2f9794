//! StatefulSets: pods with stable names, made, updated and removed in order. In: a StatefulSet, its
//! pods and its revisions; out: pods made and deleted, and the status. Decided in [`plan`].
//!
//! `volumeClaimTemplates` are refused with an event: there are no persistent volumes here, and a
//! pod without the volume it asks for would lose data.

mod plan;

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use serde_json::json;

use crate::drive::{Controller, Next, Reconcile};
use crate::error::ActionError;
use crate::event::Fact;
use crate::key::Key;
use crate::queue::Queue;
use crate::revision::{self, Kept};
use crate::store::{Ctx, is_deleted, label, name};
use crate::{batch, owner, selector, write};

const COMPONENT: &str = "statefulset-controller";

struct StatefulSets(Arc<Ctx>);

pub(crate) fn controller(ctx: &Arc<Ctx>) -> Controller {
    let queue = Arc::new(Queue::default());
    let q = queue.clone();
    ctx.store.stateful_sets.on_change(move |old, new| {
        if let Some(set) = new.or(old) {
            q.add(Key::of(&**set));
        }
    });
    let (q, weak) = (queue.clone(), Arc::downgrade(ctx));
    ctx.store.pods.on_change(move |old, new| {
        for pod in [old, new].into_iter().flatten() {
            if let Some(key) = owner::controller_key::<StatefulSet>(&pod.metadata) {
                q.add(key);
            } else if owner::controller(&pod.metadata).is_none()
                && let Some(ctx) = weak.upgrade()
            {
                for set in ctx.store.stateful_sets.namespace(&Key::of(&**pod).ns) {
                    let wanted = set.spec.as_ref().map(|s| &s.selector);
                    if wanted.is_some_and(|s| selector::matches(s, pod.metadata.labels.as_ref())) {
                        q.add(Key::of(&*set));
                    }
                }
            }
        }
    });
    let reconcile = Arc::new(StatefulSets(ctx.clone()));
    Controller { name: COMPONENT, queue, reconcile, width: 4 }
}

impl Reconcile for StatefulSets {
    fn reconcile<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Next, ActionError>> {
        sync(&self.0, key).boxed()
    }
}

async fn sync(ctx: &Ctx, key: &Key) -> Result<Next, ActionError> {
    let Some(set) = ctx.store.stateful_sets.get(key) else { return Ok(Next::Wait) };
    let Some(spec) = &set.spec else { return Ok(Next::Wait) };
    if spec.volume_claim_templates.as_ref().is_some_and(|v| !v.is_empty()) {
        let message = "volumeClaimTemplates are not supported: there are no persistent volumes \
                       here; use an emptyDir or hostPath volume in the pod template";
        ctx.events.tell(COMPONENT, &*set, Fact::warning("FailedCreate", message));
        return Ok(Next::Wait);
    }
    let sets = ctx.api::<StatefulSet>(&key.ns);
    let pods_api = ctx.api::<Pod>(&key.ns);
    let mut candidates = ctx.store.pods.namespace(&key.ns);
    candidates.retain(|pod| plan::ordinal(&key.name, name(&pod.metadata)).is_some());
    let claim = owner::claim(&set.metadata, &spec.selector, candidates);
    let pods = owner::settle(&sets, &*set, &pods_api, &ctx.store.pods, claim).await?;

    let salt = set.status.as_ref().and_then(|s| s.collision_count);
    let history = if is_deleted(&set.metadata) {
        revision::of(ctx, &set.metadata)
    } else {
        match revision::keep(ctx, &*set, &spec.template, &spec.selector, salt).await {
            Ok(Kept::History(history)) => history,
            Ok(Kept::Collision) => return count_collision(ctx, &set).await,
            Err(_) if ctx.is_ending(&key.ns) => return Ok(Next::Wait),
            Err(error) => return Err(error),
        }
    };
    let Some(update) = history.last() else { return Ok(Next::Wait) };
    let current = current(&set, &history).unwrap_or(update);
    let current_template = template_of(current, &spec.template);
    let now = ctx.now();
    let input = plan::Input {
        set: &set,
        pods: &pods,
        current: (name(&current.metadata), &current_template),
        update: (name(&update.metadata), &spec.template),
        now,
    };
    let made = plan::plan(&input);
    for (pod, labels) in &made.relabel {
        let body = json!({ "metadata": { "labels": labels } });
        write::merge(&pods_api, &ctx.store.pods, name(&pod.metadata), &body).await?;
    }
    batch::delete(ctx, COMPONENT, &*set, &made.delete).await?;
    let created = batch::create(ctx, COMPONENT, &*set, made.create).await;
    let old = set.status.as_ref();
    write::status(&sets, &ctx.store.stateful_sets, &key.name, old, &made.status).await?;
    if let Err(error) = created {
        return if ctx.is_ending(&key.ns) { Ok(Next::Wait) } else { Err(error) };
    }
    revision::prune(ctx, &history, spec.revision_history_limit, |old| {
        Some(name(&old.metadata)) == made.status.current_revision.as_deref()
            || pods.iter().any(|p| label(&p.metadata, revision::HASH) == Some(name(&old.metadata)))
    })
    .await?;
    Ok(Next::maybe(made.again))
}

/// The revision that the set rolls away from.
fn current<'a>(
    set: &StatefulSet,
    history: &'a [Arc<ControllerRevision>],
) -> Option<&'a Arc<ControllerRevision>> {
    let wanted = set.status.as_ref()?.current_revision.as_deref()?;
    history.iter().find(|r| name(&r.metadata) == wanted)
}

fn template_of(revision: &ControllerRevision, fallback: &PodTemplateSpec) -> PodTemplateSpec {
    revision::template(revision).unwrap_or_else(|| fallback.clone())
}

async fn count_collision(ctx: &Ctx, set: &StatefulSet) -> Result<Next, ActionError> {
    let mut status = set.status.clone().unwrap_or_default();
    status.collision_count = Some(status.collision_count.unwrap_or(0) + 1);
    let api = ctx.api::<StatefulSet>(set.metadata.namespace.as_deref().unwrap_or(""));
    let cache = &ctx.store.stateful_sets;
    write::status(&api, cache, name(&set.metadata), set.status.as_ref(), &status).await?;
    Ok(Next::After(std::time::Duration::ZERO))
}
