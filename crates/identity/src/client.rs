//! The client of the CA: asks for a certificate over gRPC, as Istio's agents and node proxies do.
//!
//! In: a key kind and a name; out: a credential that was checked against the key and the roots that are
//! trusted. The private key stays here; only the request for the public one is sent.

mod channel;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ironsail_names::SpiffeId;
use ironsail_proto::google::protobuf::{Struct, Value, value};
use ironsail_proto::istio::v1::auth::istio_certificate_service_client::IstioCertificateServiceClient;
use ironsail_proto::istio::v1::auth::{IstioCertificateRequest, IstioCertificateResponse};
use ironsail_sys::clock::Clock;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tracing::debug;
use zeroize::Zeroizing;

use crate::certificate::{self, Certificate, ChainError, verify_chain};
use crate::credential::{self, Credential};
use crate::key::{self, KeyKind, PrivateKey};
use crate::request::{self, CertificateRequest};
use crate::rotation::backoff;
use crate::san::San;
use crate::tls::{self, Shown, Trusted};
use crate::trust::RootBundle;

/// Longest answer: a chain and a bundle of roots.
const MAX_RESPONSE: usize = 4 << 20;
/// The name of the caller's cluster, for a CA that serves several.
const CLUSTER_HEADER: &str = "clusterid";
/// The field of a request's metadata that names the workload a node proxy asks for.
pub const IMPERSONATED: &str = "ImpersonatedIdentity";
/// The field that names who is to sign, where the CA has others sign.
pub const CERT_SIGNER: &str = "CertSigner";

/// Where the CA is and how to speak to it.
#[derive(Clone, Debug)]
pub struct Config {
    /// `HOST:PORT`.
    pub address: String,
    pub security: Security,
    pub token: Token,
    /// The caller's cluster; empty if there is one only.
    pub cluster: String,
    /// Who is to sign, where the CA has others sign; empty if that is all the same.
    pub signer: String,
    /// One attempt may take this long.
    pub timeout: Duration,
    pub attempts: u32,
    /// Between the first and the second attempt; it doubles from then on.
    pub backoff: Duration,
}

impl Config {
    pub fn new(address: impl Into<String>, security: Security, token: Token) -> Self {
        Self {
            address: address.into(),
            security,
            token,
            cluster: String::new(),
            signer: String::new(),
            timeout: Duration::from_secs(10),
            attempts: 5,
            backoff: Duration::from_millis(100),
        }
    }
}

/// How the connection is protected.
#[derive(Clone, Debug)]
pub enum Security {
    /// The CA must show a certificate of the trusted roots for `server_name` (the host of the address if
    /// None); this side shows what it has.
    Tls { server_name: Option<String>, trusted: Trusted, shown: Shown },
    /// For tests and loopback. Answers are not held against any roots.
    Plaintext,
}

/// The service-account token that proves who asks.
#[derive(Clone)]
pub enum Token {
    /// Read again for every attempt: the kubelet renews it.
    File(PathBuf),
    Fixed(Zeroizing<String>),
    /// The certificate that this side shows is the proof.
    None,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Fixed(_) => f.write_str("Fixed"),
            Self::None => f.write_str("None"),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0:?} is not the address of a CA")]
    Address(String),
    #[error("setting up the connection to the CA at {address}")]
    Connect { address: String, source: tls::Error },
    #[error("making a key")]
    Key(#[source] key::Error),
    #[error("making a certificate request")]
    Request(#[source] request::Error),
    #[error("reading the token {path}", path = .path.display())]
    ReadToken { path: PathBuf, source: std::io::Error },
    #[error("the token holds characters that no header may hold")]
    Token,
    #[error("the CA at {address} refused after {attempts} attempts: {status}")]
    Refused { address: String, attempts: u32, status: Box<Status> },
    #[error("the CA at {address} sent certificates that cannot be read")]
    Unreadable { address: String, source: certificate::Error },
    #[error("the CA at {address} sent no certificate with its chain")]
    Short { address: String },
    #[error("the CA at {address} sent a certificate that does not fit the request")]
    Mismatch { address: String, source: credential::Error },
    #[error("the CA at {address} sent a certificate for {found}, not for {wanted}")]
    WrongIdentity { address: String, found: String, wanted: String },
    #[error("the CA at {address} sent a chain that does not lead to a trusted root")]
    Untrusted { address: String, source: ChainError },
}

impl Error {
    /// Whether the same may work later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Refused { status, .. } => is_retryable(status.code()),
            Self::ReadToken { .. } => true,
            _ => false,
        }
    }
}

