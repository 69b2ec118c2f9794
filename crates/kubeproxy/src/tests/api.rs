//! As much of an API server as the proxy talks to: list, watch, status patches, Events.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream;
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;

#[derive(Clone, Default)]
pub(super) struct FakeApi(Arc<State>);

struct State {
    log: Mutex<Vec<Change>>,
    length: watch::Sender<usize>,
}

impl Default for State {
    fn default() -> Self {
        Self { log: Mutex::default(), length: watch::Sender::new(0) }
    }
}

#[derive(Clone)]
struct Change {
    resource: String,
    kind: &'static str,
    object: Value,
}

impl FakeApi {
    pub(super) fn client(&self) -> kube::Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move { Ok::<_, Infallible>(api.answer(request).await) }
        });
        kube::Client::new(service, "default")
    }

    pub(super) fn apply(&self, object: Value) {
        let resource = match object["kind"].as_str() {
            Some("Service") => "services",
            Some("EndpointSlice") => "endpointslices",
            Some("Event") => "events",
            other => panic!("{other:?}"),
        };
        let exists = self.get(resource, &object).is_some();
        self.push(resource, if exists { "MODIFIED" } else { "ADDED" }, object);
    }

    pub(super) fn delete(&self, resource: &str, name: &str) {
        let object = json!({ "metadata": { "namespace": "demo", "name": name } });
        let object = self.get(resource, &object).unwrap();
        self.push(resource, "DELETED", object);
    }

    pub(super) fn service(&self, name: &str) -> Value {
        let object = json!({ "metadata": { "namespace": "demo", "name": name } });
        self.get("services", &object).unwrap_or_default()
    }

    pub(super) fn events(&self) -> Vec<Value> {
        self.list("events")
    }

    fn push(&self, resource: &str, kind: &'static str, mut object: Value) {
        let mut log = self.0.log.lock();
        object["metadata"]["resourceVersion"] = json!((log.len() + 1).to_string());
        log.push(Change { resource: resource.to_owned(), kind, object });
        self.0.length.send_replace(log.len());
    }

    fn get(&self, resource: &str, like: &Value) -> Option<Value> {
        let same = |o: &Value| {
            ["namespace", "name"].iter().all(|f| o["metadata"][f] == like["metadata"][f])
        };
        self.list(resource).into_iter().find(same)
    }

    fn list(&self, resource: &str) -> Vec<Value> {
        let mut objects: Vec<Value> = Vec::new();
        for change in self.0.log.lock().iter().filter(|c| c.resource == resource) {
            let same = |o: &Value| {
                ["namespace", "name"]
                    .iter()
                    .all(|f| o["metadata"][f] == change.object["metadata"][f])
            };
            objects.retain(|o| !same(o));
            if change.kind != "DELETED" {
                objects.push(change.object.clone());
            }
        }
        objects
    }

    async fn answer(&self, request: Request<Body>) -> Response<UnsyncBoxBody<Bytes, Infallible>> {
        let path: Vec<String> = request.uri().path().split('/').map(str::to_owned).collect();
        let query = request.uri().query().unwrap_or_default().to_owned();
        let method = request.method().clone();
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let resource = path.last().unwrap().clone();
        if query.contains("watch=true") {
            let from = query.split('&').find_map(|p| p.strip_prefix("resourceVersion="));
            return self.watch(&resource, from.unwrap_or("0").parse().unwrap());
        }
        let answer = match method {
            Method::GET => {
                let version = self.0.log.lock().len().to_string();
                json!({
                    "apiVersion": "v1", "kind": "List",
                    "metadata": { "resourceVersion": version }, "items": self.list(&resource),
                })
            }
            Method::POST => {
                let mut object: Value = serde_json::from_slice(&body).unwrap();
                let unique = self.0.log.lock().len();
                let name =
                    format!("{}{unique}", object["metadata"]["generateName"].as_str().unwrap());
                object["metadata"]["name"] = json!(name);
                object["kind"] = json!("Event");
                self.apply(object.clone());
                object
            }
            Method::PATCH => {
                let [.., name, _] = &path[..] else { panic!("{path:?}") };
                let mut object = self.service(name);
                let patch: Value = serde_json::from_slice(&body).unwrap();
                object["status"] = patch["status"].clone();
                self.apply(object.clone());
                object
            }
            other => panic!("{other}"),
        };
        Response::new(Full::new(Bytes::from(answer.to_string())).boxed_unsync())
    }

    fn watch(&self, resource: &str, from: usize) -> Response<UnsyncBoxBody<Bytes, Infallible>> {
        let state = (self.0.clone(), self.0.length.subscribe(), resource.to_owned(), from);
        let changes = stream::unfold(state, |(api, mut length, resource, mut at)| async move {
            loop {
                let change = api.log.lock().get(at).cloned();
                match change {
                    Some(change) => {
                        at += 1;
                        if change.resource == resource {
                            let line = json!({ "type": change.kind, "object": change.object });
                            let line = Bytes::from(format!("{line}\n"));
                            return Some((line, (api, length, resource, at)));
                        }
                    }
                    None => length.changed().await.ok()?,
                }
            }
        });
        let frames = changes.map(|line| Ok(http_body::Frame::data(line)));
        Response::new(BodyExt::boxed_unsync(StreamBody::new(frames)))
    }
}
