//! Much through two sidecars: many connections, and many bytes in one.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use ironsail_testkit::{Case, eventually, mesh_case};
use serde_json::json;

/// A test in a namespace whose pods get a sidecar.
fn in_the_mesh(name: &str, test: impl AsyncFnOnce(&Case)) {
    mesh_case(name, async |case| {
        let labels = json!({"istio-injection": "enabled"});
        let object = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": case.namespace, "labels": labels}});
        case.try_apply(object).await.unwrap();
        test(case).await;
    });
}

/// Sends a gibibyte to whoever connects.
const BIG: &str = r#"
apiVersion: v1
kind: Service
metadata: {name: big}
spec: {selector: {app: big}, ports: [{name: tcp, port: 9000}]}
---
apiVersion: v1
kind: Pod
metadata: {name: big, labels: {app: big}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: busybox
    command:
    - python3
    - -c
    - |
      import socket
      server = socket.create_server(("0.0.0.0", 9000))
      while True:
          with server.accept()[0] as client:
              for _ in range(1024):
                  client.sendall(bytes(1 << 20))
"#;

const COUNT: &str = "import socket
stream, total = socket.create_connection(('big', 9000)), 0
while part := stream.recv(1 << 20):
    total += len(part)
print(total)";

#[test]
fn a_gibibyte_passes_through_two_sidecars() {
    in_the_mesh("big", async |case| {
        case.apply(BIG).await;
        case.sample("curl/curl.yaml").await;
        case.ready("pod/big").await;
        case.ready("deployment/curl").await;
        eventually("all of it comes", async || {
            let seen = case.exec("deployment/curl", &["python3", "-c", COUNT]).await;
            if seen.stdout.trim() == "1073741824" { Ok(()) } else { Err(format!("{seen:?}")) }
        })
        .await;
    });
}

/// Four clients with 2,500 connections each; prints which codes came how often.
const MANY: &str = "for n in 1 2 3 4; do (\
    for i in $(seq 500); do echo url=http://httpbin:8000/get; echo output=/dev/null; done > /tmp/ask$n; \
    for i in 1 2 3 4 5; do curl -s -K /tmp/ask$n -H 'Connection: close' -w '%{http_code}\\n'; done > /tmp/got$n \
    ) & done; wait; cat /tmp/got? | sort | uniq -c";

#[test]
fn ten_thousand_short_connections_all_get_their_answer() {
    in_the_mesh("many", async |case| {
        case.sample("httpbin/httpbin.yaml").await;
        case.sample("curl/curl.yaml").await;
        case.ready("deployment/httpbin").await;
        case.ready("deployment/curl").await;
        let once = ["curl", "-sf", "-m", "60", "http://httpbin:8000/get"];
        eventually("httpbin is known", async || {
            let seen = case.exec("deployment/curl", &once).await;
            if seen.code == 0 { Ok(()) } else { Err(format!("{seen:?}")) }
        })
        .await;
        let seen = case.exec("deployment/curl", &["bash", "-c", MANY]).await;
        assert_eq!(seen.stdout.trim(), "10000 200", "{seen:?}");
    });
}