/// What came of asking: the credential and the roots that the CA named.
#[derive(Clone, Debug)]
pub struct Obtained {
    pub credential: Credential,
    pub roots: RootBundle,
}

/// Asks one CA. Cheap to clone; the connection is made when first needed, and again when it is lost.
#[derive(Clone, Debug)]
pub struct CaClient {
    config: Arc<Config>,
    channel: Channel,
    clock: Clock,
}

/// A channel to `config`'s address, for whoever else speaks to the same server. It connects when it is
/// used, and again after it was lost.
pub fn channel(config: &Config) -> Result<Channel, Error> {
    channel::open(config)
}

impl CaClient {
    pub fn new(config: Config, clock: Clock) -> Result<Self, Error> {
        let channel = channel::open(&config)?;
        Ok(Self { config: Arc::new(config), channel, clock })
    }

    /// Makes a key and has the CA certify it for `identity`. `impersonate` is for node proxies, which ask
    /// in the name of a workload of their node.
    pub async fn obtain(
        &self,
        kind: KeyKind,
        identity: &SpiffeId,
        lifetime: Duration,
        impersonate: bool,
    ) -> Result<Obtained, Error> {
        let key = PrivateKey::generate(kind).map_err(Error::Key)?;
        let names = [San::Uri(identity.to_string())];
        let csr = CertificateRequest::make(&key, &names).map_err(Error::Request)?;
        let chain = self.sign(&csr, lifetime, impersonate.then_some(identity)).await?;
        self.check(key, chain, identity)
    }

    /// Sends a request in PEM; gives back the answer, leaf first and root last.
    pub async fn sign(
        &self,
        csr: &str,
        lifetime: Duration,
        impersonate: Option<&SpiffeId>,
    ) -> Result<Vec<Certificate>, Error> {
        let mut failures = 0;
        let response = loop {
            match self.attempt(csr, lifetime, impersonate).await? {
                Ok(response) => break response,
                Err(status) => {
                    failures += 1;
                    if failures >= self.config.attempts || !is_retryable(status.code()) {
                        let address = self.config.address.clone();
                        let status = Box::new(status);
                        return Err(Error::Refused { address, attempts: failures, status });
                    }
                    debug!(%status, failures, "the CA did not answer; trying again");
                    let most = Duration::from_secs(10);
                    tokio::time::sleep(backoff(failures - 1, self.config.backoff, most)).await;
                }
            }
        };
        let mut chain = Vec::new();
        for text in &response.cert_chain {
            let read = Certificate::read_pem(text.as_bytes());
            chain.extend(
                read.map_err(|source| Error::Unreadable { address: self.address(), source })?,
            );
        }
        Ok(chain)
    }

