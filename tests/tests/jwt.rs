//! Tokens: which are taken and refused, where they are looked for, what becomes of what they say, and
//! where the keys come from.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "policy/python.rs"]
mod python;
#[path = "policy/token.rs"]
mod token;
#[path = "policy/yard.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod yard;

use ironsail_testkit::{SYSTEM, Shared, eventually};
use python::with_python;
use serde_json::{Value, json};
use token::Issuer;
use yard::{Row, Yard, policy, yard_with};

static MESH: Shared = Shared::new(with_python);

#[test]
fn tokens_and_their_keys() {
    yard_with(&MESH, "jwt", "", async |yard| {
        tokens_are_checked_and_what_they_say_counts(yard).await;
        keys_are_fetched_and_follow_their_rotation(yard).await;
    });
}

fn tokens(name: &str, rules: &str) -> String {
    format!(
        "---\n{{apiVersion: security.istio.io/v1, kind: RequestAuthentication, metadata: {{name: {name}}}, \
         spec: {{selector: {{matchLabels: {{app: echo}}}}, jwtRules: [{rules}]}}}}\n"
    )
}

/// All tokens that rows use.
fn name_tokens(yard: &Yard<'_>) {
    let (a, b, stranger) = (Issuer::new("a.test"), Issuer::new("b.test"), Issuer::new("a.test"));
    let with = |issuer: &Issuer, more: Value| issuer.token(&more);
    let mut names = yard.names.borrow_mut();
    let mut name = |name, value: String| drop(names.insert(name, value));
    name("keys-a", a.key_set().to_string().replace('"', "\\\""));
    name("keys-b", b.key_set().to_string().replace('"', "\\\""));
    name("good", with(&a, json!({})));
    name(
        "ann",
        with(
            &a,
            json!({"sub": "ann", "groups": ["dev", "ops"], "azp": "tool",
        "aud": ["first", "second"], "realm": {"roles": ["admin"]}, "scope": "read write"}),
        ),
    );
    name("ben", with(&a, json!({"sub": "ben", "groups": "dev", "aud": "third"})));
    name("of-b", with(&b, json!({})));
    name("expired", with(&a, json!({"exp": 1_000_000_000})));
    name("early", with(&a, json!({"nbf": 4_000_000_000_u64})));
    name("forged", with(&stranger, json!({})));
    name("foreign", with(&a, json!({"iss": "c.test"})));
    name("unsigned", a.unsigned());
    let good = with(&a, json!({}));
    name(
        "changed",
        format!(
            "{}x.{}",
            &good[..good.rfind('.').unwrap() - 2],
            &good[good.rfind('.').unwrap() + 1..]
        ),
    );
}

const RULE_A: &str = "{issuer: a.test, jwks: \"@keys-a@\"}";

