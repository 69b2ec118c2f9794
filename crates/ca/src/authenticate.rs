//! Who a caller is, by its token or its certificate. Used by the CA and by discovery.
//!
//! Several methods are asked in turn; the first that knows the caller decides. A caller that nobody
//! knows learns nothing of why; the reasons are in the error, for the log.

mod certificate;
mod keys;
mod offline;
mod review;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures::future::BoxFuture;
use http::{Extensions, HeaderMap};
use ironsail_identity::tls::PeerCertificates;

pub use certificate::ClientCertificates;
pub use keys::KeySource;
pub use offline::OfflineTokens;
pub use review::TokenReviews;

use crate::caller::Caller;

/// Longer ones are no tokens.
const MAX_TOKEN: usize = 16 << 10;
/// The header in which a caller says which cluster it is in.
const CLUSTER_HEADER: &str = "clusterid";

/// What a caller brings along.
#[derive(Clone, Copy)]
pub struct Evidence<'a> {
    pub token: Option<&'a str>,
    /// Empty if the caller does not say.
    pub cluster: &'a str,
    pub certificates: Option<&'a PeerCertificates>,
}

impl<'a> Evidence<'a> {
    /// From a request's headers, and what the listener left in its extensions.
    pub fn of(headers: &'a HeaderMap, extensions: &'a Extensions) -> Self {
        let values = headers.get_all(http::header::AUTHORIZATION).iter();
        let token = values.filter_map(|value| value.to_str().ok()).find_map(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
        });
        let cluster = headers.get(CLUSTER_HEADER).and_then(|value| value.to_str().ok());
        Self { token, cluster: cluster.unwrap_or_default(), certificates: extensions.get() }
    }

    fn usable_token(&self) -> Result<&'a str, Refusal> {
        match self.token {
            None => {
                Err(Refusal::NothingShown("no bearer token exists in HTTP authorization header"))
            }
            Some(token) if token.is_empty() || token.len() > MAX_TOKEN => {
                Err(Refusal::Rejected("the bearer token is empty or too long".to_owned()))
            }
            Some(token) => Ok(token),
        }
    }
}

/// Why a method does not know a caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The caller brings nothing that this method looks at.
    #[error("{0}")]
    NothingShown(&'static str),
    #[error("{0}")]
    Rejected(String),
    /// It could not be found out; the same may work later.
    #[error("{0}")]
    Unavailable(String),
}

/// One way to know callers.
pub trait Method: Send + Sync + 'static {
    /// For messages.
    fn name(&self) -> &'static str;

    fn authenticate<'a>(&'a self, evidence: Evidence<'a>)
    -> BoxFuture<'a, Result<Caller, Refusal>>;
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("no method knows the caller: {reasons}")]
    Unknown { reasons: String },
    #[error("callers cannot be authenticated now: {reasons}")]
    Unavailable { reasons: String },
}

/// Asks every method. Cheap to clone.
#[derive(Clone)]
pub struct Authenticator {
    methods: Arc<[Arc<dyn Method>]>,
}

impl Authenticator {
    /// Earlier methods are asked first.
    pub fn new(methods: impl IntoIterator<Item = Arc<dyn Method>>) -> Self {
        Self { methods: methods.into_iter().collect() }
    }

    pub async fn authenticate(
        &self,
        headers: &HeaderMap,
        extensions: &Extensions,
    ) -> Result<Caller, Error> {
        let evidence = Evidence::of(headers, extensions);
        let mut reasons = Vec::new();
        let mut unavailable = false;
        for method in self.methods.iter() {
            match method.authenticate(evidence).await {
                Ok(caller) => return Ok(caller),
                Err(refusal) => {
                    unavailable |= matches!(refusal, Refusal::Unavailable(_));
                    reasons.push(format!("{}: {refusal}", method.name()));
                }
            }
        }
        let reasons = reasons.join("; ");
        Err(match unavailable {
            true => Error::Unavailable { reasons },
            false => Error::Unknown { reasons },
        })
    }
}
