//! AuthorizationPolicies on requests: who gets what, and which rule the log names.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "policy/yard.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod yard;

use yard::{Row, Yard, policy, yard};

fn row(
    name: &'static str,
    action: &str,
    rules: &str,
    asks: &'static [(&'static str, &'static str, &'static str)],
    decided: &'static [&'static str],
) -> Row {
    Row { name, policies: policy(name, action, rules), asks, decided }
}

/// The log shows what policies in dry run would have done.
const MESH: &str = r#"
trustDomainAliases: [old.td]
accessLogFormat: "%RESPONSE_CODE% %RESPONSE_CODE_DETAILS% %DYNAMIC_METADATA(envoy.filters.http.rbac)%\n"
"#;

#[test]
fn requests_are_let_in_or_refused() {
    yard("authz-http", MESH, async |yard| {
        who_asks_decides(yard).await;
        what_is_asked_decides(yard).await;
        conditions_and_reach_decide(yard).await;
    });
}

async fn who_asks_decides(yard: &Yard<'_>) {
    yard.rows(&[
        row(
            "nothing",
            "ALLOW",
            "[]",
            &[
                ("alice", "get http://echo/", "403"),
                ("eve", "get http://echo/", "403"),
                ("alice", "grpc", "7"),
            ],
            &["rbac_access_denied_matched_policy[none]"],
        ),
        row(
            "everything",
            "ALLOW",
            "[{}]",
            &[
                ("alice", "get http://echo/", "200"),
                ("eve", "get http://echo/", "200"),
                ("alice", "grpc", "0"),
            ],
            &[],
        ),
        row(
            "deny-everything",
            "DENY",
            "[{}]",
            &[("alice", "get http://echo/", "403"), ("eve", "get http://echo/", "403")],
            &["rbac_access_denied_matched_policy[ns[NS]-policy[deny-everything]-rule[0]]"],
        ),
        row(
            "principal",
            "ALLOW",
            "[{from: [{source: {principals: [cluster.local/ns/NS/sa/alice]}}]}]",
            &[
                ("alice", "get http://echo/", "200"),
                ("bob", "get http://echo/", "403"),
                ("carol", "get http://echo.NS/", "403"),
                ("eve", "get http://echo/", "403"),
            ],
            &[],
        ),
        row(
            "alias",
            "ALLOW",
            "[{from: [{source: {principals: [old.td/ns/NS/sa/alice]}}]}]",
            &[("alice", "get http://echo/", "200"), ("bob", "get http://echo/", "403")],
            &[],
        ),
        row(
            "principal-suffix",
            "ALLOW",
            "[{from: [{source: {principals: ['*/sa/bob']}}]}]",
            &[("alice", "get http://echo/", "403"), ("bob", "get http://echo/", "200")],
            &[],
        ),
        row(
            "principal-prefix",
            "DENY",
            "[{from: [{source: {principals: ['cluster.local/ns/NS/*']}}]}]",
            &[
                ("alice", "get http://echo/", "403"),
                ("carol", "get http://echo.NS/", "200"),
                ("eve", "get http://echo/", "200"),
            ],
            &["matched_policy[ns[NS]-policy[principal-prefix]-rule[0]]"],
        ),
        row(
            "anybody-known",
            "ALLOW",
            "[{from: [{source: {principals: ['*']}}]}]",
            &[("alice", "get http://echo/", "200"), ("eve", "get http://echo/", "403")],
            &[],
        ),
        row(
            "nobody-unknown",
            "DENY",
            "[{from: [{source: {notPrincipals: ['*']}}]}]",
            &[("alice", "get http://echo/", "200"), ("eve", "get http://echo/", "403")],
            &["matched_policy[ns[NS]-policy[nobody-unknown]-rule[0]]"],
        ),
        row(
            "namespace",
            "ALLOW",
            "[{from: [{source: {namespaces: [OTHER]}}]}]",
            &[
                ("alice", "get http://echo/", "403"),
                ("carol", "get http://echo.NS/", "200"),
                ("eve", "get http://echo/", "403"),
            ],
            &[],
        ),
        row(
            "not-namespace",
            "DENY",
            "[{from: [{source: {notNamespaces: [OTHER]}}]}]",
            &[("alice", "get http://echo/", "403"), ("carol", "get http://echo.NS/", "200")],
            &["matched_policy[ns[NS]-policy[not-namespace]-rule[0]]"],
        ),
        row(
            "account",
            "ALLOW",
            "[{from: [{source: {serviceAccounts: [bob, OTHER/carol]}}]}]",
            &[
                ("alice", "get http://echo/", "403"),
                ("bob", "get http://echo/", "200"),
                ("carol", "get http://echo.NS/", "200"),
            ],
            &[],
        ),
        row(
            "trust-domain",
            "DENY",
            "[{from: [{source: {notTrustDomains: [cluster.local]}}]}]",
            &[("alice", "get http://echo/", "200"), ("eve", "get http://echo/", "403")],
            &["matched_policy[ns[NS]-policy[trust-domain]-rule[0]]"],
        ),
        row(
            "two-sources",
            "ALLOW",
            "[{from: [{source: {namespaces: [OTHER]}}, {source: {principals: ['*/sa/bob']}}]}]",
            &[
                ("alice", "get http://echo/", "403"),
                ("bob", "get http://echo/", "200"),
                ("carol", "get http://echo.NS/", "200"),
            ],
            &[],
        ),
        row(
            "both-needed",
            "ALLOW",
            "[{from: [{source: {namespaces: [NS], notPrincipals: ['*/sa/bob']}}]}]",
            &[("alice", "get http://echo/", "200"), ("bob", "get http://echo/", "403")],
            &[],
        ),
        row(
            "ip",
            "ALLOW",
            "[{from: [{source: {ipBlocks: [192.0.2.0/24]}}]}]",
            &[("alice", "get http://echo/", "403"), ("eve", "get http://echo/", "403")],
            &[],
        ),
        row(
            "not-ip",
            "ALLOW",
            "[{from: [{source: {notIpBlocks: [192.0.2.0/24]}}]}]",
            &[("alice", "get http://echo/", "200"), ("eve", "get http://echo/", "200")],
            &[],
        ),
        row(
            "remote-ip",
            "DENY",
            "[{from: [{source: {remoteIpBlocks: [198.51.100.7]}}]}]",
            &[
                ("alice", "get http://echo/", "200"),
                ("eve", "get -H 'X-Forwarded-For: 198.51.100.7' http://echo/", "403"),
            ],
            &["matched_policy[ns[NS]-policy[remote-ip]-rule[0]]"],
        ),
    ])
    .await;
}

