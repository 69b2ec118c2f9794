//! Key sets and discovery documents: bytes of strangers in, what we use of them out. Bounded.

use serde_json::{Value, json};

/// No issuer has as many.
const MOST_KEYS: usize = 256;

/// What is wrong with a document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("it is no JSON")]
    Json,
    #[error("it has no list of keys")]
    NoKeys,
    #[error("it has more than {MOST_KEYS} keys")]
    TooMany,
    #[error("it has no jwks_uri that is an address of HTTP")]
    NoUri,
}

/// The key set as it goes to proxies: only keys, in their order, always written the same way.
pub fn key_set(bytes: &[u8]) -> Result<String, Fault> {
    let mut read: Value = serde_json::from_slice(bytes).map_err(|_| Fault::Json)?;
    let Some(Value::Array(keys)) = read.get_mut("keys").map(Value::take) else {
        return Err(Fault::NoKeys);
    };
    let keys: Vec<Value> = keys.into_iter().filter_map(key).collect();
    match keys.len() {
        0 => Err(Fault::NoKeys),
        1..=MOST_KEYS => Ok(json!({ "keys": keys }).to_string()),
        _ => Err(Fault::TooMany),
    }
}

/// A key with what keys may have: texts, lists of them, whole numbers, and yes or no. What else a stranger
/// puts in is of no use to anybody, and fractions are not written as they were read.
fn key(read: Value) -> Option<Value> {
    let Value::Object(mut members) = read else { return None };
    members.retain(|_, value| match value {
        Value::Array(list) => list.iter().all(Value::is_string),
        Value::Number(number) => number.is_i64() || number.is_u64(),
        Value::Object(_) => false,
        Value::String(_) | Value::Bool(_) | Value::Null => true,
    });
    Some(Value::Object(members))
}

/// Where a discovery document says the keys are.
pub fn jwks_uri(bytes: &[u8]) -> Result<String, Fault> {
    let read: Value = serde_json::from_slice(bytes).map_err(|_| Fault::Json)?;
    let uri = read["jwks_uri"].as_str().ok_or(Fault::NoUri)?;
    let http = uri.starts_with("https://") || uri.starts_with("http://");
    if http && uri.len() <= 2048 { Ok(uri.to_owned()) } else { Err(Fault::NoUri) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_key_set_is_its_keys() {
        let set =
            br#"{"more": 1, "keys": [{"kty": "RSA", "e": "AQAB", "x": {"y": 1}, "z": 0.5}, 7]}"#;
        assert_eq!(key_set(set).unwrap(), r#"{"keys":[{"e":"AQAB","kty":"RSA"}]}"#);
    }

    #[test]
    fn what_has_no_keys_is_no_key_set() {
        assert_eq!(key_set(b"<html>"), Err(Fault::Json));
        for bad in ["{}", "[]", r#"{"keys":[]}"#, r#"{"keys":{}}"#, r#"{"keys":[1]}"#] {
            assert_eq!(key_set(bad.as_bytes()), Err(Fault::NoKeys), "{bad}");
        }
        let many = json!({"keys": vec![json!({}); MOST_KEYS + 1]});
        assert_eq!(key_set(many.to_string().as_bytes()), Err(Fault::TooMany));
    }

    #[test]
    fn a_discovery_document_says_where_keys_are() {
        let good = br#"{"issuer": "https://a", "jwks_uri": "https://a/keys"}"#;
        assert_eq!(jwks_uri(good).unwrap(), "https://a/keys");
        for bad in ["{}", r#"{"jwks_uri": 1}"#, r#"{"jwks_uri": "file:///etc/passwd"}"#] {
            assert_eq!(jwks_uri(bad.as_bytes()), Err(Fault::NoUri), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
            let _ = key_set(&bytes);
            let _ = jwks_uri(&bytes);
        }

        #[test]
        fn what_comes_out_goes_in_again(text in r#"\{"keys":\[(\{"a":"[a-z\\\\"]{0,4}"\},?){0,4}\]\}"#) {
            if let Ok(set) = key_set(text.as_bytes()) {
                prop_assert_eq!(key_set(set.as_bytes()), Ok(set));
            }
        }
    }
}
