//! Bytes over HTTP and HTTPS, within bounds.
//!
//! In: an address; out: a module whose checksum is right. Redirects are followed, a failure that may
//! pass is tried again a few times.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, LOCATION, WWW_AUTHENTICATE};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use sha2::{Digest, Sha256};
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::{Wanted, oci, unpack};

/// Largest module or layer.
const MAX_MODULE: usize = 256 << 20;
const MAX_REDIRECTS: usize = 5;
const TRIES: u32 = 4;
/// Where systems keep the roots that they trust.
const BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
];
const MAGIC: &[u8] = b"\0asm";

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{0:?} is no address")]
    Address(String),
    #[error("nothing came from {0} in time")]
    Slow(String),
    #[error("{uri} answered {status}")]
    Status { uri: String, status: StatusCode },
    #[error("asking {uri}")]
    Ask {
        uri: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("its sha256 is {found}, not {wanted}")]
    Checksum { wanted: String, found: String },
    #[error("what came is no WebAssembly module")]
    NotAModule,
    #[error("the image: {0}")]
    Image(String),
    #[error("writing {}", file.display())]
    Disk {
        file: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

impl Error {
    fn may_pass(&self) -> bool {
        match self {
            Self::Ask { .. } => true,
            Self::Status { status, .. } => {
                status.is_server_error() || *status == StatusCode::TOO_MANY_REQUESTS
            }
            _ => false,
        }
    }
}

type Asker = Client<HttpsConnector<HttpConnector>, Empty<Bytes>>;

/// Asks servers and registries.
pub(crate) struct Fetcher {
    /// Made when it is first needed: most proxies have no modules.
    client: OnceLock<Asker>,
    bundle: Option<String>,
    /// Registries that are spoken to without TLS, `*` for all.
    pub(super) insecure: Vec<String>,
}

impl Fetcher {
    /// `insecure` as `WASM_INSECURE_REGISTRIES` has it: hosts with commas between.
    pub(crate) fn new(bundle: Option<String>, insecure: &str) -> Self {
        let insecure = insecure.split(',').map(str::trim).filter(|host| !host.is_empty());
        let insecure = insecure.map(str::to_owned).collect();
        Self { client: OnceLock::new(), bundle, insecure }
    }

    fn client(&self) -> &Asker {
        self.client.get_or_init(|| self.make())
    }

    fn make(&self) -> Asker {
        let mut roots = RootCertStore::empty();
        let bundles = self.bundle.as_deref().into_iter().chain(BUNDLES);
        if let Some(file) = bundles.into_iter().find(|file| std::path::Path::new(file).exists()) {
            let found = CertificateDer::pem_file_iter(file).into_iter().flatten();
            roots.add_parsable_certificates(found.flatten());
        }
        let tls = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has the versions that are safe")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .build();
        Client::builder(TokioExecutor::new()).build(connector)
    }

    /// The module, checked.
    pub(super) async fn fetch(&self, wanted: &Wanted) -> Result<Bytes, Error> {
        let mut pause = Duration::from_millis(200);
        let mut tries = 1;
        loop {
            match self.once(wanted).await {
                Err(error) if error.may_pass() && tries < TRIES => {
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                    tries += 1;
                }
                done => return done,
            }
        }
    }

    async fn once(&self, wanted: &Wanted) -> Result<Bytes, Error> {
        let module = match wanted.url.strip_prefix("oci://") {
            // The checksum is that of the image, which is checked there.
            Some(image) => oci::fetch(self, image, wanted).await?,
            None => {
                let body = self.get(&wanted.url, None, "").await?;
                check(&body, &wanted.sha256)?;
                unpack::module(body)?
            }
        };
        match module.starts_with(MAGIC) {
            true => Ok(module),
            false => Err(Error::NotAModule),
        }
    }

    /// The body behind an address. `proof` is what `authorization` says, to the first host only.
    pub(super) async fn get(
        &self,
        url: &str,
        proof: Option<&str>,
        accept: &str,
    ) -> Result<Bytes, Error> {
        let response = self.ask(url, proof, accept).await?;
        let status = response.status();
        if !status.is_success() {
            return Err(Error::Status { uri: url.to_owned(), status });
        }
        body(url, response).await
    }

    /// The answer, behind redirects.
    pub(super) async fn ask(
        &self,
        url: &str,
        proof: Option<&str>,
        accept: &str,
    ) -> Result<Response<hyper::body::Incoming>, Error> {
        let mut uri: Uri = url.parse().map_err(|_| Error::Address(url.to_owned()))?;
        let mut proof = proof;
        for _ in 0..=MAX_REDIRECTS {
            let mut request = Request::get(&uri).header("user-agent", "ironsail-pilot-agent");
            if !accept.is_empty() {
                request = request.header(ACCEPT, accept);
            }
            if let Some(proof) = proof {
                request = request.header(AUTHORIZATION, proof);
            }
            let request =
                request.body(Empty::new()).map_err(|_| Error::Address(uri.to_string()))?;
            let response = self
                .client()
                .request(request)
                .await
                .map_err(|source| Error::Ask { uri: uri.to_string(), source: source.into() })?;
            let next = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
            let Some(next) = next.filter(|_| response.status().is_redirection()) else {
                return Ok(response);
            };
            let next = absolute(&uri, next)?;
            if next.authority() != uri.authority() {
                proof = None;
            }
            uri = next;
        }
        Err(Error::Image(format!("{url} leads in circles")))
    }
}

pub(super) async fn body(
    url: &str,
    response: Response<hyper::body::Incoming>,
) -> Result<Bytes, Error> {
    let whole = Limited::new(response.into_body(), MAX_MODULE).collect().await;
    let whole = whole.map_err(|source| Error::Ask { uri: url.to_owned(), source })?;
    Ok(whole.to_bytes())
}

/// How a server wants to be asked.
pub(super) fn challenge(response: &Response<hyper::body::Incoming>) -> Option<String> {
    let header = response.headers().get(WWW_AUTHENTICATE)?;
    header.to_str().ok().map(str::to_owned)
}

fn absolute(from: &Uri, to: &str) -> Result<Uri, Error> {
    let bad = || Error::Address(to.to_owned());
    let uri: Uri = to.parse().map_err(|_| bad())?;
    if uri.scheme().is_some() {
        return Ok(uri);
    }
    let mut parts = from.clone().into_parts();
    parts.path_and_query = uri.path_and_query().cloned();
    Uri::from_parts(parts).map_err(|_| bad())
}

/// An empty checksum is always right.
pub(super) fn check(bytes: &[u8], wanted: &str) -> Result<(), Error> {
    let found = format!("{:x}", Sha256::digest(bytes));
    match wanted.is_empty() || found == wanted {
        true => Ok(()),
        false => Err(Error::Checksum { wanted: wanted.to_owned(), found }),
    }
}
