//! Making and removing many pods for one owner, in growing steps: if the first is refused (a
//! quota, a webhook), the rest is not even tried.

use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::Resource;
use kube::api::DeleteParams;

use crate::error::ActionError;
use crate::event::Fact;
use crate::store::{Ctx, name};
use crate::write;

/// The most pods that are made or removed in one go for one owner.
pub(crate) const MOST: usize = 500;

/// Makes the pods and tells an event about each. On failure, says how many were made before it.
pub(crate) async fn create<K: Resource<DynamicType = ()>>(
    ctx: &Ctx,
    component: &'static str,
    owner: &K,
    pods: Vec<Pod>,
) -> Result<(), ActionError> {
    let ns = owner.meta().namespace.as_deref().unwrap_or("");
    let api = ctx.api::<Pod>(ns);
    let mut pods = pods.as_slice();
    let mut step = 1;
    while !pods.is_empty() {
        let (now, later) = pods.split_at(step.min(pods.len()));
        let made =
            join_all(now.iter().map(|pod| Box::pin(write::create(&api, &ctx.store.pods, pod))))
                .await;
        for result in made {
            match result {
                Ok(pod) => {
                    let message = format!("Created pod: {}", name(&pod.metadata));
                    ctx.events.tell(component, owner, Fact::normal("SuccessfulCreate", message));
                }
                Err(error) => {
                    if !ctx.is_ending(ns) {
                        let message = format!("Error creating: {}", error.message());
                        ctx.events.tell(component, owner, Fact::warning("FailedCreate", message));
                    }
                    return Err(error);
                }
            }
        }
        pods = later;
        step *= 2;
    }
    Ok(())
}

/// Deletes the pods and tells an event about each.
pub(crate) async fn delete<K: Resource<DynamicType = ()>>(
    ctx: &Ctx,
    component: &'static str,
    owner: &K,
    pods: &[Arc<Pod>],
) -> Result<(), ActionError> {
    let api = ctx.api::<Pod>(owner.meta().namespace.as_deref().unwrap_or(""));
    for some in pods.chunks(16) {
        let gone = join_all(some.iter().map(|pod| {
            Box::pin(write::delete(
                &api,
                &ctx.store.pods,
                &pod.metadata,
                DeleteParams::background(),
            ))
        }))
        .await;
        for (pod, result) in some.iter().zip(gone) {
            let pod = name(&pod.metadata);
            match result {
                Ok(()) => {
                    let message = format!("Deleted pod: {pod}");
                    ctx.events.tell(component, owner, Fact::normal("SuccessfulDelete", message));
                }
                Err(error) => {
                    let message = format!("Error deleting: {}", error.message());
                    ctx.events.tell(component, owner, Fact::warning("FailedDelete", message));
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}
