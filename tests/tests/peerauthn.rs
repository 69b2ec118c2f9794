//! PeerAuthentication: what a workload takes, by mesh, namespace, workload and port; and what clients
//! send to it without being told.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "policy/yard.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod yard;

use yard::{Row, policy, yard};

fn peers(name: &str, meta: &str, spec: &str) -> String {
    format!(
        "---\n{{apiVersion: security.istio.io/v1, kind: PeerAuthentication, \
         metadata: {{name: {name}{meta}}}, spec: {{{spec}}}}}\n"
    )
}

fn row(
    name: &'static str,
    policies: String,
    asks: &'static [(&'static str, &'static str, &'static str)],
) -> Row {
    Row { name, policies, asks, decided: &[] }
}

/// How the server saw the caller: its certificate's name, or nothing.
const SEEN: &str = "told http://echo/ | grep -c 'URI=spiffe://cluster.local/ns/NS/sa/alice'";

#[test]
fn modes_are_inherited_and_clients_follow() {
    yard("peerauthn", "", async |yard| {
        let strict = "mtls: {mode: STRICT}";
        let on_echo = "selector: {matchLabels: {app: echo}}";
        yard.rows(&[
            row(
                "none",
                String::new(),
                &[
                    ("alice", "get http://echo/", "200"),
                    ("alice", SEEN, "1"),
                    ("eve", "get http://echo/", "200"),
                    ("eve", "tcp 9000", "ok"),
                    ("alice", "tcp 9000", "ok"),
                ],
            ),
            row(
                "namespace-strict",
                peers("default", "", strict),
                &[
                    ("alice", "get http://echo/", "200"),
                    ("carol", "get http://echo.NS/", "200"),
                    ("eve", "get http://echo/", "000"),
                    ("eve", "tcp 9000", "reset"),
                    ("alice", "tcp 9000", "ok"),
                    ("alice", "grpc", "0"),
                ],
            ),
            row(
                "mesh-strict",
                peers("default", ", namespace: istio-system", strict),
                &[
                    ("alice", "get http://echo/", "200"),
                    ("eve", "get http://echo/", "000"),
                    ("eve", "tcp 9000", "reset"),
                ],
            ),
            row(
                "namespace-over-mesh",
                peers("default", ", namespace: istio-system", strict)
                    + &peers("default", "", "mtls: {mode: PERMISSIVE}"),
                &[("alice", "get http://echo/", "200"), ("eve", "get http://echo/", "200")],
            ),
            row(
                "unset-inherits",
                peers("default", ", namespace: istio-system", strict)
                    + &peers("default", "", "mtls: {mode: UNSET}"),
                &[("alice", "get http://echo/", "200"), ("eve", "get http://echo/", "000")],
            ),
            row(
                "workload-over-namespace",
                peers("default", "", strict)
                    + &peers("echo", "", &format!("{on_echo}, mtls: {{mode: PERMISSIVE}}")),
                &[("alice", "get http://echo/", "200"), ("eve", "get http://echo/", "200")],
            ),
            row(
                "another-workload",
                peers("other", "", "selector: {matchLabels: {app: other}}, mtls: {mode: STRICT}"),
                &[("eve", "get http://echo/", "200")],
            ),
            row(
                "workload-strict",
                peers("echo", "", &format!("{on_echo}, {strict}")),
                &[("alice", "get http://echo/", "200"), ("eve", "get http://echo/", "000")],
            ),
            row(
                "port-open",
                peers(
                    "echo",
                    "",
                    &format!("{on_echo}, {strict}, portLevelMtls: {{8080: {{mode: PERMISSIVE}}}}"),
                ),
                &[
                    ("eve", "get http://echo/", "200"),
                    ("eve", "tcp 9000", "reset"),
                    ("alice", "get http://echo/", "200"),
                    ("alice", "tcp 9000", "ok"),
                ],
            ),
            row(
                "port-strict",
                peers(
                    "echo",
                    "",
                    &format!("{on_echo}, portLevelMtls: {{9000: {{mode: STRICT}}}}"),
                ),
                &[
                    ("eve", "get http://echo/", "200"),
                    ("eve", "tcp 9000", "reset"),
                    ("alice", "tcp 9000", "ok"),
                ],
            ),
            // Clients are told by the endpoint: they speak plaintext to what takes nothing else.
            row(
                "disabled",
                peers("echo", "", &format!("{on_echo}, mtls: {{mode: DISABLE}}")),
                &[
                    ("alice", "get http://echo/", "200"),
                    ("alice", SEEN, "0"),
                    ("eve", "get http://echo/", "200"),
                    ("alice", "tcp 9000", "ok"),
                ],
            ),
            row(
                "port-disabled",
                peers(
                    "echo",
                    "",
                    &format!("{on_echo}, {strict}, portLevelMtls: {{8080: {{mode: DISABLE}}}}"),
                ),
                &[
                    ("alice", "get http://echo/", "200"),
                    ("alice", SEEN, "0"),
                    ("eve", "get http://echo/", "200"),
                    ("alice", "tcp 9000", "ok"),
                    ("eve", "tcp 9000", "reset"),
                ],
            ),
            // A rule of the client's side is stronger than what the endpoint says.
            row(
                "client-plaintext",
                peers("default", "", strict)
                    + "---\n{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {name: plain}, \
                       spec: {host: echo.NS.svc.cluster.local, workloadSelector: {matchLabels: {app: bob}}, \
                       trafficPolicy: {tls: {mode: DISABLE}}}}\n",
                &[("bob", "get http://echo/", "503"), ("alice", "get http://echo/", "200")],
            ),
            row(
                "client-mutual",
                peers("echo", "", &format!("{on_echo}, mtls: {{mode: DISABLE}}"))
                    + "---\n{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {name: mutual}, \
                       spec: {host: echo.NS.svc.cluster.local, workloadSelector: {matchLabels: {app: bob}}, \
                       trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}}}\n",
                &[("bob", "get http://echo/", "503"), ("alice", "get http://echo/", "200")],
            ),
            // Without mTLS nobody is anybody.
            row(
                "identity-needs-mtls",
                peers("echo", "", &format!("{on_echo}, mtls: {{mode: DISABLE}}"))
                    + &policy("known-only", "ALLOW", "[{from: [{source: {principals: ['*']}}]}]"),
                &[("alice", "get http://echo/", "403")],
            ),
        ])
        .await;
    });
}