async fn tokens_are_checked_and_what_they_say_counts(yard: &Yard<'_>) {
    name_tokens(yard);
    let with = |more: &str| format!("{{issuer: a.test, jwks: \"@keys-a@\", {more}}}");
    let bearer = |asks| asks;
    yard.rows(&[
            Row {
                name: "optional",
                policies: tokens("optional", RULE_A),
                asks: bearer(&[
                    ("alice", "get http://echo/", "200"),
                    ("alice", "get -H 'Authorization: Bearer @good@' http://echo/", "200"),
                    ("alice", "get -H 'Authorization: Bearer @expired@' http://echo/", "401"),
                    ("alice", "get -H 'Authorization: Bearer @early@' http://echo/", "401"),
                    ("alice", "get -H 'Authorization: Bearer @forged@' http://echo/", "401"),
                    ("alice", "get -H 'Authorization: Bearer @foreign@' http://echo/", "401"),
                    ("alice", "get -H 'Authorization: Bearer @unsigned@' http://echo/", "401"),
                    ("alice", "get -H 'Authorization: Bearer @changed@' http://echo/", "401"),
                    ("alice", "get -H 'Authorization: Bearer garbage' http://echo/", "401"),
                    ("alice", "get 'http://echo/?access_token=@good@'", "200"),
                    ("alice", "get 'http://echo/?access_token=@expired@'", "401"),
                    // What is not meant for a token is not looked at.
                    ("alice", "get -H 'Authorization: Basic YTpi' http://echo/", "200"),
                    // A browser asks before it sends its token.
                    (
                        "alice",
                        "get -X OPTIONS -H 'Origin: http://x' -H 'Access-Control-Request-Method: GET' \
                         -H 'Authorization: Bearer garbage' http://echo/",
                        "200",
                    ),
                ]),
                decided: &["jwt_authn_access_denied{Jwt_is_expired}"],
            },
            Row {
                name: "audience",
                policies: tokens("audience", &with("audiences: [first]")),
                asks: &[
                    ("alice", "get -H 'Authorization: Bearer @ann@' http://echo/", "200"),
                    ("alice", "get -H 'Authorization: Bearer @ben@' http://echo/", "403"),
                ],
                decided: &["jwt_authn_access_denied{Audiences_in_Jwt_are_not_allowed}"],
            },
            Row {
                name: "presence",
                policies: tokens("presence", &with("presence: REQUIRED")),
                asks: &[
                    ("alice", "get http://echo/", "401"),
                    ("alice", "get -H 'Authorization: Bearer @good@' http://echo/", "200"),
                ],
                decided: &["jwt_authn_access_denied{Jwt_is_missing}"],
            },
            Row {
                name: "needed",
                policies: tokens("needed", RULE_A)
                    + &policy("token-needed", "ALLOW", "[{from: [{source: {requestPrincipals: ['*']}}]}]"),
                asks: &[
                    ("alice", "get http://echo/", "403"),
                    ("alice", "get -H 'Authorization: Bearer @good@' http://echo/", "200"),
                ],
                decided: &[],
            },
            Row {
                name: "denied-without",
                policies: tokens("denied-without", RULE_A)
                    + &policy("no-token", "DENY", "[{from: [{source: {notRequestPrincipals: ['*']}}]}]"),
                asks: &[
                    ("alice", "get http://echo/", "403"),
                    ("alice", "get -H 'Authorization: Bearer @good@' http://echo/", "200"),
                ],
                decided: &["matched_policy[ns[NS]-policy[no-token]-rule[0]]"],
            },
            Row {
                name: "subject",
                policies: tokens("subject", RULE_A)
                    + &policy("ann-only", "ALLOW", "[{from: [{source: {requestPrincipals: [a.test/ann]}}]}]"),
                asks: &[
                    ("alice", "get -H 'Authorization: Bearer @ann@' http://echo/", "200"),
                    ("alice", "get -H 'Authorization: Bearer @ben@' http://echo/", "403"),
                ],
                decided: &[],
            },
            Row {
                name: "claims",
                policies: tokens("claims", RULE_A)
                    + &policy(
                        "by-claim",
                        "ALLOW",
                        "[{to: [{operation: {paths: [/ops]}}], when: [{key: 'request.auth.claims[groups]', values: [ops]}]}, \
                         {to: [{operation: {paths: [/dev]}}], when: [{key: 'request.auth.claims[groups]', values: [dev]}]}, \
                         {to: [{operation: {paths: [/admin]}}], when: [{key: 'request.auth.claims[realm][roles]', values: [admin]}]}, \
                         {to: [{operation: {paths: [/write]}}], when: [{key: 'request.auth.claims[scope]', values: [write]}]}, \
                         {to: [{operation: {paths: [/aud]}}], when: [{key: request.auth.audiences, values: ['sec*']}]}, \
                         {to: [{operation: {paths: [/tool]}}], when: [{key: request.auth.presenter, values: [tool]}]}, \
                         {to: [{operation: {paths: [/not]}}], when: [{key: 'request.auth.claims[groups]', notValues: [ops]}, \
                           {key: request.auth.principal, values: ['a.test/*']}]}]",
                    ),
                asks: &[
                    ("alice", "get -H 'Authorization: Bearer @ann@' http://echo/ops", "200"),
                    ("alice", "get -H 'Authorization: Bearer @ben@' http://echo/ops", "403"),
                    ("alice", "get -H 'Authorization: Bearer @ann@' http://echo/dev", "200"),
                    ("alice", "get -H 'Authorization: Bearer @ben@' http://echo/dev", "200"),
                    ("alice", "get -H 'Authorization: Bearer @ann@' http://echo/admin", "200"),
                    ("alice", "get -H 'Authorization: Bearer @ben@' http://echo/admin", "403"),
                    ("alice", "get -H 'Authorization: Bearer @ann@' http://echo/write", "200"),
                    ("alice", "get -H 'Authorization: Bearer @ann@' http://echo/aud", "200"),
                    ("alice", "get -H 'Authorization: Bearer @ben@' http://echo/aud", "403"),
                    ("alice", "get -H 'Authorization: Bearer @ann@' http://echo/tool", "200"),
                    ("alice", "get -H 'Authorization: Bearer @ben@' http://echo/tool", "403"),
                    ("alice", "get -H 'Authorization: Bearer @ann@' http://echo/not", "403"),
                    ("alice", "get -H 'Authorization: Bearer @ben@' http://echo/not", "200"),
                    ("alice", "get http://echo/dev", "403"),
                ],
                decided: &[],
            },
            Row {
                name: "places",
                policies: tokens(
                    "places",
                    &with("fromHeaders: [{name: x-token, prefix: 'Tok '}], fromParams: [t], fromCookies: [c]"),
                ) + &policy("placed", "ALLOW", "[{from: [{source: {requestPrincipals: ['*']}}]}]"),
                asks: &[
                    ("alice", "get -H 'x-token: Tok @good@' http://echo/", "200"),
                    ("alice", "get 'http://echo/?t=@good@'", "200"),
                    ("alice", "get -H 'Cookie: c=@good@' http://echo/", "200"),
                    ("alice", "get -H 'x-token: Tok @forged@' http://echo/", "401"),
                    ("alice", "get -H 'Authorization: Bearer @good@' http://echo/", "403"),
                ],
                decided: &[],
            },
            Row {
                name: "passed-on",
                policies: tokens(
                    "passed-on",
                    &with(
                        "forwardOriginalToken: true, outputPayloadToHeader: x-payload, \
                         outputClaimToHeaders: [{header: x-sub, claim: sub}]",
                    ),
                ),
                asks: &[
                    ("alice", "told -H 'Authorization: Bearer @ann@' http://echo/ | grep -c '@ann@'", "1"),
                    ("alice", "told -H 'Authorization: Bearer @ann@' http://echo/ | grep -ic 'x-payload'", "1"),
                    (
                        "alice",
                        "told -H 'x-sub: ben' -H 'Authorization: Bearer @ann@' http://echo/ | grep -io '\"x-sub\":[^]]*]' | tr -d ' '",
                        "\"x-sub\":[\"ann\"]",
                    ),
                ],
                decided: &[],
            },
            Row {
                name: "kept-back",
                policies: tokens("kept-back", RULE_A),
                asks: &[
                    ("alice", "told -H 'Authorization: Bearer @ann@' http://echo/ | grep -c '@ann@'", "0"),
                ],
                decided: &[],
            },
            Row {
                name: "two-issuers",
                policies: tokens("first", RULE_A)
                    + &tokens("second", "{issuer: b.test, jwks: \"@keys-b@\"}"),
                asks: &[
                    ("alice", "get -H 'Authorization: Bearer @good@' http://echo/", "200"),
                    ("alice", "get -H 'Authorization: Bearer @of-b@' http://echo/", "200"),
                    ("alice", "get -H 'Authorization: Bearer @foreign@' http://echo/", "401"),
                    ("alice", "get http://echo/", "200"),
                ],
                decided: &[],
            },
            Row {
                name: "unreachable",
                policies: tokens(
                    "unreachable",
                    "{issuer: a.test, jwksUri: 'http://nobody.NS.svc.cluster.local/keys'}",
                ),
                asks: &[
                    ("alice", "get -H 'Authorization: Bearer @good@' http://echo/", "401"),
                    ("alice", "get http://echo/", "200"),
                ],
                decided: &[],
            },
        ])
        .await;
    yard.write(&tokens(
        "told",
        "{issuer: a.test, jwksUri: 'http://nobody.NS.svc.cluster.local/keys'}",
    ))
    .await;
    eventually("the status says that keys are missing", async || {
        let line = ["get", "requestauthentication", "told", "-o", "jsonpath={.status}"];
        let said = yard.case.kubectl_says(&line);
        if said.contains("could not be fetched") { Ok(()) } else { Err(said) }
    })
    .await;
    yard.forget().await;
}

