//! How many pods a ReplicaSet must make, which it must delete, and what its status says. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;

use crate::podstate::{
    is_active, is_available, is_ready, is_terminating, node, number, phase, ready_since,
};
use crate::store::{annotation, time};

#[derive(Debug)]
pub(super) enum Change {
    None,
    Create(usize),
    Delete(Vec<Arc<Pod>>),
}

pub(super) fn change(wanted: i32, pods: &[Arc<Pod>]) -> Change {
    let wanted = usize::try_from(wanted).unwrap_or(0);
    let mut active: Vec<Arc<Pod>> = pods.iter().filter(|p| is_active(p)).cloned().collect();
    match active.len() {
        have if have < wanted => Change::Create(wanted - have),
        have if have > wanted => {
            let crowd = crowding(&active);
            active.sort_by_cached_key(|pod| worth(pod, &crowd));
            active.truncate(have - wanted);
            Change::Delete(active)
        }
        _ => Change::None,
    }
}

/// How many pods of the same node are worth more than this one, by pod. Taking the highest first
/// keeps nodes even, whereas taking from the fullest node would empty it.
fn crowding(pods: &[Arc<Pod>]) -> BTreeMap<String, usize> {
    let mut by_worth: Vec<&Arc<Pod>> = pods.iter().collect();
    by_worth.sort_by_cached_key(|pod| std::cmp::Reverse(worth(pod, &BTreeMap::new())));
    let mut on_node: BTreeMap<&str, usize> = BTreeMap::new();
    let mut ranks = BTreeMap::new();
    for pod in by_worth {
        if let Some(node) = node(pod) {
            let rank = on_node.entry(node).or_insert(0);
            ranks.insert(pod.metadata.name.clone().unwrap_or_default(), *rank);
            *rank += 1;
        }
    }
    ranks
}

/// Sorts pods by what their loss would cost, the cheapest first: unscheduled, pending, unready,
/// marked as cheap, crowded on one node, ready for a short time, often restarted, young.
type Worth = (bool, u8, bool, i64, std::cmp::Reverse<usize>, [std::cmp::Reverse<i64>; 3], String);

fn worth(pod: &Pod, crowd: &BTreeMap<String, usize>) -> Worth {
    use std::cmp::Reverse;
    let phase = match phase(pod) {
        "Running" => 2,
        "Unknown" => 1,
        _ => 0,
    };
    let cost = annotation(&pod.metadata, "controller.kubernetes.io/pod-deletion-cost")
        .and_then(|c| c.parse().ok())
        .unwrap_or(0);
    let restarts: i64 = pod
        .status
        .iter()
        .flat_map(|s| s.container_statuses.iter().flatten())
        .map(|c| i64::from(c.restart_count))
        .sum();
    let born = pod.metadata.creation_timestamp.as_ref().map_or(0, |t| t.0.as_second());
    (
        node(pod).is_some(),
        phase,
        is_ready(pod),
        cost,
        Reverse(pod.metadata.name.as_ref().and_then(|n| crowd.get(n)).copied().unwrap_or(0)),
        [
            Reverse(ready_since(pod).map_or(0, Timestamp::as_second)),
            Reverse(restarts),
            Reverse(born),
        ],
        pod.metadata.name.clone().unwrap_or_default(),
    )
}

pub(super) fn status(
    set: &ReplicaSet,
    pods: &[Arc<Pod>],
    failure: Option<(&str, &str)>,
    now: Timestamp,
) -> ReplicaSetStatus {
    let spec = set.spec.clone().unwrap_or_default();
    let min_ready = spec.min_ready_seconds.unwrap_or(0);
    let active: Vec<&Pod> = pods.iter().map(|p| &**p).filter(|p| is_active(p)).collect();
    let count = |keep: &dyn Fn(&Pod) -> bool| number(active.iter().filter(|p| keep(p)).count());
    let template = spec.template.and_then(|t| t.metadata).and_then(|m| m.labels);
    let labelled = |pod: &Pod| {
        crate::selector::contains(
            &template.clone().unwrap_or_default(),
            pod.metadata.labels.as_ref(),
        )
    };
    ReplicaSetStatus {
        replicas: number(active.len()),
        fully_labeled_replicas: Some(count(&labelled)),
        ready_replicas: Some(count(&is_ready)),
        available_replicas: Some(count(&|p| is_available(p, min_ready, now))),
        terminating_replicas: Some(number(pods.iter().filter(|p| is_terminating(p)).count())),
        observed_generation: set.metadata.generation,
        conditions: conditions(set, failure, now),
    }
}

