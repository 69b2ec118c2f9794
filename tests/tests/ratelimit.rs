//! RateLimitPolicy: local buckets and a real rate-limit server, seen on the wire.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "extend/mesh.rs"]
mod mesh;

use ironsail_testkit::{Case, eventually};
use mesh::{Got, ask, ask_until, in_the_mesh};

const HTTPBIN: &str = "http://httpbin:8000";

fn policy(name: &str, spec: &str) -> String {
    format!(
        "---\n{{apiVersion: policy.ironsail.io/v1alpha1, kind: RateLimitPolicy, \
         metadata: {{name: {name}}}, spec: {spec}}}"
    )
}

async fn apps(case: &Case) {
    case.sample("httpbin/httpbin.yaml").await;
    case.sample("curl/curl.yaml").await;
    case.sample("echo/echo.yaml").await;
    for app in ["httpbin", "curl", "echo"] {
        case.ready(&format!("deployment/{app}")).await;
    }
}

/// The answer to a request that was counted, which the answer itself shows: connections from before the
/// policy are served without it until they are drained.
async fn limited(case: &Case, path: &str, headers: &[&str]) -> Got {
    eventually("the limit is in force", async || {
        let got = ask(case, &format!("{HTTPBIN}{path}"), headers).await;
        match got.header("x-ratelimit-limit") {
            Some(_) => Ok(got),
            None => Err(format!("{got:?}")),
        }
    })
    .await
}

#[test]
fn local_limits_count_by_path_header_and_identity() {
    in_the_mesh("local", async |case| {
        apps(case).await;
        let rules = r#"{selector: {matchLabels: {app: httpbin}}, rules: [
            {name: paths, match: {paths: [{exact: /anything/one}], methods: [GET]},
             local: {requests: 3, interval: 3600s}},
            {name: users, match: {paths: [{prefix: /anything/user}]}, by: [{header: X-User}],
             local: {requests: 2, interval: 3600s, burst: 2}},
            {name: strangers, match: {paths: [{regex: '/anything/who.*'}],
              principals: [cluster.local/ns/other/sa/curl]}, local: {requests: 1, interval: 3600s}},
            {name: clients, match: {paths: [{exact: /anything/me}]}, by: [{attribute: IDENTITY}],
             local: {requests: 1, interval: 3600s}},
            {name: tried, match: {paths: [{exact: /anything/tried}]}, dryRun: true,
             local: {requests: 1, interval: 3600s}}],
            response: {headers: {x-why: too-many}}}"#;
        case.apply(&policy("httpbin", rules)).await;
        let first = limited(case, "/anything/one?a=b", &[]).await;
        assert_eq!((first.code, first.header("x-ratelimit-limit")), (200, Some("3")), "{first:?}");
        for _ in 0..2 {
            assert_eq!(limited(case, "/anything/one", &[]).await.code, 200);
        }
        let refused = limited(case, "/anything/one?c=d", &[]).await;
        assert_eq!((refused.code, refused.header("x-why")), (429, Some("too-many")), "{refused:?}");
        assert_eq!(refused.header("x-ratelimit-remaining"), Some("0"), "{refused:?}");
        assert!(refused.header("retry-after").is_some(), "{refused:?}");
        // What the rule does not match is not counted.
        assert_eq!(ask(case, &format!("{HTTPBIN}/anything/two"), &[]).await.code, 200);

        // Each value of the header has its own count; no header is a value too.
        for (user, codes) in [("X-User: a", [200, 200, 429]), ("X-User: b", [200, 200, 429])] {
            for code in codes {
                let got = limited(case, "/anything/user", &[user]).await;
                assert_eq!(got.code, code, "{user}: {got:?}");
            }
        }
        for code in [200, 200, 429] {
            assert_eq!(limited(case, "/anything/user", &[]).await.code, code);
        }
        // Only who is meant is limited, and everybody by identity where that is asked for.
        for _ in 0..3 {
            assert_eq!(ask(case, &format!("{HTTPBIN}/anything/who"), &[]).await.code, 200);
        }
        assert_eq!(limited(case, "/anything/me", &[]).await.code, 200);
        assert_eq!(limited(case, "/anything/me", &[]).await.code, 429);
        for _ in 0..3 {
            assert_eq!(ask(case, &format!("{HTTPBIN}/anything/tried"), &[]).await.code, 200);
        }
        // Without the policy there is no limit.
        case.kubectl_says(&["delete", "ratelimitpolicy", "httpbin"]);
        ask_until(case, &format!("{HTTPBIN}/anything/one"), &[], |got| got.code == 200).await;
    });
}

#[test]
fn global_limits_are_decided_by_a_server() {
    in_the_mesh("global", async |case| {
        apps(case).await;
        let rules = r#"{selector: {matchLabels: {app: httpbin}},
            server: {address: 'echo:7070', domain: shop, timeout: 5s, failureMode: DENY}, rules: [
            {name: few, match: {paths: [{prefix: /anything/few}]}, by: [{header: x-user, name: user}],
             global: {entries: {limit: "2", rule: few}}},
            {name: broken, match: {paths: [{prefix: /anything/broken}]},
             global: {entries: {fail: "1"}}}]}"#;
        case.apply(&policy("httpbin", rules)).await;
        let first = limited(case, "/anything/few", &["x-user: a"]).await;
        assert_eq!(first.code, 200, "{first:?}");
        let few = "/anything/few";
        assert_eq!(limited(case, few, &["x-user: a"]).await.code, 200);
        assert_eq!(limited(case, few, &["x-user: a"]).await.code, 429);
        assert_eq!(limited(case, few, &["x-user: b"]).await.code, 200);
        assert_eq!(ask(case, &format!("{HTTPBIN}/get"), &[]).await.code, 200);
        // A server that fails: refused or let through, as the policy says.
        let broken = format!("{HTTPBIN}/anything/broken");
        ask_until(case, &broken, &[], |got| got.code == 500).await;
        case.apply(&policy("httpbin", &rules.replace("DENY", "ALLOW"))).await;
        ask_until(case, &broken, &[], |got| got.code == 200).await;
        // A server that is not there is told, and nothing is limited by it.
        case.apply(&policy("lost", &rules.replace("echo:7070", "nobody:7070"))).await;
        eventually("the policy's status tells", async || {
            let said = case.kubectl_says(&["get", "rlp/lost", "-o", "json"]);
            if said.contains("nobody") && said.contains("validationMessages") {
                Ok(())
            } else {
                Err(said)
            }
        })
        .await;
        assert_eq!(ask(case, &format!("{HTTPBIN}/get"), &[]).await.code, 200);
    });
}

#[test]
fn policies_that_make_no_sense_are_refused_with_their_place() {
    // No proxy is asked: the webhook says it.
    mesh::in_the_mesh_with_refusals("refused", async |case| {
        for (spec, words) in [
            ("{rules: [{name: a}]}", "local or global"),
            ("{rules: [{name: a, global: {entries: {a: b}}}]}", "server"),
            ("{rules: [{name: a, local: {requests: 1, interval: 1ms}}]}", "50ms"),
            (
                "{rules: [{name: a, match: {paths: [{regex: '('}]}, local: {requests: 1, interval: 1s}}]}",
                "paths[0]",
            ),
            ("{rules: []}", "rules"),
        ] {
            let output = case.kubectl_output(&["apply", "-f", "-"], &policy("bad", spec));
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success() && said.contains(words), "{spec}: {said}");
        }
    });
}
