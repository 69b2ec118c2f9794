//! Key sets and discovery documents of token issuers.

use arbitrary::{Result, Unstructured};
use ironsail_jwks::{jwks_uri, key_set};
use jsonwebtoken::DecodingKey;
use jsonwebtoken::jwk::JwkSet;
use serde_json::{Value, json};

use crate::json;

fn made(u: &mut Unstructured<'_>) -> Result<Value> {
    let mut set = json!({"jwks_uri": "https://a/keys", "keys": [
        {"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "a", "n": "AQAB", "e": "AQAB"},
        {"kty": "EC", "crv": "P-256", "alg": "ES256", "kid": "b", "x": "AA", "y": "AA"},
        {"kty": "OKP", "crv": "Ed25519", "x": "AA"},
        {"kty": "oct", "k": "AA"},
    ]});
    for _ in 0..u.int_in_range(0..=4)? {
        let json::Json(with) = u.arbitrary()?;
        json::graft(u, &mut set, with)?;
    }
    Ok(set)
}

fn read(bytes: &[u8]) {
    let _ = jwks_uri(bytes);
    let Ok(set) = key_set(bytes) else { return };
    assert_eq!(key_set(set.as_bytes()).as_ref(), Ok(&set), "what was read is read the same");
    let Ok(keys) = serde_json::from_str::<JwkSet>(&set) else { return };
    for key in &keys.keys {
        let _ = DecodingKey::from_jwk(key);
    }
}

pub(crate) fn target(bytes: &[u8]) {
    read(bytes);
    if let Ok(set) = made(&mut Unstructured::new(bytes)) {
        read(set.to_string().as_bytes());
    }
}
