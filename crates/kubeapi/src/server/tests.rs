//! The handler as clients see it: through `kube` in this process, through raw requests, and over TLS.

mod delete;
mod list;
mod malformed;
mod subresource;
mod tls;
mod watch;
mod write;

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Full};
use ironsail_sys::clock::Clock;
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use super::{Config, Server};
use crate::admission::{Dial, Stream};
use crate::auth::{Peer, User};

/// Nothing in these tests has a webhook.
pub(super) struct NoDial;

impl Dial for NoDial {
    fn connect(&self, _: SocketAddr) -> BoxFuture<'_, std::io::Result<Box<dyn Stream>>> {
        Box::pin(async { Err(std::io::Error::other("no webhooks here")) })
    }
}

/// A server of its own for one test.
pub(super) struct Bench {
    pub(super) server: Server,
    pub(super) directory: tempfile::TempDir,
}

pub(super) fn config(directory: &std::path::Path) -> Config {
    Config {
        directory: directory.to_owned(),
        service_ranges: vec!["10.96.0.0/16".parse().unwrap()],
        issuer: "https://kubernetes.default.svc.cluster.local".to_owned(),
        endpoint: None,
    }
}

impl Bench {
    pub(super) async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let server = open(directory.path()).await;
        Self { server, directory }
    }

    pub(super) fn client(&self) -> kube::Client {
        kube::Client::new(self.server.service(User::admin()), "default")
    }

    pub(super) fn config_maps(&self) -> Api<k8s_openapi::api::core::v1::ConfigMap> {
        Api::default_namespaced(self.client())
    }

    /// Any built-in kind of the namespace `default`.
    pub(super) fn api(&self, group: &str, kind: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
        Api::default_namespaced_with(self.client(), &resource)
    }

    /// One request as an administrator: code, headers and JSON body.
    pub(super) async fn ask(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> (u16, HeaderMap, Value) {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).unwrap();
        let response = self.server.handle(request, Peer::InProcess(User::admin())).await;
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let value = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into_owned().into());
        (parts.status.as_u16(), parts.headers, value)
    }

    pub(super) async fn get(&self, path: &str) -> (u16, Value) {
        let (code, _, value) = self.ask(Method::GET, path, &[], "").await;
        (code, value)
    }

    pub(super) async fn post(&self, path: &str, object: &Value) -> (u16, Value) {
        let (code, _, value) = self.ask(Method::POST, path, &[], object.to_string()).await;
        (code, value)
    }

    pub(super) async fn put(&self, path: &str, object: &Value) -> (u16, Value) {
        let (code, _, value) = self.ask(Method::PUT, path, &[], object.to_string()).await;
        (code, value)
    }

    pub(super) async fn merge(&self, path: &str, patch: &Value) -> (u16, Value) {
        let kind = [("content-type", "application/merge-patch+json")];
        let (code, _, value) = self.ask(Method::PATCH, path, &kind, patch.to_string()).await;
        (code, value)
    }

    pub(super) async fn delete(&self, path: &str, options: &Value) -> (u16, Value) {
        let body = if options.is_null() { String::new() } else { options.to_string() };
        let (code, _, value) = self.ask(Method::DELETE, path, &[], body).await;
        (code, value)
    }
}

pub(super) async fn open(directory: &std::path::Path) -> Server {
    Server::open(&config(directory), Arc::new(NoDial), Clock::system()).await.unwrap()
}

pub(super) const MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(super) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(super) const SERVICES: &str = "/api/v1/namespaces/default/services";
pub(super) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

pub(super) fn map(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"k": "v"}})
}

pub(super) fn pod(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "automountServiceAccountToken": false,
            "serviceAccountName": "default",
            "containers": [{"name": "c", "image": "i"}],
        },
    })
}

pub(super) fn deployment(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    })
}

