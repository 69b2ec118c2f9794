//! CUSTOM policies: an authorizer over HTTP and gRPC, in the mesh and outside, that allows, denies,
//! is slow, is not there, or was never declared.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "policy/python.rs"]
mod python;
#[path = "policy/yard.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod yard;

use ironsail_testkit::{Shared, eventually};
use python::with_python;
use serde_json::json;
use yard::{Row, Yard, yard_with};

const PROGRAM: &str = include_str!("policy/authorizer.py");

const MESH: &str = "
extensionProviders:
- name: over-http
  envoyExtAuthzHttp:
    service: authorizer.NS.svc.cluster.local
    port: 8000
    timeout: 5s
    pathPrefix: /check
    includeRequestHeadersInCheck: [x-ext-authz, 'x-pre-*']
    includeAdditionalHeadersInCheck: {x-fixed: set}
    includeRequestBodyInCheck: {maxRequestBytes: 4, allowPartialMessage: true}
    headersToUpstreamOnAllow: [x-ext-authz-check-received]
    headersToDownstreamOnDeny: [x-ext-authz-check-result, x-ext-authz-check-received]
    headersToDownstreamOnAllow: [x-ext-authz-check-result]
- {name: over-grpc, envoyExtAuthzGrpc: {service: NS/authorizer.NS.svc.cluster.local, port: 9000, timeout: 5s}}
- {name: outside-http, envoyExtAuthzHttp: {service: authorizer.example, port: 8000, timeout: 5s, includeRequestHeadersInCheck: [x-ext-authz]}}
- {name: outside-grpc, envoyExtAuthzGrpc: {service: authorizer.example, port: 9000, timeout: 5s}}
- {name: down-closed, envoyExtAuthzHttp: {service: authorizer.NS.svc.cluster.local, port: 8001, timeout: 5s, statusOnError: '503'}}
- {name: down-default, envoyExtAuthzGrpc: {service: authorizer.NS.svc.cluster.local, port: 8001, timeout: 5s}}
- {name: down-open, envoyExtAuthzHttp: {service: authorizer.NS.svc.cluster.local, port: 8001, timeout: 5s, failOpen: true}}
- {name: slow, envoyExtAuthzHttp: {service: authorizer.NS.svc.cluster.local, port: 8000, timeout: 0.2s, pathPrefix: /slow, statusOnError: '504'}}
- {name: nowhere, envoyExtAuthzHttp: {service: nowhere.example, port: 8000}}
";

/// The authorizer: one in the mesh, one that only a ServiceEntry knows.
async fn authorizers(yard: &Yard<'_>) {
    for (name, inside) in [("authorizer", "true"), ("outside", "false")] {
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {"selector": {"matchLabels": {"app": name}}, "template": {
                "metadata": {"labels": {"app": name, "sidecar.istio.io/inject": inside}},
                "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "main",
                    "image": "python", "args": ["-c", PROGRAM],
                    "readinessProbe": {"tcpSocket": {"port": 9000}, "periodSeconds": 1}}]}}}});
        yard.case.try_apply(object).await.unwrap();
    }
    let ports = json!([{"name": "http", "port": 8000}, {"name": "http-down", "port": 8001},
        {"name": "grpc", "port": 9000}]);
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "authorizer"},
        "spec": {"selector": {"app": "authorizer"}, "ports": ports}});
    yard.case.try_apply(service).await.unwrap();
    for name in ["authorizer", "outside"] {
        yard.case.ready(&format!("deployment/{name}")).await;
    }
    let line = ["get", "pods", "-l", "app=outside", "-o", "jsonpath={.items[0].status.podIP}"];
    let ip = yard.case.kubectl_says(&line);
    yard.case
        .apply(&format!(
            "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: outside}}
spec:
  hosts: [authorizer.example]
  ports: [{{number: 8000, name: http, protocol: HTTP}}, {{number: 9000, name: grpc, protocol: GRPC}}]
  location: MESH_EXTERNAL
  resolution: STATIC
  endpoints: [{{address: {ip}}}]
"
        ))
        .await;
}

