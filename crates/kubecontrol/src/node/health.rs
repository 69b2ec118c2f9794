//! What a node's state means: its taints, its conditions once it is silent, and which of its pods
//! must go when. Pure.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition, Pod, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::placement::{NOT_READY, UNREACHABLE, UNSCHEDULABLE, readiness, taint, tolerates};
use crate::store::{is_deleted, time, until};

/// Whether this change of a node is a sign of life. Our own verdict `Unknown` is not.
pub(super) fn is_beat(old: Option<&Node>, new: &Node) -> bool {
    let beat = heartbeat(new);
    beat.is_some() && old.is_none_or(|old| heartbeat(old) != beat)
}

/// Changes whenever the kubelet writes the node's status.
fn heartbeat(node: &Node) -> Option<(String, Option<Time>)> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|c| c.type_ == "Ready")?;
    Some((ready.status.clone(), ready.last_heartbeat_time.clone()))
        .filter(|(status, _)| status != "Unknown")
}

/// Whether its pods may have to be marked or evicted.
pub(super) fn is_troubled(node: &Node) -> bool {
    (has_ready(node) && readiness(node) != "True") || no_execute(node).next().is_some()
}

fn has_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|s| s.conditions.iter().flatten());
    conditions.into_iter().any(|c| c.type_ == "Ready")
}

/// The conditions of a node that stopped talking.
pub(super) fn unknown(node: &Node, now: Timestamp) -> Vec<NodeCondition> {
    let old: Vec<NodeCondition> =
        node.status.as_ref().and_then(|s| s.conditions.clone()).unwrap_or_default();
    ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"]
        .into_iter()
        .map(|kind| {
            let known = old.iter().find(|c| c.type_ == kind);
            let (reason, message) = if known.is_some() {
                ("NodeStatusUnknown", "Kubelet stopped posting node status.")
            } else {
                ("NodeStatusNeverUpdated", "Kubelet never posted node status.")
            };
            NodeCondition {
                type_: kind.into(),
                status: "Unknown".into(),
                reason: Some(reason.into()),
                message: Some(message.into()),
                last_heartbeat_time: known.and_then(|c| c.last_heartbeat_time.clone()),
                last_transition_time: known
                    .filter(|c| c.status == "Unknown")
                    .and_then(|c| c.last_transition_time.clone())
                    .or(time(now)),
            }
        })
        .collect()
}

