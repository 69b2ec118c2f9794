//! Trust domains, and the other names that a mesh's own domain goes by.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::Error;

/// The authority part of a SPIFFE identity. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrustDomain(Arc<str>);

impl TrustDomain {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TrustDomain {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let allowed =
            |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'.' | b'-' | b'_');
        match (1..=255).contains(&text.len()) && text.bytes().all(allowed) {
            true => Ok(Self(text.into())),
            false => Err(Error::new(
                "a trust domain",
                text,
                "it takes 1 to 255 lower case letters, digits, '.', '-' and '_'",
            )),
        }
    }
}

impl fmt::Display for TrustDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The mesh's own trust domain and its aliases: domains whose identities count as the mesh's own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TrustDomains {
    own: TrustDomain,
    aliases: Vec<TrustDomain>,
}

impl TrustDomains {
    pub fn new(own: TrustDomain, aliases: impl IntoIterator<Item = TrustDomain>) -> Self {
        let mut distinct: Vec<TrustDomain> = Vec::new();
        for alias in aliases {
            if alias != own && !distinct.contains(&alias) {
                distinct.push(alias);
            }
        }
        Self { own, aliases: distinct }
    }

    pub fn own(&self) -> &TrustDomain {
        &self.own
    }

    /// The own domain first, then the aliases as given.
    pub fn iter(&self) -> impl Iterator<Item = &TrustDomain> {
        std::iter::once(&self.own).chain(&self.aliases)
    }

    pub fn contains(&self, domain: &TrustDomain) -> bool {
        self.iter().any(|own| own == domain)
    }
}

#[cfg(test)]
mod tests {
    use super::{TrustDomain, TrustDomains};

    #[test]
    fn aliases_count_as_own_once_each() {
        let domain = |text: &str| text.parse::<TrustDomain>().unwrap();
        let domains = TrustDomains::new(domain("new"), ["old", "new", "old", "older"].map(domain));
        let all: Vec<_> = domains.iter().map(TrustDomain::as_str).collect();
        assert_eq!(all, ["new", "old", "older"]);
        assert!(domains.contains(&domain("old")));
        assert!(!domains.contains(&domain("other")));
    }

    #[test]
    fn what_is_no_trust_domain_is_refused() {
        for bad in ["", "A", "a/b", "a:1", "a b"] {
            assert!(bad.parse::<TrustDomain>().is_err(), "{bad}");
        }
    }
}
