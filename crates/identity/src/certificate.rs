//! Certificates as others made them: read from PEM or DER, and checked against each other.
//!
//! In: untrusted bytes, bounded; out: what the mesh needs to know of a certificate. Chains of TLS peers
//! are checked by rustls (`tls`); `verify_chain` here is for the certificates of authorities, which
//! rustls does not take as the end of a chain.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ironsail_names::SpiffeId;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::san::San;
use crate::{pem, signature};

/// More PEM than any bundle of roots takes, and more certificates.
const MAX_PEM: usize = 2 << 20;
const MAX_CERTIFICATES: usize = 1_000;
/// A chain longer than this is no chain.
const MAX_DEPTH: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("there is no certificate in it")]
    Empty,
    #[error("it is longer than {MAX_PEM} bytes")]
    TooLong,
    #[error("it holds more than {MAX_CERTIFICATES} certificates")]
    TooMany,
    #[error("certificate {number} is not PEM: {what}")]
    Pem { number: usize, what: String },
    #[error("certificate {number} is not an X.509 certificate: {what}")]
    Der { number: usize, what: String },
    #[error("the certificate of {subject} has {found} URI names, not one")]
    Identities { subject: String, found: usize },
    #[error("the certificate's name is no identity")]
    Identity(#[source] ironsail_names::Error),
}

/// Why a chain does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    #[error("the certificate of {subject} expired at {at}")]
    Expired { subject: String, at: String },
    #[error("the certificate of {subject} is valid only from {at}")]
    NotYet { subject: String, at: String },
    #[error(
        "the certificate of {subject}, which should have issued that of {issued}, may not sign others"
    )]
    NotAuthority { subject: String, issued: String },
    #[error(
        "the certificate of {subject} says it was issued by {issuer}, whose certificate is not there"
    )]
    NoIssuer { subject: String, issuer: String },
    #[error("the certificate of {subject} was not signed with the key of {issuer}: {why}")]
    Signature { subject: String, issuer: String, why: signature::Error },
    #[error("the chain is longer than {MAX_DEPTH} certificates")]
    TooDeep,
}

/// One certificate. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Certificate(Arc<Facts>);

#[derive(PartialEq, Eq)]
struct Facts {
    der: CertificateDer<'static>,
    subject: Vec<u8>,
    subject_text: String,
    issuer: Vec<u8>,
    issuer_text: String,
    serial: Vec<u8>,
    not_before: SystemTime,
    not_after: SystemTime,
    sans: Vec<San>,
    public_key: Vec<u8>,
    key_id: Option<Vec<u8>>,
    /// Basic constraints say so, and the key usage does not deny it.
    authority: bool,
}

impl Certificate {
    /// Reads every certificate of a PEM text, in order; other blocks are passed over.
    pub fn read_pem(text: &[u8]) -> Result<Vec<Self>, Error> {
        if text.len() > MAX_PEM {
            return Err(Error::TooLong);
        }
        let mut found = Vec::new();
        for (at, block) in CertificateDer::pem_slice_iter(text).enumerate() {
            if found.len() == MAX_CERTIFICATES {
                return Err(Error::TooMany);
            }
            let number = at + 1;
            let der = block.map_err(|error| Error::Pem { number, what: error.to_string() })?;
            found.push(Self::parse(&der, number)?);
        }
        match found.is_empty() {
            true => Err(Error::Empty),
            false => Ok(found),
        }
    }

    pub fn from_der(der: &[u8]) -> Result<Self, Error> {
        Self::parse(der, 1)
    }

    fn parse(der: &[u8], number: usize) -> Result<Self, Error> {
        let bad = |what: String| Error::Der { number, what };
        let (rest, parsed) =
            X509Certificate::from_der(der).map_err(|error| bad(error.to_string()))?;
        if !rest.is_empty() {
            return Err(bad("something follows it".to_owned()));
        }
        let mut sans = Vec::new();
        let mut key_id = None;
        let (mut authority, mut signs) = (false, true);
        for extension in parsed.extensions() {
            match extension.parsed_extension() {
                ParsedExtension::SubjectAlternativeName(names) => {
                    sans.extend(names.general_names.iter().map(San::read));
                }
                ParsedExtension::SubjectKeyIdentifier(id) => key_id = Some(id.0.to_vec()),
                ParsedExtension::BasicConstraints(basic) => authority = basic.ca,
                ParsedExtension::KeyUsage(usage) => signs = usage.key_cert_sign(),
                ParsedExtension::ParseError { error } => {
                    return Err(bad(format!("extension {}: {error}", extension.oid)));
                }
                _ => {}
            }
        }
        let facts = Facts {
            subject: parsed.subject().as_raw().to_vec(),
            subject_text: shown(parsed.subject().to_string(), &sans),
            issuer: parsed.issuer().as_raw().to_vec(),
            issuer_text: shown(parsed.issuer().to_string(), &[]),
            serial: parsed.tbs_certificate.raw_serial().to_vec(),
            not_before: moment(parsed.validity().not_before.timestamp()),
            not_after: moment(parsed.validity().not_after.timestamp()),
            public_key: parsed.public_key().raw.to_vec(),
            authority: authority && signs,
            sans,
            key_id,
            der: CertificateDer::from(der.to_vec()),
        };
        Ok(Self(Arc::new(facts)))
    }

