//! The cipher suites that a server offers, by the names that Go's programs and Kubernetes know.

use std::sync::Arc;

use rustls::ProtocolVersion;
use rustls::crypto::CryptoProvider;

use super::provider;

/// Which suites TLS 1.2 may use; those of TLS 1.3 are always there. The default is all that are sound.
#[derive(Clone, Debug)]
pub struct Suites(Arc<CryptoProvider>);

/// A name that stands for no suite of ours.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is no cipher suite that can be used; these can: {known}")]
pub struct UnknownSuite {
    name: String,
    known: String,
}

impl Suites {
    /// Exactly these; an empty list is the default.
    pub fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, UnknownSuite> {
        let all = provider();
        let mut wanted = Vec::new();
        for name in names {
            // An older name of Go's.
            let full = match name {
                "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305" => {
                    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"
                }
                "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305" => {
                    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"
                }
                name => name,
            };
            let found = all.cipher_suites.iter().find(|suite| go_name(suite) == full);
            wanted.push(*found.ok_or_else(|| UnknownSuite {
                name: name.to_owned(),
                known: all.cipher_suites.iter().map(go_name).collect::<Vec<_>>().join(", "),
            })?);
        }
        if wanted.is_empty() {
            return Ok(Self(all));
        }
        let newest = |suite: &rustls::SupportedCipherSuite| {
            suite.version().version == ProtocolVersion::TLSv1_3
        };
        let mut own = (*all).clone();
        own.cipher_suites.retain(|suite| newest(suite) || wanted.contains(suite));
        Ok(Self(Arc::new(own)))
    }

    pub(super) fn provider(&self) -> Arc<CryptoProvider> {
        self.0.clone()
    }
}

impl Default for Suites {
    fn default() -> Self {
        Self(provider())
    }
}

fn go_name(suite: &rustls::SupportedCipherSuite) -> String {
    let name = format!("{:?}", suite.suite());
    // The suites of TLS 1.3 have no key exchange in their name, and so no prefix in common.
    name.replace("TLS13_", "TLS_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(suites: &Suites) -> Vec<String> {
        suites.0.cipher_suites.iter().map(go_name).collect()
    }

    #[test]
    fn only_the_named_suites_and_those_of_the_newest_tls_are_offered() {
        let one = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256";
        let found = names(&Suites::of([one, "TLS_AES_128_GCM_SHA256"]).unwrap());
        let old: Vec<_> = found.iter().filter(|name| name.contains("ECDHE")).collect();
        assert_eq!(old, [one], "{found:?}");
        assert!(found.len() > 2, "{found:?}");
        assert_eq!(names(&Suites::of([]).unwrap()), names(&Suites::default()));
        assert!(Suites::of(["TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305"]).is_ok());
    }

    #[test]
    fn a_suite_that_is_not_there_is_named_with_those_that_are() {
        let error = Suites::of(["TLS_RSA_WITH_AES_128_CBC_SHA"]).unwrap_err().to_string();
        assert!(error.contains("TLS_RSA_WITH_AES_128_CBC_SHA") && error.contains("ECDHE"));
    }
}