/// A pod and Service of a Python program on port 9400, outside of the mesh.
async fn program(yard: &Yard<'_>, name: &str, args: Value, volume: Option<&str>) {
    let mut pod = json!({"terminationGracePeriodSeconds": 0, "containers": [{"name": "main",
        "image": "python", "args": args,
        "readinessProbe": {"tcpSocket": {"port": 9400}, "periodSeconds": 1}}]});
    if let Some(map) = volume {
        pod["containers"][0]["volumeMounts"] = json!([{"name": "files", "mountPath": "/files"}]);
        pod["volumes"] = json!([{"name": "files", "configMap": {"name": map}}]);
    }
    let labels = json!({"app": name, "sidecar.istio.io/inject": "false"});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": labels}, "spec": pod}}});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"name": "http", "port": 9400}]}});
    yard.case.try_apply(deployment).await.unwrap();
    yard.case.try_apply(service).await.unwrap();
    yard.case.ready(&format!("deployment/{name}")).await;
}

/// The token that the provider gives to a user, by the way that browsers go.
const LOG_IN: &str = r#"
I=http://oidc.NS.svc.cluster.local:9400
B='redirect_uri=http%3A%2F%2Flocalhost%2Fcb'
code=$(curl -s -o /dev/null -w '%{redirect_url}' -d sub=ann "$I/oauth2/authorize?client_id=c&response_type=code&scope=openid&$B" | sed -n 's/.*code=\([^&]*\).*/\1/p')
curl -s -u c:s -d "grant_type=authorization_code&code=$code&$B" "$I/oauth2/token" | sed -n 's/.*"id_token": *"\([^"]*\)".*/\1/p'
"#;

