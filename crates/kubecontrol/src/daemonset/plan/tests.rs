//! Where daemons go, and how an update walks over the nodes.

use super::*;
use serde_json::{Value, json};

const NOW: &str = "2026-01-01T01:00:00Z";

fn set(strategy: &Value) -> DaemonSet {
    serde_json::from_value(json!({
        "metadata": {"name": "agent", "namespace": "ns", "uid": "s"},
        "spec": {"selector": {}, "updateStrategy": strategy,
            "template": {"metadata": {"labels": {"app": "agent"}},
                "spec": {"containers": [], "nodeSelector": {"os": "linux"}}}},
    }))
    .unwrap()
}

fn node(name: &str, taint: Option<(&str, &str)>, os: &str) -> Arc<Node> {
    let taints: Vec<Value> =
        taint.iter().map(|(key, effect)| json!({"key": key, "effect": effect})).collect();
    Arc::new(
        serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {"os": os}},
            "spec": {"taints": taints},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }))
        .unwrap(),
    )
}

/// A pod written as `node:state:revision`.
fn pod(text: &str) -> Arc<Pod> {
    let parts: Vec<&str> = text.split(':').collect();
    let (node, state, revision) = (parts[0], parts[1], parts[2]);
    let phase = if state == "failed" { "Failed" } else { "Running" };
    let mut pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": text, "uid": text, "labels": {HASH: revision},
            "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"nodeName": node, "containers": []},
        "status": {"phase": phase, "conditions": [
            {"type": "Ready", "status": if state == "ready" { "True" } else { "False" }}]},
    }))
    .unwrap();
    if state == "dying" {
        pod.metadata.deletion_timestamp = crate::store::time(Timestamp::UNIX_EPOCH);
    }
    Arc::new(pod)
}

fn decide(set: &DaemonSet, nodes: &[Arc<Node>], pods: &[&str]) -> (Vec<String>, Vec<String>) {
    let pods: Vec<Arc<Pod>> = pods.iter().map(|p| pod(p)).collect();
    let plan = plan(set, nodes, &pods, "new", NOW.parse().unwrap());
    let made = plan.create.iter().map(|p| target(p).unwrap().to_string()).collect();
    let gone = plan.delete.iter().map(|p| name(&p.metadata).to_string()).collect();
    (made, gone)
}

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

#[test]
fn daemons_land_where_they_may_and_leave_where_they_must() {
    let nodes = [
        node("plain", None, "linux"),
        node("other", None, "plan9"),
        node("cordoned", Some((UNSCHEDULABLE, "NoSchedule")), "linux"),
        node("kept", Some(("keep", "NoSchedule")), "linux"),
        node("driven", Some(("drive", "NoExecute")), "linux"),
        node("cut", Some((UNREACHABLE, "NoExecute")), "linux"),
    ];
    let set = set(&json!({}));
    assert_eq!(decide(&set, &nodes, &[]), (texts(&["cordoned", "cut", "plain"]), vec![]));
    let there = [
        "plain:ready:new",
        "other:ready:new",
        "cordoned:ready:new",
        "kept:ready:new",
        "driven:ready:new",
        "cut:unready:new",
    ];
    assert_eq!(
        decide(&set, &nodes, &there),
        (vec![], texts(&["driven:ready:new", "other:ready:new"]))
    );
    let status = plan(&set, &nodes, &there.map(pod), "new", NOW.parse().unwrap()).status;
    assert_eq!(status.desired_number_scheduled, 3);
    assert_eq!(status.number_misscheduled, 3);
    assert_eq!((status.number_ready, status.number_unavailable), (2, Some(1)));
}

#[test]
fn an_update_replaces_as_many_as_may_be_missing() {
    let nodes = ["a", "b", "c", "d"].map(|n| node(n, None, "linux"));
    let one = set(&json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}));
    let half = set(&json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%"}}));
    let surge = set(&json!({"type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}));
    let on_delete = set(&json!({"type": "OnDelete"}));
    let old = ["a:ready:old", "b:ready:old", "c:ready:old", "d:ready:old"];
    assert_eq!(decide(&one, &nodes, &old), (vec![], texts(&["a:ready:old"])));
    assert_eq!(decide(&half, &nodes, &old), (vec![], texts(&["a:ready:old", "b:ready:old"])));
    assert_eq!(decide(&surge, &nodes, &old), (texts(&["a"]), vec![]));
    assert_eq!(decide(&on_delete, &nodes, &old), (vec![], vec![]));

    let under_way = ["a:unready:new", "b:ready:old", "c:ready:old", "d:ready:old"];
    assert_eq!(decide(&one, &nodes, &under_way), (vec![], vec![]));
    let broken = ["a:unready:new", "b:unready:old", "c:ready:old", "d:ready:old"];
    assert_eq!(decide(&one, &nodes, &broken), (vec![], texts(&["b:unready:old"])));
    let dying = ["a:dying:old", "b:ready:old", "c:ready:old", "d:ready:old"];
    assert_eq!(decide(&one, &nodes, &dying), (vec![], vec![]));

    let surged = ["a:ready:old", "a:unready:new", "b:ready:old", "c:ready:old", "d:ready:old"];
    assert_eq!(decide(&surge, &nodes, &surged), (vec![], vec![]));
    let surged = ["a:ready:old", "a:ready:new", "b:ready:old", "c:ready:old", "d:ready:old"];
    assert_eq!(decide(&surge, &nodes, &surged), (texts(&["b"]), texts(&["a:ready:old"])));
}

#[test]
fn a_failed_daemon_is_replaced_after_a_pause() {
    let nodes = [node("a", None, "linux")];
    let set = set(&json!({}));
    assert_eq!(decide(&set, &nodes, &["a:failed:new"]), (vec![], texts(&["a:failed:new"])));
    let early =
        plan(&set, &nodes, &[pod("a:failed:new")], "new", "2026-01-01T00:00:02Z".parse().unwrap());
    assert!(early.delete.is_empty());
    assert_eq!(early.again, Some(Duration::from_secs(3)));
}
