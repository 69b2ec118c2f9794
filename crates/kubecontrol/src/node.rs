//! The life of nodes: a silent node becomes Unknown, taints follow its conditions, its pods are
//! marked unready so that no traffic goes there, and after a while they are evicted. In: nodes,
//! their leases and pods; out: node conditions and taints, pod conditions, deletions. Decided in
//! [`health`].

mod health;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, Patch};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use serde_json::json;
use tokio::time::Instant;

use crate::drive::{Controller, Next, Reconcile};
use crate::error::ActionError;
use crate::event::Fact;
use crate::key::Key;
use crate::placement::readiness;
use crate::podstate::{is_finished, is_ready, node as node_of};
use crate::queue::Queue;
use crate::store::{Ctx, name, time};
use crate::write;

const COMPONENT: &str = "node-controller";

struct Nodes {
    ctx: Arc<Ctx>,
    pulse: Arc<Mutex<FxHashMap<String, Instant>>>,
}

pub(crate) fn controller(ctx: &Arc<Ctx>) -> Controller {
    let queue = Arc::new(Queue::default());
    let pulse: Arc<Mutex<FxHashMap<String, Instant>>> = Arc::default();
    // A sign of life counts from when we see it, so the clocks of node and controller may differ.
    let beats = pulse.clone();
    ctx.store.leases.on_change(move |old, new| {
        let renewed = |l: &k8s_openapi::api::coordination::v1::Lease| {
            l.spec.as_ref().and_then(|s| s.renew_time.clone())
        };
        if let Some(lease) = new
            && old.is_none_or(|o| renewed(o) != renewed(lease))
        {
            beats.lock().insert(name(&lease.metadata).to_string(), Instant::now());
        }
    });
    let (q, beats) = (queue.clone(), pulse.clone());
    ctx.store.nodes.on_change(move |old, new| {
        match new {
            Some(node) if health::is_beat(old.map(|o| &**o), node) => {
                beats.lock().insert(name(&node.metadata).to_string(), Instant::now());
            }
            Some(_) => {}
            None => {
                if let Some(node) = old {
                    beats.lock().remove(name(&node.metadata));
                }
            }
        }
        if let Some(node) = new.or(old) {
            q.add(Key::of(&**node));
        }
    });
    let (q, weak) = (queue.clone(), Arc::downgrade(ctx));
    ctx.store.pods.on_change(move |_, new| {
        // A pod on a node in trouble may have to be marked or evicted.
        let (Some(pod), Some(ctx)) = (new, weak.upgrade()) else { return };
        let Some(node) = node_of(pod) else { return };
        let key = Key::new("", node);
        if ctx.store.nodes.get(&key).is_some_and(|n| health::is_troubled(&n)) {
            q.add(key);
        }
    });
    let reconcile = Arc::new(Nodes { ctx: ctx.clone(), pulse });
    Controller { name: COMPONENT, queue, reconcile, width: 4 }
}

impl Reconcile for Nodes {
    fn reconcile<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Next, ActionError>> {
        async move {
            let silence = {
                let mut pulse = self.pulse.lock();
                pulse.entry(key.name.to_string()).or_insert_with(Instant::now).elapsed()
            };
            sync(&self.ctx, key, silence).await
        }
        .boxed()
    }
}

async fn sync(ctx: &Ctx, key: &Key, silence: Duration) -> Result<Next, ActionError> {
    let Some(mut node) = ctx.store.nodes.get(key) else { return Ok(Next::Wait) };
    let grace = ctx.config.node_grace;
    let api = ctx.cluster::<Node>();
    let now = ctx.now();
    if silence > grace && readiness_is_known(&node) {
        let conditions = health::unknown(&node, now);
        let body = json!({ "status": { "conditions": conditions } });
        let changed = api
            .patch_status(&key.name, &write::patch_params(), &Patch::Strategic(&body))
            .await
            .map_err(|e| ActionError::new("write the status of", format!("Node {key}"), e))?;
        let message = format!("Node {key} status is now: NodeNotReady");
        ctx.events.tell(COMPONENT, &*node, Fact::normal("NodeNotReady", message));
        node = ctx.store.nodes.observe(changed);
    }
    if let Some(taints) = health::taints(&node, now) {
        let body = json!({
            "metadata": { "resourceVersion": node.metadata.resource_version },
            "spec": { "taints": taints },
        });
        node = write::merge(&api, &ctx.store.nodes, &key.name, &body).await?;
    }
    let mut again = grace.saturating_sub(silence) + Duration::from_secs(1);
    if health::is_troubled(&node) {
        let mut pods = ctx.store.pods.all();
        pods.retain(|pod| node_of(pod) == Some(&*key.name) && !is_finished(pod));
        // Only where the kubelet is silent: one that talks tells the state of its pods itself.
        if readiness(&node) == "Unknown" {
            for pod in pods.iter().filter(|p| is_ready(p)) {
                mark_unready(ctx, pod).await?;
            }
        }
        let (due, next) = health::evict(&node, &pods, ctx.config.eviction_after, now);
        for pod in due {
            evict(ctx, &pod).await?;
        }
        again = next.map_or(again, |next| next.min(again));
    }
    Ok(Next::After(again))
}

fn readiness_is_known(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|s| s.conditions.iter().flatten());
    conditions.into_iter().filter(|c| c.type_ == "Ready").all(|c| c.status != "Unknown")
}

async fn mark_unready(ctx: &Ctx, pod: &Pod) -> Result<(), ActionError> {
    let body = json!({ "status": { "conditions": [{
        "type": "Ready",
        "status": "False",
        "lastTransitionTime": time(ctx.now()),
    }]}});
    let api = ctx.api::<Pod>(pod.metadata.namespace.as_deref().unwrap_or(""));
    let params = write::patch_params();
    match api.patch_status(name(&pod.metadata), &params, &Patch::Strategic(&body)).await {
        Ok(changed) => {
            ctx.store.pods.observe(changed);
            Ok(())
        }
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(error) => {
            let title = format!("Pod {}", name(&pod.metadata));
            Err(ActionError::new("write the status of", title, error))
        }
    }
}

async fn evict(ctx: &Ctx, pod: &Pod) -> Result<(), ActionError> {
    let message = format!(
        "Marking for deletion Pod {}/{}",
        pod.metadata.namespace.as_deref().unwrap_or(""),
        name(&pod.metadata)
    );
    ctx.events.tell(
        "taint-eviction-controller",
        pod,
        Fact::normal("TaintManagerEviction", message),
    );
    let api = ctx.api::<Pod>(pod.metadata.namespace.as_deref().unwrap_or(""));
    write::delete(&api, &ctx.store.pods, &pod.metadata, DeleteParams::default()).await
}