/// A user's token, as soon as the provider can be reached under its name.
async fn log_in(yard: &Yard<'_>) -> String {
    let script = yard.named(LOG_IN);
    eventually("a token of the provider", async || {
        let said = yard.run("eve", &script).await.trim().to_owned();
        if said.split('.').count() == 3 { Ok(said) } else { Err(said) }
    })
    .await
}

async fn get_until(yard: &Yard<'_>, token: &str, wanted: &str) {
    let ask = format!("get -H 'Authorization: Bearer {token}' http://echo/");
    eventually(&format!("an answer of {wanted}"), async || {
        let got = yard.run("alice", &ask).await;
        if got.trim() == wanted { Ok(()) } else { Err(got) }
    })
    .await;
}

async fn keys_are_fetched_and_follow_their_rotation(yard: &Yard<'_>) {
    let refresh = "PILOT_JWT_PUB_KEY_REFRESH_INTERVAL=1s";
    yard.case.kubectl_says(&["-n", SYSTEM, "set", "env", "deployment/istiod", refresh]);
    let status = ["-n", SYSTEM, "rollout", "status", "deployment/istiod", "--timeout=120s"];
    yard.case.kubectl_says(&status);
    // A provider of its own, found by its issuer alone.
    let serve = json!(["-m", "oidc_provider_mock", "--host", "0.0.0.0", "--port", "9400"]);
    program(yard, "oidc", serve, None).await;
    let issuer = "http://oidc.NS.svc.cluster.local:9400";
    yard.write(&tokens("discovered", &format!("{{issuer: '{issuer}'}}"))).await;
    let token = log_in(yard).await;
    get_until(yard, &token, "200").await;
    // It starts again with another key: the old token is refused, a new one taken.
    yard.case.kubectl_says(&["rollout", "restart", "deployment/oidc"]);
    yard.case.kubectl_says(&["rollout", "status", "deployment/oidc", "--timeout=120s"]);
    get_until(yard, &token, "401").await;
    let token = log_in(yard).await;
    get_until(yard, &token, "200").await;
    yard.forget().await;
    // Keys behind an address, which rotate with an overlap.
    let (old, new) = (Issuer::new("rotating.test"), Issuer::new("rotating.test"));
    let keys = |issuers: &[&Issuer]| {
        let all: Vec<Value> = issuers.iter().map(|i| i.key_set()["keys"][0].clone()).collect();
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "keys"},
                "data": {"jwks.json": json!({"keys": all}).to_string()}})
    };
    yard.case.try_apply(keys(&[&old])).await.unwrap();
    let serve = json!(["-m", "http.server", "9400", "--directory", "/files"]);
    program(yard, "keys", serve, Some("keys")).await;
    let uri = "http://keys.NS.svc.cluster.local:9400/jwks.json";
    yard.write(&tokens("rotating", &format!("{{issuer: rotating.test, jwksUri: '{uri}'}}"))).await;
    let (by_old, by_new) = (old.token(&json!({})), new.token(&json!({})));
    get_until(yard, &by_old, "200").await;
    get_until(yard, &by_new, "401").await;
    yard.case.try_apply(keys(&[&old, &new])).await.unwrap();
    get_until(yard, &by_new, "200").await;
    get_until(yard, &by_old, "200").await;
    yard.case.try_apply(keys(&[&new])).await.unwrap();
    get_until(yard, &by_old, "401").await;
    get_until(yard, &by_new, "200").await;
    // Keys that were fetched once stay when their server is gone.
    yard.case.scale("deployment/keys", 0).await;
    get_until(yard, &by_new, "200").await;
    // Envoy fetches them itself if it is to.
    yard.case.scale("deployment/keys", 1).await;
    yard.case.ready("deployment/keys").await;
    let mode = "PILOT_JWT_ENABLE_REMOTE_JWKS=envoy";
    yard.case.kubectl_says(&["-n", SYSTEM, "set", "env", "deployment/istiod", mode]);
    yard.case.kubectl_says(&status);
    eventually("the proxy is to fetch keys", async || {
            let dump = "curl -s 'localhost:15000/config_dump?resource=dynamic_listeners' | grep -c remote_jwks";
            let count = yard.at_proxy(dump).await;
            if count.trim().parse::<u32>().is_ok_and(|n| n > 0) { Ok(()) } else { Err(count) }
        })
        .await;
    get_until(yard, &by_new, "200").await;
    get_until(yard, &by_old, "401").await;
    yard.forget().await;
}
