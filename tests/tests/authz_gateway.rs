//! Policies at a gateway: tokens from outside, routes by what they say, and who may come in.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "policy/token.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod token;
#[path = "policy/yard.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod yard;

use serde_json::json;
use token::Issuer;
use yard::{Row, yard};

const EDGE: &str = "
apiVersion: v1
kind: ServiceAccount
metadata: {name: edge}
---
apiVersion: v1
kind: Pod
metadata:
  name: edge
  labels: {app: edge, istio: edge, gateway.networking.k8s.io/gateway-name: edge, sidecar.istio.io/inject: 'true'}
  annotations: {inject.istio.io/templates: gateway}
spec:
  serviceAccountName: edge
  terminationGracePeriodSeconds: 0
  containers: [{name: istio-proxy, image: auto}]
---
apiVersion: v1
kind: Service
metadata: {name: edge}
spec: {selector: {app: edge}, ports: [{name: http, port: 8080}, {name: tcp, port: 9000}]}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: edge}
spec:
  selector: {istio: edge}
  servers:
  - {port: {number: 8080, name: http, protocol: HTTP}, hosts: ['*']}
  - {port: {number: 9000, name: tcp, protocol: TCP}, hosts: ['*']}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: edge}
spec:
  hosts: ['*']
  gateways: [edge]
  http:
  - match: [{headers: {'@request.auth.claims.group': {exact: admins}}}]
    headers: {response: {set: {x-route: admins}}}
    route: [{destination: {host: echo, port: {number: 80}}}]
  - match: [{headers: {'@request.auth.claims[realm][role]': {exact: user}}}]
    headers: {response: {set: {x-route: users}}}
    route: [{destination: {host: echo, port: {number: 80}}}]
  - headers: {response: {set: {x-route: everybody}}}
    route: [{destination: {host: echo, port: {number: 80}}}]
  tcp:
  - match: [{port: 9000}]
    route: [{destination: {host: echo, port: {number: 9000}}}]
";

fn at_edge(kind: &str, name: &str, spec: &str) -> String {
    format!(
        "---\n{{apiVersion: security.istio.io/v1, kind: {kind}, metadata: {{name: {name}}}, spec: {{{spec}}}}}\n"
    )
}

const TOKENS: &str =
    "selector: {matchLabels: {istio: edge}}, jwtRules: [{issuer: a.test, jwks: \"@keys@\"}]";

#[test]
fn a_gateway_lets_in_who_may_come() {
    yard("authz-gateway", "", async |yard| {
        yard.case.apply(EDGE).await;
        yard.case.ready("pod/edge").await;
        yard.watch("edge");
        let issuer = Issuer::new("a.test");
        for (name, value) in [
            ("keys", issuer.key_set().to_string().replace('"', "\\\"")),
            ("admin", issuer.token(&json!({"group": "admins", "sub": "ann"}))),
            ("user", issuer.token(&json!({"realm": {"role": "user"}}))),
            ("expired", issuer.token(&json!({"group": "admins", "exp": 1_000_000_000}))),
        ] {
            yard.names.borrow_mut().insert(name, value);
        }
        yard.rows(&[
            Row {
                name: "claims",
                policies: at_edge("RequestAuthentication", "claims", TOKENS),
                asks: &[
                    ("eve", "route() { curl -s -D - -o /dev/null \"$@\" http://edge:8080/ | tr -d '\\r' | sed -n 's/^x-route: //p'; }; route", "everybody"),
                    ("eve", "route -H 'Authorization: Bearer @admin@'", "admins"),
                    ("eve", "route -H 'Authorization: Bearer @user@'", "users"),
                    ("eve", "get -H 'Authorization: Bearer @expired@' http://edge:8080/", "401"),
                    // What only a token may say is not believed of a header.
                    ("eve", "route -H '@request.auth.claims.group: admins'", "everybody"),
                ],
                decided: &["jwt_authn_access_denied{Jwt_is_expired}"],
            },
            Row {
                name: "token-needed",
                policies: at_edge("RequestAuthentication", "tokens", TOKENS)
                    + &at_edge(
                        "AuthorizationPolicy",
                        "token-needed",
                        "selector: {matchLabels: {istio: edge}}, rules: [{from: [{source: {requestPrincipals: [a.test/ann]}}]}]",
                    ),
                asks: &[
                    ("eve", "get http://edge:8080/", "403"),
                    ("eve", "get -H 'Authorization: Bearer @user@' http://edge:8080/", "403"),
                    ("eve", "get -H 'Authorization: Bearer @admin@' http://edge:8080/", "200"),
                ],
                decided: &["rbac_access_denied_matched_policy[none]"],
            },
            Row {
                name: "by-target",
                policies: at_edge(
                    "AuthorizationPolicy",
                    "by-target",
                    "targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: edge}], action: DENY, \
                     rules: [{to: [{operation: {paths: [/closed], ports: ['8080']}}]}]",
                ),
                asks: &[
                    ("eve", "get http://edge:8080/closed", "403"),
                    ("eve", "get http://edge:8080/", "200"),
                    // Behind the gateway nothing of it counts.
                    ("alice", "get http://echo/closed", "200"),
                ],
                decided: &["matched_policy[ns[NS]-policy[by-target]-rule[0]]"],
            },
            Row {
                name: "another-target",
                policies: at_edge(
                    "AuthorizationPolicy",
                    "another-target",
                    "targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: other}], action: DENY, rules: [{}]",
                ),
                asks: &[("eve", "get http://edge:8080/", "200")],
                decided: &[],
            },
            Row {
                name: "address",
                policies: at_edge(
                    "AuthorizationPolicy",
                    "address",
                    "selector: {matchLabels: {istio: edge}}, action: DENY, \
                     rules: [{from: [{source: {remoteIpBlocks: [198.51.100.7]}}]}]",
                ),
                asks: &[
                    // A gateway that trusts no proxy before it does not believe this header.
                    ("eve", "get -H 'X-Forwarded-For: 198.51.100.7' http://edge:8080/", "200"),
                    ("eve", "$E call --timeout 5000 -d hello tcp://edge:9000/ | grep -c '\"body\":{'", "1"),
                ],
                decided: &[],
            },
            Row {
                name: "connections",
                policies: at_edge(
                    "AuthorizationPolicy",
                    "connections",
                    "selector: {matchLabels: {istio: edge}}, action: DENY, rules: [{to: [{operation: {ports: ['9000']}}]}]",
                ),
                asks: &[
                    ("eve", "$E call --timeout 5000 -d hello tcp://edge:9000/ | grep -c '\"body\":{'", "0"),
                    ("eve", "get http://edge:8080/", "200"),
                ],
                decided: &["matched_policy[ns[NS]-policy[connections]-rule[0]]"],
            },
            Row {
                name: "forged-certificate",
                policies: String::new(),
                asks: &[(
                    "eve",
                    "told -H 'X-Forwarded-Client-Cert: By=x;URI=spiffe://forged' http://edge:8080/ | grep -c 'spiffe://forged'",
                    "0",
                )],
                decided: &[],
            },
        ])
        .await;
    });
}
