//! Attempts from outside at a gateway: requests written to get past its policies or to pass for others,
//! and clients that flood it or never finish what they began.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "attack/frame.rs"]
mod frame;
#[path = "policy/yard.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod yard;

use std::time::Duration;

use ironsail_testkit::eventually;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use yard::{Row, Yard, policy, yard};

const EDGE: &str = "
apiVersion: v1
kind: ServiceAccount
metadata: {name: edge}
---
apiVersion: v1
kind: Pod
metadata:
  name: edge
  labels: {app: edge, istio: edge, sidecar.istio.io/inject: 'true'}
  annotations: {inject.istio.io/templates: gateway}
spec:
  serviceAccountName: edge
  terminationGracePeriodSeconds: 0
  containers: [{name: istio-proxy, image: auto}]
---
apiVersion: v1
kind: Service
metadata: {name: edge}
spec: {selector: {app: edge}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: edge}
spec:
  selector: {istio: edge}
  servers: [{port: {number: 8080, name: http, protocol: HTTP}, hosts: ['*']}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: edge}
spec:
  hosts: ['*']
  gateways: [edge]
  http: [{route: [{destination: {host: echo, port: {number: 80}}}]}]
";

fn at_edge(name: &str, action: &str, rules: &str) -> String {
    policy(name, action, rules).replace("app: echo", "istio: edge")
}

#[test]
fn a_gateway_stands_what_comes_from_outside() {
    let mesh = "pathNormalization: {normalization: DECODE_AND_MERGE_SLASHES}";
    yard("attack-gateway", mesh, async |yard| {
        yard.case.apply(EDGE).await;
        yard.case.ready("pod/edge").await;
        yard.watch("edge");
        what_is_written_does_not_matter(yard).await;
        nobody_passes_for_another(yard).await;
        rapid_resets_end_the_connection(yard).await;
        endless_heads_end_the_connection(yard).await;
        slow_clients_are_cut_off(yard).await;
    });
}

async fn what_is_written_does_not_matter(yard: &Yard<'_>) {
    yard.rows(&[
        Row {
            name: "deny-at-edge",
            policies: at_edge(
                "deny-at-edge",
                "DENY",
                "[{to: [{operation: {paths: ['/admin*', '*/admin']}}]}, {to: [{operation: {hosts: [secret.test]}}]}]",
            ),
            asks: &[
                ("eve", "get --path-as-is http://edge/admin", "403"),
                ("eve", "get --path-as-is http://edge//admin", "403"),
                ("eve", "get --path-as-is http://edge/./admin", "403"),
                ("eve", "get --path-as-is http://edge/x/../admin", "403"),
                ("eve", "get --path-as-is http://edge/%61dmin", "403"),
                ("eve", "get --path-as-is http://edge/%2fadmin", "403"),
                ("eve", "get --path-as-is http://edge/x%2f..%2fadmin", "403"),
                ("eve", "get --path-as-is http://edge/x%5c..%5cadmin", "403"),
                ("eve", "get --path-as-is 'http://edge/x/..;/admin'", "403"),
                ("eve", "get --path-as-is 'http://edge/admin;x=1'", "403"),
                ("eve", "get -H 'X-Envoy-Original-Path: /public' http://edge/admin", "403"),
                ("eve", "get -H 'X-Original-URL: /public' http://edge/admin", "403"),
                ("eve", "get --http2-prior-knowledge --path-as-is http://edge//admin", "403"),
                ("eve", "get -H 'Host: secret.test' http://edge/", "403"),
                ("eve", "get -H 'Host: SeCrEt.TEST' http://edge/", "403"),
                ("eve", "get --http2-prior-knowledge -H 'Host: Secret.Test' http://edge/", "403"),
                ("eve", "get -H 'X-Forwarded-Host: public.test' -H 'Host: secret.test' http://edge/", "403"),
                ("eve", "get http://edge/public", "200"),
            ],
            decided: &["matched_policy[ns[NS]-policy[deny-at-edge]-rule[0]]", "matched_policy[ns[NS]-policy[deny-at-edge]-rule[1]]"],
        },
        Row {
            name: "allow-at-edge",
            policies: at_edge("allow-at-edge", "ALLOW", "[{to: [{operation: {paths: ['/public', '/docs/{*}']}}]}]"),
            asks: &[
                ("eve", "get --path-as-is http://edge/public", "200"),
                ("eve", "get --path-as-is http://edge/docs/a", "200"),
                ("eve", "get --path-as-is http://edge/public/../admin", "403"),
                ("eve", "get --path-as-is http://edge/public%2f..%2fadmin", "403"),
                ("eve", "get --path-as-is 'http://edge/public/..;/admin'", "403"),
                ("eve", "get --path-as-is 'http://edge/docs/..;/admin'", "403"),
                ("eve", "get --path-as-is 'http://edge/admin?/public'", "403"),
                ("eve", "get --path-as-is http://edge/PUBLIC", "403"),
                ("eve", "get -H 'X-Envoy-Original-Path: /public' http://edge/admin", "403"),
            ],
            decided: &["rbac_access_denied_matched_policy[none]"],
        },
        Row {
            name: "address-at-edge",
            policies: at_edge("address-at-edge", "ALLOW", "[{from: [{source: {remoteIpBlocks: [203.0.113.0/24]}}]}]"),
            asks: &[
                ("eve", "get -H 'X-Forwarded-For: 203.0.113.9' http://edge/", "403"),
                ("eve", "get -H 'X-Envoy-External-Address: 203.0.113.9' http://edge/", "403"),
                ("eve", "get -H 'X-Real-IP: 203.0.113.9' -H 'Forwarded: for=203.0.113.9' http://edge/", "403"),
            ],
            decided: &[],
        },
    ])
    .await;
}

