//! Service-account tokens: made for a TokenRequest, checked when they come back, and described to
//! others by an OIDC discovery document and a key set.

use std::path::Path;
use std::sync::Arc;

use ironsail_sys::clock::Clock;
use serde_json::Value;

use super::{Objects, Refusal, User};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("not there yet")]
    Later,
}

/// Signs and checks tokens.
pub struct Tokens {
    _objects: Arc<dyn Objects>,
}

impl Tokens {
    /// Opens or makes the signing key under `directory` (`sa.key`). `issuer` is the URL in `iss`
    /// (`https://kubernetes.default.svc.cluster.local`), which is also the default audience.
    pub fn open(
        directory: &Path,
        issuer: &str,
        objects: Arc<dyn Objects>,
        clock: Clock,
    ) -> Result<Self, Error> {
        let _ = (directory, issuer, objects, clock);
        Err(Error::Later)
    }

    /// `POST …/serviceaccounts/NAME/token`: takes a TokenRequest, gives it back with its status.
    /// The caller has checked that the user may create `serviceaccounts/token`.
    pub fn request(&self, namespace: &str, name: &str, body: Value) -> Result<Value, Refusal> {
        let _ = (namespace, name, body);
        Err(Refusal::unauthorized())
    }

    /// The user of a token meant for one of `audiences` (the API server's own where empty), and
    /// those of the asked audiences that it is meant for.
    pub fn check(&self, token: &str, audiences: &[String]) -> Result<(User, Vec<String>), Refusal> {
        let _ = (token, audiences);
        Err(Refusal::unauthorized())
    }

    /// The token for a `kubernetes.io/service-account-token` Secret; it never expires.
    pub fn for_secret(&self, secret: &Value) -> Option<String> {
        let _ = secret;
        None
    }

    /// `GET /.well-known/openid-configuration` (application/json).
    pub fn discovery(&self) -> Value {
        Value::Null
    }

    /// `GET /openid/v1/jwks` (application/jwk-set+json).
    pub fn key_set(&self) -> Value {
        Value::Null
    }
}
