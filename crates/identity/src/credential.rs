//! A key with the chain that says whose it is.

use std::fmt;
use std::sync::Arc;

use ironsail_names::SpiffeId;
use rustls::sign::CertifiedKey;

use crate::certificate::{self, Certificate};
use crate::key::{self, PrivateKey};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("reading the certificate chain")]
    Certificates(#[source] certificate::Error),
    #[error("reading the private key")]
    Key(#[source] key::Error),
    #[error("the chain is empty")]
    Empty,
    #[error("the private key does not belong to the certificate of {0}")]
    KeyMismatch(String),
    #[error("TLS cannot use the key")]
    Tls(#[source] rustls::Error),
}

/// What one side of TLS shows: a private key and its chain, leaf first, without the root. Cheap to clone.
#[derive(Clone)]
pub struct Credential {
    key: Arc<PrivateKey>,
    chain: Arc<[Certificate]>,
    certified: Arc<CertifiedKey>,
}

impl Credential {
    /// The first certificate must be for the key.
    pub fn new(key: Arc<PrivateKey>, chain: Vec<Certificate>) -> Result<Self, Error> {
        let leaf = chain.first().ok_or(Error::Empty)?;
        if leaf.public_key_der() != key.public_der() {
            return Err(Error::KeyMismatch(leaf.subject().to_owned()));
        }
        let signing = rustls::crypto::aws_lc_rs::sign::any_supported_type(&key.to_rustls())
            .map_err(Error::Tls)?;
        let certificates = chain.iter().map(|c| c.der().clone()).collect();
        let certified = Arc::new(CertifiedKey::new(certificates, signing));
        Ok(Self { key, chain: chain.into(), certified })
    }

    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, Error> {
        let chain = Certificate::read_pem(chain).map_err(Error::Certificates)?;
        let key = PrivateKey::from_pem(key).map_err(Error::Key)?;
        Self::new(Arc::new(key), chain)
    }

    pub fn leaf(&self) -> &Certificate {
        &self.chain[0]
    }

    pub fn chain(&self) -> &[Certificate] {
        &self.chain
    }

    pub fn chain_pem(&self) -> String {
        self.chain.iter().map(Certificate::to_pem).collect()
    }

    pub fn key(&self) -> &PrivateKey {
        &self.key
    }

    pub fn spiffe(&self) -> Result<SpiffeId, certificate::Error> {
        self.leaf().spiffe()
    }

    pub(crate) fn certified(&self) -> &Arc<CertifiedKey> {
        &self.certified
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").field("key", &self.key).field("chain", &self.chain).finish()
    }
}
