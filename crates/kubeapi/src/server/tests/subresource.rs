//! Scale, binding, eviction, tokens and reviews.

use serde_json::json;

use super::{Bench, DEPLOYMENTS, PODS, deployment, pod};

#[tokio::test]
async fn replicas_are_seen_and_set_through_scale() {
    let bench = Bench::new().await;
    bench.post(DEPLOYMENTS, &deployment("d")).await;
    let path = format!("{DEPLOYMENTS}/d/scale");
    let (_, mut scale) = bench.get(&path).await;
    assert_eq!(scale["kind"], "Scale");
    assert_eq!(
        (&scale["spec"]["replicas"], &scale["status"]["selector"]),
        (&json!(2), &json!("app=d"))
    );
    scale["spec"]["replicas"] = 5.into();
    let (code, _) = bench.put(&path, &scale).await;
    assert_eq!(code, 200);
    assert_eq!(bench.put(&path, &scale).await.0, 409, "the version is that of the deployment");
    let (_, scale) = bench.merge(&path, &json!({"spec": {"replicas": 6}})).await;
    assert_eq!(scale["spec"]["replicas"], 6);
    assert_eq!(bench.merge(&path, &json!({"spec": {"replicas": -1}})).await.0, 422);
    let (_, object) = bench.get(&format!("{DEPLOYMENTS}/d")).await;
    assert_eq!(
        (&object["spec"]["replicas"], &object["metadata"]["generation"]),
        (&json!(6), &json!(3))
    );
}

#[tokio::test]
async fn a_pod_is_bound_once() {
    let bench = Bench::new().await.with_account().await;
    bench.post(PODS, &pod("p")).await;
    let to =
        |node: &str| json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": node}});
    assert_eq!(bench.post("/api/v1/namespaces/default/bindings", &to("n1")).await.0, 201);
    let (code, refused) = bench.post(&format!("{PODS}/p/binding"), &to("n2")).await;
    assert_eq!(code, 409);
    assert_eq!(
        refused["message"],
        "Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to node \"n1\""
    );
    let (_, bound) = bench.get(&format!("{PODS}/p")).await;
    assert_eq!(bound["spec"]["nodeName"], "n1");
    let scheduled = &bound["status"]["conditions"][0];
    assert_eq!(
        (&scheduled["type"], &scheduled["status"]),
        (&json!("PodScheduled"), &json!("True"))
    );
}

#[tokio::test]
async fn an_eviction_deletes() {
    let bench = Bench::new().await.with_account().await;
    bench.post(PODS, &pod("p")).await;
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    assert_eq!(bench.post(&format!("{PODS}/p/eviction"), &eviction).await.0, 201);
    assert_eq!(bench.get(&format!("{PODS}/p")).await.0, 404);
}

#[tokio::test]
async fn tokens_are_made_and_reviewed() {
    let bench = Bench::new().await.with_account().await;
    let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let (code, request) = bench.post(path, &json!({"spec": {"audiences": ["me"]}})).await;
    assert_eq!(code, 201, "{request}");
    let review = json!({"spec": {"token": request["status"]["token"], "audiences": ["me"]}});
    let (code, answer) = bench.post("/apis/authentication.k8s.io/v1/tokenreviews", &review).await;
    assert_eq!((code, &answer["status"]["authenticated"]), (201, &json!(true)), "{answer}");
    assert_eq!(answer["status"]["user"]["username"], "system:serviceaccount:default:default");
}

#[tokio::test]
async fn logs_of_a_pod_on_no_node_are_refused() {
    let bench = Bench::new().await.with_account().await;
    bench.post(PODS, &pod("p")).await;
    let (code, refused) = bench.get(&format!("{PODS}/p/log")).await;
    assert_eq!(code, 400, "{refused}");
    assert_eq!(refused["message"], "pod p does not have a host assigned");
}
