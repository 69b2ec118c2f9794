//! Watches: what they send, from where, and when they end.

use std::pin::Pin;
use std::time::Duration;

use futures::io::AsyncBufRead;
use futures::{AsyncBufReadExt, StreamExt};
use http::Request;
use serde_json::{Value, json};

use crate::server::{Server, server};

type Lines = futures::io::Lines<Pin<Box<dyn AsyncBufRead + Send>>>;

/// An open watch, read event by event.
struct Watch(Lines);

impl Watch {
    async fn open(s: &Server, path: &str) -> Self {
        let request = Request::get(path).body(Vec::new()).unwrap();
        let stream = s.client.request_stream(request).await.unwrap();
        let stream: Pin<Box<dyn AsyncBufRead + Send>> = Box::pin(stream);
        Self(stream.lines())
    }

    async fn next(&mut self) -> Option<Value> {
        let line = tokio::time::timeout(Duration::from_secs(60), self.0.next());
        let line = line.await.expect("a watch event comes within a minute")?;
        Some(serde_json::from_str(&line.unwrap()).unwrap())
    }

    /// Type and name of the next event.
    async fn event(&mut self) -> (String, String) {
        let event = self.next().await.expect("the watch goes on");
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        (text(&event["type"]), text(&event["object"]["metadata"]["name"]))
    }
}

fn event(kind: &str, name: &str) -> (String, String) {
    (kind.to_owned(), name.to_owned())
}

async fn version(s: &Server) -> String {
    let list = s.get(&s.core("configmaps")).await.ok();
    list["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

const OURS: &str = "fieldSelector=metadata.name!%3Dkube-root-ca.crt";

#[test]
fn changes_after_a_version_come_in_order() {
    server("watch", async |s| {
        let from = version(s).await;
        s.config_map("a", "1").await;
        let mut watch = Watch::open(
            s,
            &s.core(&format!("configmaps?watch=true&resourceVersion={from}&{OURS}")),
        )
        .await;
        assert_eq!(watch.event().await, event("ADDED", "a"));
        s.patch("merge", &s.core("configmaps/a"), &json!({"data": {"key": "2"}})).await.ok();
        s.delete(&s.core("configmaps/a")).await.ok();
        assert_eq!(watch.event().await, event("MODIFIED", "a"));
        assert_eq!(watch.event().await, event("DELETED", "a"));
    });
}

#[test]
fn a_watch_from_nowhere_starts_with_what_is_there() {
    server("initial", async |s| {
        s.config_map("a", "1").await;
        let mut watch = Watch::open(s, &s.core(&format!("configmaps?watch=true&{OURS}"))).await;
        assert_eq!(watch.event().await, event("ADDED", "a"));
        s.config_map("b", "1").await;
        assert_eq!(watch.event().await, event("ADDED", "b"));
    });
}

#[test]
fn an_object_enters_and_leaves_a_selection() {
    server("leave", async |s| {
        let from = version(s).await;
        let path =
            s.core(&format!("configmaps?watch=true&resourceVersion={from}&labelSelector=on%3Dyes"));
        let mut watch = Watch::open(s, &path).await;
        s.config_map("a", "1").await;
        let label = async |value: Value| {
            s.patch(
                "merge",
                &s.core("configmaps/a"),
                &json!({"metadata": {"labels": {"on": value}}}),
            )
            .await
            .ok();
        };
        label(json!("yes")).await;
        assert_eq!(watch.event().await, event("ADDED", "a"));
        label(json!("no")).await;
        assert_eq!(watch.event().await, event("DELETED", "a"));
        label(json!("yes")).await;
        assert_eq!(watch.event().await, event("ADDED", "a"));
        s.delete(&s.core("configmaps/a")).await.ok();
        assert_eq!(watch.event().await, event("DELETED", "a"));
    });
}

#[test]
fn a_streamed_list_ends_with_a_bookmark() {
    server("streamed", async |s| {
        s.config_map("a", "1").await;
        s.config_map("b", "1").await;
        let path = s.core(&format!("configmaps?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&{OURS}"));
        let mut watch = Watch::open(s, &path).await;
        assert_eq!(watch.event().await, event("ADDED", "a"));
        assert_eq!(watch.event().await, event("ADDED", "b"));
        let end = watch.next().await.unwrap();
        assert_eq!(end["type"], "BOOKMARK");
        assert_eq!(end["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
        s.config_map("c", "1").await;
        assert_eq!(watch.event().await, event("ADDED", "c"));
    });
}

#[test]
fn a_watch_ends_by_itself_when_asked() {
    server("timeout", async |s| {
        let from = version(s).await;
        let path = s
            .core(&format!("configmaps?watch=true&resourceVersion={from}&timeoutSeconds=1&{OURS}"));
        let mut watch = Watch::open(s, &path).await;
        assert!(watch.next().await.is_none());
    });
}

#[test]
fn a_nonsense_version_is_refused() {
    server("version", async |s| {
        let path = s.core("configmaps?watch=true&resourceVersion=abc");
        let reply = s.get(&path).await;
        assert!(reply.code >= 400 && reply.body["kind"] == "Status", "{reply:?}");
        let text = reply.body["message"].as_str().unwrap();
        assert!(text.contains("resourceVersion: Invalid value: \"abc\""), "{text}");
    });
}

#[test]
fn a_deleted_object_carries_the_version_of_its_deletion() {
    server("tomb", async |s| {
        let made = s.config_map("a", "1").await;
        let from = made["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        s.delete(&s.core("configmaps/a")).await.ok();
        let mut watch = Watch::open(
            s,
            &s.core(&format!(
                "configmaps?watch=true&resourceVersion={from}&fieldSelector=metadata.name%3Da"
            )),
        )
        .await;
        let gone = watch.next().await.unwrap();
        assert_eq!(gone["type"], "DELETED");
        let version = |v: &str| v.parse::<u64>().unwrap();
        assert!(
            version(gone["object"]["metadata"]["resourceVersion"].as_str().unwrap())
                > version(&from)
        );
    });
}

#[test]
fn every_change_reaches_every_watcher_once() {
    server("many", async |s| {
        let from = version(s).await;
        let path = s.core(&format!("configmaps?watch=true&resourceVersion={from}&{OURS}"));
        let mut watches = Vec::new();
        for _ in 0..5 {
            watches.push(Watch::open(s, &path).await);
        }
        for i in 0..40 {
            s.config_map(&format!("m{i:02}"), "1").await;
        }
        for watch in &mut watches {
            for i in 0..40 {
                assert_eq!(watch.event().await, event("ADDED", &format!("m{i:02}")));
            }
        }
    });
}
