//! What tests share: a Kubernetes API in this process, with accounts, pods and their tokens.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use futures::future::BoxFuture;
use ironsail_kubeapi::admission::{Dial, Stream};
use ironsail_kubeapi::auth::User;
use ironsail_kubeapi::{Config, Server};
use ironsail_sys::clock::Clock;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use kube::api::{Api, DeleteParams, PostParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub(crate) const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// No webhook is called in these tests.
struct Nowhere;

impl Dial for Nowhere {
    fn connect(&self, _: SocketAddr) -> BoxFuture<'_, io::Result<Box<dyn Stream>>> {
        Box::pin(async { Err(io::ErrorKind::Unsupported.into()) })
    }
}

/// An API with the namespaces `istio-system` and `foo` and an account in each.
pub(crate) struct Cluster {
    server: Server,
    _directory: tempfile::TempDir,
}

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

impl Cluster {
    pub(crate) async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let config = Config {
            directory: directory.path().to_owned(),
            service_ranges: vec!["10.96.0.0/16".parse().unwrap()],
            issuer: ISSUER.to_owned(),
            endpoint: None,
        };
        let server = Server::open(&config, Arc::new(Nowhere), Clock::system()).await.unwrap();
        let cluster = Self { server, _directory: directory };
        let how = PostParams::default();
        for (namespace, account) in [("istio-system", "ztunnel"), ("foo", "sleep")] {
            let made: Namespace = object(json!({"metadata": {"name": namespace}}));
            Api::all(cluster.client()).create(&how, &made).await.unwrap();
            let made: ServiceAccount = object(json!({"metadata": {"name": account}}));
            Api::namespaced(cluster.client(), namespace).create(&how, &made).await.unwrap();
        }
        cluster
    }

    pub(crate) fn client(&self) -> kube::Client {
        kube::Client::new(self.server.service(User::admin()), "default")
    }

    /// A client that may do nothing.
    pub(crate) fn nobody(&self) -> kube::Client {
        kube::Client::new(self.server.service(User::known("nobody", &[])), "default")
    }

    /// Makes a pod; gives its UID.
    pub(crate) async fn pod(&self, namespace: &str, name: &str, account: &str) -> String {
        let pod: Pod = object(json!({
            "metadata": {"name": name},
            "spec": {"serviceAccountName": account, "automountServiceAccountToken": false,
                "containers": [{"name": "c", "image": "i"}]},
        }));
        let api = Api::<Pod>::namespaced(self.client(), namespace);
        api.create(&PostParams::default(), &pod).await.unwrap().metadata.uid.unwrap()
    }

    pub(crate) async fn delete_pod(&self, namespace: &str, name: &str) {
        let api = Api::<Pod>::namespaced(self.client(), namespace);
        api.delete(name, &DeleteParams::default().grace_period(0)).await.unwrap();
    }

    /// A token of an account, bound to a pod if there is one.
    pub(crate) async fn token(
        &self,
        (namespace, account): (&str, &str),
        audience: &str,
        pod: Option<&str>,
    ) -> String {
        let mut spec = json!({"audiences": [audience], "expirationSeconds": 3600});
        if let Some(pod) = pod {
            spec["boundObjectRef"] = json!({"apiVersion": "v1", "kind": "Pod", "name": pod});
        }
        let request: TokenRequest = object(json!({"spec": spec}));
        let api = Api::<ServiceAccount>::namespaced(self.client(), namespace);
        let answer = api.create_token_request(account, &PostParams::default(), &request).await;
        serde_json::to_value(answer.unwrap()).unwrap()["status"]["token"]
            .as_str()
            .unwrap()
            .to_owned()
    }
}