/// What a client may not say, each with a value that shows up if somebody believes it.
macro_rules! forged {
    ($where:literal) => {
        concat!(
            "told -H 'X-Forwarded-Client-Cert: By=x;URI=spiffe://forged' -H 'X-Envoy-Peer-Metadata: Zm9yZ2Vk-forged' ",
            "-H 'X-Envoy-Peer-Metadata-Id: sidecar~1.1.1.1~forged.NS~x' -H 'X-Envoy-Decorator-Operation: forged' ",
            "-H 'X-Envoy-Ip-Tags: forged' -H 'X-Envoy-Retry-On: forged' -H 'X-Envoy-External-Address: forged' ",
            "-H 'X-Envoy-Original-Path: /forged' ",
            $where,
            " | grep -ci forged"
        )
    };
}

async fn nobody_passes_for_another(yard: &Yard<'_>) {
    yard.rows(&[
        Row {
            name: "principal",
            policies: policy(
                "principal",
                "ALLOW",
                "[{from: [{source: {principals: [cluster.local/ns/NS/sa/edge]}}], when: [{key: 'request.headers[x-open]', values: ['yes']}]}]",
            ),
            asks: &[
                ("eve", "get -H 'x-open: yes' http://edge/", "200"),
                // Who is not the gateway does not become it by a header.
                (
                    "eve",
                    "get -H 'x-open: yes' -H 'X-Forwarded-Client-Cert: By=x;URI=spiffe://cluster.local/ns/NS/sa/edge' http://echo/",
                    "403",
                ),
                ("carol", "get -H 'x-open: yes' -H 'X-Envoy-Peer-Metadata-Id: router~1.1.1.1~edge.NS~x' http://echo.NS/", "403"),
            ],
            decided: &[],
        },
        Row {
            name: "told",
            policies: String::new(),
            asks: &[("eve", forged!("http://edge/"), "0")],
            decided: &[],
        },
    ])
    .await;
    // Nor do metrics of the workload name one who was made up.
    let stats = "curl -s localhost:15020/stats/prometheus | grep istio_requests_total";
    eventually("requests by the gateway are counted", async || {
        let line = ["get", "pods", "-l", "app=echo", "-o", "jsonpath={.items[0].metadata.name}"];
        let pod = yard.case.kubectl_says(&line);
        let seen = yard.case.exec_in(&pod, "istio-proxy", &["sh", "-c", stats]).await.stdout;
        assert!(!seen.contains("forged"), "{seen}");
        if seen.contains("source_workload=\"edge\"") { Ok(()) } else { Err(seen) }
    })
    .await;
}

/// A connection to the gateway's port.
async fn dial(yard: &Yard<'_>) -> impl AsyncRead + AsyncWrite + Unpin + Send + use<> {
    let pods: Api<Pod> = Api::namespaced(yard.case.client.clone(), &yard.case.namespace);
    let mut forward = pods.portforward("edge", &[8080]).await.unwrap();
    forward.take_stream(8080).unwrap()
}

/// Until the gateway ends the connection; what it said.
async fn until_closed(stream: &mut (impl AsyncRead + Unpin)) -> Vec<u8> {
    let mut said = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(90), stream.read_to_end(&mut said)).await;
    // A reset is an end, too.
    let _ = read.expect("the gateway ends the connection");
    said
}

/// Others are served while somebody attacks.
async fn others_are_served(yard: &Yard<'_>) {
    let said = yard.run("eve", "for i in 1 2 3 4 5; do get http://edge/; done").await;
    assert_eq!(said, "200\n".repeat(5), "{said}");
}

async fn rapid_resets_end_the_connection(yard: &Yard<'_>) {
    let mut stream = dial(yard).await;
    let mut bytes = frame::preface();
    for number in 0..5_000_u32 {
        frame::rapid_reset(2 * number + 1, "edge", &mut bytes);
    }
    // The gateway may end the connection before all is written.
    let _ = stream.write_all(&bytes).await;
    others_are_served(yard).await;
    until_closed(&mut stream).await;
}

async fn endless_heads_end_the_connection(yard: &Yard<'_>) {
    let mut stream = dial(yard).await;
    let _ = stream.write_all(&frame::preface()).await;
    let _ = stream.write_all(&frame::endless_head("edge", 20_000)).await;
    others_are_served(yard).await;
    until_closed(&mut stream).await;
    let many = "args=(); for i in $(seq 200); do args+=(-H \"x-flood-$i: y\"); done; get \"${args[@]}\" http://edge/";
    let long = "head -c 90000 /dev/zero | tr '\\0' a >/tmp/long; get -H \"x-long: $(cat /tmp/long)\" http://edge/";
    for script in [many, long] {
        let said = yard.run("eve", script).await;
        assert_eq!(said.trim(), "431", "{script}");
    }
}

async fn slow_clients_are_cut_off(yard: &Yard<'_>) {
    let mut slow = Vec::new();
    for _ in 0..20 {
        let mut stream = dial(yard).await;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: edge\r\nX-Slow: ").await.unwrap();
        slow.push(stream);
    }
    others_are_served(yard).await;
    for stream in &mut slow {
        let said = until_closed(stream).await;
        assert!(said.starts_with(b"HTTP/1.1 408"), "{}", String::from_utf8_lossy(&said));
    }
    others_are_served(yard).await;
}
