//! The mesh configuration at work: what changes for all proxies when it does.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use ironsail_testkit::{Answer, Case, SYSTEM, Traffic, ask, eventually, mesh_case};
use serde_json::json;

const PODS: &str = "
apiVersion: v1
kind: Pod
metadata: {name: a, labels: {app: a, sidecar.istio.io/inject: 'false'}}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: echo, args: [serve, --http, '8080', --greet, '9001'], env: [{name: VERSION, value: a}]}]
---
apiVersion: v1
kind: Pod
metadata: {name: client, labels: {app: client, sidecar.istio.io/inject: 'true'}}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: echo, args: [serve, --http, '8080']}]
---
apiVersion: v1
kind: Service
metadata: {name: a}
spec: {selector: {app: a}, ports: [{name: http, port: 80, targetPort: 8080}, {name: first, port: 9001}]}
";

/// The mesh configuration with more lines than the manifest has.
async fn mesh(case: &Case, more: &str) {
    let text = format!(
        "defaultConfig:\n  discoveryAddress: istiod.istio-system.svc:15012\nrootNamespace: istio-system\ntrustDomain: cluster.local\n{more}"
    );
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "istio", "namespace": SYSTEM}, "data": {"mesh": text}});
    case.try_apply(map).await.unwrap();
}

#[test]
fn settings_of_the_mesh_reach_every_proxy() {
    mesh_case("mesh", async |case| {
        case.apply(PODS).await;
        for pod in ["a", "client"] {
            case.ready(&format!("pod/{pod}")).await;
        }
        let traffic = Traffic::new(case, "client");
        paths(case, &traffic).await;
        protocols(case, &traffic).await;
        egress(case, &traffic).await;
        selectors(case, &traffic).await;
        mesh(case, "").await;
        traffic.done().await;
    });
}

async fn paths(case: &Case, traffic: &Traffic<'_>) {
    for (kind, sent, seen) in [
        ("NONE", "/a/../b", "/a/../b"),
        ("BASE", "/a/../b", "/b"),
        ("MERGE_SLASHES", "//a///b", "/a/b"),
        ("DECODE_AND_MERGE_SLASHES", "/a%2F%2fb", "/a/b"),
    ] {
        mesh(case, &format!("pathNormalization: {{normalization: {kind}}}")).await;
        let name = format!("paths are normalised as {kind} says");
        traffic.still(&name, vec![ask(&format!("http://a{sent}")).reports("/path", seen)]).await;
    }
}

async fn protocols(case: &Case, traffic: &Traffic<'_>) {
    mesh(case, "h2UpgradePolicy: UPGRADE").await;
    traffic
        .still(
            "h2UpgradePolicy",
            vec![ask("http://a/").status(200).reports("/protocol", "HTTP/2.0")],
        )
        .await;
    mesh(case, "protocolDetectionTimeout: 1s").await;
    traffic
        .still("and back", vec![ask("http://a/").status(200).reports("/protocol", "HTTP/1.1")])
        .await;
    eventually("a server that speaks first is heard after the timeout", async || {
        let line = "exec 3<>/dev/tcp/a/9001; head -n 1 <&3";
        let seen = case.exec_in("client", "main", &["timeout", "8", "bash", "-c", line]).await;
        if seen.stdout.trim().is_empty() { Err(format!("{seen:?}")) } else { Ok(()) }
    })
    .await;
}

async fn egress(case: &Case, traffic: &Traffic<'_>) {
    let unknown = || ask("http://198.51.100.5/").args(&["--timeout", "2000"]);
    mesh(case, "outboundTrafficPolicy: {mode: REGISTRY_ONLY}").await;
    traffic
        .still("REGISTRY_ONLY for all", vec![unknown().status(502), ask("http://a/").status(200)])
        .await;
    mesh(case, "outboundTrafficPolicy: {mode: ALLOW_ANY}").await;
    let tried = |all: &[Answer]| all[0].status != Some(502);
    traffic.still("ALLOW_ANY for all", vec![unknown().all("it is tried", tried)]).await;
    mesh(case, "defaultServiceExportTo: ['~']").await;
    traffic
        .still(
            "what is exported to nobody by default is no service of the mesh",
            vec![ask("http://a/").status(200).misses("x-envoy-attempt-count")],
        )
        .await;
}

async fn selectors(case: &Case, traffic: &Traffic<'_>) {
    let only = "discoverySelectors: [{matchLabels: {kubernetes.io/metadata.name: istio-system}}, {matchLabels: {in: mesh}}]";
    mesh(case, "").await;
    let known = || ask("http://a/").status(200).sees("x-envoy-attempt-count", "1");
    traffic.still("all namespaces", vec![known()]).await;
    mesh(case, only).await;
    traffic
        .still(
            "a namespace that is not selected has no services",
            vec![ask("http://a/").status(200).misses("x-envoy-attempt-count")],
        )
        .await;
    case.kubectl_says(&["label", "namespace", &case.namespace, "in=mesh"]);
    traffic.still("and has them again when it is", vec![known()]).await;
}
