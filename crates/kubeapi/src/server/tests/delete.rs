//! Delete: grace, finalizers, propagation, preconditions, collections, namespaces.

use serde_json::{Value, json};

use super::{Bench, DEPLOYMENTS, MAPS, PODS, deployment, map, pod};

#[tokio::test]
async fn an_object_without_finalizers_goes_at_once() {
    let bench = Bench::new().await;
    let (_, created) = bench.post(MAPS, &map("a")).await;
    let path = format!("{MAPS}/a");
    let (code, status) = bench.delete(&path, &Value::Null).await;
    assert_eq!(code, 200);
    let details = json!({"name": "a", "kind": "configmaps", "uid": created["metadata"]["uid"]});
    assert_eq!((&status["status"], &status["details"]), (&json!("Success"), &details));
    assert_eq!(bench.delete(&path, &Value::Null).await.0, 404);
}

#[tokio::test]
async fn preconditions_must_hold() {
    let bench = Bench::new().await;
    bench.post(MAPS, &map("a")).await;
    let path = format!("{MAPS}/a");
    for wrong in [json!({"uid": "x"}), json!({"resourceVersion": "1"})] {
        let (code, _) = bench.delete(&path, &json!({"preconditions": wrong})).await;
        assert_eq!(code, 409, "{wrong}");
    }
    let (_, object) = bench.get(&path).await;
    let right = json!({
        "uid": object["metadata"]["uid"],
        "resourceVersion": object["metadata"]["resourceVersion"],
    });
    assert_eq!(bench.delete(&path, &json!({"preconditions": right})).await.0, 200);
}

#[tokio::test]
async fn finalizers_hold_an_object_until_the_last_is_gone() {
    let bench = Bench::new().await;
    let path = format!("{MAPS}/a");
    let object = json!({"metadata": {"name": "a", "finalizers": ["x.io/a", "x.io/b"]}});
    bench.post(MAPS, &object).await;
    let (code, marked) = bench.delete(&path, &Value::Null).await;
    assert_eq!(code, 200);
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    let (_, again) = bench.delete(&path, &Value::Null).await;
    assert_eq!(again["metadata"]["resourceVersion"], marked["metadata"]["resourceVersion"]);
    let more = json!({"metadata": {"finalizers": ["x.io/a", "x.io/b", "x.io/c"]}});
    assert_eq!(bench.merge(&path, &more).await.0, 422, "no new finalizers now");
    let one = json!({"metadata": {"finalizers": ["x.io/b"]}});
    assert_eq!(bench.merge(&path, &one).await.0, 200);
    assert_eq!(bench.get(&path).await.0, 200);
    assert_eq!(bench.merge(&path, &json!({"metadata": {"finalizers": null}})).await.0, 200);
    assert_eq!(bench.get(&path).await.0, 404);
}

#[tokio::test]
async fn propagation_policies_leave_their_finalizer() {
    let bench = Bench::new().await;
    for (name, policy, expected) in [
        ("a", "Foreground", json!(["foregroundDeletion"])),
        ("b", "Orphan", json!(["orphan"])),
        ("c", "Background", Value::Null),
    ] {
        bench.post(DEPLOYMENTS, &deployment(name)).await;
        let path = format!("{DEPLOYMENTS}/{name}");
        bench.delete(&path, &json!({"propagationPolicy": policy})).await;
        let (code, object) = bench.get(&path).await;
        assert_eq!(code, if expected.is_null() { 404 } else { 200 }, "{policy}");
        assert_eq!(object["metadata"]["finalizers"], expected, "{policy}");
    }
}

#[tokio::test]
async fn a_running_pod_is_given_its_grace_and_goes_when_the_node_says_so() {
    let bench = Bench::new().await.with_account().await;
    let (code, created) = bench.post(PODS, &pod("p")).await;
    assert_eq!(code, 201, "{created}");
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    assert_eq!(bench.post(&format!("{PODS}/p/binding"), &binding).await.0, 201);
    let path = format!("{PODS}/p");
    let (_, marked) = bench.delete(&path, &Value::Null).await;
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 30);
    let (_, shorter) = bench.delete(&path, &json!({"gracePeriodSeconds": 5})).await;
    assert_eq!(shorter["metadata"]["deletionGracePeriodSeconds"], 5);
    assert!(
        shorter["metadata"]["deletionTimestamp"].as_str()
            < marked["metadata"]["deletionTimestamp"].as_str()
    );
    let (_, longer) = bench.delete(&path, &json!({"gracePeriodSeconds": 60})).await;
    assert_eq!(longer["metadata"]["deletionGracePeriodSeconds"], 5, "it only gets shorter");
    let uid = &created["metadata"]["uid"];
    let end = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": uid}});
    assert_eq!(bench.delete(&path, &end).await.0, 200);
    assert_eq!(bench.get(&path).await.0, 404);
}

#[tokio::test]
async fn a_pod_that_is_on_no_node_goes_at_once() {
    let bench = Bench::new().await.with_account().await;
    bench.post(PODS, &pod("p")).await;
    let (code, answer) = bench.delete(&format!("{PODS}/p"), &Value::Null).await;
    assert_eq!((code, &answer["kind"]), (200, &json!("Pod")));
    assert_eq!(bench.get(&format!("{PODS}/p")).await.0, 404);
}

#[tokio::test]
async fn a_collection_is_deleted_by_selector() {
    let bench = Bench::new().await;
    for (name, label) in [("a", "x"), ("b", "x"), ("c", "y")] {
        let object = json!({"metadata": {"name": name, "labels": {"l": label}}});
        bench.post(MAPS, &object).await;
    }
    let (code, list) = bench.delete(&format!("{MAPS}?labelSelector=l%3Dx"), &Value::Null).await;
    assert_eq!((code, list["items"].as_array().unwrap().len()), (200, 2));
    let (_, rest) = bench.get(MAPS).await;
    assert_eq!(rest["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_namespace_ends_when_its_finalizer_is_taken_away() {
    let bench = Bench::new().await;
    let path = "/api/v1/namespaces/n";
    let (_, created) = bench.post("/api/v1/namespaces", &json!({"metadata": {"name": "n"}})).await;
    assert_eq!(created["status"]["phase"], "Active");
    let (_, marked) = bench.delete(path, &Value::Null).await;
    assert_eq!(marked["status"]["phase"], "Terminating");
    assert_eq!(bench.get(path).await.0, 200);
    let mut freed = marked.clone();
    freed["spec"]["finalizers"] = json!([]);
    assert_eq!(bench.put(&format!("{path}/finalize"), &freed).await.0, 200);
    assert_eq!(bench.get(path).await.0, 404);
}
