//! Bundles of other trust domains, as SPIFFE bundle endpoints serve them: a JSON set of keys, of which
//! those for X.509 hold a root each.
//!
//! In: a document, bounded by whoever fetched it; out: the roots in it and how soon it wants to be
//! fetched again. Fetching is for others.

use std::time::Duration;

use ironsail_identity::{Certificate, CertificateError, RootBundle};
use serde::Deserialize;

/// More than any domain has.
const MAX_KEYS: usize = 256;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("it is no JSON of a SPIFFE bundle")]
    Json(#[source] serde_json::Error),
    #[error("it has more than {MAX_KEYS} keys")]
    TooMany,
    #[error("key {number} has {found} certificates in x5c, not one")]
    Count { number: usize, found: usize },
    #[error("x5c of key {number} is no certificate: {what}")]
    Certificate { number: usize, what: String },
    #[error("it has no root for X.509")]
    Empty,
}

#[derive(Deserialize)]
struct Document {
    keys: Vec<Key>,
    #[serde(default)]
    spiffe_refresh_hint: Option<f64>,
}

#[derive(Deserialize)]
struct Key {
    #[serde(default, rename = "use")]
    purpose: String,
    #[serde(default)]
    x5c: Vec<String>,
}

/// What an endpoint served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FederatedBundle {
    pub roots: RootBundle,
    /// How soon to ask again, if it says so.
    pub refresh: Option<Duration>,
}

impl FederatedBundle {
    pub fn parse(document: &[u8]) -> Result<Self, Error> {
        let document: Document = serde_json::from_slice(document).map_err(Error::Json)?;
        if document.keys.len() > MAX_KEYS {
            return Err(Error::TooMany);
        }
        let mut roots = Vec::new();
        for (number, key) in document.keys.iter().enumerate() {
            if key.purpose != "x509-svid" {
                continue;
            }
            let [one] = &key.x5c[..] else {
                return Err(Error::Count { number, found: key.x5c.len() });
            };
            roots.push(certificate(one).map_err(|what| Error::Certificate { number, what })?);
        }
        if roots.is_empty() {
            return Err(Error::Empty);
        }
        let hint = document.spiffe_refresh_hint.filter(|hint| (1.0..1e9).contains(hint));
        Ok(Self { roots: RootBundle::new(roots), refresh: hint.map(Duration::from_secs_f64) })
    }
}

/// Standard base64 of DER, as in PEM, which is read with all its bounds.
fn certificate(x5c: &str) -> Result<Certificate, String> {
    let pem = format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", x5c.trim());
    let read = Certificate::read_pem(pem.as_bytes());
    let mut read = read.map_err(|error: CertificateError| error.to_string())?;
    match read.len() {
        1 => Ok(read.remove(0)),
        found => Err(format!("{found} certificates")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::material::tests::Party;

    fn x5c(pem: &str) -> String {
        pem.lines().filter(|line| !line.starts_with("-----")).collect()
    }

    #[test]
    fn roots_and_the_hint_are_read_and_other_keys_passed_over() {
        let pem = Party::root("other").certificate.to_pem();
        let text = format!(
            r#"{{"spiffe_sequence": 3, "spiffe_refresh_hint": 60, "keys": [
                {{"use": "jwt-svid", "kty": "EC", "kid": "x"}},
                {{"use": "x509-svid", "kty": "EC", "x5c": ["{}"]}}]}}"#,
            x5c(&pem)
        );
        let bundle = FederatedBundle::parse(text.as_bytes()).unwrap();
        assert_eq!(bundle.roots, RootBundle::from_pem(pem.as_bytes()).unwrap());
        assert_eq!(bundle.refresh, Some(Duration::from_secs(60)));
    }

    #[test]
    fn what_is_no_bundle_is_refused_with_the_reason() {
        for (text, reason) in [
            ("[]", "JSON"),
            (r#"{"keys": []}"#, "no root"),
            (r#"{"keys": [{"use": "x509-svid"}]}"#, "0 certificates"),
            (r#"{"keys": [{"use": "x509-svid", "x5c": ["AAAA"]}]}"#, "x5c of key 0"),
            (r#"{"keys": [{"use": "x509-svid", "x5c": ["-----END CERTIFICATE-----"]}]}"#, "x5c"),
        ] {
            let error = FederatedBundle::parse(text.as_bytes()).unwrap_err();
            assert!(error.to_string().contains(reason), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_served_is_read_or_refused(text in ".{0,200}", x5c in "[A-Za-z0-9+/=]{0,80}") {
            let _ = FederatedBundle::parse(text.as_bytes());
            let key = format!(r#"{{"keys": [{{"use": "x509-svid", "x5c": ["{x5c}"]}}]}}"#);
            prop_assert!(FederatedBundle::parse(key.as_bytes()).is_err());
        }
    }
}
