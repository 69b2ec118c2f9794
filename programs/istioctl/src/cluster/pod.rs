//! Into a pod: a command in a container, an HTTP request to a port, a log.

use std::time::Duration;

use anyhow::Context as _;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, AttachParams, LogParams};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::Cluster;

/// The container that the mesh adds.
pub(crate) const PROXY: &str = "istio-proxy";
/// An answer may be this long: a configuration dump of a large mesh is tens of megabytes.
const MAX_ANSWER: usize = 512 << 20;
const PATIENCE: Duration = Duration::from_secs(60);

impl Cluster {
    pub(crate) fn pods(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// What a command in a container prints; an exit other than 0 is an error that quotes it.
    pub(crate) async fn exec(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
        command: &[&str],
    ) -> anyhow::Result<String> {
        let doing = || format!("running {} in {pod}.{namespace}", command.join(" "));
        let how = AttachParams::default()
            .container(container)
            .stdout(true)
            .stderr(true)
            .max_stdout_buf_size(1 << 20);
        let pods = self.pods(namespace);
        let running = pods.exec(pod, command.iter().copied(), &how);
        let mut process = running.await.with_context(doing)?;
        let out = process.stdout().context("exec gave no output")?;
        let err = process.stderr().context("exec gave no output")?;
        let status = process.take_status().context("exec gave no status")?;
        let all = async { tokio::join!(text(out), text(err), status) };
        let (out, err, status) = tokio::time::timeout(PATIENCE, all)
            .await
            .context("no answer in time")
            .with_context(doing)?;
        let (out, err) = (out.with_context(doing)?, err.with_context(doing)?);
        let good = status.is_some_and(|status| status.status.as_deref() == Some("Success"));
        anyhow::ensure!(good, "{}: {}", doing(), err.trim());
        Ok(out)
    }

    /// A page of a proxy's administration, through the agent beside it.
    pub(crate) async fn proxy_admin(
        &self,
        namespace: &str,
        pod: &str,
        path: &str,
    ) -> anyhow::Result<String> {
        self.exec(namespace, pod, PROXY, &["pilot-agent", "request", "GET", path]).await
    }

    /// The same as JSON.
    pub(crate) async fn proxy_admin_json(
        &self,
        namespace: &str,
        pod: &str,
        path: &str,
    ) -> anyhow::Result<Value> {
        let text = self.proxy_admin(namespace, pod, path).await?;
        serde_json::from_str(&text)
            .with_context(|| format!("/{path} of the proxy in {pod}.{namespace} is no JSON"))
    }

    /// What a container has logged, at most so many lines.
    pub(crate) async fn log(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
        lines: i64,
    ) -> anyhow::Result<String> {
        let how = LogParams {
            container: Some(container.to_owned()),
            tail_lines: Some(lines),
            ..Default::default()
        };
        let log = self.pods(namespace).logs(pod, &how).await;
        log.with_context(|| format!("reading the log of {container} in {pod}.{namespace}"))
    }

    /// A stream to a port of a pod.
    pub(crate) async fn dial(
        &self,
        namespace: &str,
        pod: &str,
        port: u16,
    ) -> anyhow::Result<tokio::io::DuplexStream> {
        let doing = || format!("forwarding to port {port} of {pod}.{namespace}");
        let mut forward =
            self.pods(namespace).portforward(pod, &[port]).await.with_context(doing)?;
        forward.take_stream(port).with_context(doing)
    }

    /// GET of a page that a pod serves in plaintext, over a port-forward.
    pub(crate) async fn get(
        &self,
        namespace: &str,
        pod: &str,
        port: u16,
        path: &str,
    ) -> anyhow::Result<String> {
        let doing = || format!("GET {path} of {pod}.{namespace}:{port}");
        let answer = tokio::time::timeout(PATIENCE, self.get_now(namespace, pod, port, path));
        answer.await.context("no answer in time").and_then(|answer| answer).with_context(doing)
    }

    async fn get_now(
        &self,
        namespace: &str,
        pod: &str,
        port: u16,
        path: &str,
    ) -> anyhow::Result<String> {
        let stream = self.dial(namespace, pod, port).await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let connection = tokio::spawn(connection);
        let request = http::Request::get(path)
            .header(http::header::HOST, format!("localhost:{port}"))
            .body(Empty::<Bytes>::new())?;
        let answer = sender.send_request(request).await?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await;
        connection.abort();
        let body = body.map_err(|error| anyhow::anyhow!("{error}"))?.to_bytes();
        let text = String::from_utf8_lossy(&body).into_owned();
        anyhow::ensure!(status.is_success(), "{status}: {}", text.trim());
        Ok(text)
    }
}

async fn text(stream: impl AsyncRead + Unpin) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    stream.take(MAX_ANSWER as u64).read_to_end(&mut bytes).await?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Whether a pod serves: ready and not on its way out.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    pod.metadata.deletion_timestamp.is_none()
        && conditions.into_iter().any(|c| c.type_ == "Ready" && c.status == "True")
}

/// Whether the mesh runs a proxy in it.
pub(crate) fn has_proxy(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let inits = spec.init_containers.iter().flatten();
    spec.containers.iter().chain(inits).any(|container| container.name == PROXY)
}
