//! The ways of a packet through a pod with a sidecar: in, out, to itself by its service, and over
//! localhost; what the application sees of each, and which of them a policy closes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use ironsail_testkit::{Answer, Case, eventually, mesh_case};
use serde_json::{Value, json};

/// A pod with a program that sends requests; with a sidecar or without.
fn client(name: &str, injected: bool) -> Value {
    let labels = json!({"app": name, "sidecar.istio.io/inject": injected.to_string()});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [
            {"name": "main", "image": "echo", "command": ["sleep", "infinity"]}]}})
}

fn in_the_mesh(name: &str, test: impl AsyncFnOnce(&Case)) {
    mesh_case(name, async |case| {
        let labels = json!({"istio-injection": "enabled"});
        let object = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": case.namespace, "labels": labels}});
        case.try_apply(object).await.unwrap();
        case.sample("echo/echo.yaml").await;
        case.try_apply(client("member", true)).await.unwrap();
        case.try_apply(client("stranger", false)).await.unwrap();
        for what in ["deployment/echo", "pod/member", "pod/stranger"] {
            case.ready(what).await;
        }
        test(case).await;
    });
}

/// Asks until the answer is as wanted.
async fn ask(case: &Case, from: &str, url: &str, wanted: impl Fn(&Answer) -> bool) -> Answer {
    // Whether it is TLS or HTTP shows in the first bytes, so there must be some.
    let words = if url.starts_with("tcp") { "a few words" } else { "" };
    eventually(&format!("{from} asks {url}"), async || {
        let args = ["--timeout", "5000", "-d", words];
        let seen = case.call_with(from, url, &args).await.pop().unwrap();
        if wanted(&seen) { Ok(seen) } else { Err(format!("{seen:?}")) }
    })
    .await
}

fn answered(seen: &Answer) -> bool {
    seen.error.is_none() && seen.status.is_none_or(|status| [0, 101, 200].contains(&status))
}

/// Answered, and the server was told who asks: it may take a moment until both ends know that the
/// other one has a sidecar.
fn vouched(seen: &Answer) -> bool {
    answered(seen) && header(seen, "x-forwarded-client-cert").is_some()
}

fn refused(seen: &Answer) -> bool {
    !answered(seen)
}

/// Who the server says it was asked by: the peer's address without port.
fn peer(seen: &Answer) -> String {
    seen.body["peer"].as_str().unwrap().rsplit_once(':').unwrap().0.to_owned()
}

fn header<'a>(seen: &'a Answer, name: &str) -> Option<&'a str> {
    seen.body["headers"][name][0].as_str()
}

fn identity(case: &Case, account: &str) -> String {
    format!("spiffe://cluster.local/ns/{}/sa/{account}", case.namespace)
}

/// Asserts that mutual TLS was between the two, as the server was told.
#[track_caller]
fn known(seen: &Answer, by: &str, client: &str) {
    let cert = header(seen, "x-forwarded-client-cert").unwrap_or_else(|| panic!("{seen:?}"));
    assert!(cert.starts_with(&format!("By={by};Hash=")), "{cert}");
    assert!(cert.ends_with(&format!(";URI={client}")), "{cert}");
}

#[test]
fn a_request_takes_the_way_that_its_ends_call_for() {
    in_the_mesh("ways", async |case| {
        let server = identity(case, "echo");
        // In, from a neighbour with a sidecar: the application sees Envoy at 127.0.0.6.
        let seen = ask(case, "pod/member", "http://echo/", vouched).await;
        known(&seen, &server, &identity(case, "default"));
        assert_eq!(peer(&seen), "127.0.0.6", "{seen:?}");
        // In, from somebody without: through Envoy too, but nobody vouches for the client.
        let seen = ask(case, "pod/stranger", "http://echo/", answered).await;
        assert_eq!(header(&seen, "x-forwarded-client-cert"), None, "{seen:?}");
        assert_eq!(header(&seen, "x-forwarded-proto"), Some("http"), "{seen:?}");
        assert_eq!(peer(&seen), "127.0.0.6", "{seen:?}");
        // To itself by its service: out and in again, both by Envoy.
        let seen = ask(case, "deployment/echo", "http://echo/", vouched).await;
        known(&seen, &server, &server);
        assert_eq!(peer(&seen), "127.0.0.6", "{seen:?}");
        // Over localhost, and by the pod's own address: nobody's business.
        let seen = ask(case, "deployment/echo", "http://127.0.0.1:8080/", answered).await;
        assert_eq!(header(&seen, "x-request-id"), None, "{seen:?}");
        assert_eq!(peer(&seen), "127.0.0.1", "{seen:?}");
        let own = seen_address(case).await;
        let seen = ask(case, "deployment/echo", &format!("http://{own}:8080/"), answered).await;
        assert_eq!(header(&seen, "x-request-id"), None, "{seen:?}");
        assert_eq!(peer(&seen), own, "{seen:?}");
        // Out, to a pod's address instead of a service's: Envoy sends it where it was meant to go.
        let seen = ask(case, "pod/member", &format!("http://{own}:8080/"), answered).await;
        assert_eq!(peer(&seen), "127.0.0.6", "{seen:?}");
        assert!(header(&seen, "x-request-id").is_some(), "{seen:?}");
    });
}

