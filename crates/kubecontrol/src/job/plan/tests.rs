//! From the first pod to the end of a Job, decision by decision.

use super::*;
use crate::store::annotation;
use serde_json::{Value, json};

const NOW: &str = "2026-01-01T01:00:00Z";

fn job(spec: &Value) -> Job {
    let mut body = json!({
        "metadata": {"name": "work", "namespace": "ns", "uid": "j"},
        "spec": {"template": {"spec": {"containers": [{"name": "c"}], "restartPolicy": "Never"}}},
    });
    for (key, value) in spec.as_object().unwrap() {
        body["spec"][key] = value.clone();
    }
    serde_json::from_value(body).unwrap()
}

/// A pod written as `state` or `state@index`; states are the phases, plus `dying`.
fn pod(number: usize, text: &str) -> Arc<Pod> {
    let (state, index) = text.split_once('@').unwrap_or((text, ""));
    let phase = if state == "dying" { "Running" } else { state };
    let mut pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": format!("p{number}"), "uid": number.to_string(),
            "creationTimestamp": "2026-01-01T00:00:00Z"},
        "status": {"phase": phase},
    }))
    .unwrap();
    if !index.is_empty() {
        pod.metadata.annotations = Some([(index::INDEX.to_string(), index.to_string())].into());
    }
    if state == "dying" {
        pod.metadata.deletion_timestamp = time(Timestamp::UNIX_EPOCH);
    }
    Arc::new(pod)
}

fn decide(job: &Job, pods: &[&str]) -> Plan {
    let pods: Vec<Arc<Pod>> = pods.iter().enumerate().map(|(n, p)| pod(n, p)).collect();
    plan(job, &pods, NOW.parse().unwrap())
}

fn conditions(plan: &Plan) -> Vec<String> {
    let list = plan.status.conditions.iter().flatten();
    list.into_iter().filter(|c| c.status == "True").map(|c| c.type_.clone()).collect()
}

#[test]
fn as_many_pods_run_as_should() {
    let one = json!({"completions": 1, "parallelism": 1});
    let five = json!({"completions": 5, "parallelism": 2});
    let queue = json!({"parallelism": 3});
    // (spec, pods) → (made, deleted)
    let rows: [(&Value, &[&str], usize, usize); 11] = [
        (&one, &[], 1, 0),
        (&one, &["Running"], 0, 0),
        (&one, &["dying"], 0, 0),
        (&one, &["Failed"], 1, 0),
        (&five, &[], 2, 0),
        (&five, &["Succeeded", "Running"], 1, 0),
        (&five, &["Succeeded", "Succeeded", "Succeeded", "Succeeded", "Running"], 0, 0),
        (&five, &["Running", "Running", "Pending"], 0, 1),
        (&queue, &[], 3, 0),
        (&queue, &["Succeeded", "Running"], 0, 0),
        (&json!({"parallelism": 0, "completions": 2}), &["Running"], 0, 1),
    ];
    for (spec, pods, made, gone) in rows {
        let plan = decide(&job(spec), pods);
        assert_eq!((plan.create.len(), plan.delete.len()), (made, gone), "{spec} {pods:?}");
        assert!(conditions(&plan).is_empty(), "{spec} {pods:?}");
    }
}

#[test]
fn a_job_ends_in_two_steps() {
    let spec = json!({"completions": 1, "parallelism": 2});
    let plan = decide(&job(&spec), &["Succeeded", "Running"]);
    assert_eq!(conditions(&plan), ["SuccessCriteriaMet"]);
    assert_eq!(plan.delete.len(), 1);
    let mut job = job(&spec);
    job.status = Some(plan.status);
    let plan = decide(&job, &["Succeeded", "dying"]);
    assert_eq!(conditions(&plan), ["SuccessCriteriaMet"]);
    assert_eq!(plan.status.completion_time, None);
    let plan = decide(&job, &["Succeeded"]);
    assert_eq!(conditions(&plan), ["SuccessCriteriaMet", "Complete"]);
    assert!(plan.status.completion_time.is_some());
    assert_eq!((plan.status.succeeded, plan.status.active), (Some(1), None));
}

#[test]
fn too_many_failures_end_it() {
    let spec = json!({"completions": 1, "backoffLimit": 1});
    assert!(conditions(&decide(&job(&spec), &["Failed"])).is_empty());
    let plan = decide(&job(&spec), &["Failed", "Failed", "Running"]);
    assert_eq!(conditions(&plan), ["FailureTarget"]);
    assert_eq!(plan.delete.len(), 1);
    let plan = decide(&job(&spec), &["Failed", "Failed"]);
    assert_eq!(conditions(&plan), ["FailureTarget", "Failed"]);
    let reason = plan.status.conditions.unwrap()[1].reason.clone();
    assert_eq!(reason.as_deref(), Some("BackoffLimitExceeded"));
}

