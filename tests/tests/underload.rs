//! Requests that go on while pods and the control plane are replaced: none may fail.
//!
//! The pods wait a moment before they stop, as those of careful users do: Kubernetes stops an application
//! and tells its clients at the same time, so the application has to serve until the clients know.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use ironsail_testkit::{Case, SYSTEM, eventually, mesh_case};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use serde_json::json;

/// Sends requests from the pod of curl until the file is gone, and says which codes came how often.
const LOAD: &str = "touch /tmp/load; while [ -e /tmp/load ]; do \
    curl -s -m 60 -o /dev/null -w '%{http_code}\\n' http://httpbin:8000/get; done | sort | uniq -c";

/// What clients saw while `meanwhile` happened: no code but 200.
async fn under_load(case: &Case, meanwhile: impl AsyncFnOnce()) {
    let load = case.exec("deployment/curl", &["sh", "-c", LOAD]);
    let work = async {
        meanwhile().await;
        case.exec("deployment/curl", &["rm", "/tmp/load"]).await;
    };
    let (seen, ()) = futures::join!(load, work);
    let lines: Vec<&str> = seen.stdout.lines().map(str::trim).collect();
    assert!(lines.len() == 1 && lines[0].ends_with(" 200"), "{seen:?}");
}

/// `kubectl rollout restart` refuses a second one within a second.
async fn roll(case: &Case, number: &str) {
    let patch = json!({"spec": {"template": {"metadata": {"annotations": {"rolled": number}}}}});
    kubectl(case, &["patch", "deployment/httpbin", "--patch", &patch.to_string()]);
    case.ready("deployment/httpbin").await;
}

fn kubectl(case: &Case, args: &[&str]) {
    let done = case.kubectl().args(args).output().unwrap();
    assert!(done.status.success(), "{done:?}");
}

/// Pods of httpbin serve on for as long as their clients may need to hear that they are going.
fn stop_late(case: &Case) {
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "httpbin",
        "lifecycle": {"preStop": {"sleep": {"seconds": 15}}}}]}}}});
    kubectl(case, &["patch", "deployment/httpbin", "--patch", &patch.to_string()]);
}

/// The pod of httpbin that is not being stopped.
async fn alive(case: &Case) -> Pod {
    let pods: Api<Pod> = Api::namespaced(case.client.clone(), &case.namespace);
    let found = pods.list(&ListParams::default().labels("app=httpbin")).await.unwrap();
    let alive = found.items.into_iter().find(|pod| pod.metadata.deletion_timestamp.is_none());
    alive.unwrap()
}

/// How often the agent beside httpbin has come to the control plane.
async fn connections(case: &Case) -> usize {
    let name = alive(case).await.metadata.name.unwrap();
    let log = case.logs(&name, "istio-proxy").await;
    log.matches("connected to delta upstream XDS server").count()
}

/// The client's proxy knows the pod that stays and none that goes: without a control plane it would not
/// hear of it any more.
async fn settled(case: &Case) {
    let address = alive(case).await.status.unwrap().pod_ip.unwrap();
    let wanted = format!("{address}:80");
    eventually("the client knows the last pod only", async || {
        let seen = case.exec("deployment/curl", &["curl", "-s", "localhost:15000/clusters"]).await;
        let hosts: BTreeSet<&str> = seen
            .stdout
            .lines()
            .filter(|line| line.starts_with("outbound|8000||httpbin."))
            .filter_map(|line| line.split("::").nth(1).filter(|host| host.ends_with(":80")))
            .collect();
        if hosts.iter().eq([&wanted.as_str()]) { Ok(()) } else { Err(format!("{hosts:?}")) }
    })
    .await;
}

#[test]
fn no_request_fails_while_pods_and_the_control_plane_are_replaced() {
    mesh_case("load", async |case| {
        let labels = json!({"istio-injection": "enabled"});
        let object = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": case.namespace, "labels": labels}});
        case.try_apply(object).await.unwrap();
        case.sample("httpbin/httpbin.yaml").await;
        stop_late(case);
        case.sample("curl/curl.yaml").await;
        case.ready("deployment/httpbin").await;
        case.ready("deployment/curl").await;
        eventually("the client knows httpbin", async || {
            let ask = ["curl", "-sf", "-m", "10", "-o", "/dev/null", "http://httpbin:8000/get"];
            let seen = case.exec("deployment/curl", &ask).await;
            if seen.code == 0 { Ok(()) } else { Err(format!("{seen:?}")) }
        })
        .await;
        under_load(case, async || {
            roll(case, "once").await;
            roll(case, "twice").await;
        })
        .await;
        settled(case).await;
        let before = connections(case).await;
        under_load(case, async || {
            let pods: Api<Pod> = Api::namespaced(case.client.clone(), SYSTEM);
            pods.delete(&case.istiod().await, &DeleteParams::default()).await.unwrap();
            eventually("the agent is connected again", async || {
                let now = connections(case).await;
                if now > before { Ok(()) } else { Err(format!("{now} connections so far")) }
            })
            .await;
        })
        .await;
    });
}
