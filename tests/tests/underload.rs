//! Requests that go on while pods and the control plane are replaced: none may fail, and a new control
//! plane brings nothing new to proxies in a mesh that did not change.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use ironsail_testkit::{Case, Codes, Load, SYSTEM, eventually, mesh_case};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::json;

const HTTPBIN: &str = "http://httpbin:8000/get";
const CLIENT: &str = "deployment/curl";

#[track_caller]
fn all_answered(what: &str, codes: &Codes) {
    assert!(codes.keys().eq([&200]), "{what}: {codes:?}");
}

/// The pods of both ends.
async fn pods(case: &Case) -> [String; 2] {
    let mut names = Vec::new();
    for app in ["curl", "httpbin"] {
        let pods = case.alive(app).await;
        let [pod] = &pods[..] else { panic!("{app} has {} pods", pods.len()) };
        names.push(pod.metadata.name.clone().unwrap());
    }
    names.try_into().unwrap()
}

/// How often the agent of a pod has come to the control plane.
async fn connections(case: &Case, pod: &str) -> usize {
    let log = case.logs(pod, "istio-proxy").await;
    log.matches("connected to delta upstream XDS server").count()
}

/// How often listeners and clusters of a pod's proxy came, changed and went.
async fn changes(case: &Case, pod: &str) -> BTreeMap<String, u64> {
    let url = "localhost:15000/stats?filter=_manager.(cluster|listener)_(added|modified|removed|in_place_updated)";
    let seen = case.exec_in(pod, "istio-proxy", &["curl", "-s", "-g", url]).await;
    let pairs = seen.stdout.lines().filter_map(|line| line.split_once(": "));
    let counts: BTreeMap<_, _> =
        pairs.map(|(name, count)| (name.to_owned(), count.trim().parse().unwrap())).collect();
    assert!(counts.len() >= 6, "{seen:?}");
    counts
}

/// A route that both proxies have heard of: whatever was said before it has come, too.
async fn a_route_comes(case: &Case, pods: &[String]) {
    let object = json!({"apiVersion": "networking.istio.io/v1", "kind": "VirtualService",
        "metadata": {"name": "newest"}, "spec": {"hosts": ["httpbin"], "http": [{
            "name": "newest", "route": [{"destination": {"host": "httpbin"}}]}]}});
    case.try_apply(object).await.unwrap();
    for pod in pods {
        eventually("the newest route", async || {
            let url = "localhost:15000/config_dump?resource=dynamic_route_configs";
            let seen = case.exec_in(pod, "istio-proxy", &["curl", "-s", url]).await;
            let is_there = seen.stdout.contains("\"newest\"");
            if is_there { Ok(()) } else { Err(format!("{pod}: not there")) }
        })
        .await;
    }
}

#[test]
fn no_request_fails_while_pods_and_the_control_plane_are_replaced() {
    mesh_case("load", async |case| {
        let labels = json!({"istio-injection": "enabled"});
        let object = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": case.namespace, "labels": labels}});
        case.try_apply(object).await.unwrap();
        case.sample("httpbin/httpbin.yaml").await;
        case.stop_late("httpbin");
        case.sample("curl/curl.yaml").await;
        case.ready("deployment/httpbin").await;
        case.ready(CLIENT).await;
        // The pod from before the change stops at once.
        case.settled(CLIENT, "httpbin", 8000, 80).await;
        case.answers(CLIENT, HTTPBIN).await;
        let codes = case
            .under_load(CLIENT, HTTPBIN, async |_: &Load<'_>| {
                case.roll("httpbin").await;
                case.roll("httpbin").await;
            })
            .await;
        all_answered("pods are replaced", &codes);
        case.settled(CLIENT, "httpbin", 8000, 80).await;
        let pods = pods(case).await;
        let mut before = Vec::new();
        for pod in &pods {
            before.push((connections(case, pod).await, changes(case, pod).await));
        }
        let codes = case
            .under_load(CLIENT, HTTPBIN, async |_: &Load<'_>| {
                let system: Api<Pod> = Api::namespaced(case.client.clone(), SYSTEM);
                system.delete(&case.istiod().await, &DeleteParams::default()).await.unwrap();
                for (pod, (connected, _)) in pods.iter().zip(&before) {
                    eventually("the agent is connected again", async || {
                        let now = connections(case, pod).await;
                        if now > *connected { Ok(()) } else { Err(format!("{now} so far")) }
                    })
                    .await;
                }
                a_route_comes(case, &pods).await;
            })
            .await;
        all_answered("the control plane is replaced", &codes);
        for (pod, (_, before)) in pods.iter().zip(before) {
            assert_eq!(changes(case, pod).await, before, "{pod} got something new");
        }
    });
}