impl Bench {
    /// Pods need the service account that a controller makes elsewhere.
    pub(super) async fn with_account(self) -> Self {
        let path = "/api/v1/namespaces/default/serviceaccounts";
        let (code, _) = self.post(path, &json!({"metadata": {"name": "default"}})).await;
        assert_eq!(code, 201);
        self
    }
}

#[tokio::test]
async fn a_cluster_has_its_namespaces_and_its_own_service_from_the_start() {
    let bench = Bench::new().await;
    let (_, list) = bench.get("/api/v1/namespaces").await;
    let names: Vec<_> =
        list["items"].as_array().unwrap().iter().map(|n| n["metadata"]["name"].clone()).collect();
    assert_eq!(names, ["default", "kube-node-lease", "kube-public", "kube-system"]);
    let (_, service) = bench.get(&format!("{SERVICES}/kubernetes")).await;
    assert_eq!(service["spec"]["clusterIP"], "10.96.0.1");
}

#[tokio::test]
async fn objects_survive_a_restart_and_versions_go_on() {
    let bench = Bench::new().await;
    let (_, before) = bench.post(MAPS, &map("a")).await;
    let (_, service) = bench
        .post(SERVICES, &json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 1}]}}))
        .await;
    let Bench { server, directory } = bench;
    drop(server);
    let bench = Bench { server: open(directory.path()).await, directory };
    let (_, after) = bench.get(&format!("{MAPS}/a")).await;
    assert_eq!(after, before);
    let (_, next) = bench.post(MAPS, &map("b")).await;
    let version = |object: &Value| {
        object["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap()
    };
    assert!(version(&next) > version(&after));
    let taken = json!({
        "metadata": {"name": "t"},
        "spec": {"clusterIP": service["spec"]["clusterIP"], "ports": [{"port": 1}]},
    });
    let (code, refused) = bench.post(SERVICES, &taken).await;
    assert_eq!(code, 422, "addresses in use are known after a restart: {refused}");
}

#[tokio::test]
async fn discovery_tells_the_same_in_both_forms() {
    let bench = Bench::new().await;
    let client = bench.client();
    let plain = kube::discovery::Discovery::new(client.clone()).run().await.unwrap();
    let aggregated = kube::discovery::Discovery::new(client).run_aggregated().await.unwrap();
    let names = |discovery: &kube::discovery::Discovery| {
        let mut names: Vec<_> = discovery
            .groups()
            .flat_map(kube::discovery::ApiGroup::recommended_resources)
            .map(|(resource, _)| format!("{}/{}", resource.api_version, resource.plural))
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(&plain), names(&aggregated));
    assert!(names(&plain).contains(&"apps/v1/deployments".to_owned()));
    let version = bench.client().apiserver_version().await.unwrap();
    assert_eq!((version.major.as_str(), version.minor.as_str()), ("1", "36"));
}

#[tokio::test]
async fn openapi_says_that_fields_are_validated() {
    let bench = Bench::new().await;
    let (_, index) = bench.get("/openapi/v3").await;
    let url = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().unwrap();
    let (_, headers, document) = bench.ask(Method::GET, url, &[], "").await;
    assert_eq!(headers["cache-control"], "public, immutable");
    let (_, headers, _) = bench.ask(Method::GET, "/openapi/v3/apis/apps/v1", &[], "").await;
    assert_eq!(headers["cache-control"], "no-cache, private");
    let patch =
        &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    let parameters = patch["parameters"].as_array().unwrap();
    assert!(parameters.iter().any(|parameter| parameter["name"] == "fieldValidation"));
    assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "Deployment");
}

#[tokio::test]
async fn health_version_and_keys_are_open_to_all_and_objects_are_not() {
    let bench = Bench::new().await;
    let ask = async |path: &str| {
        let request = Request::get(path).body(Full::new(Bytes::new())).unwrap();
        bench.server.handle(request, Peer::Tls(None)).await.status().as_u16()
    };
    for (path, code) in [("/healthz", 200), ("/readyz", 200), ("/version", 200), (MAPS, 403)] {
        assert_eq!(ask(path).await, code, "{path}");
    }
}