#[test]
fn restarts_count_where_pods_restart_in_place() {
    let mut job = job(&json!({"completions": 1, "backoffLimit": 2}));
    let template = &mut job.spec.as_mut().unwrap().template;
    template.spec.as_mut().unwrap().restart_policy = Some("OnFailure".into());
    let pod = |restarts: i32| {
        let pod: Pod = serde_json::from_value(json!({"status": {"phase": "Running",
            "containerStatuses": [{"name": "c", "image": "", "imageID": "", "ready": false,
                "restartCount": restarts}]}}))
        .unwrap();
        vec![Arc::new(pod)]
    };
    let now = NOW.parse().unwrap();
    assert!(conditions(&plan(&job, &pod(1), now)).is_empty());
    assert_eq!(conditions(&plan(&job, &pod(2), now)), ["FailureTarget"]);
}

#[test]
fn a_deadline_ends_it_and_wakes_us() {
    let mut job = job(&json!({"completions": 1, "activeDeadlineSeconds": 60}));
    let status = |start: &str| {
        Some(JobStatus {
            start_time: Some(serde_json::from_value(json!(start)).unwrap()),
            ..JobStatus::default()
        })
    };
    job.status = status("2026-01-01T00:59:30Z");
    let plan = decide(&job, &["Running"]);
    assert_eq!(plan.again, Some(Duration::from_secs(30)));
    job.status = status("2026-01-01T00:59:00Z");
    let plan = decide(&job, &["Running"]);
    assert_eq!(conditions(&plan), ["FailureTarget"]);
}

#[test]
fn failures_make_the_next_pod_wait() {
    let job = job(&json!({"completions": 1}));
    let failed = |at: &str| {
        let pod: Pod = serde_json::from_value(json!({"status": {"phase": "Failed",
            "containerStatuses": [{"name": "c", "image": "", "imageID": "", "ready": false,
                "restartCount": 0, "state": {"terminated": {"exitCode": 1, "finishedAt": at}}}]}}))
        .unwrap();
        Arc::new(pod)
    };
    let early = plan(&job, &[failed("2026-01-01T00:59:55Z")], NOW.parse().unwrap());
    assert_eq!((early.create.len(), early.again), (0, Some(Duration::from_secs(5))));
    let two = [failed("2026-01-01T00:00:00Z"), failed("2026-01-01T00:59:45Z")];
    let later = plan(&job, &two, NOW.parse().unwrap());
    assert_eq!((later.create.len(), later.again), (0, Some(Duration::from_secs(5))));
    let due = plan(&job, &[failed("2026-01-01T00:59:50Z")], NOW.parse().unwrap());
    assert_eq!(due.create.len(), 1);
}

#[test]
fn an_indexed_job_fills_its_indexes() {
    let job = job(&json!({"completions": 4, "parallelism": 3, "completionMode": "Indexed"}));
    let plan = decide(&job, &["Succeeded@0", "Succeeded@0", "Running@2", "Failed@1"]);
    let made: Vec<_> =
        plan.create.iter().map(|p| annotation(&p.metadata, index::INDEX).unwrap()).collect();
    assert_eq!(made, ["1", "3"]);
    assert_eq!(plan.status.completed_indexes.as_deref(), Some("0"));
    assert_eq!(plan.status.succeeded, Some(1));
    let pod = &plan.create[0];
    assert_eq!(pod.metadata.generate_name.as_deref(), Some("work-1-"));
    let spec = pod.spec.as_ref().unwrap();
    assert_eq!(spec.hostname.as_deref(), Some("work-1"));
    assert_eq!(spec.containers[0].env.as_ref().unwrap()[0].name, "JOB_COMPLETION_INDEX");
    let done = decide(&job, &["Succeeded@0", "Succeeded@1", "Succeeded@2", "Succeeded@3"]);
    assert_eq!(conditions(&done), ["SuccessCriteriaMet", "Complete"]);
    assert_eq!(done.status.completed_indexes.as_deref(), Some("0-3"));
}

#[test]
fn a_suspended_job_runs_nothing_and_starts_anew() {
    let mut suspended = job(&json!({"completions": 1, "suspend": true}));
    let plan = decide(&suspended, &["Running"]);
    assert_eq!(plan.delete.len(), 1);
    assert_eq!(conditions(&plan), ["Suspended"]);
    assert_eq!(plan.status.start_time, None);
    suspended.spec.as_mut().unwrap().suspend = Some(false);
    suspended.status = Some(plan.status);
    let plan = decide(&suspended, &[]);
    assert!(conditions(&plan).is_empty());
    assert_eq!(plan.create.len(), 1);
    assert!(plan.status.start_time.is_some());
}

#[test]
fn an_ended_job_lives_as_long_as_it_says() {
    let ended = |ttl: Value| {
        let mut job = job(&json!({"ttlSecondsAfterFinished": ttl}));
        job.status = serde_json::from_value(json!({"conditions": [{"type": "Complete",
            "status": "True", "lastTransitionTime": "2026-01-01T00:59:00Z"}]}))
        .unwrap();
        expiry(&job, NOW.parse().unwrap())
    };
    assert_eq!(ended(Value::Null), Expiry::Kept(None));
    assert_eq!(ended(json!(100)), Expiry::Kept(Some(Duration::from_secs(40))));
    assert_eq!(ended(json!(60)), Expiry::Over);
    assert_eq!(expiry(&job(&json!({})), NOW.parse().unwrap()), Expiry::Running);
}
