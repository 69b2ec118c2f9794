//! One document by HTTP: at most so long, so large, and by so many redirects; never from HTTPS to
//! plain HTTP.

use std::time::Duration;

use bytes::Bytes;
use http::uri::Scheme;
use http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use ironsail_model::KeySource;

use crate::set::{self, Fault};
use crate::trust::Trust;

/// The most that a document may have.
const LARGEST: usize = 1 << 20;
const MOST_REDIRECTS: usize = 3;
const DISCOVERY: &str = "/.well-known/openid-configuration";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{uri} is no address of HTTP")]
    Uri { uri: String },
    #[error("asking {uri}")]
    Ask { uri: String, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("{uri} did not answer within {after:?}")]
    Late { uri: String, after: Duration },
    #[error("{uri} answered {status}")]
    Status { uri: String, status: StatusCode },
    #[error("{uri} answered with more than {LARGEST} bytes")]
    Large { uri: String },
    #[error("{uri} redirects too often, or to where we do not follow")]
    Redirect { uri: String },
    #[error("reading what {uri} answered")]
    Read { uri: String, source: Fault },
}

impl Error {
    /// The whole chain in one line.
    pub fn line(&self) -> String {
        let mut line = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(error) = source {
            line = format!("{line}: {error}");
            source = error.source();
        }
        line
    }
}

/// Fetches documents.
#[derive(Clone, Debug)]
pub struct Fetcher {
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
}

impl Fetcher {
    pub fn new(trust: &Trust) -> Self {
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let tls = rustls::ClientConfig::builder_with_provider(provider.into())
            .with_safe_default_protocol_versions()
            .expect("the provider has the protocol versions that it is asked for")
            .with_root_certificates(trust.roots())
            .with_no_client_auth();
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(http);
        // Keys are asked for a few times an hour: no connection is worth keeping.
        let client =
            Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector);
        Self { client }
    }

    /// The key set of a source, as JSON.
    pub async fn keys(&self, source: &KeySource, within: Duration) -> Result<String, Error> {
        let uri = match source {
            KeySource::Uri(uri) => uri.to_string(),
            KeySource::Issuer(issuer) => {
                let document = format!("{}{DISCOVERY}", issuer.trim_end_matches('/'));
                let body = self.get(&document, within).await?;
                set::jwks_uri(&body).map_err(|source| Error::Read { uri: document, source })?
            }
        };
        let body = self.get(&uri, within).await?;
        set::key_set(&body).map_err(|source| Error::Read { uri, source })
    }

    /// What lies at `uri`, whatever it is.
    pub async fn get(&self, uri: &str, within: Duration) -> Result<Bytes, Error> {
        let late = || Error::Late { uri: uri.to_owned(), after: within };
        tokio::time::timeout(within, self.follow(uri)).await.map_err(|_| late())?
    }

    async fn follow(&self, uri: &str) -> Result<Bytes, Error> {
        let mut at: Uri = parse(uri)?;
        for _ in 0..=MOST_REDIRECTS {
            let shown = at.to_string();
            let ask = |source: Box<dyn std::error::Error + Send + Sync>| Error::Ask {
                uri: shown.clone(),
                source,
            };
            let request = Request::get(at.clone())
                .header(header::ACCEPT, "application/json")
                .header(header::USER_AGENT, "pilot-discovery")
                .body(Empty::new())
                .map_err(|error| ask(error.into()))?;
            let response = self.client.request(request).await.map_err(|e| ask(e.into()))?;
            let status = response.status();
            if status.is_redirection() {
                let to = response.headers().get(header::LOCATION).and_then(|to| to.to_str().ok());
                at = to.and_then(|to| next(&at, to)).ok_or(Error::Redirect { uri: shown })?;
                continue;
            }
            if !status.is_success() {
                return Err(Error::Status { uri: shown, status });
            }
            let body = Limited::new(response.into_body(), LARGEST).collect().await;
            return match body {
                Ok(body) => Ok(body.to_bytes()),
                Err(error) if error.is::<LengthLimitError>() => Err(Error::Large { uri: shown }),
                Err(error) => Err(ask(error)),
            };
        }
        Err(Error::Redirect { uri: uri.to_owned() })
    }
}

fn parse(uri: &str) -> Result<Uri, Error> {
    let bad = || Error::Uri { uri: uri.chars().take(200).collect() };
    let parsed: Uri = uri.parse().map_err(|_| bad())?;
    let http = [Some(&Scheme::HTTP), Some(&Scheme::HTTPS)].contains(&parsed.scheme());
    if http && parsed.host().is_some() { Ok(parsed) } else { Err(bad()) }
}

/// Where a redirect leads, if we go there.
fn next(at: &Uri, to: &str) -> Option<Uri> {
    let to: Uri = match to.starts_with('/') && !to.starts_with("//") {
        true => format!("{}://{}{to}", at.scheme()?, at.authority()?).parse().ok()?,
        false => to.parse().ok()?,
    };
    parse(&to.to_string()).ok()?;
    let weaker = at.scheme() == Some(&Scheme::HTTPS) && to.scheme() != Some(&Scheme::HTTPS);
    (!weaker).then_some(to)
}

#[cfg(test)]
mod tests;
