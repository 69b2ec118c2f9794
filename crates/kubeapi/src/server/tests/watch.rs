//! Watches: what a client sees, in which order, and when it is told to start over.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use http::Request;
use http_body_util::{BodyExt, Full};
use ironsail_sys::clock::Clock;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::watcher::{self, InitialListStrategy};
use serde_json::{Value, json};

use super::{Bench, MAPS, NoDial, PODS, config, map, pod};
use crate::auth::{Peer, User};
use crate::server::Server;
use crate::store::Limits;

/// The events of a watch that ends after `seconds` at the latest.
async fn events(bench: &Bench, query: &str, accept: &str) -> Vec<Value> {
    let request = Request::get(format!("{query}&watch=1"))
        .header("accept", accept)
        .body(Full::new(Bytes::new()))
        .unwrap();
    let response = bench.server.handle(request, Peer::InProcess(User::admin())).await;
    assert_eq!(response.status().as_u16(), 200);
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
}

/// `TYPE name` of every event.
fn shown(events: &[Value]) -> Vec<String> {
    let name =
        |event: &Value| event["object"]["metadata"]["name"].as_str().unwrap_or("-").to_owned();
    events.iter().map(|e| format!("{} {}", e["type"].as_str().unwrap(), name(e))).collect()
}

fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap()
}

const JSON: &str = "application/json";

#[tokio::test(start_paused = true)]
async fn objects_enter_and_leave_a_selection() {
    let bench = Bench::new().await;
    let (_, start) = bench.get(MAPS).await;
    let with = |name: &str, label: &str, data: &str| json!({"metadata": {"name": name, "labels": {"l": label}}, "data": {"k": data}});
    bench.post(MAPS, &with("in", "x", "1")).await;
    bench.post(MAPS, &with("out", "y", "1")).await;
    bench.put(&format!("{MAPS}/in"), &with("in", "x", "2")).await;
    bench.put(&format!("{MAPS}/out"), &with("out", "x", "2")).await;
    let (_, left) = bench.put(&format!("{MAPS}/in"), &with("in", "y", "3")).await;
    bench.put(&format!("{MAPS}/in"), &with("in", "y", "4")).await;
    bench.delete(&format!("{MAPS}/in"), &Value::Null).await;
    bench.delete(&format!("{MAPS}/out"), &Value::Null).await;
    let from = version(&start);
    let all = format!("{MAPS}?resourceVersion={from}&timeoutSeconds=1");
    let seen = events(&bench, &format!("{all}&labelSelector=l%3Dx"), JSON).await;
    assert_eq!(shown(&seen), ["ADDED in", "MODIFIED in", "ADDED out", "DELETED in", "DELETED out"]);
    assert_eq!(seen[3]["object"]["data"]["k"], "2", "the last state inside");
    assert_eq!(version(&seen[3]["object"]), version(&left), "at the revision of leaving");
    let seen = events(&bench, &format!("{all}&fieldSelector=metadata.name%3Dout"), JSON).await;
    assert_eq!(shown(&seen), ["ADDED out", "MODIFIED out", "DELETED out"]);
    let seen = events(&bench, &all, JSON).await;
    assert_eq!(seen.len(), 8);
    let mut revisions: Vec<u64> =
        seen.iter().map(|event| version(&event["object"]).parse().unwrap()).collect();
    let in_order = revisions.clone();
    revisions.sort_unstable();
    revisions.dedup();
    assert_eq!(revisions, in_order);
}

#[tokio::test(start_paused = true)]
async fn fields_inside_the_object_select_too() {
    let bench = Bench::new().await.with_account().await;
    let (_, start) = bench.get(PODS).await;
    for name in ["a", "b"] {
        bench.post(PODS, &pod(name)).await;
    }
    let binding = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}});
    bench.post(&format!("{PODS}/a/binding"), &binding).await;
    let path = format!(
        "/api/v1/pods?resourceVersion={}&timeoutSeconds=1&fieldSelector=spec.nodeName%3Dn1",
        version(&start)
    );
    assert_eq!(shown(&events(&bench, &path, JSON).await), ["ADDED a"]);
}