async fn seen_address(case: &Case) -> String {
    let args = ["get", "pods", "-l", "app=echo", "-o", "jsonpath={.items[0].status.podIP}"];
    case.kubectl_says(&args)
}

/// What the server saw of each protocol.
const PROTOCOLS: [(&str, &str); 5] = [
    ("http://echo/", "HTTP/1.1"),
    ("h2c://echo:85/", "HTTP/2.0"),
    ("grpc://echo:7070/", "gRPC"),
    ("ws://echo/", "WebSocket"),
    ("tcp://echo:9000/", "TCP"),
];

#[test]
fn every_protocol_is_carried_by_mutual_tls_and_keeps_its_kind() {
    in_the_mesh("kinds", async |case| {
        let (server, client) = (identity(case, "echo"), identity(case, "default"));
        for (url, protocol) in PROTOCOLS {
            let tells = protocol != "TCP" && protocol != "WebSocket";
            let wanted = if tells { vouched } else { answered };
            let seen = ask(case, "pod/member", url, wanted).await;
            assert_eq!(seen.body["protocol"], protocol, "{url}: {seen:?}");
            assert_eq!(peer(&seen), "127.0.0.6", "{url}: {seen:?}");
            if tells {
                known(&seen, &server, &client);
            }
        }
        // A port whose protocol nobody named is looked at.
        for (url, protocol) in [("http://echo:8081/", "HTTP/1.1"), ("h2c://echo:8081/", "HTTP/2.0")]
        {
            let seen = ask(case, "pod/member", url, vouched).await;
            assert_eq!(seen.body["protocol"], protocol, "{url}: {seen:?}");
            known(&seen, &server, &client);
        }
        // TLS of the application's own goes through as it is.
        let seen = ask(case, "pod/member", "https://echo/", answered).await;
        assert!(seen.body["tls"].is_object(), "{seen:?}");
        // A server that speaks first.
        let line = "exec 3<>/dev/tcp/echo/9001; head -n 1 <&3; echo hello >&3; head -n 1 <&3";
        eventually("the server's first word and its answer", async || {
            let seen = case.exec("pod/member", &["timeout", "10", "bash", "-c", line]).await;
            let mut lines = seen.stdout.lines();
            let greeted = lines.next().is_some_and(|line| line.starts_with("hello from echo-"));
            let good = greeted && lines.next().is_some_and(|line| line.contains("127.0.0.6"));
            if good { Ok(()) } else { Err(format!("{seen:?}")) }
        })
        .await;
    });
}

#[test]
fn permissive_takes_both_and_strict_only_the_mesh_for_every_protocol() {
    in_the_mesh("modes", async |case| {
        for (url, _) in PROTOCOLS {
            ask(case, "pod/member", url, answered).await;
            ask(case, "pod/stranger", url, answered).await;
        }
        case.apply(
            "{apiVersion: security.istio.io/v1, kind: PeerAuthentication, \
             metadata: {name: default}, spec: {mtls: {mode: STRICT}}}",
        )
        .await;
        for (url, _) in PROTOCOLS {
            ask(case, "pod/stranger", url, refused).await;
            ask(case, "pod/member", url, answered).await;
        }
        case.kubectl_says(&["delete", "peerauthentication", "default"]);
        for (url, _) in PROTOCOLS {
            ask(case, "pod/stranger", url, answered).await;
        }
    });
}
