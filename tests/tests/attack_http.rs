//! Attempts to get past policies by how a request is written: paths, hosts and headers that read one
//! way to a proxy and another way to an application.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "policy/yard.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod yard;

use yard::{Row, Yard, policy, yard};

/// Bytes as they are, and the status of the answer.
macro_rules! raw {
    ($bytes:literal) => {
        concat!(
            "exec 3<>/dev/tcp/echo/80; printf '",
            $bytes,
            "' >&3; code=000; IFS=' ' read -t 5 -r _ code _ <&3; builtin echo $code; exec 3>&-"
        )
    };
}

#[test]
fn what_is_refused_stays_refused_however_it_is_written() {
    let mesh = "pathNormalization: {normalization: DECODE_AND_MERGE_SLASHES}";
    yard("attack-http", mesh, async |yard| {
        a_path_is_judged_as_the_application_reads_it(yard).await;
        headers_do_not_make_somebody_of_nobody(yard).await;
    });
}

const CLOSED: &str = "[{to: [{operation: {paths: ['/admin*'], ports: ['8080']}}]}]";
const OPEN: &str = "[{to: [{operation: {paths: ['/public', '/public/*']}}]}]";

async fn a_path_is_judged_as_the_application_reads_it(yard: &Yard<'_>) {
    yard.rows(&[
        Row {
            name: "deny-by-path",
            policies: policy("deny-by-path", "DENY", CLOSED),
            asks: &[
                ("eve", "get --path-as-is http://echo/admin", "403"),
                ("eve", "get --path-as-is http://echo//admin", "403"),
                ("eve", "get --path-as-is http://echo///admin", "403"),
                ("eve", "get --path-as-is http://echo/./admin", "403"),
                ("eve", "get --path-as-is http://echo/x/../admin", "403"),
                ("eve", "get --path-as-is http://echo/x/..//admin", "403"),
                ("eve", "get --path-as-is http://echo/%61dmin", "403"),
                ("eve", "get --path-as-is http://echo/%2fadmin", "403"),
                ("eve", "get --path-as-is http://echo/x%2f..%2fadmin", "403"),
                ("eve", "get --path-as-is http://echo/x%5c..%5cadmin", "403"),
                ("eve", "get --path-as-is 'http://echo/x\\..\\admin'", "403"),
                ("eve", "get --path-as-is 'http://echo/admin;x'", "403"),
                ("eve", "get --path-as-is 'http://echo/admin?x'", "403"),
                ("eve", "get --path-as-is 'http://echo/admin%3fx'", "403"),
                ("eve", "get --path-as-is http://echo/admin%2f..%2f..%2fadmin", "403"),
                ("eve", "get -H 'X-Envoy-Original-Path: /public' http://echo/admin", "403"),
                ("eve", "get -H 'X-Original-URL: /public' http://echo/admin", "403"),
                ("eve", "get --http2-prior-knowledge --path-as-is http://echo//admin", "403"),
                ("alice", "get --path-as-is http://echo//admin", "403"),
                ("alice", "get --path-as-is http://echo/x%2f..%2fadmin", "403"),
                ("eve", "get --path-as-is http://echo/public", "200"),
            ],
            decided: &["matched_policy[ns[NS]-policy[deny-by-path]-rule[0]]"],
        },
        Row {
            name: "allow-by-path",
            policies: policy("allow-by-path", "ALLOW", OPEN),
            asks: &[
                ("eve", "get --path-as-is http://echo/public", "200"),
                ("eve", "get --path-as-is http://echo/public/x", "200"),
                ("eve", "get --path-as-is http://echo/public/../admin", "403"),
                ("eve", "get --path-as-is http://echo/public/..%2fadmin", "403"),
                ("eve", "get --path-as-is http://echo/public/%2e%2e/admin", "403"),
                ("eve", "get --path-as-is http://echo/public%2f..%2fadmin", "403"),
                ("eve", "get --path-as-is http://echo/PUBLIC", "403"),
                ("eve", "get --path-as-is http://echo/publicly", "403"),
                ("eve", "get --path-as-is 'http://echo/admin?/public'", "403"),
                ("eve", "get --path-as-is 'http://echo/admin#/public'", "403"),
                ("eve", "get -H 'X-Envoy-Original-Path: /public' http://echo/admin", "403"),
                ("eve", "get -X POST -H 'X-HTTP-Method-Override: GET' http://echo/admin", "403"),
            ],
            decided: &["rbac_access_denied_matched_policy[none]"],
        },
    ])
    .await;
}

