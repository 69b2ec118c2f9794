//! The application's own probes, which the kubelet cannot reach through mutual TLS: it asks here, and
//! the agent asks the application.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::rt::{TokioExecutor, TokioIo};
use ironsail_identity::tls;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream};

/// Longest answer of an application that is read.
const MAX_BODY: usize = 1 << 20;

/// `ISTIO_KUBE_APP_PROBERS`: probes by the path they are asked for under.
#[derive(Debug, Default)]
pub(crate) struct Probes {
    probes: BTreeMap<String, Probe>,
    host: Option<IpAddr>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Probe {
    pub(crate) http_get: Option<HttpGet>,
    pub(crate) tcp_socket: Option<TcpPort>,
    pub(crate) grpc: Option<Grpc>,
    pub(crate) timeout_seconds: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HttpGet {
    #[serde(default)]
    pub(crate) path: String,
    pub(crate) port: u16,
    #[serde(default)]
    pub(crate) scheme: String,
    #[serde(default)]
    pub(crate) host: String,
    #[serde(default)]
    pub(crate) http_headers: Vec<Header>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Header {
    pub(crate) name: String,
    pub(crate) value: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct TcpPort {
    pub(crate) port: u16,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Grpc {
    pub(crate) port: u16,
    pub(crate) service: Option<String>,
}

impl Probes {
    /// `host` is where the application listens; None: loopback.
    pub(crate) fn parse(text: &str, host: Option<IpAddr>) -> anyhow::Result<Self> {
        Ok(Self { probes: serde_json::from_str(text)?, host })
    }

    /// The result of the probe with this path, if there is one.
    pub(super) async fn run(&self, path: &str, asked: &HeaderMap) -> Option<(StatusCode, String)> {
        let probe = self.probes.get(path)?;
        let patience = Duration::from_secs(probe.timeout_seconds.unwrap_or(1).max(1));
        let host = self.host.unwrap_or(IpAddr::from([127, 0, 0, 1]));
        let result = tokio::time::timeout(patience, probe.run(host, asked)).await;
        Some(match result {
            Ok(Ok(status)) => (status, String::new()),
            Ok(Err(error)) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}\n")),
            Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, format!("no answer in {patience:?}\n")),
        })
    }
}

impl Probe {
    /// Asks the application at `host`; any status of HTTP is an answer.
    pub(crate) async fn run(&self, host: IpAddr, asked: &HeaderMap) -> anyhow::Result<StatusCode> {
        if let Some(get) = &self.http_get {
            return get.run(host, asked).await;
        }
        if let Some(socket) = &self.tcp_socket {
            connect(host, socket.port).await?;
            return Ok(StatusCode::OK);
        }
        match &self.grpc {
            Some(grpc) => grpc.run(host).await,
            None => anyhow::bail!("the probe does not say what to do"),
        }
    }
}

impl HttpGet {
    async fn run(&self, host: IpAddr, asked: &HeaderMap) -> anyhow::Result<StatusCode> {
        let stream = connect(host, self.port).await?;
        let request = self.request(host, asked)?;
        match self.scheme.eq_ignore_ascii_case("https") {
            false => exchange(stream, request).await,
            true => {
                let connector = tokio_rustls::TlsConnector::from(tls::to_anyone());
                let stream = connector.connect(host.into(), stream).await?;
                exchange(stream, request).await
            }
        }
    }

    fn request(
        &self,
        host: IpAddr,
        asked: &HeaderMap,
    ) -> anyhow::Result<http::Request<Empty<Bytes>>> {
        let path = if self.path.starts_with('/') { "" } else { "/" };
        let mut request =
            http::Request::get(format!("{path}{}", self.path)).body(Empty::<Bytes>::new())?;
        let headers = request.headers_mut();
        // The kubelet's own headers, so that the application sees who asks.
        for name in [http::header::USER_AGENT, http::header::ACCEPT] {
            if let Some(value) = asked.get(&name) {
                headers.insert(name, value.clone());
            }
        }
        let mut authority = match self.host.as_str() {
            "" => std::net::SocketAddr::new(host, self.port).to_string(),
            host => host.to_owned(),
        };
        for Header { name, value } in &self.http_headers {
            match name.eq_ignore_ascii_case("host") {
                true => authority.clone_from(value),
                false => {
                    headers.append(HeaderName::try_from(name)?, HeaderValue::try_from(value)?);
                }
            }
        }
        headers.insert(http::header::HOST, HeaderValue::try_from(authority)?);
        headers.insert(http::header::CONNECTION, HeaderValue::from_static("close"));
        Ok(request)
    }
}

/// From the address that the packet rules let through to the application; another one would lead to
/// the proxy, which may want mutual TLS.
async fn connect(host: IpAddr, port: u16) -> std::io::Result<TcpStream> {
    let socket = match host {
        IpAddr::V4(_) => TcpSocket::new_v4()?,
        IpAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // A machine without that IPv6 address has no rules for it either.
    match host {
        IpAddr::V4(_) => socket.bind(([127, 0, 0, 6], 0).into())?,
        IpAddr::V6(_) => drop(socket.bind(([0, 0, 0, 0, 0, 0, 0, 6], 0).into())),
    }
    match socket.connect((host, port).into()).await {
        // Another machine cannot be reached from that address.
        Err(error) if is_elsewhere(&error) => TcpStream::connect((host, port)).await,
        connected => connected,
    }
}

fn is_elsewhere(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{HostUnreachable, InvalidInput, NetworkUnreachable};
    matches!(error.kind(), InvalidInput | NetworkUnreachable | HostUnreachable)
}

async fn exchange<T>(stream: T, request: http::Request<Empty<Bytes>>) -> anyhow::Result<StatusCode>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let response = sender.send_request(request).await?;
    let status = response.status();
    // Read to the end, so that the application does not see its answer broken off.
    let _ = Limited::new(response.into_body(), MAX_BODY).collect().await;
    connection.abort();
    Ok(status)
}

#[derive(Clone, PartialEq, prost::Message)]
struct HealthRequest {
    #[prost(string, tag = "1")]
    service: String,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct HealthResponse {
    #[prost(int32, tag = "1")]
    status: i32,
}

impl Grpc {
    async fn run(&self, host: IpAddr) -> anyhow::Result<StatusCode> {
        let stream = connect(host, self.port).await?;
        let (sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                .await?;
        let connection = tokio::spawn(connection);
        let service = tower::service_fn(move |request: http::Request<tonic::body::Body>| {
            let mut sender = sender.clone();
            async move { sender.send_request(request).await }
        });
        let origin =
            http::Uri::try_from(format!("http://{}", std::net::SocketAddr::new(host, self.port)))?;
        let mut client = tonic::client::Grpc::with_origin(service, origin);
        client.ready().await.map_err(|error| anyhow::anyhow!("{error}"))?;
        let request = HealthRequest { service: self.service.clone().unwrap_or_default() };
        let path = http::uri::PathAndQuery::from_static("/grpc.health.v1.Health/Check");
        let codec = tonic_prost::ProstCodec::<HealthRequest, HealthResponse>::default();
        let answer = client.unary(tonic::Request::new(request), path, codec).await?;
        connection.abort();
        match answer.into_inner().status {
            1 => Ok(StatusCode::OK),
            status => anyhow::bail!("the service is not serving: status {status}"),
        }
    }
}
