//! What VirtualServices say, seen from outside: a real Envoy with our listener and our routes is asked.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "traffic/ask.rs"]
mod ask;
#[path = "traffic/bootstrap.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod bootstrap;
#[path = "golden/case.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod case;
#[path = "traffic/names.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod names;

use std::collections::BTreeSet;
use std::path::Path;

use ask::{Answer, Envoy};
use case::Case;
use ironsail_proto::to_json;
use ironsail_translate::{listener, route};
use serde_json::{Value, json};

/// The connection manager of the listener for the port, with its routes inside.
fn manager(case: &Case, port: &str) -> Value {
    let (snapshot, scope, class) = (&*case.snapshot, &case.scope, &case.class);
    let views = listener::views(snapshot, scope, class);
    let name = format!("0.0.0.0_{port}");
    let view = views.iter().find(|view| view.name() == name).unwrap();
    let listener = to_json(&listener::translate(view).value).unwrap();
    let mut manager = listener["filterChains"][0]["filters"][0].clone();
    let routes = route::translate(&route::view(snapshot, scope, class, port));
    let config = manager["typedConfig"].as_object_mut().unwrap();
    config.remove("rds").unwrap();
    config.insert("routeConfig".into(), to_json(&routes.value).unwrap());
    manager
}

async fn start(files: &Path) -> Envoy {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/live");
    let manager = manager(&Case::load(&folder), "9080");
    let mut wanted = BTreeSet::new();
    names::clusters(&manager, &mut wanted);
    let mut listeners = vec![json!({
        "name": "front",
        "address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}},
        "filter_chains": [{"filters": [manager]}]
    })];
    let mut clusters = Vec::new();
    for (i, name) in wanted.iter().enumerate() {
        let address = json!({"pipe": {"path": files.join(format!("{i}.sock")).to_str().unwrap()}});
        listeners.push(ask::echo(name, &address));
        clusters.push(json!({
            "name": name, "type": "STATIC",
            "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [
                {"endpoint": {"address": address}}
            ]}]}
        }));
    }
    Envoy::start(files, &bootstrap::of(clusters, &listeners)).await
}

#[tokio::test]
async fn requests_go_where_the_virtual_service_says() {
    let files = tempfile::tempdir().unwrap();
    let envoy = start(files.path()).await;
    let get = async |path: &str, headers: &[(&str, &str)]| {
        envoy.ask("GET", path, "reviews", headers).await
    };
    let subset =
        |answer: &Answer| answer.field("cluster").split('|').nth(2).unwrap_or_default().to_owned();

    // A route whose match cannot be understood matches nothing, and the others stand.
    let answer = get("/", &[]).await;
    assert_eq!((answer.status, subset(&answer).as_str()), (200, "v1"), "{answer:?}");
    assert_eq!(answer.field("attempt"), "1");

    let jason = [("end-user", "jason")];
    let answer = get("/api/a?v=2", &jason).await;
    assert_eq!(subset(&answer), "v2", "{answer:?}");
    assert_eq!(answer.field("path"), "/internal/a?v=2");
    assert_eq!(answer.field("host"), "reviews.internal");
    assert_eq!(answer.field("route"), "user");
    assert_eq!(answer.header("x-served"), Some("user"));
    for (path, headers) in [
        ("/api?v=3", vec![("end-user", "jason")]),
        ("/api?v=2", vec![("end-user", "other")]),
        ("/api?v=2", vec![]),
        ("/api?v=2", vec![("end-user", "jason"), ("x-internal", "1")]),
    ] {
        assert_eq!(subset(&get(path, &headers).await), "v1", "{path} {headers:?}");
    }
    let put = envoy.ask("PUT", "/api?v=2", "reviews", &jason).await;
    assert_eq!(subset(&put), "v1");

    assert_eq!(subset(&get("/v12/x", &[]).await), "v3");
    assert_eq!(subset(&get("/v12/xy", &[]).await), "v1", "expressions match the whole path");
    assert_eq!(subset(&get("/cAsE", &[]).await), "v3");
    assert_eq!(subset(&get("/mine", &[]).await), "v2", "conditions on the client hold for it");
    assert_eq!(get("/id/42", &[]).await.field("path"), "/by/42");

    let moved = get("/old/x", &[]).await;
    assert_eq!(moved.status, 307);
    assert_eq!(moved.header("location"), Some("https://new.example.com:8443/new"));
    let teapot = get("/teapot", &[]).await;
    assert_eq!((teapot.status, teapot.body.as_str()), (418, "short and stout"));
    assert_eq!(get("/fails", &[]).await.status, 555);
    assert_eq!(get("/nowhere", &[]).await.status, 500, "what cannot be done is not done elsewhere");
}

#[tokio::test]
async fn hosts_have_all_their_names_and_others_pass() {
    let files = tempfile::tempdir().unwrap();
    let envoy = start(files.path()).await;
    let cluster =
        async |host: &str| envoy.ask("GET", "/", host, &[]).await.field("cluster").to_owned();
    for host in [
        "reviews",
        "reviews:9080",
        "reviews.foo",
        "reviews.foo.svc",
        "reviews.foo.svc.cluster.local:9080",
        "10.96.8.1:9080",
    ] {
        assert_eq!(cluster(host).await, "outbound|9080|v1|reviews.foo.svc.cluster.local", "{host}");
    }
    assert_eq!(cluster("ratings").await, "outbound|9080||ratings.foo.svc.cluster.local");
    assert_eq!(cluster("reviews.bar").await, "PassthroughCluster");
    assert_eq!(cluster("example.com").await, "PassthroughCluster");
}

#[tokio::test]
async fn browsers_are_answered_and_requests_are_mirrored() {
    let files = tempfile::tempdir().unwrap();
    let envoy = start(files.path()).await;
    let preflight = async |origin: &str| {
        let headers = [("origin", origin), ("access-control-request-method", "PUT")];
        envoy.ask("OPTIONS", "/cors", "reviews", &headers).await
    };
    let answer = preflight("https://example.com").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://example.com"));
    assert_eq!(answer.header("access-control-allow-methods"), Some("PUT"));
    assert_eq!(answer.header("access-control-max-age"), Some("60"));
    let other = preflight("https://example.org").await;
    assert_eq!(other.header("access-control-allow-origin"), None);

    envoy.ask("GET", "/", "reviews", &[]).await;
    let mirrored = "cluster.outbound|9080||ratings.foo.svc.cluster.local.upstream_rq_total: 1";
    envoy.wait_for_stat(mirrored).await;
}
