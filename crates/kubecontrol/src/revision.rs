//! The history of StatefulSets and DaemonSets: each pod template they ever had, kept as a
//! ControllerRevision so that `kubectl rollout history` and `undo` can find it. Decisions are
//! pure; [`keep`] carries them out.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube::Resource;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::error::ActionError;
use crate::store::{Ctx, name};
use crate::{hash, owner, write};

pub(crate) const HASH: &str = "controller-revision-hash";

/// The content of a revision: a patch that puts the template in place of any other.
pub(crate) fn data(template: &PodTemplateSpec) -> Value {
    let mut template = serde_json::to_value(template).unwrap_or_default();
    if let Some(fields) = template.as_object_mut() {
        fields.insert("$patch".into(), "replace".into());
    }
    json!({ "spec": { "template": template } })
}

/// The template that a revision holds.
pub(crate) fn template(revision: &ControllerRevision) -> Option<PodTemplateSpec> {
    let mut template = revision.data.as_ref()?.0.get("spec")?.get("template")?.clone();
    template.as_object_mut()?.remove("$patch");
    serde_json::from_value(template).ok()
}

/// The revisions of one owner, oldest first.
pub(crate) fn of(ctx: &Ctx, owner: &ObjectMeta) -> Vec<Arc<ControllerRevision>> {
    let mut mine = ctx.store.revisions.namespace(owner.namespace.as_deref().unwrap_or(""));
    mine.retain(|revision| owner::is_controlled_by(&revision.metadata, owner));
    mine.sort_by_cached_key(|r| (r.revision, r.metadata.name.clone()));
    mine
}

/// What must happen so that the newest revision holds the template.
#[derive(Debug, PartialEq)]
pub(crate) enum Keep {
    /// It already does.
    Found,
    /// An older one does: it becomes the newest (a rollback).
    Renumber(Arc<ControllerRevision>, i64),
    /// None does.
    Create(Box<ControllerRevision>),
}

pub(crate) fn judge<K: Resource<DynamicType = ()>>(
    owner: &K,
    template: &PodTemplateSpec,
    selector: &LabelSelector,
    salt: Option<i32>,
    history: &[Arc<ControllerRevision>],
) -> Keep {
    let content = data(template);
    let next = history.iter().map(|r| r.revision).max().unwrap_or(0) + 1;
    let same = history.iter().rev().find(|r| r.data.as_ref().is_some_and(|d| d.0 == content));
    match same {
        Some(found) if found.revision == next - 1 => Keep::Found,
        Some(older) => Keep::Renumber(older.clone(), next),
        None => {
            let hash = hash::of(&content, salt);
            let mut labels = selector.match_labels.clone().unwrap_or_default();
            labels.insert(HASH.into(), hash.clone());
            Keep::Create(Box::new(ControllerRevision {
                metadata: ObjectMeta {
                    name: Some(format!("{}-{hash}", name(owner.meta()))),
                    namespace: owner.meta().namespace.clone(),
                    labels: Some(labels),
                    owner_references: Some(vec![owner::reference(owner)]),
                    ..ObjectMeta::default()
                },
                data: Some(RawExtension(content)),
                revision: next,
            }))
        }
    }
}

/// The outcome of [`keep`]: the history with the current revision last, or a name collision that
/// asks for another salt.
pub(crate) enum Kept {
    History(Vec<Arc<ControllerRevision>>),
    Collision,
}

pub(crate) async fn keep<K: Resource<DynamicType = ()>>(
    ctx: &Ctx,
    owner: &K,
    template: &PodTemplateSpec,
    selector: &LabelSelector,
    salt: Option<i32>,
) -> Result<Kept, ActionError> {
    let history = of(ctx, owner.meta());
    let api = ctx.api::<ControllerRevision>(owner.meta().namespace.as_deref().unwrap_or(""));
    let cache = &ctx.store.revisions;
    match judge(owner, template, selector, salt, &history) {
        Keep::Found => return Ok(Kept::History(history)),
        Keep::Renumber(old, next) => {
            let body = json!({
                "metadata": { "resourceVersion": old.metadata.resource_version },
                "revision": next,
            });
            write::merge(&api, cache, name(&old.metadata), &body).await?;
        }
        Keep::Create(made) => match write::create(&api, cache, &made).await {
            Err(error) if error.is_already_exists() => {
                let live = api.get(name(&made.metadata)).await;
                let live = live.map_err(|e| ActionError::new("read", name(&made.metadata), e))?;
                let ours = owner::is_controlled_by(&live.metadata, owner.meta());
                if !ours || live.data != made.data {
                    return Ok(Kept::Collision);
                }
                cache.observe(live);
                return Err(error);
            }
            other => drop(other?),
        },
    }
    Ok(Kept::History(of(ctx, owner.meta())))
}

/// Deletes the oldest revisions that no pod uses, beyond `limit`. The last one is always kept.
pub(crate) async fn prune(
    ctx: &Ctx,
    history: &[Arc<ControllerRevision>],
    limit: Option<i32>,
    is_used: impl Fn(&ControllerRevision) -> bool,
) -> Result<(), ActionError> {
    let limit = usize::try_from(limit.unwrap_or(10)).unwrap_or(0);
    let Some((_, older)) = history.split_last() else { return Ok(()) };
    let idle: Vec<_> = older.iter().filter(|r| !is_used(r)).collect();
    for old in &idle[..idle.len().saturating_sub(limit)] {
        let api = ctx.api::<ControllerRevision>(old.metadata.namespace.as_deref().unwrap_or(""));
        let params = DeleteParams::background();
        write::delete(&api, &ctx.store.revisions, &old.metadata, params).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::apps::v1::StatefulSet;

    fn template(image: &str) -> PodTemplateSpec {
        serde_json::from_value(json!({"spec": {"containers": [{"name": "c", "image": image}]}}))
            .unwrap()
    }

    #[test]
    fn a_template_is_found_made_or_brought_back() {
        let mut set = StatefulSet::default();
        set.metadata.name = Some("db".into());
        let selector = LabelSelector::default();
        let judge = |image: &str, history: &[Arc<ControllerRevision>]| {
            judge(&set, &template(image), &selector, None, history)
        };
        let Keep::Create(first) = judge("one", &[]) else { panic!() };
        assert_eq!(first.revision, 1);
        assert_eq!(super::template(&first), Some(template("one")));
        let first = Arc::new(*first);
        assert_eq!(judge("one", std::slice::from_ref(&first)), Keep::Found);
        let Keep::Create(second) = judge("two", std::slice::from_ref(&first)) else { panic!() };
        assert_eq!(second.revision, 2);
        let history = [first.clone(), Arc::new(*second)];
        assert_eq!(judge("one", &history), Keep::Renumber(first, 3));
    }
}
