//! From a connection and its headers to a [`User`], impersonation included.

use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::token::Tokens;
use super::{Authorizer, Refusal, User};

mod impersonate;
#[cfg(test)]
mod tests;

/// What is known of the other end before its headers are read.
#[derive(Clone, Debug)]
pub enum Peer {
    /// A TLS client with its certificate chain already verified by TLS (the leaf, DER), if any.
    Tls(Option<Arc<[u8]>>),
    /// A part of this process that says itself who it is.
    InProcess(User),
}

/// Tells who is asking.
pub struct Authenticator {
    tokens: Arc<Tokens>,
    authorizer: Arc<Authorizer>,
}

impl Authenticator {
    pub fn new(tokens: Arc<Tokens>, authorizer: Arc<Authorizer>) -> Self {
        Self { tokens, authorizer }
    }

    /// The user of a request. Without credentials it is the anonymous user, which RBAC lets see
    /// only health, version and OIDC documents: use [`Authorizer::check`] for every request.
    /// Impersonation headers are obeyed for those who may impersonate.
    pub fn authenticate(&self, peer: &Peer, headers: &HeaderMap) -> Result<User, Refusal> {
        let user = match peer {
            Peer::InProcess(user) => user.clone(),
            Peer::Tls(Some(certificate)) => {
                user_of_certificate(certificate).ok_or_else(Refusal::unauthorized)?
            }
            Peer::Tls(None) => self.user_of_headers(headers)?,
        };
        impersonate::apply(&self.authorizer, user, headers)
    }

    fn user_of_headers(&self, headers: &HeaderMap) -> Result<User, Refusal> {
        let Some(value) = headers.get(AUTHORIZATION) else {
            return Ok(User::anonymous());
        };
        let token = value.to_str().ok().and_then(bearer).ok_or_else(Refusal::unauthorized)?;
        match self.tokens.check(token, &[]) {
            Ok((user, _)) => Ok(user),
            Err(why) => {
                tracing::debug!(%why, "a bearer token was not accepted");
                Err(Refusal::unauthorized())
            }
        }
    }
}

/// The token in `Bearer TOKEN`.
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// The common name is the user, the organizations are the groups.
pub(super) fn user_of_certificate(der: &[u8]) -> Option<User> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().next()?.as_str().ok()?;
    let groups: Vec<&str> = subject.iter_organization().filter_map(|o| o.as_str().ok()).collect();
    (!name.is_empty()).then(|| User::known(name, &groups))
}
