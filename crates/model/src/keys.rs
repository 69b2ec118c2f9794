//! Keys of those who issue tokens, as somebody with a network fetched them.
//!
//! The model says which are wanted and keeps what it is given; it fetches nothing itself.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ironsail_api::istio::security::JwtRule;

use crate::Snapshot;

/// Where the keys of a rule come from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeySource {
    /// A key set at this address.
    Uri(Arc<str>),
    /// Wherever the issuer's discovery document says.
    Issuer(Arc<str>),
}

/// What fetching came to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Fetched {
    /// A key set, as JSON.
    Keys(Arc<str>),
    /// Never yet, and why.
    Failed(Arc<str>),
}

/// Who fetches keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KeyFetch {
    /// The control plane does.
    #[default]
    ControlPlane,
    /// Proxies do where they know the service, else the control plane.
    Hybrid,
    /// Proxies do.
    Proxy,
}

impl KeySource {
    /// None if the rule brings its keys along.
    pub fn of(rule: &JwtRule) -> Option<Self> {
        match (rule.jwks.is_empty(), rule.jwks_uri.as_str()) {
            (false, _) => None,
            (true, "") => Some(Self::Issuer(rule.issuer.as_str().into())),
            (true, uri) => Some(Self::Uri(uri.into())),
        }
    }
}

impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uri(uri) => write!(f, "key set {uri}"),
            Self::Issuer(issuer) => write!(f, "issuer {issuer}"),
        }
    }
}

impl Snapshot {
    /// All keys that rules need, and the longest time that one of them gives the fetch.
    pub fn wanted_keys(&self) -> BTreeMap<KeySource, Option<Duration>> {
        let mut wanted: BTreeMap<KeySource, Option<Duration>> = BTreeMap::new();
        for policy in self.config.request_authentications.iter() {
            for rule in &policy.spec.jwt_rules {
                // What proxies fetch themselves, nobody else need fetch.
                let left = |source: &KeySource| {
                    self.settings.key_fetch != KeyFetch::Proxy
                        || matches!(source, KeySource::Issuer(_))
                };
                if let Some(source) = KeySource::of(rule).filter(left) {
                    let longest = wanted.entry(source).or_default();
                    *longest = (*longest).max(rule.timeout);
                }
            }
        }
        wanted
    }

    /// What is known of a source.
    pub fn keys_of(&self, source: &KeySource) -> Option<&Fetched> {
        self.keys.get(source)
    }
}
