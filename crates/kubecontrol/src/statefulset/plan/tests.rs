//! Order, partitions and revisions of a StatefulSet, decision by decision.

use super::*;
use serde_json::{Value, json};

fn set(replicas: i32, extra: &Value) -> StatefulSet {
    let mut body = json!({
        "metadata": {"name": "db", "namespace": "ns", "uid": "s", "generation": 2},
        "spec": {"replicas": replicas, "serviceName": "db", "selector": {},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": []}}},
    });
    for (key, value) in extra.as_object().unwrap() {
        body["spec"][key] = value.clone();
    }
    serde_json::from_value(body).unwrap()
}

/// A pod written as `number:state:revision`; the state is one of ready, unready, failed, dying.
fn pod(text: &str) -> Arc<Pod> {
    let parts: Vec<&str> = text.split(':').collect();
    let (number, state, revision) = (parts[0], parts[1], parts[2]);
    let phase = if state == "failed" { "Failed" } else { "Running" };
    let mut pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": format!("db-{number}"), "uid": number, "labels": {
            HASH: revision, POD_NAME: format!("db-{number}"), POD_INDEX: number}},
        "status": {"phase": phase, "conditions": [
            {"type": "Ready", "status": if state == "unready" { "False" } else { "True" }}]},
    }))
    .unwrap();
    if state == "dying" {
        pod.metadata.deletion_timestamp = crate::store::time(Timestamp::UNIX_EPOCH);
    }
    Arc::new(pod)
}

fn decide(set: &StatefulSet, pods: &[&str]) -> Plan {
    let pods: Vec<Arc<Pod>> = pods.iter().map(|p| pod(p)).collect();
    let template = set.spec.as_ref().unwrap().template.clone();
    plan(&Input {
        set,
        pods: &pods,
        current: ("old", &template),
        update: ("new", &template),
        now: "2026-01-01T00:00:00Z".parse().unwrap(),
    })
}

fn acts(plan: &Plan) -> (Vec<String>, Vec<String>) {
    let made = plan.create.iter().map(|p| {
        let revision = label(&p.metadata, HASH).unwrap();
        format!("{}@{revision}", name(&p.metadata).strip_prefix("db-").unwrap())
    });
    let gone = plan.delete.iter().map(|p| name(&p.metadata).strip_prefix("db-").unwrap().into());
    (made.collect(), gone.collect())
}

#[test]
fn pods_come_and_go_in_order() {
    let ordered = json!({});
    let parallel = json!({"podManagementPolicy": "Parallel"});
    let partition = json!({"updateStrategy": {"type": "RollingUpdate",
        "rollingUpdate": {"partition": 1}}});
    let on_delete = json!({"updateStrategy": {"type": "OnDelete"}});
    let later = json!({"ordinals": {"start": 5}});
    // (replicas, spec, pods) → (made, deleted)
    type Row<'a> = (i32, &'a Value, &'a [&'a str], &'a [&'a str], &'a [&'a str]);
    let rows: &[Row<'_>] = &[
        (3, &ordered, &[], &["0@new"], &[]),
        (3, &ordered, &["0:unready:new"], &[], &[]),
        (3, &ordered, &["0:ready:new"], &["1@new"], &[]),
        (3, &ordered, &["0:dying:new", "1:ready:new"], &[], &[]),
        (2, &ordered, &["0:failed:new", "1:ready:new"], &[], &["0"]),
        (3, &parallel, &[], &["0@new", "1@new", "2@new"], &[]),
        (1, &ordered, &["0:ready:new", "1:ready:new", "2:ready:new"], &[], &["2"]),
        (1, &ordered, &["0:ready:new", "1:ready:new", "2:dying:new"], &[], &[]),
        (1, &ordered, &["0:unready:new", "1:ready:new"], &[], &[]),
        (0, &parallel, &["0:ready:new", "1:unready:new"], &[], &["1", "0"]),
        (2, &ordered, &["0:ready:old", "1:ready:old"], &[], &["1"]),
        (2, &ordered, &["0:ready:old", "1:unready:new"], &[], &[]),
        (2, &ordered, &["0:ready:old", "1:ready:new"], &[], &["0"]),
        (2, &ordered, &["0:ready:new", "1:ready:new"], &[], &[]),
        (2, &partition, &["0:ready:old", "1:ready:old"], &[], &["1"]),
        (2, &partition, &["0:ready:old", "1:ready:new"], &[], &[]),
        (2, &partition, &[], &["0@old"], &[]),
        (2, &partition, &["0:ready:old"], &["1@new"], &[]),
        (2, &on_delete, &["0:ready:old", "1:ready:old"], &[], &[]),
        (2, &on_delete, &["0:ready:old"], &["1@new"], &[]),
        (1, &later, &["0:ready:new"], &["5@new"], &[]),
        (1, &later, &["0:ready:new", "5:ready:new"], &[], &["0"]),
    ];
    for (replicas, extra, pods, made, gone) in rows {
        let plan = decide(&set(*replicas, extra), pods);
        let (m, g) = acts(&plan);
        assert_eq!(
            (m.as_slice(), g.as_slice()),
            (
                made.iter().map(ToString::to_string).collect::<Vec<_>>().as_slice(),
                gone.iter().map(ToString::to_string).collect::<Vec<_>>().as_slice(),
            ),
            "{replicas} {extra} {pods:?}"
        );
    }
}

#[test]
fn the_current_revision_moves_only_when_all_pods_are_new_and_ready() {
    let set = set(2, &json!({}));
    let status = decide(&set, &["0:ready:old", "1:ready:new"]).status;
    assert_eq!(status.current_revision.as_deref(), Some("old"));
    assert_eq!(status.updated_replicas, Some(1));
    let status = decide(&set, &["0:ready:new", "1:unready:new"]).status;
    assert_eq!(status.current_revision.as_deref(), Some("old"));
    let status = decide(&set, &["0:ready:new", "1:ready:new"]).status;
    assert_eq!(status.current_revision.as_deref(), Some("new"));
    assert_eq!((status.replicas, status.ready_replicas), (2, Some(2)));
    assert_eq!(status.observed_generation, Some(2));
}

#[test]
fn a_pod_knows_its_name_place_and_host() {
    let made = decide(&set(1, &json!({})), &[]).create.remove(0);
    assert_eq!(label(&made.metadata, POD_NAME), Some("db-0"));
    assert_eq!(label(&made.metadata, POD_INDEX), Some("0"));
    assert_eq!(label(&made.metadata, "app"), Some("db"));
    let spec = made.spec.unwrap();
    assert_eq!((spec.hostname.as_deref(), spec.subdomain.as_deref()), (Some("db-0"), Some("db")));
}

#[test]
fn only_plain_numbers_are_ordinals() {
    let rows = [
        ("db-0", Some(0)),
        ("db-12", Some(12)),
        ("db-01", None),
        ("db-x", None),
        ("db", None),
        ("other-1", None),
        ("db-+1", None),
        ("db--1", None),
    ];
    for (pod, expected) in rows {
        assert_eq!(ordinal("db", pod), expected, "{pod}");
    }
}
