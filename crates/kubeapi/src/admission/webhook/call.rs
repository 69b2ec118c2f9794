//! One POST to a webhook: to a Service through podlet's own network, or to a URL from the host's.
//!
//! A connection is made for each call: a webhook's pod can vanish with its network, and a kept
//! connection to it would hang instead of failing.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

use super::hook::{Address, Hook};
use super::review::Failure;
use super::tls;
use crate::admission::{Dial, Stream};
use crate::auth::Objects;

/// As large as a request to the API may be.
const MAX_ANSWER: usize = 3 << 20;

pub(super) struct Caller {
    objects: Arc<dyn Objects>,
    dial: Arc<dyn Dial>,
}

/// Where a webhook is.
struct Place {
    /// The name in the certificate.
    host: String,
    /// As shown in errors and sent as `Host`.
    authority: String,
    path: String,
    via: Via,
}

enum Via {
    /// An address that exists only in podlet's namespaces.
    Cluster(SocketAddr),
    Host(u16),
}

impl Caller {
    pub(super) fn new(objects: Arc<dyn Objects>, dial: Arc<dyn Dial>) -> Self {
        Self { objects, dial }
    }

    /// The body of the answer.
    pub(super) async fn post(&self, hook: &Hook, body: &[u8]) -> Result<Bytes, Failure> {
        if !hook.speaks_v1 {
            let text = "webhook does not accept known AdmissionReview versions (v1)";
            return Err(Failure::Call(text.to_owned()));
        }
        let url = shown_url(hook);
        let wrap =
            |why: String| Failure::Call(format!("failed to call webhook: Post {url:?}: {why}"));
        let exchange = async {
            let place = self.place(hook).map_err(wrap)?;
            let stream = self.connect(&place).await.map_err(wrap)?;
            let config = hook.tls().map_err(|e| wrap(e.to_string()))?;
            let name = ServerName::try_from(place.host.clone())
                .map_err(|_| wrap(format!("{:?} is not a host name", place.host)))?;
            let stream = TlsConnector::from(config)
                .connect(name, stream)
                .await
                .map_err(|e| wrap(tls::explain(&e, &place.host)))?;
            let answer = send(stream, &place, body.to_vec()).await.map_err(wrap)?;
            if answer.status() != http::StatusCode::OK {
                let text = format!("failed to call webhook: {}", status_text(answer.status()));
                return Err(Failure::Call(text));
            }
            let body = Limited::new(answer.into_body(), MAX_ANSWER);
            let body = body.collect().await.map_err(|e| wrap(e.to_string()))?;
            Ok(body.to_bytes())
        };
        tokio::time::timeout(hook.timeout, exchange)
            .await
            .unwrap_or_else(|_| Err(wrap("context deadline exceeded".to_owned())))
    }

    fn place(&self, hook: &Hook) -> Result<Place, String> {
        let timeout = format!("timeout={}s", hook.timeout.as_secs());
        match &hook.address {
            Address::Service { namespace, name, path, port } => {
                let host = format!("{name}.{namespace}.svc");
                let slash = if path.starts_with('/') { "" } else { "/" };
                Ok(Place {
                    authority: format!("{host}:{port}"),
                    path: format!("{slash}{path}?{timeout}"),
                    via: Via::Cluster(self.service(namespace, name, *port)?),
                    host,
                })
            }
            Address::Url(url) => place_of_url(url, &timeout),
        }
    }

    fn service(&self, namespace: &str, name: &str, port: u16) -> Result<SocketAddr, String> {
        let service = self
            .objects
            .get("", "services", Some(namespace), name)
            .ok_or_else(|| format!("service {name:?} not found"))?;
        let spec = &service["spec"];
        let mut ports = spec["ports"].as_array().into_iter().flatten();
        if !ports.any(|p| p["port"] == port) {
            return Err(format!("no service port {port} found for service {name:?}"));
        }
        let address = spec["clusterIP"].as_str().and_then(|ip| ip.parse::<IpAddr>().ok());
        let address = address.ok_or_else(|| format!("service {name:?} has no cluster IP"))?;
        Ok(SocketAddr::new(address, port))
    }

    async fn connect(&self, place: &Place) -> Result<Box<dyn Stream>, String> {
        let address = match &place.via {
            Via::Cluster(address) => {
                let stream = self.dial.connect(*address).await;
                return stream.map_err(|e| dial_text(*address, &e));
            }
            Via::Host(port) => tokio::net::lookup_host((place.host.as_str(), *port))
                .await
                .map_err(|e| format!("dial tcp: lookup {}: {e}", place.host))?,
        };
        let mut last = format!("dial tcp: lookup {}: no such host", place.host);
        for address in address {
            match tokio::net::TcpStream::connect(address).await {
                Ok(stream) => return Ok(Box::new(stream)),
                Err(error) => last = dial_text(address, &error),
            }
        }
        Err(last)
    }
}

fn place_of_url(url: &str, timeout: &str) -> Result<Place, String> {
    let uri: http::Uri = url.parse().map_err(|e| format!("{url:?} is not a URL: {e}"))?;
    let host = uri.host().filter(|_| uri.scheme_str() == Some("https"));
    let host = host.ok_or_else(|| format!("{url:?} is not an https URL"))?;
    let path = if uri.path().is_empty() { "/" } else { uri.path() };
    let query = uri.query().map_or_else(|| timeout.to_owned(), |q| format!("{q}&{timeout}"));
    Ok(Place {
        authority: uri.authority().map_or_else(String::new, ToString::to_string),
        path: format!("{path}?{query}"),
        via: Via::Host(uri.port_u16().unwrap_or(443)),
        host: host.trim_matches(['[', ']']).to_owned(),
    })
}

async fn send(
    stream: tokio_rustls::client::TlsStream<Box<dyn Stream>>,
    place: &Place,
    body: Vec<u8>,
) -> Result<http::Response<hyper::body::Incoming>, String> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|e| e.to_string())?;
    let request = http::Request::post(&place.path)
        .header(HOST, &place.authority)
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json")
        .header(USER_AGENT, "kube-apiserver-admission")
        .body(Full::new(Bytes::from(body)))
        .map_err(|e| e.to_string())?;
    // The connection ends with the answer's body, or when the caller gives up and drops it.
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "the connection to a webhook ended");
        }
    });
    sender.send_request(request).await.map_err(|e| e.to_string())
}

fn shown_url(hook: &Hook) -> String {
    let seconds = hook.timeout.as_secs();
    match &hook.address {
        Address::Service { namespace, name, path, port } => {
            let slash = if path.starts_with('/') || path.is_empty() { "" } else { "/" };
            format!("https://{name}.{namespace}.svc:{port}{slash}{path}?timeout={seconds}s")
        }
        Address::Url(url) => {
            let mark = if url.contains('?') { '&' } else { '?' };
            format!("{url}{mark}timeout={seconds}s")
        }
    }
}

fn dial_text(address: SocketAddr, error: &std::io::Error) -> String {
    let why = match error.kind() {
        std::io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        std::io::ErrorKind::TimedOut => "connection timed out".to_owned(),
        std::io::ErrorKind::HostUnreachable => "no route to host".to_owned(),
        std::io::ErrorKind::NetworkUnreachable => "network is unreachable".to_owned(),
        _ => error.to_string(),
    };
    format!("dial tcp {address}: connect: {why}")
}

fn status_text(status: http::StatusCode) -> String {
    match status.as_u16() {
        404 => "the server could not find the requested resource".to_owned(),
        500 => "an error on the server has prevented the request from succeeding".to_owned(),
        code => format!(
            "the server responded with the status code {code} but did not return more information"
        ),
    }
}
