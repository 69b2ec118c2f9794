//! Namespaces and service accounts: names as Kubernetes allows them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::Error;

/// The name of a namespace: a DNS label. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace(Arc<str>);

/// The name of a service account: DNS labels with dots between them. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceAccount(Arc<str>);

impl Namespace {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl ServiceAccount {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Namespace {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match is_label(text) {
            true => Ok(Self(text.into())),
            false => Err(Error::new("a namespace", text, LABEL)),
        }
    }
}

impl FromStr for ServiceAccount {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text.len() <= 253 && text.split('.').all(is_label) {
            true => Ok(Self(text.into())),
            false => Err(Error::new("a service account", text, LABEL)),
        }
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for ServiceAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub(crate) const LABEL: &str =
    "it takes 1 to 63 lower case letters, digits and '-', and starts and ends without '-'";

/// Whether `text` is a DNS label in lower case.
pub(crate) fn is_label(text: &str) -> bool {
    let plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && bytes.iter().all(|c| plain(*c) || *c == b'-')
        && bytes.first().copied().is_some_and(plain)
        && bytes.last().copied().is_some_and(plain)
}

#[cfg(test)]
mod tests {
    use super::{Namespace, ServiceAccount};

    #[test]
    fn a_namespace_is_a_label() {
        for good in ["a", "istio-system", "0a", &"x".repeat(63)] {
            assert_eq!(good.parse::<Namespace>().unwrap().to_string(), good);
        }
        for bad in ["", "A", "-a", "a-", "a.b", "a/b", "ü", &"x".repeat(64)] {
            assert!(bad.parse::<Namespace>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_service_account_may_have_dots() {
        assert!("bookinfo-productpage.v1".parse::<ServiceAccount>().is_ok());
        for bad in ["", "a..b", "a/b", "."] {
            assert!(bad.parse::<ServiceAccount>().is_err(), "{bad}");
        }
    }
}