async fn headers_do_not_make_somebody_of_nobody(yard: &Yard<'_>) {
    yard.rows(&[
            Row {
                name: "forged-certificate",
                policies: policy(
                    "forged-certificate",
                    "ALLOW",
                    "[{from: [{source: {principals: [cluster.local/ns/NS/sa/alice]}}]}]",
                ),
                asks: &[
                    ("alice", "get http://echo/", "200"),
                    (
                        "eve",
                        "get -H 'X-Forwarded-Client-Cert: By=x;URI=spiffe://cluster.local/ns/NS/sa/alice' http://echo/",
                        "403",
                    ),
                    (
                        "bob",
                        "get -H 'X-Forwarded-Client-Cert: By=x;URI=spiffe://cluster.local/ns/NS/sa/alice' http://echo/",
                        "403",
                    ),
                    ("eve", "get -H 'x-envoy-peer-metadata-id: sidecar~1.1.1.1~alice.NS~x' http://echo/", "403"),
                    ("eve", "get -H 'x-envoy-internal: true' http://echo/", "403"),
                ],
                decided: &[],
            },
            Row {
                name: "seen-by-application",
                policies: policy("seen-by-application", "ALLOW", "[{}]"),
                asks: &[
                    // A certificate that nobody showed is not told to the application.
                    (
                        "eve",
                        "told -H 'X-Forwarded-Client-Cert: By=x;URI=spiffe://forged' http://echo/ | grep -c 'spiffe://forged'",
                        "0",
                    ),
                ],
                decided: &[],
            },
            Row {
                name: "host",
                policies: policy("host", "DENY", "[{to: [{operation: {hosts: [secret.test, 'secret.test:*']}}]}]"),
                asks: &[
                    ("eve", "get -H 'Host: secret.test' http://echo/", "403"),
                    ("eve", "get -H 'Host: SECRET.test' http://echo/", "403"),
                    ("eve", "get -H 'Host: secret.test:80' http://echo/", "403"),
                    ("eve", "get -H 'Host: SeCrEt.TeSt:8080' http://echo/", "403"),
                    ("eve", "get --http2-prior-knowledge -H 'Host: Secret.test' http://echo/", "403"),
                    ("eve", "get -H 'X-Forwarded-Host: public.test' -H 'Host: secret.test' http://echo/", "403"),
                    ("eve", "get -H 'Host: public.test' http://echo/", "200"),
                ],
                decided: &["matched_policy[ns[NS]-policy[host]-rule[0]]"],
            },
            Row {
                name: "header-value",
                policies: policy("header-value", "ALLOW", "[{when: [{key: 'request.headers[X-Key]', values: [open]}]}]"),
                asks: &[
                    ("eve", "get -H 'X-Key: open' http://echo/", "200"),
                    ("eve", "get -H 'X_Key: open' http://echo/", "403"),
                    // Several headers are looked at one by one.
                    ("eve", "get -H 'X-Key: shut' -H 'X-Key: open' http://echo/", "200"),
                    ("eve", "get -H 'X-Key: open, shut' http://echo/", "403"),
                    ("eve", "get -H 'Connection: X-Key' -H 'X-Key: shut' http://echo/", "403"),
                ],
                decided: &[],
            },
            Row {
                name: "header-denied",
                policies: policy(
                    "header-denied",
                    "DENY",
                    "[{to: [{operation: {ports: ['8080']}}], when: [{key: 'request.headers[X-Role]', values: [guest]}]}]",
                ),
                asks: &[
                    ("eve", "get -H 'X-Role: guest' http://echo/", "403"),
                    ("eve", "get -H 'X-Role: user' -H 'X-Role: guest' http://echo/", "403"),
                    ("eve", "get -H 'X-Role: guest' -H 'X-Role: user' http://echo/", "403"),
                    ("eve", "get -H 'x-ROLE: guest' http://echo/", "403"),
                    ("eve", "get -H 'X-Role: user' http://echo/", "200"),
                ],
                decided: &["matched_policy[ns[NS]-policy[header-denied]-rule[0]]"],
            },
            Row {
                name: "smuggling",
                policies: policy("smuggling", "DENY", "[{to: [{operation: {paths: ['/admin*'], ports: ['8080']}}]}]"),
                asks: &[
                    // Two lengths, a length and chunks: not one reading, so no reading.
                    ("eve", raw!("POST / HTTP/1.1\\r\\nHost: echo\\r\\nContent-Length: 1\\r\\nContent-Length: 2\\r\\n\\r\\nab"), "400"),
                    (
                        "eve",
                        raw!("POST / HTTP/1.1\\r\\nHost: echo\\r\\nContent-Length: 4\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\nGET /admin HTTP/1.1\\r\\nHost: echo\\r\\n\\r\\n"),
                        "400",
                    ),
                    ("eve", raw!("GET /admin HTTP/1.1\\r\\nHost: echo\\r\\nConnection: close\\r\\n\\r\\n"), "403"),
                    ("eve", raw!("GET http://echo/admin HTTP/1.1\\r\\nHost: echo\\r\\nConnection: close\\r\\n\\r\\n"), "403"),
                ],
                decided: &["matched_policy[ns[NS]-policy[smuggling]-rule[0]]"],
            },
        ])
        .await;
}