    async fn attempt(
        &self,
        csr: &str,
        lifetime: Duration,
        impersonate: Option<&SpiffeId>,
    ) -> Result<Result<IstioCertificateResponse, Status>, Error> {
        let signer = Some(&self.config.signer).filter(|signer| !signer.is_empty());
        let named =
            [(IMPERSONATED, impersonate.map(ToString::to_string)), (CERT_SIGNER, signer.cloned())];
        let fields = named.into_iter().filter_map(|(name, text)| {
            Some((name.to_owned(), Value { kind: Some(value::Kind::StringValue(text?)) }))
        });
        let metadata =
            Some(Struct { fields: fields.collect() }).filter(|all| !all.fields.is_empty());
        let mut request = Request::new(IstioCertificateRequest {
            csr: csr.to_owned(),
            validity_duration: i64::try_from(lifetime.as_secs()).unwrap_or(i64::MAX),
            metadata,
        });
        if let Some(token) = self.token()? {
            request.metadata_mut().insert("authorization", token);
        }
        if let Ok(cluster) = self.config.cluster.parse::<MetadataValue<Ascii>>()
            && !self.config.cluster.is_empty()
        {
            request.metadata_mut().insert(CLUSTER_HEADER, cluster);
        }
        request.set_timeout(self.config.timeout);
        let mut client = IstioCertificateServiceClient::new(self.channel.clone())
            .max_decoding_message_size(MAX_RESPONSE);
        let answered =
            tokio::time::timeout(self.config.timeout, client.create_certificate(request)).await;
        Ok(match answered {
            Ok(answer) => answer.map(tonic::Response::into_inner),
            Err(_) => Err(Status::deadline_exceeded("the CA took too long")),
        })
    }

    fn token(&self) -> Result<Option<MetadataValue<Ascii>>, Error> {
        let token = match &self.config.token {
            Token::None => return Ok(None),
            Token::Fixed(token) => token.clone(),
            Token::File(path) => {
                let read = std::fs::read_to_string(path);
                let failed = |source| Error::ReadToken { path: path.clone(), source };
                Zeroizing::new(read.map_err(failed)?)
            }
        };
        let header = Zeroizing::new(format!("Bearer {}", token.trim()));
        let mut header = MetadataValue::try_from(header.as_str()).map_err(|_| Error::Token)?;
        header.set_sensitive(true);
        Ok(Some(header))
    }

    /// Splits an answer into chain and roots, and holds it against key, name and trusted roots.
    fn check(
        &self,
        key: PrivateKey,
        mut chain: Vec<Certificate>,
        identity: &SpiffeId,
    ) -> Result<Obtained, Error> {
        // Everything from the first certificate that signed itself on is a root.
        let first_root = chain.iter().position(Certificate::is_self_issued).unwrap_or(chain.len());
        let roots = match chain.split_off(first_root) {
            // A plugged-in root may itself have been issued by another: then it is the last one.
            roots if roots.is_empty() && chain.len() > 1 => chain.split_off(chain.len() - 1),
            roots => roots,
        };
        if chain.is_empty() || roots.is_empty() {
            return Err(Error::Short { address: self.address() });
        }
        let credential = Credential::new(Arc::new(key), chain)
            .map_err(|source| Error::Mismatch { address: self.address(), source })?;
        let found = credential.spiffe();
        if found.as_ref() != Ok(identity) {
            let found =
                found.map_or_else(|_| credential.leaf().subject().to_owned(), |id| id.to_string());
            return Err(Error::WrongIdentity {
                address: self.address(),
                found,
                wanted: identity.to_string(),
            });
        }
        let roots = RootBundle::new(roots);
        let trusted = match &self.config.security {
            Security::Tls { trusted, .. } => trusted.current(),
            Security::Plaintext => None,
        };
        let anchors = trusted.as_ref().map_or(&roots, |bundles| &bundles.own);
        let chain = credential.chain();
        verify_chain(&chain[0], &chain[1..], anchors.certificates(), self.clock.now())
            .map_err(|source| Error::Untrusted { address: self.address(), source })?;
        Ok(Obtained { credential, roots })
    }

    fn address(&self) -> String {
        self.config.address.clone()
    }
}

/// Codes that say "not now" instead of "no", the ones that Istio's client retries.
fn is_retryable(code: Code) -> bool {
    matches!(
        code,
        Code::Unavailable
            | Code::DeadlineExceeded
            | Code::ResourceExhausted
            | Code::Aborted
            | Code::Cancelled
            | Code::Internal
            | Code::Unknown
    )
}
