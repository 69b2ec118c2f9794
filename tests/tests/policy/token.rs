//! An issuer of tokens for tests: a key, its key set, and tokens signed by it.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use rcgen::KeyPair;
use serde_json::{Value, json};

pub(crate) struct Issuer {
    name: &'static str,
    key: KeyPair,
}

impl Issuer {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, key: KeyPair::generate().unwrap() }
    }

    /// Two issuers never have the same.
    fn kid(&self) -> String {
        URL_SAFE_NO_PAD.encode(&self.key.public_key_raw()[1..9])
    }

    pub(crate) fn key_set(&self) -> Value {
        // An uncompressed point: 4, x, y.
        let point = self.key.public_key_raw();
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        json!({"keys": [{"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig",
            "kid": self.kid(), "x": text(&point[1..33]), "y": text(&point[33..65])}]})
    }

    fn claims(&self, more: &Value) -> Value {
        let mut claims = json!({"iss": self.name, "sub": "somebody", "exp": 4_102_444_800_u64});
        for (name, value) in more.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims
    }

    /// A token with these claims beside the usual ones.
    pub(crate) fn token(&self, more: &Value) -> String {
        let header = Header { kid: Some(self.kid()), ..Header::new(Algorithm::ES256) };
        let key = EncodingKey::from_ec_pem(self.key.serialize_pem().as_bytes()).unwrap();
        jsonwebtoken::encode(&header, &self.claims(more), &key).unwrap()
    }

    /// One that claims to need no signature.
    pub(crate) fn unsigned(&self) -> String {
        let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}.", part(json!({"alg": "none", "typ": "JWT"})), part(self.claims(&json!({}))))
    }
}