#[tokio::test(start_paused = true)]
async fn where_a_watch_begins_depends_on_what_it_asks() {
    let bench = Bench::new().await;
    bench.post(MAPS, &map("a")).await;
    let (_, list) = bench.get(MAPS).await;
    bench.post(MAPS, &map("b")).await;
    let last = bench.server.reader().revision();
    let from = version(&list);
    let initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let bookmarks = "allowWatchBookmarks=true";
    for (query, expected) in [
        (String::new(), vec!["ADDED a", "ADDED b"]),
        ("&resourceVersion=0".to_owned(), vec!["ADDED a", "ADDED b"]),
        (format!("&resourceVersion={from}"), vec!["ADDED b"]),
        (format!("&resourceVersion={last}"), vec![]),
        (format!("&resourceVersion={last}&{bookmarks}"), vec!["BOOKMARK -"]),
        (format!("&{initial}&{bookmarks}"), vec!["ADDED a", "ADDED b", "BOOKMARK -", "BOOKMARK -"]),
        (format!("&{initial}"), vec!["ADDED a", "ADDED b"]),
        ("&sendInitialEvents=false&resourceVersionMatch=NotOlderThan".to_owned(), vec![]),
    ] {
        let seen = events(&bench, &format!("{MAPS}?timeoutSeconds=1{query}"), JSON).await;
        assert_eq!(shown(&seen), expected, "{query}");
    }
    let path = format!("{MAPS}?timeoutSeconds=1&{initial}&{bookmarks}");
    let mark = &events(&bench, &path, JSON).await[2]["object"];
    assert_eq!(mark["kind"], "ConfigMap");
    assert_eq!(mark["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    assert_eq!(version(mark), last.to_string());
}

#[tokio::test(start_paused = true)]
async fn idle_clients_get_bookmarks_of_the_present() {
    let bench = Bench::new().await;
    let (_, list) = bench.get(MAPS).await;
    bench.post("/api/v1/namespaces", &json!({"metadata": {"name": "elsewhere"}})).await;
    let path = format!(
        "{MAPS}?resourceVersion={}&timeoutSeconds=150&allowWatchBookmarks=true",
        version(&list)
    );
    let seen = events(&bench, &path, JSON).await;
    assert_eq!(shown(&seen), ["BOOKMARK -", "BOOKMARK -", "BOOKMARK -"]);
    let present = bench.server.reader().revision().to_string();
    assert_eq!(version(&seen[0]["object"]), present, "other resources moved the revision on");
}

#[tokio::test(start_paused = true)]
async fn watches_have_shapes_too() {
    let bench = Bench::new().await;
    bench.post(MAPS, &map("a")).await;
    bench.post(MAPS, &map("b")).await;
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let seen = events(&bench, &format!("{MAPS}?timeoutSeconds=1"), accept).await;
    assert_eq!(seen[0]["object"]["rows"][0]["cells"][0], "a");
    assert!(seen[0]["object"]["columnDefinitions"].is_array());
    assert!(seen[1]["object"]["columnDefinitions"].is_null(), "told once");
    let accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let seen = events(&bench, &format!("{MAPS}?timeoutSeconds=1"), accept).await;
    assert_eq!(seen[0]["object"]["kind"], "PartialObjectMetadata");
}

#[tokio::test(start_paused = true)]
async fn a_revision_that_is_no_longer_kept_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let limits = Limits { history_events: 10, ..Limits::default() };
    let (config, clock) = (config(directory.path()), Clock::system());
    let server = Server::open_with(&config, Arc::new(NoDial), clock, limits).await.unwrap();
    let bench = Bench { server, directory };
    bench.post(MAPS, &map("a")).await;
    // More changes of one resource than its history keeps.
    for n in 0..20 {
        bench.merge(&format!("{MAPS}/a"), &json!({"data": {"k": n.to_string()}})).await;
    }
    let seen = events(&bench, &format!("{MAPS}?resourceVersion=1&timeoutSeconds=1"), JSON).await;
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0]["type"], "ERROR");
    assert_eq!(seen[0]["object"]["code"], 410);
    assert_eq!(seen[0]["object"]["reason"], "Expired");
    assert!(
        seen[0]["object"]["message"].as_str().unwrap().starts_with("too old resource version: 1 (")
    );
    let token = {
        use base64::Engine as _;
        let text = r#"{"v":"meta.k8s.io/v1","rv":1,"start":"default/A\u0000"}"#;
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text)
    };
    let (code, refused) = bench.get(&format!("{MAPS}?limit=1&continue={token}")).await;
    assert_eq!(code, 410);
    let next = refused["metadata"]["continue"].as_str().unwrap();
    let (code, rest) = bench.get(&format!("{MAPS}?limit=1&continue={next}")).await;
    assert_eq!((code, rest["items"].as_array().unwrap().len()), (200, 1));
}

