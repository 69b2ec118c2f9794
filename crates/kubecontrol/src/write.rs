//! Requests that change the API. Each puts the API's answer into the cache at once, so that the
//! next decision is made on the world as it is after the write.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;

use crate::cache::{Cache, Object};
use crate::error::ActionError;
use crate::key::Key;

/// The name under which our fields appear in `managedFields`.
pub(crate) const MANAGER: &str = "kube-controller-manager";

fn title<K: Object>(name: &str) -> String {
    format!("{} {name}", K::kind(&()))
}

pub(crate) fn post() -> PostParams {
    PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() }
}

pub(crate) fn patch_params() -> PatchParams {
    PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() }
}

pub(crate) async fn create<K: Object>(
    api: &Api<K>,
    cache: &Cache<K>,
    object: &K,
) -> Result<Arc<K>, ActionError> {
    let meta = object.meta();
    let name = meta.name.as_deref().or(meta.generate_name.as_deref()).unwrap_or("");
    let made = api
        .create(&post(), object)
        .await
        .map_err(|source| ActionError::new("create", title::<K>(name), source))?;
    Ok(cache.observe(made))
}

/// A JSON merge patch of the object itself.
pub(crate) async fn merge<K: Object>(
    api: &Api<K>,
    cache: &Cache<K>,
    name: &str,
    body: &Value,
) -> Result<Arc<K>, ActionError> {
    let changed = api
        .patch(name, &patch_params(), &Patch::Merge(body))
        .await
        .map_err(|source| ActionError::new("patch", title::<K>(name), source))?;
    Ok(cache.observe(changed))
}

/// Writes a status if it differs from the old one; returns whether it did.
pub(crate) async fn status<K: Object, S: Serialize>(
    api: &Api<K>,
    cache: &Cache<K>,
    name: &str,
    old: Option<&S>,
    new: &S,
) -> Result<bool, ActionError> {
    let Some(body) = status_patch(old, new) else { return Ok(false) };
    let changed = api
        .patch_status(name, &patch_params(), &Patch::Merge(&body))
        .await
        .map_err(|source| ActionError::new("write the status of", title::<K>(name), source))?;
    cache.observe(changed);
    Ok(true)
}

/// The merge patch that turns one status into the other: only fields that differ, and null for
/// those that went away.
fn status_patch<S: Serialize>(old: Option<&S>, new: &S) -> Option<Value> {
    let fields = |status: Option<&S>| match status.map(serde_json::to_value) {
        Some(Ok(Value::Object(fields))) => fields,
        _ => Map::new(),
    };
    let old = fields(old);
    let new = fields(Some(new));
    let mut change = Map::new();
    for (name, value) in &new {
        if old.get(name) != Some(value) {
            change.insert(name.clone(), value.clone());
        }
    }
    for name in old.keys() {
        if !new.contains_key(name) {
            change.insert(name.clone(), Value::Null);
        }
    }
    (!change.is_empty()).then(|| json!({ "status": change }))
}

/// Deletes exactly this object (by uid). One that is already gone is a success.
pub(crate) async fn delete<K: Object>(
    api: &Api<K>,
    cache: &Cache<K>,
    meta: &ObjectMeta,
    mut params: DeleteParams,
) -> Result<(), ActionError> {
    let name = meta.name.as_deref().unwrap_or("");
    params.preconditions = Some(Preconditions { uid: meta.uid.clone(), resource_version: None });
    let key = Key::new(meta.namespace.as_deref().unwrap_or(""), name);
    match api.delete(name, &params).await {
        Ok(answer) => {
            match answer.left() {
                // Being deleted, or removed just now: the watch will tell which.
                Some(last) if last.meta().deletion_timestamp.is_some() => {
                    cache.observe(last);
                }
                _ => cache.forget(&key, meta.uid.as_deref()),
            }
            Ok(())
        }
        Err(source) => {
            let error = ActionError::new("delete", title::<K>(name), source);
            if error.is_race() {
                // Not found, or another object of this name: in both cases ours is gone.
                cache.forget(&key, meta.uid.as_deref());
                return Ok(());
            }
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_patch_has_only_what_changed() {
        let old = json!({"a": 1, "b": 2, "c": [1]});
        let new = json!({"a": 1, "b": 3, "d": 4});
        let patch = status_patch(Some(&old), &new);
        assert_eq!(patch, Some(json!({"status": {"b": 3, "c": null, "d": 4}})));
        assert_eq!(status_patch(Some(&old), &old), None);
    }
}
