//! ReplicaSets: keeps the wanted number of pods. In: a ReplicaSet and the pods of its namespace;
//! out: pods made or deleted, and the status. What to do is decided in [`plan`].

mod plan;

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;

use crate::drive::{Controller, Next, Reconcile};
use crate::error::ActionError;
use crate::key::Key;
use crate::owner;
use crate::podstate::{from_template, next_available, prefix};
use crate::queue::{BURST, Queue};
use crate::selector;
use crate::store::{Ctx, is_deleted, name, until};
use crate::{batch, write};

const COMPONENT: &str = "replicaset-controller";

struct ReplicaSets(Arc<Ctx>);

pub(crate) fn controller(ctx: &Arc<Ctx>) -> Controller {
    let queue = Arc::new(Queue::every(BURST));
    let q = queue.clone();
    ctx.store.replica_sets.on_change(move |old, new| {
        if let Some(set) = new.or(old) {
            q.add(Key::of(&**set));
        }
    });
    let (q, weak) = (queue.clone(), Arc::downgrade(ctx));
    ctx.store.pods.on_change(move |old, new| {
        for pod in [old, new].into_iter().flatten() {
            if let Some(key) = owner::controller_key::<ReplicaSet>(&pod.metadata) {
                q.add(key);
            } else if owner::controller(&pod.metadata).is_none()
                && let Some(ctx) = weak.upgrade()
            {
                // Nobody's pod: whoever selects it may want to adopt it.
                for set in ctx.store.replica_sets.namespace(&Key::of(&**pod).ns) {
                    let wanted = set.spec.as_ref().map(|s| &s.selector);
                    if wanted.is_some_and(|s| selector::matches(s, pod.metadata.labels.as_ref())) {
                        q.add(Key::of(&*set));
                    }
                }
            }
        }
    });
    let reconcile = Arc::new(ReplicaSets(ctx.clone()));
    Controller { name: COMPONENT, queue, reconcile, width: 8 }
}

impl Reconcile for ReplicaSets {
    fn reconcile<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Next, ActionError>> {
        sync(&self.0, key).boxed()
    }
}

async fn sync(ctx: &Ctx, key: &Key) -> Result<Next, ActionError> {
    let Some(set) = ctx.store.replica_sets.get(key) else { return Ok(Next::Wait) };
    let Some(spec) = &set.spec else { return Ok(Next::Wait) };
    let sets = ctx.api::<ReplicaSet>(&key.ns);
    let claim = owner::claim(&set.metadata, &spec.selector, ctx.store.pods.namespace(&key.ns));
    let pods_api = ctx.api::<Pod>(&key.ns);
    let mut pods = owner::settle(&sets, &*set, &pods_api, &ctx.store.pods, claim).await?;

    let mut failure = None;
    if !is_deleted(&set.metadata) {
        let result = match plan::change(spec.replicas.unwrap_or(1), &pods) {
            plan::Change::None => Ok(()),
            plan::Change::Create(count) => {
                create(ctx, &set, count.min(batch::MOST)).await.map_err(|e| ("FailedCreate", e))
            }
            plan::Change::Delete(doomed) => {
                batch::delete(ctx, COMPONENT, &*set, &doomed).await.map_err(|e| ("FailedDelete", e))
            }
        };
        failure = result.err();
        pods = mine(ctx, &set);
    }

    let now = ctx.now();
    let why = failure.as_ref().map(|(reason, error)| (*reason, error.message()));
    let status = plan::status(&set, &pods, why.as_ref().map(|(r, m)| (*r, m.as_str())), now);
    write::status(&sets, &ctx.store.replica_sets, &key.name, set.status.as_ref(), &status).await?;
    match failure {
        Some((_, error)) if !ctx.is_ending(&key.ns) => Err(error),
        _ => {
            let min_ready = spec.min_ready_seconds.unwrap_or(0);
            let at = next_available(pods.iter().map(|p| &**p), min_ready, now);
            Ok(Next::maybe(at.map(|at| until(now, at))))
        }
    }
}

async fn create(ctx: &Ctx, set: &ReplicaSet, count: usize) -> Result<(), ActionError> {
    let Some(template) = set.spec.as_ref().and_then(|s| s.template.as_ref()) else {
        return Ok(());
    };
    let ns = set.metadata.namespace.as_deref().unwrap_or("");
    let mut pod = from_template(template, ns, owner::reference(set));
    pod.metadata.generate_name = Some(prefix(name(&set.metadata)));
    batch::create(ctx, COMPONENT, set, vec![pod; count]).await
}

/// The set's pods as the cache has them after our own writes.
fn mine(ctx: &Ctx, set: &ReplicaSet) -> Vec<Arc<Pod>> {
    let mut pods = ctx.store.pods.namespace(set.metadata.namespace.as_deref().unwrap_or(""));
    pods.retain(|pod| owner::is_controlled_by(&pod.metadata, &set.metadata));
    pods
}
