//! Brings a pod's status to the API: only what changed, one write at a time.
//!
//! In come statuses, out go strategic merge patches of the status subresource that leave alone what
//! others wrote there.

use k8s_openapi::api::core::v1::{Pod, PodCondition, PodStatus};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client};
use serde_json::{Map, Value, json};

/// Conditions that the kubelet writes; all others are somebody else's.
const OWN: [&str; 5] =
    ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];

/// The patch from `old` to `new`, or `None` if nothing of ours differs.
pub fn patch(uid: &str, old: &PodStatus, new: &PodStatus) -> Option<Value> {
    let (old, new) = (own(old), own(new));
    let mut status = Map::new();
    for (key, value) in &new {
        if old.get(key) != Some(value) {
            status.insert(key.clone(), value.clone());
        }
    }
    for key in ["reason", "message", "podIP", "podIPs"] {
        if old.contains_key(key) && !new.contains_key(key) {
            status.insert(key.to_owned(), Value::Null);
        }
    }
    if status.is_empty() {
        return None;
    }
    if let Some(list) = status.get_mut("conditions").and_then(Value::as_array_mut) {
        for condition in list {
            // A merge would keep the reason of a condition that no longer has one.
            for key in ["reason", "message"] {
                if condition.get(key).is_none() {
                    condition[key] = Value::Null;
                }
            }
        }
    }
    if let (Some(Value::Array(list)), Some(Value::Array(before))) =
        (status.get_mut("podIPs"), old.get("podIPs"))
    {
        // Addresses are merged by their text, so those that are gone must be named.
        let gone: Vec<Value> = before.iter().filter(|ip| !list.contains(ip)).cloned().collect();
        list.extend(gone.into_iter().map(|ip| json!({"$patch": "delete", "ip": ip["ip"]})));
    }
    Some(json!({"metadata": {"uid": uid}, "status": status}))
}

/// The fields and conditions of a status that are the kubelet's.
fn own(status: &PodStatus) -> Map<String, Value> {
    let mut status = status.clone();
    if let Some(list) = &mut status.conditions {
        list.retain(|c: &PodCondition| OWN.contains(&c.type_.as_str()));
        list.sort_by(|a, b| a.type_.cmp(&b.type_));
        for condition in list.iter_mut() {
            condition.last_probe_time = None;
        }
    }
    status.nominated_node_name = None;
    match serde_json::to_value(status) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

/// Whether a write is worth trying again.
#[derive(Debug, PartialEq, Eq)]
pub enum Written {
    Done,
    /// The pod is gone or another one has its name.
    Gone,
    Failed,
}

pub async fn write(client: Client, pod: &Pod, patch: Value) -> Written {
    let meta = &pod.metadata;
    let api: Api<Pod> = Api::namespaced(client, meta.namespace.as_deref().unwrap_or("default"));
    let name = meta.name.as_deref().unwrap_or_default();
    match api.patch_status(name, &PatchParams::default(), &Patch::Strategic(patch)).await {
        Ok(_) => Written::Done,
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Written::Gone,
        Err(error) => {
            tracing::warn!(%error, pod = name, "cannot write a pod's status");
            Written::Failed
        }
    }
}

/// Removes the object of a pod that has stopped.
pub async fn delete(client: Client, pod: &Pod) -> Written {
    let meta = &pod.metadata;
    let api: Api<Pod> = Api::namespaced(client, meta.namespace.as_deref().unwrap_or("default"));
    let name = meta.name.as_deref().unwrap_or_default();
    let preconditions = Preconditions { uid: meta.uid.clone(), resource_version: None };
    let params = DeleteParams {
        grace_period_seconds: Some(0),
        preconditions: Some(preconditions),
        ..DeleteParams::default()
    };
    match api.delete(name, &params).await {
        Ok(_) => Written::Done,
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Written::Gone,
        Err(error) => {
            tracing::warn!(%error, pod = name, "cannot delete a pod that has stopped");
            Written::Failed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(value: Value) -> PodStatus {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn only_changes_are_written_and_lost_reasons_are_cleared() {
        let old = status(json!({"phase": "Pending", "reason": "X", "conditions": [
            {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "m"},
            {"type": "other/gate", "status": "True"}]}));
        let new = status(json!({"phase": "Running", "conditions": [
            {"type": "Ready", "status": "True"}, {"type": "other/gate", "status": "False"}]}));
        let want = json!({"metadata": {"uid": "u"}, "status": {
            "phase": "Running", "reason": null,
            "conditions": [{"type": "Ready", "status": "True", "reason": null, "message": null}]}});
        assert_eq!(patch("u", &old, &new), Some(want));
        assert_eq!(patch("u", &new, &new), None);
        let foreign = status(
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}),
        );
        assert_eq!(patch("u", &new, &foreign), None);
    }

    #[test]
    fn an_address_that_changed_replaces_the_old_one() {
        let old = status(json!({"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}));
        let new = status(json!({"podIP": "10.0.0.2", "podIPs": [{"ip": "10.0.0.2"}]}));
        let want = json!({"metadata": {"uid": "u"}, "status": {"podIP": "10.0.0.2",
            "podIPs": [{"ip": "10.0.0.2"}, {"$patch": "delete", "ip": "10.0.0.1"}]}});
        assert_eq!(patch("u", &old, &new), Some(want));
    }
}
