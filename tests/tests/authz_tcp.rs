//! AuthorizationPolicies on plain connections: what is reset, what passes, and which rule the log
//! names. Rules about requests allow nothing there, and deny everything that the rest of them fits.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "policy/yard.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod yard;

use yard::{Row, policy, yard};

fn row(
    name: &'static str,
    action: &str,
    rules: &str,
    asks: &'static [(&'static str, &'static str, &'static str)],
    decided: &'static [&'static str],
) -> Row {
    Row { name, policies: policy(name, action, rules), asks, decided }
}

#[test]
fn connections_are_let_in_or_reset() {
    yard("authz-tcp", "", async |yard| {
        yard.rows(&[
            row(
                "tcp-nothing",
                "ALLOW",
                "[]",
                &[("alice", "tcp 9000", "reset"), ("eve", "tcp 9000", "reset")],
                &["rbac_access_denied_matched_policy[none]"],
            ),
            row(
                "tcp-everything",
                "ALLOW",
                "[{}]",
                &[("alice", "tcp 9000", "ok"), ("eve", "tcp 9000", "ok")],
                &[],
            ),
            row(
                "tcp-deny",
                "DENY",
                "[{}]",
                &[("alice", "tcp 9000", "reset"), ("eve", "tcp 9000", "reset")],
                &["matched_policy[ns[NS]-policy[tcp-deny]-rule[0]]"],
            ),
            row(
                "tcp-principal",
                "ALLOW",
                "[{from: [{source: {principals: [cluster.local/ns/NS/sa/alice]}}]}]",
                &[
                    ("alice", "tcp 9000", "ok"),
                    ("bob", "tcp 9000", "reset"),
                    ("eve", "tcp 9000", "reset"),
                ],
                &[],
            ),
            row(
                "tcp-port",
                "ALLOW",
                "[{to: [{operation: {ports: ['9000']}}]}]",
                &[
                    ("alice", "tcp 9000", "ok"),
                    ("alice", "get http://echo/", "403"),
                    ("eve", "tcp 9000", "ok"),
                ],
                &[],
            ),
            row(
                "tcp-not-port",
                "DENY",
                "[{to: [{operation: {notPorts: ['9000']}}]}]",
                &[("alice", "tcp 9000", "ok"), ("alice", "get http://echo/", "403")],
                &["matched_policy[ns[NS]-policy[tcp-not-port]-rule[0]]"],
            ),
            row(
                "tcp-ip",
                "DENY",
                "[{from: [{source: {notIpBlocks: [192.0.2.0/24]}}], to: [{operation: {ports: ['9000']}}]}]",
                &[("alice", "tcp 9000", "reset"), ("alice", "get http://echo/", "200")],
                &["matched_policy[ns[NS]-policy[tcp-ip]-rule[0]]"],
            ),
            row(
                "tcp-namespace",
                "DENY",
                "[{from: [{source: {namespaces: [NS]}}], to: [{operation: {ports: ['9000']}}]}]",
                &[("alice", "tcp 9000", "reset"), ("eve", "tcp 9000", "ok")],
                &["matched_policy[ns[NS]-policy[tcp-namespace]-rule[0]]"],
            ),
            // An ALLOW rule about requests allows no connection.
            row(
                "tcp-allow-http",
                "ALLOW",
                "[{to: [{operation: {methods: [GET]}}]}]",
                &[("alice", "tcp 9000", "reset"), ("alice", "get http://echo/", "200")],
                &[],
            ),
            row(
                "tcp-allow-mixed",
                "ALLOW",
                "[{to: [{operation: {methods: [GET], ports: ['9000']}}]}, {to: [{operation: {ports: ['8080']}}]}]",
                &[("alice", "tcp 9000", "reset"), ("alice", "get http://echo/", "200")],
                &[],
            ),
            // A DENY rule about requests denies every connection, or those to its ports.
            row(
                "tcp-deny-http",
                "DENY",
                "[{to: [{operation: {paths: [/secret]}}]}]",
                &[
                    ("alice", "tcp 9000", "reset"),
                    ("alice", "get http://echo/", "200"),
                    ("alice", "get http://echo/secret", "403"),
                ],
                &["matched_policy[ns[NS]-policy[tcp-deny-http]-rule[0]]"],
            ),
            row(
                "tcp-deny-http-port",
                "DENY",
                "[{to: [{operation: {paths: [/secret], ports: ['8080']}}]}]",
                &[("alice", "tcp 9000", "ok"), ("alice", "get http://echo/secret", "403")],
                &["matched_policy[ns[NS]-policy[tcp-deny-http-port]-rule[0]]"],
            ),
            row(
                "tcp-deny-token",
                "DENY",
                "[{from: [{source: {notRequestPrincipals: ['*']}}], to: [{operation: {ports: ['9000']}}]}]",
                &[("alice", "tcp 9000", "reset"), ("alice", "get http://echo/", "200")],
                &["matched_policy[ns[NS]-policy[tcp-deny-token]-rule[0]]"],
            ),
            row(
                "tcp-when",
                "ALLOW",
                "[{when: [{key: source.principal, values: ['*/sa/bob']}, {key: destination.port, values: ['9000']}]}]",
                &[("alice", "tcp 9000", "reset"), ("bob", "tcp 9000", "ok")],
                &[],
            ),
        ])
        .await;
    });
}
