//! The scheduler: gives every pod without a node a node. In: pods and nodes; out: bindings, or a
//! condition that says why no node fits. Where a pod goes is decided in [`fit`].
//!
//! Each choice is put into the cache before the API is told of it, so that the next one counts it
//! while many bindings are on their way; a binding that fails takes it back.

mod fit;

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Binding, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PostParams};
use serde_json::json;

use crate::drive::{Controller, Next, Reconcile};
use crate::error::ActionError;
use crate::event::Fact;
use crate::key::Key;
use crate::podstate::{condition, is_active, node};
use crate::queue::Queue;
use crate::store::{Ctx, name, time};
use crate::write;

const COMPONENT: &str = "default-scheduler";

struct Scheduler(Arc<Ctx>);

pub(crate) fn controller(ctx: &Arc<Ctx>) -> Controller {
    let queue = Arc::new(Queue::default());
    let wanted = ctx.config.scheduler_name.clone();
    let (q, ours) = (queue.clone(), wanted.clone());
    ctx.store.pods.on_change(move |_, new| {
        if let Some(pod) = new
            && is_waiting(pod, &ours)
        {
            q.add(Key::of(&**pod));
        }
    });
    let (q, weak) = (queue.clone(), Arc::downgrade(ctx));
    ctx.store.nodes.on_change(move |old, new| {
        // Heartbeats change nothing that matters here.
        let view = |n: Option<&Arc<_>>| n.map(|n| fit::relevant(n));
        if view(old) == view(new) {
            return;
        }
        let Some(ctx) = weak.upgrade() else { return };
        for pod in ctx.store.pods.all() {
            if is_waiting(&pod, &wanted) {
                q.add(Key::of(&*pod));
            }
        }
    });
    let reconcile = Arc::new(Scheduler(ctx.clone()));
    Controller { name: "scheduler", queue, reconcile, width: 16 }
}

fn is_waiting(pod: &Pod, scheduler: &str) -> bool {
    let Some(spec) = &pod.spec else { return false };
    is_active(pod)
        && node(pod).is_none()
        && spec.scheduler_name.as_deref().unwrap_or(COMPONENT) == scheduler
        && spec.scheduling_gates.as_ref().is_none_or(Vec::is_empty)
}

impl Reconcile for Scheduler {
    fn reconcile<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Next, ActionError>> {
        place(&self.0, key).boxed()
    }
}

async fn place(ctx: &Ctx, key: &Key) -> Result<Next, ActionError> {
    let Some(pod) = ctx.store.pods.get(key) else { return Ok(Next::Wait) };
    if !is_waiting(&pod, &ctx.config.scheduler_name) {
        return Ok(Next::Wait);
    }
    let nodes = ctx.store.nodes.all();
    match fit::choose(&pod, &nodes, &ctx.store.pods.all()) {
        Ok(node) => bind(ctx, key, &pod, &node).await?,
        Err(why) => refuse(ctx, key, &pod, &why).await?,
    }
    Ok(Next::Wait)
}

async fn bind(ctx: &Ctx, key: &Key, pod: &Pod, node: &str) -> Result<(), ActionError> {
    let binding = Binding {
        metadata: ObjectMeta {
            name: pod.metadata.name.clone(),
            namespace: pod.metadata.namespace.clone(),
            uid: pod.metadata.uid.clone(),
            ..ObjectMeta::default()
        },
        target: ObjectReference {
            kind: Some("Node".into()),
            name: Some(node.into()),
            ..ObjectReference::default()
        },
    };
    let failed = |source| ActionError::new("bind", format!("Pod {key} to {node}"), source);
    let api = ctx.api::<Pod>(&key.ns);
    let params = PostParams::default();
    let mut placed = pod.clone();
    placed.spec.get_or_insert_default().node_name = Some(node.into());
    ctx.store.pods.assume(placed);
    let answer: Result<serde_json::Value, _> =
        api.create_subresource("binding", &key.name, &params, &binding).await;
    if let Err(error) = answer {
        ctx.store.pods.assume(pod.clone());
        return Err(failed(error));
    }
    let message = format!("Successfully assigned {key} to {node}");
    ctx.events.tell(COMPONENT, pod, Fact::normal("Scheduled", message));
    Ok(())
}

async fn refuse(ctx: &Ctx, key: &Key, pod: &Pod, why: &str) -> Result<(), ActionError> {
    let told = condition(pod, "PodScheduled")
        .is_some_and(|c| c.status == "False" && c.message.as_deref() == Some(why));
    if told {
        return Ok(());
    }
    ctx.events.tell(COMPONENT, pod, Fact::warning("FailedScheduling", why));
    let body = json!({ "status": { "conditions": [{
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": why,
        "lastTransitionTime": time(ctx.now()),
    }]}});
    let api = ctx.api::<Pod>(&key.ns);
    let changed = api
        .patch_status(name(&pod.metadata), &write::patch_params(), &Patch::Strategic(&body))
        .await
        .map_err(|e| ActionError::new("write the status of", format!("Pod {key}"), e))?;
    ctx.store.pods.observe(changed);
    Ok(())
}
