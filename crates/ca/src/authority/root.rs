//! Self-signed roots: made, renewed, and laid out as Istio lays them out.

use std::time::{Duration, SystemTime};

use ironsail_identity::{
    Certificate, CertificateError, IssueError, Issuer, KeyError, KeyKind, PrivateKey, Profile,
    Template, organization, serial,
};
use zeroize::Zeroizing;

use super::GENERATED;
use crate::material::{CA_CERT, CA_KEY, CERT_CHAIN, Files, ROOT_CERT};
use crate::strongbox::files;

/// Clocks of others may be this far behind ours.
const SKEW: Duration = Duration::from_secs(120);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("making its key")]
    Key(#[source] KeyError),
    #[error("signing it")]
    Sign(#[source] IssueError),
    #[error("reading the root just made")]
    Read(#[source] CertificateError),
}

/// A root that was just made.
pub(super) struct Root {
    certificate: String,
    key: Zeroizing<String>,
}

/// Makes a key and a root of `name`.
pub(super) fn make(
    name: &str,
    kind: KeyKind,
    ttl: Duration,
    now: SystemTime,
) -> Result<Root, Error> {
    let key = PrivateKey::generate(kind).map_err(Error::Key)?;
    let certificate = sign(&key, &organization(name), ttl, now)?;
    Ok(Root { certificate, key: key.to_pem() })
}

/// A self-signed root in the files that `istio-ca-secret` has.
pub fn new_root(
    organization: &str,
    kind: KeyKind,
    ttl: Duration,
    now: SystemTime,
) -> Result<Files, Error> {
    Ok(make(organization, kind, ttl, now)?.files(false))
}

impl Root {
    /// In the places where Istio keeps it; the files that are empty there are empty here.
    pub(super) fn files(&self, in_cacerts: bool) -> Files {
        let (certificate, key) = (self.certificate.as_str(), self.key.as_str());
        match in_cacerts {
            false => files([
                (CA_CERT, certificate),
                (CA_KEY, key),
                (CERT_CHAIN, ""),
                ("key.pem", ""),
                (ROOT_CERT, ""),
            ]),
            true => files([
                (CA_CERT, certificate),
                (CA_KEY, key),
                (CERT_CHAIN, certificate),
                (ROOT_CERT, certificate),
                (GENERATED, ""),
            ]),
        }
    }
}

/// Whether `certificate` is the one that signs in these files.
pub(super) fn is_of(files: &Files, certificate: &Certificate) -> bool {
    let kept = files.get(CA_CERT).and_then(|pem| Certificate::read_pem(pem).ok());
    kept.is_some_and(|kept| kept.first() == Some(certificate))
}

/// `old` with a certificate that lives longer, for the same name and key.
pub(super) fn renew(
    key: &PrivateKey,
    certificate: &Certificate,
    old: &Files,
    ttl: Duration,
    now: SystemTime,
) -> Result<Files, Error> {
    let renewed = sign(key, certificate.subject_der(), ttl, now)?;
    let mut new = old.clone();
    for file in [CA_CERT, CERT_CHAIN, ROOT_CERT] {
        if let Some(content) = new.get_mut(file).filter(|content| !content.is_empty()) {
            // Roots of others that are trusted beside it stay.
            let others = Certificate::read_pem(content).unwrap_or_default();
            let others = others.iter().filter(|other| *other != certificate);
            let text = others.fold(renewed.clone(), |text, other| text + &other.to_pem());
            *content = Zeroizing::new(text.into_bytes());
        }
    }
    Ok(new)
}

fn sign(key: &PrivateKey, name: &[u8], ttl: Duration, now: SystemTime) -> Result<String, Error> {
    let template = Template {
        serial: serial().map_err(Error::Sign)?,
        subject: name,
        public_key: key.public_der(),
        sans: &[],
        not_before: now - SKEW,
        not_after: now + ttl,
        profile: Profile::Authority { path: None },
    };
    let der = template.sign(&Issuer { name, key, key_id: None }).map_err(Error::Sign)?;
    Ok(Certificate::from_der(&der).map_err(Error::Read)?.to_pem())
}