fn custom(name: &str, provider: &str, rules: &str) -> String {
    format!(
        "---\n{{apiVersion: security.istio.io/v1, kind: AuthorizationPolicy, metadata: {{name: {name}}}, \
         spec: {{action: CUSTOM, provider: {{name: {provider}}}, selector: {{matchLabels: {{app: echo}}}}, \
         rules: {rules}}}}}\n"
    )
}

const ON_PATH: &str = "[{to: [{operation: {paths: ['/guarded*'], ports: ['8080']}}]}]";

#[test]
fn an_authorizer_decides_on_what_fits() {
    static MESH_WITH_PYTHON: Shared = Shared::new(with_python);
    yard_with(&MESH_WITH_PYTHON, "authz-custom", MESH, async |yard| {
        authorizers(yard).await;
        yard.rows(&[
            Row {
                name: "http",
                policies: custom("http", "over-http", ON_PATH),
                asks: &[
                    ("alice", "get http://echo/guarded", "403"),
                    ("alice", "get -H 'x-ext-authz: allow' http://echo/guarded", "200"),
                    ("alice", "get -H 'x-ext-authz: deny' http://echo/guarded", "403"),
                    ("alice", "get http://echo/free", "200"),
                    // What it is told: prefixed path, method, some headers, some of the body.
                    (
                        "alice",
                        "curl -s -D - -o /dev/null -X PUT -d 123456 -H 'x-pre-one: 1' -H 'x-other: 2' http://echo/guarded/a \
                         | grep -ic 'x-ext-authz-check-received: PUT /check/guarded/a body=1234 x-pre-one=1 x-fixed=set x-other=None'",
                        "1",
                    ),
                    // What goes back on denial and on consent.
                    (
                        "alice",
                        "curl -s -D - -o /dev/null http://echo/guarded | grep -ic 'x-ext-authz-check-result: denied'",
                        "1",
                    ),
                    (
                        "alice",
                        "curl -s -D - -o /dev/null http://echo/guarded | grep -ic 'x-ext-hidden'",
                        "0",
                    ),
                    (
                        "alice",
                        "curl -s -D - -o /dev/null -H 'x-ext-authz: allow' http://echo/guarded | grep -ic 'x-ext-authz-check-result: allowed'",
                        "1",
                    ),
                    // What the application gets.
                    (
                        "alice",
                        "told -H 'x-ext-authz: allow' http://echo/guarded | grep -ic 'GET /check/guarded'",
                        "1",
                    ),
                    (
                        "alice",
                        "told -H 'x-ext-authz: allow' http://echo/guarded | grep -ic 'x-ext-hidden'",
                        "0",
                    ),
                ],
                decided: &["ext_authz_denied"],
            },
            Row {
                name: "grpc",
                policies: custom("grpc", "over-grpc", ON_PATH),
                asks: &[
                    ("alice", "get http://echo/guarded", "403"),
                    ("alice", "get -H 'x-ext-authz: allow' http://echo/guarded", "200"),
                    ("alice", "get http://echo/free", "200"),
                    (
                        "alice",
                        "told -H 'x-ext-authz: allow' http://echo/guarded | grep -ic 'x-ext-up'",
                        "1",
                    ),
                ],
                decided: &[],
            },
            Row {
                name: "outside-http",
                policies: custom("outside-http", "outside-http", ON_PATH),
                asks: &[
                    ("alice", "get http://echo/guarded", "403"),
                    ("alice", "get -H 'x-ext-authz: allow' http://echo/guarded", "200"),
                ],
                decided: &[],
            },
            Row {
                name: "outside-grpc",
                policies: custom("outside-grpc", "outside-grpc", ON_PATH),
                asks: &[
                    ("alice", "get http://echo/guarded", "403"),
                    ("alice", "get -H 'x-ext-authz: allow' http://echo/guarded", "200"),
                ],
                decided: &[],
            },
            Row {
                name: "down-closed",
                policies: custom("down-closed", "down-closed", ON_PATH),
                asks: &[
                    ("alice", "get http://echo/guarded", "503"),
                    ("alice", "get http://echo/free", "200"),
                ],
                decided: &["ext_authz_error"],
            },
            Row {
                name: "down-default",
                policies: custom("down-default", "down-default", ON_PATH),
                asks: &[("alice", "get http://echo/guarded", "403")],
                decided: &[],
            },
            Row {
                name: "down-open",
                policies: custom("down-open", "down-open", ON_PATH),
                asks: &[("alice", "get http://echo/guarded", "200")],
                decided: &[],
            },
            Row {
                name: "slow",
                policies: custom("slow", "slow", ON_PATH),
                asks: &[("alice", "get -H 'x-ext-authz: allow' http://echo/guarded", "504")],
                decided: &[],
            },
            Row {
                name: "nowhere",
                policies: custom("nowhere", "nowhere", ON_PATH),
                asks: &[
                    ("alice", "get http://echo/guarded", "403"),
                    ("alice", "get http://echo/free", "200"),
                ],
                decided: &[
                    "matched_policy[istio-ext-authz-nowhere-ns[NS]-policy[nowhere]-rule[0]-deny-due-to-bad-CUSTOM-action]",
                ],
            },
            Row {
                name: "undeclared",
                policies: custom("undeclared", "undeclared", ON_PATH),
                asks: &[
                    ("alice", "get http://echo/guarded", "403"),
                    ("alice", "get http://echo/free", "200"),
                ],
                decided: &["policy[undeclared]-rule[0]-deny-due-to-bad-CUSTOM-action"],
            },
            Row {
                name: "two-authorizers",
                policies: custom("first", "over-http", ON_PATH)
                    + &custom("second", "over-grpc", ON_PATH),
                asks: &[("alice", "get -H 'x-ext-authz: allow' http://echo/guarded", "403")],
                decided: &["policy[second]-rule[0]-deny-due-to-bad-CUSTOM-action"],
            },
            Row {
                name: "before-allow",
                policies: custom("asked", "over-grpc", ON_PATH)
                    + &yard::policy("then", "ALLOW", "[{from: [{source: {principals: ['*/sa/alice']}}]}]"),
                asks: &[
                    ("alice", "get -H 'x-ext-authz: allow' http://echo/guarded", "200"),
                    ("bob", "get -H 'x-ext-authz: allow' http://echo/guarded", "403"),
                    ("alice", "get http://echo/guarded", "403"),
                ],
                decided: &[],
            },
            // Connections: gRPC can be asked about them, HTTP cannot, so what fits is reset.
            Row {
                name: "tcp-grpc",
                policies: custom("tcp-grpc", "over-grpc", "[{to: [{operation: {ports: ['9000']}}]}]"),
                asks: &[("alice", "tcp 9000", "reset"), ("alice", "get http://echo/", "200")],
                decided: &[],
            },
            Row {
                name: "tcp-http",
                policies: custom("tcp-http", "over-http", "[{to: [{operation: {ports: ['9000']}}]}]"),
                asks: &[("alice", "tcp 9000", "reset"), ("alice", "get http://echo/", "200")],
                decided: &["policy[tcp-http]-rule[0]-deny-due-to-bad-CUSTOM-action"],
            },
        ])
        .await;
        // What cannot be enforced as written is told to its owner.
        yard.write(&custom("told", "undeclared", ON_PATH)).await;
        eventually("the status says why", async || {
            let line = ["get", "authorizationpolicy", "told", "-o", "jsonpath={.status}"];
            let said = yard.case.kubectl_says(&line);
            let good = said.contains("no extension provider") && said.contains("denied");
            if good { Ok(()) } else { Err(said) }
        })
        .await;
        yard.forget().await;
    });
}
