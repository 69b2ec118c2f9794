//! The server under test, and requests to it as they go over the wire.

use std::time::Duration;

use http::{Method, Request};
use http_body_util::BodyExt;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use ironsail_testkit::Podlet;

pub(crate) struct Server {
    pub(crate) client: kube::Client,
    pub(crate) namespace: String,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Value,
}

impl Reply {
    /// The body of a success.
    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert!((200..300).contains(&self.code), "{}: {}", self.code, self.body);
        self.body
    }

    /// Checks a refusal: code, reason, and a part of the message.
    #[track_caller]
    pub(crate) fn refused(self, code: u16, reason: &str, message: &str) -> Value {
        assert_eq!(
            (self.code, self.body["kind"].as_str()),
            (code, Some("Status")),
            "{}",
            self.body
        );
        assert_eq!(self.body["reason"].as_str().unwrap_or_default(), reason, "{}", self.body);
        let text = self.body["message"].as_str().unwrap();
        assert!(text.contains(message), "{text:?} does not contain {message:?}");
        assert_eq!(self.body["code"], code);
        self.body
    }
}

/// Runs `test` with a namespace of its own.
pub(crate) fn server(name: &str, test: impl AsyncFnOnce(&Server)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = client().await;
        let mut server = Server { client, namespace: String::new() };
        let namespace = json!({"metadata": {"generateName": format!("api-{name}-")}});
        let made = server.post("/api/v1/namespaces", &namespace).await.ok();
        server.namespace = made["metadata"]["name"].as_str().unwrap().to_owned();
        tokio::time::timeout(Duration::from_secs(300), test(&server))
            .await
            .unwrap_or_else(|_| panic!("{name} hangs"));
        server.delete(&format!("/api/v1/namespaces/{}", server.namespace)).await;
    });
}

async fn client() -> kube::Client {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let env = ironsail_sys::env::Env::of_process();
    match env.var("IRONSAIL_API_KUBECONFIG") {
        Some(path) => {
            let file = Kubeconfig::read_from(path).unwrap();
            let options = KubeConfigOptions::default();
            let config = kube::Config::from_custom_kubeconfig(file, &options).await.unwrap();
            kube::Client::try_from(config).unwrap()
        }
        None => Podlet::shared().client().await,
    }
}

impl Server {
    /// The path of a namespaced collection of the core group, such as `configmaps`.
    pub(crate) fn core(&self, rest: &str) -> String {
        format!("/api/v1/namespaces/{}/{rest}", self.namespace)
    }

    /// The same in a named group and version.
    pub(crate) fn group(&self, group: &str, rest: &str) -> String {
        format!("/apis/{group}/namespaces/{}/{rest}", self.namespace)
    }

    pub(crate) async fn send(&self, request: Request<Vec<u8>>) -> Reply {
        let response = self.client.send(request.map(Body::from)).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
        Reply { code: parts.status.as_u16(), headers: parts.headers, body }
    }

    pub(crate) async fn raw(&self, method: Method, path: &str, kind: &str, body: Vec<u8>) -> Reply {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", kind)
            .header("accept", "application/json");
        self.send(request.body(body).unwrap()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.raw(Method::GET, path, "application/json", Vec::new()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Reply {
        self.raw(Method::DELETE, path, "application/json", Vec::new()).await
    }

    pub(crate) async fn delete_with(&self, path: &str, options: &Value) -> Reply {
        self.raw(Method::DELETE, path, "application/json", options.to_string().into()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        self.raw(Method::POST, path, "application/json", body.to_string().into()).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Reply {
        self.raw(Method::PUT, path, "application/json", body.to_string().into()).await
    }

    /// `kind` is `json`, `merge`, `strategic-merge` or `apply`.
    pub(crate) async fn patch(&self, kind: &str, path: &str, body: &Value) -> Reply {
        let kind = match kind {
            "apply" => "application/apply-patch+yaml".to_owned(),
            kind => format!("application/{kind}-patch+json"),
        };
        self.raw(Method::PATCH, path, &kind, body.to_string().into()).await
    }

    /// A config map with one key, created.
    pub(crate) async fn config_map(&self, name: &str, value: &str) -> Value {
        let object = json!({"metadata": {"name": name}, "data": {"key": value}});
        self.post(&self.core("configmaps"), &object).await.ok()
    }
}

/// A Deployment that nothing would run: no image map knows its image.
pub(crate) fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "a", "image": "nowhere/a:1"}]},
            },
        },
    })
}
