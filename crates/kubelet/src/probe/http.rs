//! HTTP and HTTPS requests of probes and life-cycle hooks.
//!
//! In come an `httpGet` action and a way to connect; out comes a status code with the start of the
//! body. Certificates are not verified, as kubelets do not: a probe asks whether the program lives,
//! not who it is.

use std::net::IpAddr;

use futures::future::BoxFuture;
use http::{HeaderName, HeaderValue, Request, Uri};
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{Container, HTTPGetAction};
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

use super::{Dial, resolve_port};

/// Kubelets follow redirects, but not for ever.
const MAX_REDIRECTS: usize = 10;
/// How much of a body an event shows.
const MAX_BODY: usize = 10 * 1024;

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub body: String,
    /// The probe was sent on to another host, which kubelets do not follow and count as success.
    pub redirected_away: Option<String>,
}

/// Sends the request of `action` for a container at `ip`.
pub async fn get(
    action: &HTTPGetAction,
    container: &Container,
    ip: IpAddr,
    agent: &str,
    dial: &dyn Dial,
) -> Result<Answer, String> {
    let mut target = Target::of(action, container, ip)?;
    for _ in 0..=MAX_REDIRECTS {
        let url = target.url();
        let named = |reason: String| format!("Get \"{url}\": {reason}");
        let (status, location, body) = target.send(action, agent, dial).await.map_err(named)?;
        let next =
            location.filter(|_| (300..400).contains(&status)).and_then(|l| target.follow(&l));
        match next {
            None => return Ok(Answer { status, body, redirected_away: None }),
            Some(Hop::Away(to)) => return Ok(Answer { status, body, redirected_away: Some(to) }),
            Some(Hop::Here(next)) => target = next,
        }
    }
    Err(format!("Get \"{}\": stopped after {MAX_REDIRECTS} redirects", target.url()))
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Target {
    tls: bool,
    host: String,
    port: u16,
    path: String,
}

enum Hop {
    Here(Target),
    Away(String),
}

impl Target {
    fn of(action: &HTTPGetAction, container: &Container, ip: IpAddr) -> Result<Self, String> {
        let host = action.host.clone().filter(|h| !h.is_empty()).unwrap_or_else(|| ip.to_string());
        let path = action.path.as_deref().unwrap_or("/");
        Ok(Self {
            tls: action.scheme.as_deref().is_some_and(|s| s.eq_ignore_ascii_case("https")),
            host,
            port: resolve_port(&action.port, container)?,
            path: if path.starts_with('/') { path.to_owned() } else { format!("/{path}") },
        })
    }

    fn url(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority(), self.path)
    }

    fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    fn follow(&self, location: &str) -> Option<Hop> {
        let uri: Uri = location.parse().ok()?;
        let path = uri.path_and_query().map_or("/", |p| p.as_str()).to_owned();
        let Some(host) = uri.host() else {
            return Some(Hop::Here(Self { path, ..self.clone() }));
        };
        let host = host.trim_matches(['[', ']']).to_owned();
        if host != self.host {
            return Some(Hop::Away(location.to_owned()));
        }
        let tls = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
        Some(Hop::Here(Self { tls, host, port, path }))
    }

    async fn send(
        &self,
        action: &HTTPGetAction,
        agent: &str,
        dial: &dyn Dial,
    ) -> Result<(u16, Option<String>, String), String> {
        let stream = dial.dial(&self.host, self.port).await?;
        let request = self.request(action, agent)?;
        if self.tls {
            let name = ServerName::try_from(self.host.clone()).map_err(|e| e.to_string())?;
            let stream = tls().connect(name, stream).await.map_err(|e| e.to_string())?;
            exchange(TokioIo::new(stream), request).await
        } else {
            exchange(TokioIo::new(stream), request).await
        }
    }

    fn request(
        &self,
        action: &HTTPGetAction,
        agent: &str,
    ) -> Result<Request<Empty<Bytes>>, String> {
        let mut request =
            Request::get(self.path.as_str()).body(Empty::new()).map_err(|e| e.to_string())?;
        let headers = request.headers_mut();
        for header in action.http_headers.iter().flatten() {
            let name = HeaderName::try_from(&header.name)
                .map_err(|e| format!("header {:?}: {e}", header.name))?;
            let value = HeaderValue::try_from(&header.value)
                .map_err(|e| format!("header {:?}: {e}", header.name))?;
            headers.append(name, value);
        }
        let mut default = |name: &'static str, value: &str| {
            if let (false, Ok(value)) = (headers.contains_key(name), HeaderValue::try_from(value)) {
                headers.insert(name, value);
            }
        };
        default("host", &self.authority());
        default("user-agent", agent);
        default("accept", "*/*");
        default("connection", "close");
        Ok(request)
    }
}

async fn exchange<T>(
    io: TokioIo<T>,
    request: Request<Empty<Bytes>>,
) -> Result<(u16, Option<String>, String), String>
where
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(io).await.map_err(|e| e.to_string())?;
    // The connection's task ends with the exchange.
    let driver = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(connection));
    let response = sender.send_request(request).await.map_err(|e| crate::network::chain(&e))?;
    let status = response.status().as_u16();
    let location = response
        .headers()
        .get(http::header::LOCATION)
        .and_then(|v| v.to_str().ok())
        .map(str::to_owned);
    let mut body = Vec::new();
    let mut stream = response.into_body();
    while let Some(Ok(frame)) = stream.frame().await {
        if let Some(data) = frame.data_ref() {
            body.extend_from_slice(&data[..data.len().min(MAX_BODY - body.len())]);
        }
        if body.len() >= MAX_BODY {
            break;
        }
    }
    drop(driver);
    Ok((status, location, String::from_utf8_lossy(&body).into_owned()))
}

fn tls() -> TlsConnector {
    TlsConnector::from(ironsail_identity::tls::to_anyone())
}

/// The type that boxed connection attempts have.
pub type Connecting<'a> = BoxFuture<'a, Result<tokio::net::TcpStream, String>>;