async fn what_is_asked_decides(yard: &Yard<'_>) {
    yard.rows(&[
        row(
            "method",
            "ALLOW",
            "[{to: [{operation: {methods: [GET]}}]}]",
            &[
                ("alice", "get http://echo/", "200"),
                ("alice", "get -X POST http://echo/", "403"),
                ("alice", "grpc", "7"),
            ],
            &[],
        ),
        row(
            "not-method",
            "DENY",
            "[{to: [{operation: {notMethods: [GET]}}]}]",
            &[("alice", "get http://echo/", "200"), ("alice", "get -X DELETE http://echo/", "403")],
            &["matched_policy[ns[NS]-policy[not-method]-rule[0]]"],
        ),
        row(
            "path",
            "ALLOW",
            "[{to: [{operation: {paths: [/a, '/b/*', '*/c']}}]}]",
            &[
                ("alice", "get http://echo/a", "200"),
                ("alice", "get 'http://echo/a?x=1'", "200"),
                ("alice", "get http://echo/a/", "403"),
                ("alice", "get http://echo/A", "403"),
                ("alice", "get http://echo/b/x", "200"),
                ("alice", "get http://echo/x/c", "200"),
                ("alice", "get http://echo/", "403"),
            ],
            &[],
        ),
        row(
            "path-rules",
            "DENY",
            "[{to: [{operation: {paths: [/x]}}]}, {to: [{operation: {paths: [/y]}}]}]",
            &[
                ("alice", "get http://echo/x", "403"),
                ("alice", "get http://echo/y", "403"),
                ("alice", "get http://echo/z", "200"),
            ],
            &[
                "matched_policy[ns[NS]-policy[path-rules]-rule[0]]",
                "matched_policy[ns[NS]-policy[path-rules]-rule[1]]",
            ],
        ),
        row(
            "template",
            "ALLOW",
            "[{to: [{operation: {paths: ['/t/{*}', '/d/{**}/end']}}]}]",
            &[
                ("alice", "get http://echo/t/one", "200"),
                ("alice", "get http://echo/t/one/two", "403"),
                ("alice", "get http://echo/d/1/2/end", "200"),
                ("alice", "get http://echo/d/1/2", "403"),
            ],
            &[],
        ),
        row(
            "not-path",
            "DENY",
            "[{to: [{operation: {notPaths: ['/open*']}}]}]",
            &[
                ("alice", "get http://echo/open/x", "200"),
                ("alice", "get http://echo/closed", "403"),
            ],
            &["matched_policy[ns[NS]-policy[not-path]-rule[0]]"],
        ),
        row(
            "grpc-method",
            "ALLOW",
            "[{to: [{operation: {methods: [POST], paths: ['/*'], ports: ['7070']}}]}]",
            &[("alice", "grpc", "0"), ("alice", "get -X POST http://echo/", "403")],
            &[],
        ),
        row(
            "host",
            "ALLOW",
            "[{to: [{operation: {hosts: [echo, '*.example.com']}}]}]",
            &[
                ("alice", "get http://echo/", "200"),
                ("eve", "get -H 'Host: ECHO' http://echo/", "200"),
                ("eve", "get -H 'Host: a.Example.com' http://echo/", "200"),
                ("eve", "get -H 'Host: example.org' http://echo/", "403"),
            ],
            &[],
        ),
        row(
            "not-host",
            "DENY",
            "[{to: [{operation: {hosts: ['bad*']}}]}]",
            &[
                ("eve", "get -H 'Host: BAD.example' http://echo/", "403"),
                ("eve", "get -H 'Host: good.example' http://echo/", "200"),
            ],
            &["matched_policy[ns[NS]-policy[not-host]-rule[0]]"],
        ),
        row(
            "port",
            "ALLOW",
            "[{to: [{operation: {ports: ['8080']}}]}]",
            &[
                ("alice", "get http://echo/", "200"),
                ("alice", "get http://echo:8081/", "403"),
                ("alice", "grpc", "7"),
            ],
            &[],
        ),
        row(
            "not-port",
            "DENY",
            "[{to: [{operation: {notPorts: ['8080']}}]}]",
            &[("alice", "get http://echo/", "200"), ("alice", "get http://echo:8081/", "403")],
            &["matched_policy[ns[NS]-policy[not-port]-rule[0]]"],
        ),
        row(
            "deny-before-allow",
            "DENY",
            "[{to: [{operation: {paths: [/secret]}}]}]",
            &[("alice", "get http://echo/secret", "403"), ("alice", "get http://echo/", "200")],
            &["matched_policy[ns[NS]-policy[deny-before-allow]-rule[0]]"],
        ),
        Row {
            name: "allow-and-deny",
            policies: policy("both-allow", "ALLOW", "[{to: [{operation: {paths: ['/p*']}}]}]")
                + &policy("both-deny", "DENY", "[{to: [{operation: {methods: [PUT]}}]}]"),
            asks: &[
                ("alice", "get http://echo/p", "200"),
                ("alice", "get -X PUT http://echo/p", "403"),
                ("alice", "get http://echo/q", "403"),
            ],
            decided: &["matched_policy[ns[NS]-policy[both-deny]-rule[0]]"],
        },
        Row {
            name: "audit",
            policies: policy("audited", "AUDIT", "[{}]"),
            asks: &[("alice", "get http://echo/", "200"), ("eve", "get http://echo/", "200")],
            decided: &[],
        },
    ])
    .await;
}

