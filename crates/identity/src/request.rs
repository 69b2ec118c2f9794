//! Certificate signing requests: made by workloads, read by the CA.
//!
//! Of a request that comes in, only the public key, the names and the proof that the requester holds the
//! private key are taken. Everything else in it is for the CA to decide.

use rustls_pki_types::CertificateSigningRequestDer;
use rustls_pki_types::pem::PemObject as _;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::FromDer as _;

use crate::der::{self, Writer};
use crate::issue::{empty_name, extension};
use crate::key::{self, PrivateKey};
use crate::san::{self, San};
use crate::{pem, signature};

/// A request with a key of 16,384 bits takes less.
const MAX_PEM: usize = 32 << 10;
/// Content of the object identifier of the attribute "extension request", 1.2.840.113549.1.9.14.
const EXTENSION_REQUEST: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 0x0e];

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("signing a certificate request")]
    Sign(#[source] key::Error),
    #[error("certificate signing request is not properly encoded: {0}")]
    Pem(String),
    #[error("failed to parse X.509 certificate signing request: {0}")]
    Der(String),
    #[error("the certificate signing request is longer than {MAX_PEM} bytes")]
    TooLong,
    #[error("the public key in the certificate signing request is of no kind that is supported")]
    Key,
    #[error("the certificate signing request asks to be an authority")]
    Authority,
    #[error("the certificate signing request is not signed with the key it holds: {0}")]
    Proof(#[source] signature::Error),
}

/// What a workload asks the CA for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateRequest {
    /// DER of the public key.
    pub public_key: Vec<u8>,
    /// Names that are asked for.
    pub sans: Vec<San>,
}

impl CertificateRequest {
    /// Writes a request for `names`, in PEM, proved by `key`.
    pub fn make(key: &PrivateKey, names: &[San]) -> Result<String, Error> {
        let mut writer = Writer::with_capacity(512);
        writer.nested(der::SEQUENCE, |w| {
            w.unsigned(&[0]);
            w.raw(empty_name());
            w.raw(key.public_der());
            w.nested(der::context(0), |w| {
                if !names.is_empty() {
                    attribute(w, names);
                }
            });
        });
        let body = writer.finish();
        let signature = key.sign(&body).map_err(Error::Sign)?;
        let mut writer = Writer::with_capacity(body.len() + signature.len() + 32);
        writer.nested(der::SEQUENCE, |w| {
            w.raw(&body);
            w.raw(key.signature_algorithm());
            w.bit_string(&signature);
        });
        Ok(pem::encode("CERTIFICATE REQUEST", &writer.finish()))
    }

    /// Reads the first request of a PEM text and checks that the requester holds the private key.
    pub fn from_pem(text: &[u8]) -> Result<Self, Error> {
        if text.len() > MAX_PEM {
            return Err(Error::TooLong);
        }
        let der = CertificateSigningRequestDer::from_pem_slice(text)
            .map_err(|error| Error::Pem(error.to_string()))?;
        Self::from_der(&der)
    }

    pub fn from_der(der: &[u8]) -> Result<Self, Error> {
        let bad = |what: &dyn ToString| Error::Der(what.to_string());
        let (rest, request) =
            X509CertificationRequest::from_der(der).map_err(|error| bad(&error))?;
        if !rest.is_empty() {
            return Err(bad(&"something follows it"));
        }
        let info = &request.certification_request_info;
        if !signature::is_known_key(&info.subject_pki) {
            return Err(Error::Key);
        }
        let mut sans = Vec::new();
        for parsed in request.requested_extensions().into_iter().flatten() {
            match parsed {
                ParsedExtension::SubjectAlternativeName(names) => {
                    sans.extend(names.general_names.iter().map(San::read));
                }
                // Refused rather than answered with less: no workload means it.
                ParsedExtension::BasicConstraints(basic) if basic.ca => {
                    return Err(Error::Authority);
                }
                ParsedExtension::ParseError { error } => return Err(bad(&error)),
                _ => {}
            }
        }
        signature::verify(
            &info.subject_pki,
            &request.signature_algorithm,
            info.raw,
            &request.signature_value.data,
        )
        .map_err(Error::Proof)?;
        Ok(Self { public_key: info.subject_pki.raw.to_vec(), sans })
    }
}

fn attribute(w: &mut Writer, names: &[San]) {
    w.nested(der::SEQUENCE, |w| {
        w.value(der::OID, EXTENSION_REQUEST);
        w.nested(der::SET, |w| {
            w.nested(der::SEQUENCE, |w| extension(w, san::OID, true, |w| San::write_all(names, w)));
        });
    });
}

#[cfg(test)]
mod tests;