fn conditions(
    set: &ReplicaSet,
    failure: Option<(&str, &str)>,
    now: Timestamp,
) -> Option<Vec<ReplicaSetCondition>> {
    let mut conditions = set.status.clone().and_then(|s| s.conditions).unwrap_or_default();
    match failure {
        None => conditions.retain(|c| c.type_ != "ReplicaFailure"),
        Some(_) if conditions.iter().any(|c| c.type_ == "ReplicaFailure") => {}
        Some((reason, message)) => conditions.push(ReplicaSetCondition {
            type_: "ReplicaFailure".into(),
            status: "True".into(),
            reason: Some(reason.into()),
            message: Some(message.into()),
            last_transition_time: time(now),
        }),
    }
    (!conditions.is_empty()).then_some(conditions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(name: &str, body: serde_json::Value) -> Arc<Pod> {
        let mut pod: Pod = serde_json::from_value(body).unwrap();
        pod.metadata.name = Some(name.into());
        Arc::new(pod)
    }

    fn running(name: &str, node: &str, ready: bool, since: &str) -> Arc<Pod> {
        pod(
            name,
            json!({
                "spec": {"nodeName": node, "containers": []},
                "status": {"phase": "Running", "conditions": [{"type": "Ready",
                    "status": if ready { "True" } else { "False" }, "lastTransitionTime": since}]},
            }),
        )
    }

    const OLD: &str = "2026-01-01T00:00:00Z";
    const NEW: &str = "2026-01-02T00:00:00Z";

    #[test]
    fn the_cheapest_pods_go_first() {
        let pods = [
            running("steady", "n1", true, OLD),
            running("young", "n1", true, NEW),
            running("unready", "n2", false, OLD),
            pod(
                "pending",
                json!({"spec": {"nodeName": "n2", "containers": []}, "status": {"phase": "Pending"}}),
            ),
            pod("unscheduled", json!({"spec": {"containers": []}, "status": {"phase": "Pending"}})),
            pod(
                "dying",
                json!({"metadata": {"deletionTimestamp": NEW}, "spec": {"containers": []}}),
            ),
            pod("done", json!({"spec": {"containers": []}, "status": {"phase": "Succeeded"}})),
        ];
        let order = ["unscheduled", "pending", "unready", "young", "steady"];
        for wanted in 0..5 {
            let Change::Delete(doomed) = change(wanted, &pods) else { panic!("{wanted}") };
            let names: Vec<_> =
                doomed.iter().map(|p| p.metadata.name.as_deref().unwrap()).collect();
            assert_eq!(names, order[..5 - usize::try_from(wanted).unwrap()]);
        }
        assert!(matches!(change(5, &pods), Change::None));
        assert!(matches!(change(8, &pods), Change::Create(3)));
    }

    #[test]
    fn nodes_stay_even() {
        let pods = [
            running("a", "n1", true, OLD),
            running("b", "n1", true, OLD),
            running("c", "n2", true, OLD),
        ];
        let Change::Delete(doomed) = change(2, &pods) else { panic!() };
        assert_eq!(node(&doomed[0]), Some("n1"));

        let many: Vec<Arc<Pod>> = (0..10)
            .map(|n| running(&format!("p{n}"), ["n1", "n2", "n3"][n % 3], true, OLD))
            .collect();
        let Change::Delete(doomed) = change(3, &many) else { panic!() };
        for on in ["n1", "n2", "n3"] {
            let gone = doomed.iter().filter(|p| node(p) == Some(on)).count();
            assert_eq!(gone, if on == "n1" { 3 } else { 2 });
        }
    }

    #[test]
    fn the_status_counts_ready_available_and_terminating() {
        let set: ReplicaSet = serde_json::from_value(json!({
            "metadata": {"generation": 3},
            "spec": {"replicas": 3, "minReadySeconds": 10, "selector": {},
                "template": {"metadata": {"labels": {"a": "b"}}}},
        }))
        .unwrap();
        let pods = [
            running("a", "n1", true, OLD),
            running("b", "n1", true, NEW),
            running("c", "n1", false, OLD),
            pod("d", json!({"metadata": {"deletionTimestamp": NEW}})),
        ];
        let status = status(&set, &pods, Some(("FailedCreate", "no")), NEW.parse().unwrap());
        assert_eq!(status.replicas, 3);
        assert_eq!(status.ready_replicas, Some(2));
        assert_eq!(status.available_replicas, Some(1));
        assert_eq!(status.terminating_replicas, Some(1));
        assert_eq!(status.fully_labeled_replicas, Some(0));
        assert_eq!(status.observed_generation, Some(3));
        assert_eq!(status.conditions.unwrap()[0].reason.as_deref(), Some("FailedCreate"));
    }
}
