//! The key that signs service-account tokens, and its public half as a JSON Web Key.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use jsonwebtoken::jwk::{Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header};
use rcgen::{KeyPair, PublicKeyData as _};
use serde::Serialize;
use serde_json::Value;
use sha2::Digest as _;

use super::{Error, file};

pub(super) struct Key {
    encoding: EncodingKey,
    pub(super) decoding: DecodingKey,
    header: Header,
    public: Value,
}

impl Key {
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let bad = |what: String| Error::BadKey { path: path.to_owned(), what };
        let pem = match file::read(path)? {
            Some(pem) => pem,
            None => {
                let pair =
                    KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).map_err(Error::Generate)?;
                file::write(path, &pair.serialize_pem())?;
                pair.serialize_pem()
            }
        };
        let pair = KeyPair::from_pem_and_sign_algo(&pem, &rcgen::PKCS_RSA_SHA256)
            .map_err(|e| bad(e.to_string()))?;
        let encoding = EncodingKey::from_rsa_pem(pem.as_bytes()).map_err(|e| bad(e.to_string()))?;
        let mut jwk =
            Jwk::from_encoding_key(&encoding, Algorithm::RS256).map_err(|e| bad(e.to_string()))?;
        // As Kubernetes derives it: a hash of the public key.
        let id = BASE64.encode(sha2::Sha256::digest(pair.subject_public_key_info()));
        jwk.common.key_id = Some(id.clone());
        jwk.common.public_key_use = Some(PublicKeyUse::Signature);
        let decoding = DecodingKey::from_jwk(&jwk).map_err(|e| bad(e.to_string()))?;
        let public = serde_json::to_value(&jwk).map_err(|e| bad(e.to_string()))?;
        let mut header = Header::new(Algorithm::RS256);
        header.typ = None;
        header.kid = Some(id);
        Ok(Self { encoding, decoding, header, public })
    }

    pub(super) fn sign(&self, claims: &impl Serialize) -> String {
        jsonwebtoken::encode(&self.header, claims, &self.encoding)
            .expect("claims are plain JSON and the key was tried when it was opened")
    }

    pub(super) fn public(&self) -> &Value {
        &self.public
    }
}
