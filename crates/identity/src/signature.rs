//! Checking signatures of certificates and requests, with the algorithms that TLS uses too.

use std::sync::LazyLock;

use rustls::crypto::CryptoProvider;
use rustls_pki_types::SignatureVerificationAlgorithm;
use x509_parser::x509::{AlgorithmIdentifier, SubjectPublicKeyInfo};

use crate::der;

static PROVIDER: LazyLock<CryptoProvider> =
    LazyLock::new(rustls::crypto::aws_lc_rs::default_provider);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("its public key or signature algorithm is not supported: {0}")]
    Algorithm(String),
    #[error("its signature does not fit")]
    Wrong,
}

pub(crate) fn algorithms() -> &'static [&'static dyn SignatureVerificationAlgorithm] {
    PROVIDER.signature_verification_algorithms.all
}

/// Whether the holder of `key` signed `message`.
pub(crate) fn verify(
    key: &SubjectPublicKeyInfo<'_>,
    signed_with: &AlgorithmIdentifier<'_>,
    message: &[u8],
    signature: &[u8],
) -> Result<(), Error> {
    let (Some(key_algorithm), Some(signature_algorithm)) =
        (first_of_sequence(key.raw), identifier(signed_with))
    else {
        return Err(Error::Algorithm(signed_with.algorithm.to_id_string()));
    };
    let mut known = algorithms().iter().filter(|algorithm| {
        algorithm.public_key_alg_id().as_ref() == key_algorithm
            && algorithm.signature_alg_id().as_ref() == signature_algorithm.as_slice()
    });
    let Some(algorithm) = known.next() else {
        return Err(Error::Algorithm(signed_with.algorithm.to_id_string()));
    };
    algorithm
        .verify_signature(&key.subject_public_key.data, message, signature)
        .map_err(|_| Error::Wrong)
}

/// Whether TLS can use a key of this kind at all.
pub(crate) fn is_known_key(key: &SubjectPublicKeyInfo<'_>) -> bool {
    first_of_sequence(key.raw)
        .is_some_and(|id| algorithms().iter().any(|a| a.public_key_alg_id().as_ref() == id))
}

/// The content of the first element inside a SEQUENCE: of a public key, its algorithm.
fn first_of_sequence(der: &[u8]) -> Option<&[u8]> {
    let (_, inner, _) = der::element(der)?;
    let (_, algorithm, _) = der::element(inner)?;
    Some(algorithm)
}

/// The content of an algorithm identifier, as rustls names algorithms.
fn identifier(algorithm: &AlgorithmIdentifier<'_>) -> Option<Vec<u8>> {
    let mut writer = der::Writer::with_capacity(32);
    writer.value(der::OID, algorithm.algorithm.as_bytes());
    if let Some(parameters) = &algorithm.parameters {
        let header = x509_parser::asn1_rs::ToDer::to_der_vec(&parameters.header).ok()?;
        writer.raw(&header);
        writer.raw(parameters.data.as_ref());
    }
    Some(writer.finish())
}