/// The taints the node should have, or nothing if it has them.
pub(super) fn taints(node: &Node, now: Timestamp) -> Option<Vec<Taint>> {
    let old = node.spec.as_ref().and_then(|s| s.taints.clone()).unwrap_or_default();
    let mut wanted: Vec<(&str, &str)> = Vec::new();
    // A node that never said anything yet is left alone until its grace is over.
    if has_ready(node) {
        match readiness(node) {
            "True" => {}
            "False" => wanted.extend([(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")]),
            _ => wanted.extend([(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]),
        }
        if node.spec.as_ref().is_some_and(|s| s.unschedulable == Some(true)) {
            wanted.push((UNSCHEDULABLE, "NoSchedule"));
        }
    }
    let is_ours =
        |t: &Taint| [NOT_READY, UNREACHABLE].contains(&t.key.as_str()) || t.key == UNSCHEDULABLE;
    let mut new: Vec<Taint> = old
        .iter()
        .filter(|t| {
            !has_ready(node) || !is_ours(t) || wanted.contains(&(t.key.as_str(), t.effect.as_str()))
        })
        .cloned()
        .collect();
    for (key, effect) in wanted {
        if !new.iter().any(|t| t.key == key && t.effect == effect) {
            new.push(Taint { time_added: time(now), ..taint(key, effect) });
        }
    }
    (new != old).then_some(new)
}

fn no_execute(node: &Node) -> impl Iterator<Item = &Taint> {
    let taints = node.spec.iter().flat_map(|s| s.taints.iter().flatten());
    taints.filter(|t| t.effect == "NoExecute")
}

/// The pods to evict now, and how long until the next one is due.
pub(super) fn evict(
    node: &Node,
    pods: &[Arc<Pod>],
    patience: Duration,
    now: Timestamp,
) -> (Vec<Arc<Pod>>, Option<Duration>) {
    let mut due = Vec::new();
    let mut next: Option<Duration> = None;
    for pod in pods.iter().filter(|p| !is_deleted(&p.metadata)) {
        let Some(at) = deadline(node, pod, patience, now) else { continue };
        if at <= now {
            due.push(pod.clone());
        } else {
            let wait = until(now, at);
            next = Some(next.map_or(wait, |n| n.min(wait)));
        }
    }
    (due, next)
}

/// When the first of the node's taints drives the pod away.
fn deadline(node: &Node, pod: &Pod, patience: Duration, now: Timestamp) -> Option<Timestamp> {
    let tolerations = pod.spec.as_ref().and_then(|s| s.tolerations.clone()).unwrap_or_default();
    no_execute(node)
        .filter_map(|taint| {
            let since = taint.time_added.as_ref().map_or(now, |t| t.0);
            let bearing: Vec<_> = tolerations.iter().filter(|t| tolerates(t, taint)).collect();
            let wait = if bearing.is_empty() {
                // A node in trouble gets the benefit of the doubt; a taint set by hand does not.
                let by_state = [NOT_READY, UNREACHABLE].contains(&taint.key.as_str());
                if by_state { patience } else { Duration::ZERO }
            } else {
                let seconds: Vec<i64> =
                    bearing.iter().filter_map(|t| t.toleration_seconds).collect();
                // Tolerated for ever if no matching toleration sets a limit.
                let least = *seconds.iter().min()?;
                Duration::from_secs(u64::try_from(least).unwrap_or(0))
            };
            since.checked_add(wait).ok()
        })
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const NOW: &str = "2026-01-01T01:00:00Z";

    fn now() -> Timestamp {
        NOW.parse().unwrap()
    }

    fn node(ready: Option<&str>, spec: &Value) -> Node {
        let conditions: Vec<Value> =
            ready.iter().map(|r| json!({"type": "Ready", "status": r})).collect();
        serde_json::from_value(json!({"spec": spec, "status": {"conditions": conditions}})).unwrap()
    }

    fn keys(taints: Option<Vec<Taint>>) -> Option<Vec<String>> {
        taints.map(|t| t.iter().map(|t| format!("{}:{}", t.key, t.effect)).collect())
    }

    #[test]
    fn taints_follow_the_state_and_leave_others_alone() {
        let own = json!({"taints": [{"key": "mine", "effect": "NoSchedule"}]});
        assert_eq!(keys(taints(&node(Some("True"), &own), now())), None);
        assert_eq!(keys(taints(&node(None, &own), now())), None);
        let texts = |list: &[&str]| Some(list.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(
            keys(taints(&node(Some("Unknown"), &own), now())),
            texts(&[
                "mine:NoSchedule",
                "node.kubernetes.io/unreachable:NoSchedule",
                "node.kubernetes.io/unreachable:NoExecute",
            ])
        );
        let healed = json!({"taints": [{"key": UNREACHABLE, "effect": "NoExecute"},
            {"key": "mine", "effect": "NoSchedule"}]});
        assert_eq!(keys(taints(&node(Some("True"), &healed), now())), texts(&["mine:NoSchedule"]));
        let cordoned = json!({"unschedulable": true});
        assert_eq!(
            keys(taints(&node(Some("True"), &cordoned), now())),
            texts(&["node.kubernetes.io/unschedulable:NoSchedule"])
        );
    }

    #[test]
    fn our_own_verdict_is_no_sign_of_life() {
        let state = |ready: &str| node(Some(ready), &json!({}));
        assert!(is_beat(None, &state("True")));
        assert!(is_beat(Some(&state("Unknown")), &state("True")));
        assert!(!is_beat(Some(&state("True")), &state("True")));
        assert!(!is_beat(Some(&state("True")), &state("Unknown")));
    }

    #[test]
    fn a_silent_node_is_unknown_in_every_respect() {
        let conditions = unknown(&node(Some("True"), &json!({})), now());
        let view: Vec<_> = conditions
            .iter()
            .map(|c| (c.type_.as_str(), c.status.as_str(), c.reason.as_deref().unwrap()))
            .collect();
        assert_eq!(view[0], ("Ready", "Unknown", "NodeStatusUnknown"));
        assert_eq!(view[1], ("MemoryPressure", "Unknown", "NodeStatusNeverUpdated"));
        assert_eq!(view.len(), 4);
    }

    #[test]
    fn pods_leave_when_their_patience_ends() {
        let cut = node(
            Some("Unknown"),
            &json!({"taints": [{"key": UNREACHABLE,
            "effect": "NoExecute", "timeAdded": "2026-01-01T00:58:00Z"}]}),
        );
        let pod = |tolerations: Value| -> Arc<Pod> {
            let pod = json!({"spec": {"containers": [], "tolerations": tolerations}});
            Arc::new(serde_json::from_value(pod).unwrap())
        };
        let bears = |seconds: Value| {
            json!([{"key": UNREACHABLE, "operator": "Exists",
            "effect": "NoExecute", "tolerationSeconds": seconds}])
        };
        let five = Duration::from_secs(300);
        // (tolerations, patience) → (evicted now, next)
        let rows = [
            (json!([]), five, (0, Some(180))),
            (json!([]), Duration::from_secs(60), (1, None)),
            (bears(Value::Null), Duration::ZERO, (0, None)),
            (bears(json!(60)), five, (1, None)),
            (bears(json!(150)), five, (0, Some(30))),
        ];
        for (tolerations, patience, expected) in rows {
            let (due, next) = evict(&cut, &[pod(tolerations.clone())], patience, now());
            let seen = (due.len(), next.map(|n| n.as_secs()));
            assert_eq!(seen, expected, "{tolerations}");
        }
        let driven = node(
            Some("True"),
            &json!({"taints": [{"key": "drain",
            "effect": "NoExecute"}]}),
        );
        assert_eq!(evict(&driven, &[pod(json!([]))], five, now()).0.len(), 1);
    }
}
