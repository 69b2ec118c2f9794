//! What a CA signs with, read from the files of a Secret or a mounted directory, and checked.
//!
//! Two forms are known: Istio's (`ca-cert.pem`, `ca-key.pem`, `root-cert.pem`, `cert-chain.pem`) and that
//! of Secrets of type kubernetes.io/tls (`tls.crt`, `tls.key`, `ca.crt`). Every fault names the file and
//! where it lies.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use ironsail_identity::{
    Certificate, CertificateError, ChainError, Issuer, KeyError, PrivateKey, RevocationError,
    RootBundle, check_crl, verify_chain,
};
use zeroize::Zeroizing;

/// Names and contents. The contents are wiped when dropped.
pub type Files = BTreeMap<String, Zeroizing<Vec<u8>>>;

pub(crate) const CA_CERT: &str = "ca-cert.pem";
pub(crate) const CA_KEY: &str = "ca-key.pem";
pub(crate) const ROOT_CERT: &str = "root-cert.pem";
pub(crate) const CERT_CHAIN: &str = "cert-chain.pem";
pub(crate) const TLS_CERT: &str = "tls.crt";
pub(crate) const TLS_KEY: &str = "tls.key";
pub(crate) const TLS_ROOT: &str = "ca.crt";
pub(crate) const CRL: &str = "ca-crl.pem";

/// Where files lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A Secret that this CA wrote itself, as the strongbox calls it, and its name.
    SelfSigned {
        described: String,
        name: String,
    },
    /// A Secret that somebody plugged in, as the strongbox calls it.
    Secret {
        described: String,
    },
    Directory(PathBuf),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SelfSigned { described, .. } | Self::Secret { described } => {
                f.write_str(described)
            }
            Self::Directory(path) => write!(f, "directory {}", path.display()),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{file} is missing in {origin}, which has {other}")]
    Missing { file: &'static str, other: &'static str, origin: String },
    #[error("{file} in {origin} is no list of certificates")]
    Certificates { file: &'static str, origin: String, source: CertificateError },
    #[error("{file} in {origin} is no private key")]
    Key { file: &'static str, origin: String, source: KeyError },
    #[error("{key} in {origin} is not the key of the certificate in {file}")]
    KeyMismatch { key: &'static str, file: &'static str, origin: String },
    #[error(
        "the certificate in {file} in {origin} is not that of an authority: it may not sign others"
    )]
    NotAuthority { file: &'static str, origin: String },
    #[error("the certificate in {file} in {origin} does not lead to a root in {roots}")]
    Chain { file: &'static str, roots: &'static str, origin: String, source: Box<ChainError> },
    #[error("{CRL} in {origin} is no list of revoked certificates")]
    Revoked { origin: String, source: RevocationError },
}

/// What a CA signs with.
#[derive(Debug)]
pub struct Signing {
    certificate: Certificate,
    key: PrivateKey,
    /// From the signing certificate up, without roots; empty when a root signs itself.
    intermediates: Vec<Certificate>,
    roots: RootBundle,
    /// The root that the signing certificate leads to.
    anchor: Certificate,
    /// PEM of intermediates and roots, in the order that answers give them.
    above: Vec<String>,
    /// Certificates that were taken back, as PEM; empty if there is no list.
    revoked: Arc<str>,
    origin: Origin,
}

/// Which file plays which part.
struct Form {
    certificate: &'static str,
    key: &'static str,
    roots: &'static str,
    chain: &'static str,
}

const ISTIO: Form = Form { certificate: CA_CERT, key: CA_KEY, roots: ROOT_CERT, chain: CERT_CHAIN };
const TLS: Form = Form { certificate: TLS_CERT, key: TLS_KEY, roots: TLS_ROOT, chain: TLS_CERT };