#[tokio::test]
async fn the_watcher_of_kube_follows_with_either_way_of_listing() {
    for strategy in [InitialListStrategy::StreamingList, InitialListStrategy::ListWatch] {
        let bench = Bench::new().await;
        bench.post(MAPS, &map("a")).await;
        let config = watcher::Config {
            initial_list_strategy: strategy.clone(),
            ..watcher::Config::default()
        };
        let mut stream = Box::pin(watcher::watcher(bench.config_maps(), config));
        let mut names = Vec::new();
        while let Some(event) = stream.try_next().await.unwrap() {
            match event {
                watcher::Event::InitApply(object) => names.push(object.metadata.name.unwrap()),
                watcher::Event::InitDone => break,
                _ => {}
            }
        }
        assert_eq!(names, ["a"], "{strategy:?}");
        bench.post(MAPS, &map("b")).await;
        bench.delete(&format!("{MAPS}/a"), &Value::Null).await;
        let next = async |stream: &mut std::pin::Pin<Box<_>>| {
            futures::TryStreamExt::try_next(stream).await.unwrap().unwrap()
        };
        assert!(matches!(
            next(&mut stream).await,
            watcher::Event::<ConfigMap>::Apply(object) if object.metadata.name.as_deref() == Some("b")
        ));
        assert!(matches!(
            next(&mut stream).await,
            watcher::Event::<ConfigMap>::Delete(object) if object.metadata.name.as_deref() == Some("a")
        ));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_watchers_lose_nothing() {
    const WATCHERS: usize = 50;
    const CHANGES: usize = 200;
    let bench = Arc::new(Bench::new().await);
    let mut watchers = Vec::new();
    for _ in 0..WATCHERS {
        let request =
            Request::get(format!("{MAPS}?watch=1")).body(Full::new(Bytes::new())).unwrap();
        let response = bench.server.handle(request, Peer::InProcess(User::admin())).await;
        watchers.push(tokio::spawn(async move {
            let mut body = response.into_body().into_data_stream();
            let mut seen = 0;
            while seen < CHANGES {
                let chunk = body.next().await.unwrap().unwrap();
                seen += chunk.iter().filter(|byte| **byte == b'\n').count();
            }
        }));
    }
    let writers: Vec<_> = (0..CHANGES)
        .map(|n| {
            let bench = bench.clone();
            tokio::spawn(async move { bench.post(MAPS, &map(&format!("n{n}"))).await.0 })
        })
        .collect();
    for writer in writers {
        assert_eq!(writer.await.unwrap(), 201);
    }
    for watcher in watchers {
        tokio::time::timeout(Duration::from_secs(30), watcher).await.expect("all seen").unwrap();
    }
}

#[tokio::test]
async fn watches_end_with_the_server() {
    let bench = Bench::new().await;
    let request = Request::get(format!("{MAPS}?watch=1")).body(Full::new(Bytes::new())).unwrap();
    let response = bench.server.handle(request, Peer::InProcess(User::admin())).await;
    bench.server.end_watches();
    let body = response.into_body().collect().await.unwrap();
    assert!(body.to_bytes().is_empty());
}
