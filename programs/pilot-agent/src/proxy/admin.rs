//! Envoy's administration, on loopback.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http::HeaderMap;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

/// An answer of Envoy that is kept whole may be this long.
const MAX_ANSWER: usize = 64 << 20;
const PATIENCE: Duration = Duration::from_secs(5);

/// Talks HTTP to one address. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Admin {
    address: SocketAddr,
    client: Client<HttpConnector, Empty<Bytes>>,
}

impl Admin {
    pub(crate) fn new(address: SocketAddr) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(Duration::from_secs(1)));
        Self { address, client: Client::builder(TokioExecutor::new()).build(connector) }
    }

    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<String> {
        self.text("GET", path).await
    }

    pub(crate) async fn post(&self, path: &str) -> anyhow::Result<String> {
        self.text("POST", path).await
    }

    /// An answer whose body is still to come.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &HeaderMap,
    ) -> anyhow::Result<http::Response<Incoming>> {
        let uri = format!("http://{}{path}", self.address);
        let mut request = http::Request::builder().method(method).uri(&uri).body(Empty::new())?;
        request.headers_mut().extend(headers.clone());
        let answer = tokio::time::timeout(PATIENCE, self.client.request(request));
        answer.await.context("no answer in time")?.with_context(|| format!("{method} {uri}"))
    }

    /// Whether anything at all answers there.
    pub(crate) async fn answers(&self) -> bool {
        match self.send("GET", "/ready", &HeaderMap::new()).await {
            // Read to the end, so that the connection serves again.
            Ok(answer) => Limited::new(answer.into_body(), MAX_ANSWER).collect().await.is_ok(),
            Err(_) => false,
        }
    }

    async fn text(&self, method: &str, path: &str) -> anyhow::Result<String> {
        let answer = self.send(method, path, &HeaderMap::new()).await?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), MAX_ANSWER).collect();
        let body = tokio::time::timeout(PATIENCE, body).await.context("no answer in time")?;
        let body = body.map_err(|error| anyhow::anyhow!("{method} {path}: {error}"))?.to_bytes();
        let text = String::from_utf8_lossy(&body).into_owned();
        anyhow::ensure!(status.is_success(), "{method} {path}: {status}: {}", text.trim());
        Ok(text)
    }
}
