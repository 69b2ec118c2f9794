//! Identities of workloads: `spiffe://DOMAIN/ns/NAMESPACE/sa/ACCOUNT`.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Namespace, ServiceAccount, TrustDomain};

/// Who a workload is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpiffeId {
    pub trust_domain: TrustDomain,
    pub namespace: Namespace,
    pub service_account: ServiceAccount,
}

impl SpiffeId {
    /// The form in authorization policies: the same without `spiffe://`.
    pub fn principal(&self) -> impl fmt::Display {
        let Self { trust_domain, namespace, service_account } = self;
        format!("{trust_domain}/ns/{namespace}/sa/{service_account}")
    }

    /// The same account in another trust domain.
    #[must_use]
    pub fn in_domain(&self, trust_domain: &TrustDomain) -> Self {
        Self { trust_domain: trust_domain.clone(), ..self.clone() }
    }
}

impl FromStr for SpiffeId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = || {
            let why = "it reads spiffe://DOMAIN/ns/NAMESPACE/sa/ACCOUNT";
            Error::new("an identity", text, why)
        };
        let rest = text.strip_prefix("spiffe://").ok_or_else(bad)?;
        let parts: Vec<&str> = rest.splitn(6, '/').collect();
        let [domain, "ns", namespace, "sa", account] = parts[..] else {
            return Err(bad());
        };
        Ok(Self {
            trust_domain: domain.parse()?,
            namespace: namespace.parse()?,
            service_account: account.parse()?,
        })
    }
}

impl fmt::Display for SpiffeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "spiffe://{}", self.principal())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::SpiffeId;

    #[test]
    fn an_identity_has_a_domain_a_namespace_and_an_account() {
        let id: SpiffeId = "spiffe://cluster.local/ns/foo/sa/sleep".parse().unwrap();
        assert_eq!(id.namespace.as_str(), "foo");
        assert_eq!(id.principal().to_string(), "cluster.local/ns/foo/sa/sleep");
        let moved = id.in_domain(&"td2".parse().unwrap());
        assert_eq!(moved.to_string(), "spiffe://td2/ns/foo/sa/sleep");
    }

    #[test]
    fn anything_else_is_refused() {
        for bad in [
            "",
            "spiffe://",
            "cluster.local/ns/a/sa/b",
            "spiffe://td/ns/a/sa/",
            "spiffe://td/ns//sa/b",
            "spiffe:///ns/a/sa/b",
            "spiffe://td/ns/a/sa/b/c",
            "spiffe://td/sa/a/ns/b",
            "SPIFFE://td/ns/a/sa/b",
            "spiffe://td:1/ns/a/sa/b",
            "spiffe://td/ns/a/sa/b?x",
        ] {
            assert!(bad.parse::<SpiffeId>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn text_survives(text in "spiffe://[a-z0-9.]{1,20}/ns/[a-z]{1,20}/sa/[a-z]{1,9}(\\.[a-z]{1,9})?") {
            prop_assert_eq!(text.parse::<SpiffeId>().unwrap().to_string(), text);
        }

        #[test]
        fn nothing_panics(text in ".{0,60}") {
            let _ = text.parse::<SpiffeId>();
        }
    }
}
