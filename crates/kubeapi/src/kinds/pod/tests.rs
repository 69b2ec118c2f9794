//! Rows and rules of pods.

use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::kinds::by_kind;

#[track_caller]
fn row(pod: &Value, expected: [&str; 4]) {
    let now = UNIX_EPOCH + Duration::from_secs(1_700_000_100);
    let cells = by_kind("", "v1", "Pod").unwrap().cells(pod, now);
    let texts: Vec<_> = cells[1..5].iter().map(|c| c.as_str().unwrap()).collect();
    assert_eq!(texts, expected);
    assert_eq!(cells.len(), by_kind("", "v1", "Pod").unwrap().columns().len());
}

fn pod(spec: &Value, status: &Value) -> Value {
    json!({
        "metadata": {"name": "a", "creationTimestamp": "2023-11-14T22:13:20Z"},
        "spec": spec, "status": status,
    })
}

#[test]
fn a_pod_that_waits_for_its_first_init_container() {
    let spec = json!({"initContainers": [{"name": "i"}], "containers": [{"name": "c"}]});
    let status = json!({
        "phase": "Pending",
        "initContainerStatuses": [{"name": "i", "state": {"running": {}}}],
        "containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "PodInitializing"}}}],
    });
    row(&pod(&spec, &status), ["0/1", "Init:0/1", "0", "100s"]);
}

#[test]
fn a_crashing_pod_shows_when_it_last_restarted() {
    let spec = json!({"containers": [{"name": "c"}]});
    let status = json!({
        "phase": "Running",
        "containerStatuses": [{
            "name": "c", "restartCount": 3,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 1, "finishedAt": "2023-11-14T22:14:55Z"}},
        }],
    });
    row(&pod(&spec, &status), ["0/1", "CrashLoopBackOff", "3 (5s ago)", "100s"]);
}

#[test]
fn native_sidecars_count_as_containers() {
    let spec = json!({
        "initContainers": [{"name": "s", "restartPolicy": "Always"}, {"name": "i"}],
        "containers": [{"name": "c"}],
    });
    let status = json!({
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "Initialized", "status": "True"}],
        "initContainerStatuses": [
            {"name": "s", "started": true, "ready": true, "state": {"running": {}}},
            {"name": "i", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}},
        ],
        "containerStatuses": [{"name": "c", "ready": true, "state": {"running": {}}}],
    });
    row(&pod(&spec, &status), ["2/2", "Running", "0", "100s"]);
}

#[test]
fn a_deleted_pod_is_terminating_and_a_done_one_completed() {
    let spec = json!({"containers": [{"name": "c"}]});
    let running = json!({
        "phase": "Running",
        "containerStatuses": [{"name": "c", "ready": true, "state": {"running": {}}}],
    });
    let mut deleted = pod(&spec, &running);
    deleted["metadata"]["deletionTimestamp"] = json!("2023-11-14T22:14:55Z");
    row(&deleted, ["1/1", "Terminating", "0", "100s"]);
    let done = json!({
        "phase": "Succeeded",
        "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}],
    });
    row(&pod(&spec, &done), ["0/1", "Completed", "0", "100s"]);
}
