//! Jobs: runs pods until enough of them have succeeded. In: a Job and its pods; out: pods made and
//! deleted, the status, and at last the deletion of a Job whose time to live is over. Decided in
//! [`plan`].
//!
//! Ended pods are counted as long as they exist. Pod failure policies, success policies and back-off
//! limits per index are refused with an event.

mod index;
mod plan;

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;

use crate::drive::{Controller, Next, Reconcile};
use crate::error::ActionError;
use crate::event::Fact;
use crate::key::Key;
use crate::queue::{BURST, Queue};
use crate::store::{Ctx, is_deleted};
use crate::{batch, owner, selector, write};

const COMPONENT: &str = "job-controller";

struct Jobs(Arc<Ctx>);

pub(crate) fn controller(ctx: &Arc<Ctx>) -> Controller {
    let queue = Arc::new(Queue::every(BURST));
    let q = queue.clone();
    ctx.store.jobs.on_change(move |old, new| {
        if let Some(job) = new.or(old) {
            q.add(Key::of(&**job));
        }
    });
    let (q, weak) = (queue.clone(), Arc::downgrade(ctx));
    ctx.store.pods.on_change(move |old, new| {
        for pod in [old, new].into_iter().flatten() {
            if let Some(key) = owner::controller_key::<Job>(&pod.metadata) {
                q.add(key);
            } else if owner::controller(&pod.metadata).is_none()
                && let Some(ctx) = weak.upgrade()
            {
                for job in ctx.store.jobs.namespace(&Key::of(&**pod).ns) {
                    let wanted = job.spec.as_ref().and_then(|s| s.selector.as_ref());
                    if wanted.is_some_and(|s| selector::matches(s, pod.metadata.labels.as_ref())) {
                        q.add(Key::of(&*job));
                    }
                }
            }
        }
    });
    let reconcile = Arc::new(Jobs(ctx.clone()));
    Controller { name: COMPONENT, queue, reconcile, width: 4 }
}

impl Reconcile for Jobs {
    fn reconcile<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Next, ActionError>> {
        sync(&self.0, key).boxed()
    }
}

async fn sync(ctx: &Ctx, key: &Key) -> Result<Next, ActionError> {
    let Some(job) = ctx.store.jobs.get(key) else { return Ok(Next::Wait) };
    let Some(spec) = &job.spec else { return Ok(Next::Wait) };
    let elsewhere = |by: &String| by != "kubernetes.io/job-controller";
    if is_deleted(&job.metadata) || spec.managed_by.as_ref().is_some_and(elsewhere) {
        return Ok(Next::Wait);
    }
    if let Some(what) = plan::unsupported(spec) {
        let message = format!("{what} is not supported: no pods are made for this Job");
        ctx.events.tell(COMPONENT, &*job, Fact::warning("FailedCreate", message));
        return Ok(Next::Wait);
    }
    let jobs = ctx.api::<Job>(&key.ns);
    let now = ctx.now();
    match plan::expiry(&job, now) {
        plan::Expiry::Running => {}
        plan::Expiry::Kept(wait) => return Ok(Next::maybe(wait)),
        plan::Expiry::Over => {
            let params = DeleteParams::background();
            write::delete(&jobs, &ctx.store.jobs, &job.metadata, params).await?;
            return Ok(Next::Wait);
        }
    }
    let pods_api = ctx.api::<Pod>(&key.ns);
    let all = ctx.store.pods.namespace(&key.ns);
    let pods = match &spec.selector {
        Some(wanted) => {
            let claim = owner::claim(&job.metadata, wanted, all);
            owner::settle(&jobs, &*job, &pods_api, &ctx.store.pods, claim).await?
        }
        None => {
            let mine = |pod: &Arc<Pod>| owner::is_controlled_by(&pod.metadata, &job.metadata);
            all.into_iter().filter(mine).collect()
        }
    };
    let made = plan::plan(&job, &pods, now);
    batch::delete(ctx, COMPONENT, &*job, &made.delete).await?;
    let created = batch::create(ctx, COMPONENT, &*job, made.create).await;
    let old = job.status.as_ref();
    write::status(&jobs, &ctx.store.jobs, &key.name, old, &made.status).await?;
    for fact in made.facts {
        ctx.events.tell(COMPONENT, &*job, fact);
    }
    match created {
        Err(error) if !ctx.is_ending(&key.ns) => Err(error),
        _ => Ok(Next::maybe(made.again)),
    }
}