impl Signing {
    /// Reads and checks. None when there is no key material at all: `root-cert.pem` alone only adds
    /// roots to those of a self-signed CA.
    pub fn read(files: &Files, origin: &Origin, now: SystemTime) -> Result<Option<Self>, Error> {
        let has = |file: &str| files.get(file).is_some_and(|content| !content.is_empty());
        let form = if has(TLS_CERT) { TLS } else { ISTIO };
        if !has(form.certificate) && !has(form.key) {
            return Ok(None);
        }
        let need = |file, other| match files.get(file).filter(|content| !content.is_empty()) {
            Some(content) => Ok(content),
            None => Err(Error::Missing { file, other, origin: origin.to_string() }),
        };
        let read = |file: &'static str, content: &[u8]| {
            Certificate::read_pem(content).map_err(|source| Error::Certificates {
                file,
                origin: origin.to_string(),
                source,
            })
        };
        let mut own = read(form.certificate, need(form.certificate, form.key)?)?;
        let certificate = own.remove(0);
        let key = PrivateKey::from_pem(need(form.key, form.certificate)?)
            .map_err(|source| Error::Key { file: form.key, origin: origin.to_string(), source })?;
        if certificate.public_key_der() != key.public_der() {
            let (key, file) = (form.key, form.certificate);
            return Err(Error::KeyMismatch { key, file, origin: origin.to_string() });
        }
        if !certificate.is_authority() {
            return Err(Error::NotAuthority { file: form.certificate, origin: origin.to_string() });
        }
        let roots = match has(form.roots) {
            true => read(form.roots, need(form.roots, form.key)?)?,
            // A root that signs itself needs no other file; Istio's own Secret has none.
            false if certificate.is_self_issued() => vec![certificate.clone()],
            false => {
                let (file, other) = (form.roots, form.key);
                return Err(Error::Missing { file, other, origin: origin.to_string() });
            }
        };
        let mut others = own;
        if has(form.chain) {
            others.extend(read(form.chain, need(form.chain, form.key)?)?);
        }
        let source = verify_chain(&certificate, &others, &roots, now);
        let anchor = source.cloned().map_err(|source| Error::Chain {
            file: form.certificate,
            roots: if has(form.roots) { form.roots } else { form.certificate },
            origin: origin.to_string(),
            source: Box::new(source),
        })?;
        let mut signing =
            Self::new(certificate, key, &others, RootBundle::new(roots), &anchor, origin);
        signing.revoked = revoked(files, origin)?;
        Ok(Some(signing))
    }

    fn new(
        certificate: Certificate,
        key: PrivateKey,
        others: &[Certificate],
        roots: RootBundle,
        anchor: &Certificate,
        origin: &Origin,
    ) -> Self {
        let mut intermediates: Vec<Certificate> = Vec::new();
        for candidate in std::iter::once(&certificate).chain(others) {
            let known = intermediates.contains(candidate);
            if !known && !roots.certificates().contains(candidate) && !candidate.is_self_issued() {
                intermediates.push(candidate.clone());
            }
        }
        // Clients take the last one for the root of the chain.
        let other_roots = roots.certificates().iter().filter(|root| *root != anchor);
        let above = intermediates.iter().chain(other_roots).chain([anchor]);
        let above = above.map(Certificate::to_pem).collect();
        let (anchor, revoked, origin) = (anchor.clone(), "".into(), origin.clone());
        Self { certificate, key, intermediates, roots, anchor, above, revoked, origin }
    }

    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    pub(crate) fn key(&self) -> &PrivateKey {
        &self.key
    }

    pub(crate) fn issuer(&self) -> Issuer<'_> {
        Issuer {
            name: self.certificate.subject_der(),
            key: &self.key,
            key_id: self.certificate.key_id(),
        }
    }

    /// From the signing certificate up, without roots.
    pub fn intermediates(&self) -> &[Certificate] {
        &self.intermediates
    }

    pub fn roots(&self) -> &RootBundle {
        &self.roots
    }

    /// The root that leaves lead to.
    pub fn anchor(&self) -> &Certificate {
        &self.anchor
    }

    /// PEM of the list of certificates that were taken back; empty if there is none.
    pub fn revoked(&self) -> &Arc<str> {
        &self.revoked
    }

    /// PEM of everything above a leaf.
    pub(crate) fn above(&self) -> &[String] {
        &self.above
    }

    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The same, trusting `more` roots too.
    pub(crate) fn with_roots(self, more: Option<&RootBundle>) -> Self {
        let Some(more) = more else { return self };
        let Self { certificate, key, intermediates, roots, anchor, origin, revoked, .. } = self;
        let with = Self::new(certificate, key, &intermediates, roots.and(more), &anchor, &origin);
        Self { revoked, ..with }
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.certificate == other.certificate
            && self.above == other.above
            && self.roots == other.roots
            && self.revoked == other.revoked
    }
}

fn revoked(files: &Files, origin: &Origin) -> Result<Arc<str>, Error> {
    let Some(text) = files.get(CRL).filter(|text| !text.iter().all(u8::is_ascii_whitespace)) else {
        return Ok("".into());
    };
    check_crl(text).map_err(|source| Error::Revoked { origin: origin.to_string(), source })?;
    Ok(String::from_utf8_lossy(text).into())
}

#[cfg(test)]
pub(crate) mod tests;
