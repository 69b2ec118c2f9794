//! Private keys: made here or read from PEM, used to sign, never shown.

use std::fmt;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    self, EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair as _, RsaKeyPair,
};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use zeroize::Zeroizing;

use crate::pem;

/// More PEM than any key takes.
const MAX_PEM: usize = 64 << 10;

/// Algorithm identifiers of the signatures that keys make, in DER.
const ECDSA_SHA256: &[u8] = &[0x30, 10, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
const ECDSA_SHA384: &[u8] = &[0x30, 10, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 3];
const ECDSA_SHA512: &[u8] = &[0x30, 10, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 4];
const RSA_SHA256: &[u8] = &[0x30, 13, 6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 0x0b, 5, 0];
const ED25519: &[u8] = &[0x30, 5, 6, 3, 0x2b, 0x65, 0x70];

/// What keys are made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyKind {
    #[default]
    EcdsaP256,
    EcdsaP384,
    EcdsaP521,
    Rsa2048,
    Rsa3072,
    Rsa4096,
    Ed25519,
}

impl KeyKind {
    /// From the values of `ECC_SIGNATURE_ALGORITHM`, `ECC_CURVE` and `WORKLOAD_RSA_KEY_SIZE`. With
    /// nothing set it is ECDSA on P-256; a size alone asks for RSA, as Istio's agents do.
    pub fn from_settings(
        ecc: Option<&str>,
        curve: Option<&str>,
        rsa_bits: Option<&str>,
    ) -> Result<Self, Error> {
        let unknown =
            |setting, value: &str| Err(Error::Setting { setting, value: value.to_owned() });
        match (ecc, curve, rsa_bits) {
            (None | Some("ECDSA"), None | Some("P256"), None)
            | (Some("ECDSA"), None | Some("P256"), Some(_)) => Ok(Self::EcdsaP256),
            (None | Some("ECDSA"), Some("P384"), _) => Ok(Self::EcdsaP384),
            (None, None | Some("P256"), Some("2048")) => Ok(Self::Rsa2048),
            (None, None | Some("P256"), Some("3072")) => Ok(Self::Rsa3072),
            (None, None | Some("P256"), Some("4096")) => Ok(Self::Rsa4096),
            (Some(other), _, _) if other != "ECDSA" => unknown("ECC_SIGNATURE_ALGORITHM", other),
            (_, Some(other), _) if other != "P256" => unknown("ECC_CURVE", other),
            (_, _, bits) => unknown("WORKLOAD_RSA_KEY_SIZE", bits.unwrap_or_default()),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{setting} cannot be {value:?}")]
    Setting { setting: &'static str, value: String },
    #[error(
        "no private key in it: it takes a PEM block PRIVATE KEY, EC PRIVATE KEY or RSA PRIVATE KEY"
    )]
    NoKey,
    #[error("encrypted private keys are not supported")]
    Encrypted,
    #[error("it is longer than {MAX_PEM} bytes")]
    TooLong,
    #[error("reading the PEM of a private key: {0}")]
    Pem(String),
    #[error(
        "the private key is of no kind that is supported: ECDSA P-256, P-384, P-521, RSA from 2048 bits, Ed25519"
    )]
    Unsupported,
    #[error("making a key of kind {0:?}")]
    Generate(KeyKind),
    #[error("signing with a key of kind {0:?}")]
    Sign(KeyKind),
}

/// A private key. Its bytes are wiped when it is dropped; `Debug` shows the kind only.
pub struct PrivateKey {
    pair: Pair,
    kind: KeyKind,
    pkcs8: Zeroizing<Vec<u8>>,
    /// SubjectPublicKeyInfo.
    public: Vec<u8>,
}

enum Pair {
    Ecdsa(EcdsaKeyPair),
    Rsa(Box<RsaKeyPair>),
    Ed25519(Ed25519KeyPair),
}

