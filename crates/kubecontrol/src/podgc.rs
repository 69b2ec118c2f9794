//! Pods that nobody else removes: those of a Node that no longer exists, those deleted before they
//! had a node, and the oldest ended ones when there are too many. In: pods and nodes; out: forced
//! deletions.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, Patch};
use serde_json::json;

use crate::drive::{Controller, Next, Reconcile};
use crate::error::ActionError;
use crate::key::Key;
use crate::podstate::{is_finished, node as node_of};
use crate::queue::Queue;
use crate::store::{Ctx, is_deleted, name, time};
use crate::write;

struct PodGc(Arc<Ctx>);

/// A key names a pod, a node (no namespace), or the ended pods (nothing at all).
pub(crate) fn controller(ctx: &Arc<Ctx>) -> Controller {
    let queue = Arc::new(Queue::default());
    let (q, weak) = (queue.clone(), Arc::downgrade(ctx));
    ctx.store.pods.on_change(move |old, new| {
        let Some(pod) = new else { return };
        let Some(ctx) = weak.upgrade() else { return };
        match node_of(pod) {
            None if is_deleted(&pod.metadata) => q.add(Key::of(&**pod)),
            Some(node) if ctx.store.nodes.get(&Key::new("", node)).is_none() => {
                q.add_after(Key::new("", node), ctx.config.lost_node_grace);
            }
            _ => {}
        }
        if is_finished(pod) && old.is_none_or(|o| !is_finished(o)) {
            q.add(Key::new("", ""));
        }
    });
    let (q, weak) = (queue.clone(), Arc::downgrade(ctx));
    ctx.store.nodes.on_change(move |old, new| {
        if let (Some(gone), None, Some(ctx)) = (old, new, weak.upgrade()) {
            q.add_after(Key::of(&**gone), ctx.config.lost_node_grace);
        }
    });
    let reconcile = Arc::new(PodGc(ctx.clone()));
    Controller { name: "pod-garbage-collector", queue, reconcile, width: 1 }
}

impl Reconcile for PodGc {
    fn reconcile<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Next, ActionError>> {
        sync(&self.0, key).boxed()
    }
}

async fn sync(ctx: &Ctx, key: &Key) -> Result<Next, ActionError> {
    if !key.ns.is_empty() {
        if let Some(pod) = ctx.store.pods.get(key)
            && is_deleted(&pod.metadata)
            && node_of(&pod).is_none()
        {
            remove(ctx, &pod).await?;
        }
    } else if key.name.is_empty() {
        for pod in surplus(ctx.store.pods.all(), ctx.config.finished_pods) {
            remove(ctx, &pod).await?;
        }
    } else {
        let api = ctx.cluster::<Node>();
        let live = api.get_metadata_opt(&key.name).await;
        let live = live.map_err(|e| ActionError::new("read", format!("Node {key}"), e))?;
        if live.is_some() {
            return Ok(Next::Wait);
        }
        let lost = ctx.store.pods.all().into_iter().filter(|p| node_of(p) == Some(&*key.name));
        for pod in lost {
            fail(ctx, &pod).await?;
            remove(ctx, &pod).await?;
        }
    }
    Ok(Next::Wait)
}

/// The oldest ended pods beyond `limit`.
fn surplus(mut pods: Vec<Arc<Pod>>, limit: usize) -> Vec<Arc<Pod>> {
    pods.retain(|pod| is_finished(pod) && !is_deleted(&pod.metadata));
    pods.sort_by_cached_key(|p| p.metadata.creation_timestamp.as_ref().map(|t| t.0));
    pods.truncate(pods.len().saturating_sub(limit));
    pods
}

/// Says in the status that the pod has ended, for whoever counts its end (a Job).
async fn fail(ctx: &Ctx, pod: &Pod) -> Result<(), ActionError> {
    if is_finished(pod) {
        return Ok(());
    }
    let body = json!({ "status": { "phase": "Failed", "conditions": [{
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByPodGC",
        "message": "PodGC: node no longer exists",
        "lastTransitionTime": time(ctx.now()),
    }]}});
    let api = ctx.api::<Pod>(pod.metadata.namespace.as_deref().unwrap_or(""));
    match api
        .patch_status(name(&pod.metadata), &write::patch_params(), &Patch::Strategic(&body))
        .await
    {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(error) => {
            let title = format!("Pod {}", name(&pod.metadata));
            Err(ActionError::new("write the status of", title, error))
        }
        Ok(_) => Ok(()),
    }
}

async fn remove(ctx: &Ctx, pod: &Pod) -> Result<(), ActionError> {
    let api = ctx.api::<Pod>(pod.metadata.namespace.as_deref().unwrap_or(""));
    write::delete(&api, &ctx.store.pods, &pod.metadata, DeleteParams::default().grace_period(0))
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_oldest_ended_pods_are_too_many() {
        let pod = |name: &str, phase: &str, born: &str| {
            let pod: Pod = serde_json::from_value(json!({
                "metadata": {"name": name, "creationTimestamp": born},
                "status": {"phase": phase}}))
            .unwrap();
            Arc::new(pod)
        };
        let pods = vec![
            pod("new", "Failed", "2026-01-03T00:00:00Z"),
            pod("old", "Succeeded", "2026-01-01T00:00:00Z"),
            pod("mid", "Failed", "2026-01-02T00:00:00Z"),
            pod("alive", "Running", "2025-01-01T00:00:00Z"),
        ];
        let names = |limit| -> Vec<String> {
            surplus(pods.clone(), limit).iter().map(|p| name(&p.metadata).to_string()).collect()
        };
        assert_eq!(names(3), Vec::<String>::new());
        assert_eq!(names(1), ["old", "mid"]);
    }
}