    /// SHA-256 of the whole certificate, in lower-case hexadecimal: what tools show and compare.
    pub fn fingerprint(&self) -> String {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &self.0.der);
        digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub fn der(&self) -> &CertificateDer<'static> {
        &self.0.der
    }

    /// One PEM block with a line feed at its end.
    pub fn to_pem(&self) -> String {
        pem::encode("CERTIFICATE", &self.0.der)
    }

    /// Who it is for, for messages.
    pub fn subject(&self) -> &str {
        &self.0.subject_text
    }

    /// DER of the subject's name.
    pub fn subject_der(&self) -> &[u8] {
        &self.0.subject
    }

    /// DER of the subject's public key.
    pub fn public_key_der(&self) -> &[u8] {
        &self.0.public_key
    }

    /// What it calls its own key.
    pub fn key_id(&self) -> Option<&[u8]> {
        self.0.key_id.as_deref()
    }

    pub fn serial(&self) -> &[u8] {
        &self.0.serial
    }

    pub fn not_before(&self) -> SystemTime {
        self.0.not_before
    }

    pub fn not_after(&self) -> SystemTime {
        self.0.not_after
    }

    pub fn sans(&self) -> &[San] {
        &self.0.sans
    }

    /// Whether it may sign other certificates.
    pub fn is_authority(&self) -> bool {
        self.0.authority
    }

    /// Whether it says that it signed itself. Says nothing on whether that is true.
    pub fn is_self_issued(&self) -> bool {
        self.0.subject == self.0.issuer
    }

    /// The identity of a workload: its only URI name.
    pub fn spiffe(&self) -> Result<SpiffeId, Error> {
        let uris: Vec<&String> = self
            .0
            .sans
            .iter()
            .filter_map(|san| match san {
                San::Uri(uri) => Some(uri),
                _ => None,
            })
            .collect();
        match uris[..] {
            [one] => one.parse().map_err(Error::Identity),
            _ => Err(Error::Identities { subject: self.subject().to_owned(), found: uris.len() }),
        }
    }

    pub fn check_time(&self, now: SystemTime) -> Result<(), ChainError> {
        let subject = || self.subject().to_owned();
        if now < self.0.not_before {
            return Err(ChainError::NotYet { subject: subject(), at: stamp(self.0.not_before) });
        }
        if now >= self.0.not_after {
            return Err(ChainError::Expired { subject: subject(), at: stamp(self.0.not_after) });
        }
        Ok(())
    }

    fn check_issuer(&self, issuer: &Self) -> Result<(), ChainError> {
        if !issuer.is_authority() {
            let (subject, issued) = (issuer.subject().to_owned(), self.subject().to_owned());
            return Err(ChainError::NotAuthority { subject, issued });
        }
        let fault = |why| ChainError::Signature {
            subject: self.subject().to_owned(),
            issuer: issuer.subject().to_owned(),
            why,
        };
        // Both were parsed when they were read, so these fail only if they were not.
        let unreadable = |_| fault(signature::Error::Algorithm("unreadable".to_owned()));
        let (_, own) = X509Certificate::from_der(&self.0.der).map_err(unreadable)?;
        let (_, other) = X509Certificate::from_der(&issuer.0.der).map_err(unreadable)?;
        signature::verify(
            other.public_key(),
            &own.signature_algorithm,
            own.tbs_certificate.as_ref(),
            &own.signature_value.data,
        )
        .map_err(fault)
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let until = stamp(self.0.not_after);
        write!(f, "Certificate({} until {until})", self.0.subject_text)
    }
}

/// Follows `certificate` through `others` to one of `roots`; gives the root back. Everything on the way
/// must be valid now, be allowed to sign, and have signed what it should have.
pub fn verify_chain<'a>(
    certificate: &Certificate,
    others: &[Certificate],
    roots: &'a [Certificate],
    now: SystemTime,
) -> Result<&'a Certificate, ChainError> {
    let mut current = certificate;
    let mut fault = None;
    for _ in 0..MAX_DEPTH {
        current.check_time(now)?;
        if let Some(root) = roots.iter().find(|root| *root == current) {
            return Ok(root);
        }
        for root in roots.iter().filter(|root| root.0.subject == current.0.issuer) {
            match current.check_issuer(root).and_then(|()| root.check_time(now)) {
                Ok(()) => return Ok(root),
                Err(error) => fault = Some(error),
            }
        }
        let next = others.iter().filter(|other| {
            other.0.subject == current.0.issuer && *other != current && !other.is_self_issued()
        });
        let mut found = None;
        for other in next {
            match current.check_issuer(other) {
                Ok(()) => found = Some(other),
                Err(error) => fault = Some(error),
            }
        }
        let Some(next) = found else {
            return Err(fault.unwrap_or_else(|| ChainError::NoIssuer {
                subject: current.subject().to_owned(),
                issuer: current.0.issuer_text.clone(),
            }));
        };
        current = next;
    }
    Err(ChainError::TooDeep)
}

/// A subject for messages: its name, or if that is empty the first name beside it.
fn shown(name: String, sans: &[San]) -> String {
    let text = match (name.is_empty(), sans.first()) {
        (true, Some(San::Uri(text) | San::Dns(text))) => text.clone(),
        (true, Some(San::Ip(ip))) => ip.to_string(),
        (true, _) => "nobody".to_owned(),
        (false, _) => name,
    };
    // Enough to recognise it, not enough to fill a log.
    text.chars().take(200).collect()
}

fn moment(seconds: i64) -> SystemTime {
    match u64::try_from(seconds) {
        Ok(seconds) => SystemTime::UNIX_EPOCH + Duration::from_secs(seconds),
        Err(_) => SystemTime::UNIX_EPOCH,
    }
}

pub(crate) fn stamp(at: SystemTime) -> String {
    jiff::Timestamp::try_from(at).map_or_else(|_| "some time".to_owned(), |at| at.to_string())
}

#[cfg(test)]
mod tests;