impl PrivateKey {
    pub fn generate(kind: KeyKind) -> Result<Self, Error> {
        let failed = |_| Error::Generate(kind);
        let pair = match kind {
            KeyKind::EcdsaP256 | KeyKind::EcdsaP384 | KeyKind::EcdsaP521 => {
                Pair::Ecdsa(EcdsaKeyPair::generate(curve(kind)).map_err(failed)?)
            }
            KeyKind::Rsa2048 => {
                Pair::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).map_err(failed)?.into())
            }
            KeyKind::Rsa3072 => {
                Pair::Rsa(RsaKeyPair::generate(KeySize::Rsa3072).map_err(failed)?.into())
            }
            KeyKind::Rsa4096 => {
                Pair::Rsa(RsaKeyPair::generate(KeySize::Rsa4096).map_err(failed)?.into())
            }
            KeyKind::Ed25519 => Pair::Ed25519(Ed25519KeyPair::generate().map_err(failed)?),
        };
        Self::new(pair, kind)
    }

    /// Reads the first key of a PEM text; other blocks, such as `EC PARAMETERS`, are passed over.
    pub fn from_pem(text: &[u8]) -> Result<Self, Error> {
        if text.len() > MAX_PEM {
            return Err(Error::TooLong);
        }
        let der = match PrivateKeyDer::from_pem_slice(text) {
            Ok(der) => der,
            Err(rustls_pki_types::pem::Error::NoItemsFound) => {
                let encrypted = b"ENCRYPTED";
                return Err(match text.windows(encrypted.len()).any(|part| part == encrypted) {
                    true => Error::Encrypted,
                    false => Error::NoKey,
                });
            }
            // The error's own text shows positions and labels, not content.
            Err(error) => return Err(Error::Pem(error.to_string())),
        };
        let result = Self::from_der(&der);
        let mut der = der;
        zeroize::Zeroize::zeroize(&mut der);
        result
    }

    fn from_der(der: &PrivateKeyDer<'_>) -> Result<Self, Error> {
        let bytes = der.secret_der();
        for kind in [KeyKind::EcdsaP256, KeyKind::EcdsaP384, KeyKind::EcdsaP521] {
            if let Ok(pair) = EcdsaKeyPair::from_private_key_der(curve(kind), bytes) {
                return Self::new(Pair::Ecdsa(pair), kind);
            }
        }
        let rsa = match der {
            PrivateKeyDer::Pkcs1(_) => RsaKeyPair::from_der(bytes),
            _ => RsaKeyPair::from_pkcs8(bytes),
        };
        if let Ok(pair) = rsa {
            let kind = match pair.public_modulus_len() {
                ..=256 => KeyKind::Rsa2048,
                257..=384 => KeyKind::Rsa3072,
                _ => KeyKind::Rsa4096,
            };
            return Self::new(Pair::Rsa(Box::new(pair)), kind);
        }
        let pair =
            Ed25519KeyPair::from_pkcs8_maybe_unchecked(bytes).map_err(|_| Error::Unsupported)?;
        Self::new(Pair::Ed25519(pair), KeyKind::Ed25519)
    }

    fn new(pair: Pair, kind: KeyKind) -> Result<Self, Error> {
        let failed = |_| Error::Generate(kind);
        let (pkcs8, public) = match &pair {
            Pair::Ecdsa(pair) => (
                Zeroizing::new(pair.to_pkcs8v1().map_err(failed)?.as_ref().to_vec()),
                AsDer::<PublicKeyX509Der<'_>>::as_der(pair.public_key()).map_err(failed)?,
            ),
            Pair::Rsa(pair) => (
                private_der(
                    AsDer::<Pkcs8V1Der<'_>>::as_der(pair.as_ref()).map_err(failed)?.as_ref(),
                ),
                AsDer::<PublicKeyX509Der<'_>>::as_der(pair.public_key()).map_err(failed)?,
            ),
            Pair::Ed25519(pair) => (
                private_der(pair.to_pkcs8v1().map_err(failed)?.as_ref()),
                AsDer::<PublicKeyX509Der<'_>>::as_der(pair.public_key()).map_err(failed)?,
            ),
        };
        let public = public.as_ref().to_vec();
        Ok(Self { pair, kind, pkcs8, public })
    }

    pub fn kind(&self) -> KeyKind {
        self.kind
    }

    /// The public half, as a certificate holds it (SubjectPublicKeyInfo).
    pub fn public_der(&self) -> &[u8] {
        &self.public
    }

    /// PKCS#8 in PEM, which Envoy, Istio and openssl all read. Goes into files and Secrets only.
    pub fn to_pem(&self) -> Zeroizing<String> {
        Zeroizing::new(pem::encode("PRIVATE KEY", &self.pkcs8))
    }

    pub(crate) fn to_rustls(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.pkcs8.to_vec()))
    }

    /// DER of the algorithm that `sign` uses.
    pub(crate) fn signature_algorithm(&self) -> &'static [u8] {
        match self.kind {
            KeyKind::EcdsaP256 => ECDSA_SHA256,
            KeyKind::EcdsaP384 => ECDSA_SHA384,
            KeyKind::EcdsaP521 => ECDSA_SHA512,
            KeyKind::Rsa2048 | KeyKind::Rsa3072 | KeyKind::Rsa4096 => RSA_SHA256,
            KeyKind::Ed25519 => ED25519,
        }
    }

    pub(crate) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let failed = |_| Error::Sign(self.kind);
        let random = SystemRandom::new();
        Ok(match &self.pair {
            Pair::Ecdsa(pair) => pair.sign(&random, message).map_err(failed)?.as_ref().to_vec(),
            Pair::Rsa(pair) => {
                let mut bytes = vec![0; pair.public_modulus_len()];
                pair.sign(&signature::RSA_PKCS1_SHA256, &random, message, &mut bytes)
                    .map_err(failed)?;
                bytes
            }
            Pair::Ed25519(pair) => pair.try_sign(message).map_err(failed)?.as_ref().to_vec(),
        })
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey({:?})", self.kind)
    }
}

fn private_der(bytes: &[u8]) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(bytes.to_vec())
}

fn curve(kind: KeyKind) -> &'static EcdsaSigningAlgorithm {
    match kind {
        KeyKind::EcdsaP384 => &signature::ECDSA_P384_SHA384_ASN1_SIGNING,
        KeyKind::EcdsaP521 => &signature::ECDSA_P521_SHA512_ASN1_SIGNING,
        _ => &signature::ECDSA_P256_SHA256_ASN1_SIGNING,
    }
}

#[cfg(test)]
mod tests;