/// A policy of the mesh, one for another workload, one that only tries.
fn scoped(name: &str, meta: &str, spec: &str) -> String {
    format!(
        "---\n{{apiVersion: security.istio.io/v1, kind: AuthorizationPolicy, \
         metadata: {{name: {name}{meta}}}, spec: {{{spec}}}}}\n"
    )
}

async fn conditions_and_reach_decide(yard: &Yard<'_>) {
    yard.rows(&[
            row(
                "header",
                "ALLOW",
                "[{when: [{key: 'request.headers[X-Key]', values: [open, 'pre-*']}]}]",
                &[
                    ("alice", "get -H 'X-Key: open' http://echo/", "200"),
                    ("alice", "get -H 'x-key: pre-1' http://echo/", "200"),
                    ("alice", "get -H 'X-Key: OPEN' http://echo/", "403"),
                    ("alice", "get http://echo/", "403"),
                ],
                &[],
            ),
            row(
                "not-header",
                "DENY",
                "[{when: [{key: 'request.headers[X-Key]', notValues: ['*']}]}]",
                &[
                    ("alice", "get -H 'X-Key: a' http://echo/", "200"),
                    ("alice", "get http://echo/", "403"),
                ],
                &["matched_policy[ns[NS]-policy[not-header]-rule[0]]"],
            ),
            row(
                "when-source",
                "ALLOW",
                "[{when: [{key: source.principal, values: ['*/sa/alice']}, {key: source.namespace, values: [NS]}]}]",
                &[("alice", "get http://echo/", "200"), ("bob", "get http://echo/", "403")],
                &[],
            ),
            row(
                "when-account",
                "DENY",
                "[{when: [{key: source.serviceAccount, values: [alice]}]}]",
                &[("alice", "get http://echo/", "403"), ("bob", "get http://echo/", "200")],
                &["matched_policy[ns[NS]-policy[when-account]-rule[0]]"],
            ),
            row(
                "when-port",
                "DENY",
                "[{when: [{key: destination.port, values: ['8081']}]}]",
                &[("alice", "get http://echo/", "200"), ("alice", "get http://echo:8081/", "403")],
                &["matched_policy[ns[NS]-policy[when-port]-rule[0]]"],
            ),
            row(
                "when-ip",
                "ALLOW",
                "[{when: [{key: destination.ip, notValues: [192.0.2.1]}, {key: source.ip, notValues: [192.0.2.0/24]}]}]",
                &[("alice", "get http://echo/", "200")],
                &[],
            ),
            row(
                "when-sni",
                "ALLOW",
                "[{when: [{key: connection.sni, values: ['outbound_.80_.*']}]}]",
                &[
                    ("alice", "get http://echo/", "200"),
                    ("alice", "get http://echo:8081/", "403"),
                    ("eve", "get http://echo/", "403"),
                ],
                &[],
            ),
            row(
                "all-of-them",
                "ALLOW",
                "[{from: [{source: {principals: ['*/sa/alice']}}], to: [{operation: {methods: [GET], paths: ['/in*']}}], \
                 when: [{key: 'request.headers[X-A]', values: [b]}]}]",
                &[
                    ("alice", "get -H 'X-A: b' http://echo/in", "200"),
                    ("alice", "get http://echo/in", "403"),
                    ("alice", "get -H 'X-A: b' http://echo/out", "403"),
                    ("bob", "get -H 'X-A: b' http://echo/in", "403"),
                ],
                &[],
            ),
            Row {
                name: "whole-namespace",
                policies: scoped("whole", "", "action: DENY, rules: [{to: [{operation: {paths: [/n]}}]}]"),
                asks: &[("alice", "get http://echo/n", "403"), ("alice", "get http://echo/", "200")],
                decided: &["matched_policy[ns[NS]-policy[whole]-rule[0]]"],
            },
            Row {
                name: "whole-mesh",
                policies: scoped(
                    "whole-mesh",
                    ", namespace: istio-system",
                    "action: DENY, rules: [{from: [{source: {namespaces: [NS]}}], to: [{operation: {paths: [/m]}}]}]",
                ),
                asks: &[("alice", "get http://echo/m", "403"), ("carol", "get http://echo.NS/m", "200")],
                decided: &["matched_policy[ns[istio-system]-policy[whole-mesh]-rule[0]]"],
            },
            Row {
                name: "another-workload",
                policies: scoped(
                    "another",
                    "",
                    "action: DENY, selector: {matchLabels: {app: another}}, rules: [{}]",
                ),
                asks: &[("alice", "get http://echo/", "200")],
                decided: &[],
            },
            Row {
                name: "another-target",
                policies: scoped(
                    "target",
                    "",
                    "action: DENY, targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: g}], rules: [{}]",
                ),
                asks: &[("alice", "get http://echo/", "200")],
                decided: &[],
            },
            Row {
                name: "another-namespace",
                policies: scoped("elsewhere", ", namespace: OTHER", "action: DENY, rules: [{}]"),
                asks: &[("alice", "get http://echo/", "200")],
                decided: &[],
            },
            Row {
                name: "dry-run-deny",
                policies: scoped(
                    "tried",
                    ", annotations: {istio.io/dry-run: 'true'}",
                    "action: DENY, selector: {matchLabels: {app: echo}}, rules: [{}]",
                ),
                asks: &[("alice", "get http://echo/", "200")],
                decided: &[
                    "\"istio_dry_run_deny_shadow_effective_policy_id\":\"ns[NS]-policy[tried]-rule[0]\"",
                ],
            },
            Row {
                name: "dry-run-allow",
                policies: scoped(
                    "tried-allow",
                    ", annotations: {istio.io/dry-run: 'true'}",
                    "selector: {matchLabels: {app: echo}}",
                ),
                asks: &[("alice", "get http://echo/", "200")],
                decided: &["\"istio_dry_run_allow_shadow_engine_result\":\"denied\""],
            },
        ])
        .await;
}
