//! What a pod's status means to a controller, and a pod made from a template. Pure.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodCondition, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::store::is_deleted;

pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or("")
}

/// Ended for good: it will never run again.
pub(crate) fn is_finished(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Counts as a replica: not ended and not being deleted.
pub(crate) fn is_active(pod: &Pod) -> bool {
    !is_finished(pod) && !is_deleted(&pod.metadata)
}

/// Being deleted, but its processes may still run.
pub(crate) fn is_terminating(pod: &Pod) -> bool {
    !is_finished(pod) && is_deleted(&pod.metadata)
}

pub(crate) fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    pod.status.as_ref()?.conditions.as_ref()?.iter().find(|c| c.type_ == kind)
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|c| c.status == "True")
}

pub(crate) fn ready_since(pod: &Pod) -> Option<Timestamp> {
    condition(pod, "Ready")
        .filter(|c| c.status == "True")
        .and_then(|c| c.last_transition_time.as_ref())
        .map(|t| t.0)
}

pub(crate) fn node(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|n| !n.is_empty())
}

/// When a pod counts as available: ready for `min_ready` seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Available {
    Yes,
    /// Ready, but not long enough yet.
    At(Timestamp),
    No,
}

pub(crate) fn available(pod: &Pod, min_ready: i32, now: Timestamp) -> Available {
    if !is_ready(pod) {
        return Available::No;
    }
    if min_ready <= 0 {
        return Available::Yes;
    }
    let Some(since) = ready_since(pod) else { return Available::No };
    let at = since.saturating_add(SignedDuration::from_secs(i64::from(min_ready)));
    match at {
        Ok(at) if at > now => Available::At(at),
        _ => Available::Yes,
    }
}

pub(crate) fn is_available(pod: &Pod, min_ready: i32, now: Timestamp) -> bool {
    available(pod, min_ready, now) == Available::Yes
}

/// The earliest time at which one more of the pods becomes available.
pub(crate) fn next_available<'a>(
    pods: impl Iterator<Item = &'a Pod>,
    min_ready: i32,
    now: Timestamp,
) -> Option<Timestamp> {
    pods.filter_map(|pod| match available(pod, min_ready, now) {
        Available::At(at) => Some(at),
        _ => None,
    })
    .min()
}

/// A count as the API writes it.
pub(crate) fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// A pod as its template says, owned by `owner`. The caller gives it a name.
pub(crate) fn from_template(template: &PodTemplateSpec, ns: &str, owner: OwnerReference) -> Pod {
    let meta = template.metadata.clone().unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            namespace: Some(ns.to_string()),
            labels: meta.labels,
            annotations: meta.annotations,
            finalizers: meta.finalizers,
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

/// The start of generated names.
pub(crate) fn prefix(base: &str) -> String {
    format!("{base}-")
}
