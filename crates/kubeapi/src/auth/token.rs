//! Service-account tokens: made for a TokenRequest, checked when they come back, and described to
//! others by an OIDC discovery document and a key set.
//!
//! Tokens are signed with RS256, which everything that checks Kubernetes tokens knows. A token is
//! only as good as what it is bound to: the service account, and the pod or secret it names, must
//! still be the same objects.

use std::path::Path;
use std::sync::Arc;

use ironsail_sys::clock::Clock;
use jsonwebtoken::{Algorithm, Validation};
use serde_json::{Value, json};

use super::file;
use super::{Objects, Refusal, User};

mod claims;
mod key;
mod request;
#[cfg(test)]
pub(super) mod tests;

use claims::{Claims, LegacyClaims};
use key::Key;

/// Longer ones are no tokens of ours.
const MAX_TOKEN: usize = 16 << 10;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    File(#[from] file::Error),
    #[error("making the signing key of service accounts")]
    Generate(#[source] rcgen::Error),
    #[error("{path} does not hold a usable RSA key: {what}", path = .path.display())]
    BadKey { path: std::path::PathBuf, what: String },
}

/// Why a token is not accepted. The texts go into the status of a TokenReview.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    #[error("the token is not a token of this server: {0}")]
    Malformed(String),
    #[error("service account token has expired")]
    Expired,
    #[error("service account token is not valid yet")]
    NotYet,
    #[error("token audiences {} is invalid for the target audiences {}", go_list(.held), go_list(.wanted))]
    Audience { held: Vec<String>, wanted: Vec<String> },
    #[error("service account token has been invalidated")]
    Invalidated,
}

/// Signs and checks tokens.
pub struct Tokens {
    key: Key,
    issuer: String,
    objects: Arc<dyn Objects>,
    clock: Clock,
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
        let key = Key::open(&directory.join("sa.key"))?;
        Ok(Self { key, issuer: issuer.to_owned(), objects, clock })
    }

    /// `POST …/serviceaccounts/NAME/token`: takes a TokenRequest, gives it back with its status.
    /// The caller has checked that the user may create `serviceaccounts/token`.
    pub fn request(&self, namespace: &str, name: &str, body: Value) -> Result<Value, Refusal> {
        request::answer(self, namespace, name, body)
    }

    /// The user of a token meant for one of `audiences` (the API server's own where empty), and
    /// those of the asked audiences that it is meant for.
    pub fn check(
        &self,
        token: &str,
        audiences: &[String],
    ) -> Result<(User, Vec<String>), Rejected> {
        let own = [self.issuer.clone()];
        let wanted = if audiences.is_empty() { &own[..] } else { audiences };
        let claims = self.verified(token)?;
        if claims["iss"] == claims::LEGACY_ISSUER {
            return self.check_legacy(token, claims, wanted);
        }
        let claims: Claims =
            serde_json::from_value(claims).map_err(|e| Rejected::Malformed(e.to_string()))?;
        if claims.iss != self.issuer {
            return Err(Rejected::Malformed(format!("its issuer is {:?}", claims.iss)));
        }
        let now = self.now();
        if claims.exp <= now {
            return Err(Rejected::Expired);
        }
        if claims.nbf > now {
            return Err(Rejected::NotYet);
        }
        let common = common(&claims.aud, wanted)?;
        self.still_there(&claims)?;
        Ok((claims.user(), common))
    }

    /// The token for a `kubernetes.io/service-account-token` Secret; it never expires, but ends
    /// with the Secret. `None` where the Secret does not name an existing service account.
    pub fn for_secret(&self, secret: &Value) -> Option<String> {
        let claims = LegacyClaims::of_secret(secret, &*self.objects)?;
        Some(self.key.sign(&claims))
    }

    /// `GET /.well-known/openid-configuration` (application/json).
    pub fn discovery(&self) -> Value {
        json!({
            "issuer": self.issuer,
            "jwks_uri": format!("{}/openid/v1/jwks", self.issuer.trim_end_matches('/')),
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        })
    }

    /// `GET /openid/v1/jwks` (application/jwk-set+json).
    pub fn key_set(&self) -> Value {
        json!({ "keys": [self.key.public()] })
    }

    fn now(&self) -> u64 {
        self.clock.since_epoch().as_secs()
    }

    /// The claims of a token that was signed here; nothing else about it is known yet.
    fn verified(&self, token: &str) -> Result<Value, Rejected> {
        if token.len() > MAX_TOKEN {
            return Err(Rejected::Malformed("it is too long".to_owned()));
        }
        let mut validation = Validation::new(Algorithm::RS256);
        // Times and audiences are checked against our own clock and lists afterwards.
        validation.validate_exp = false;
        validation.validate_aud = false;
        validation.required_spec_claims.clear();
        let data = jsonwebtoken::decode::<Value>(token, &self.key.decoding, &validation)
            .map_err(|e| Rejected::Malformed(e.to_string()))?;
        Ok(data.claims)
    }

    fn check_legacy(
        &self,
        token: &str,
        claims: Value,
        wanted: &[String],
    ) -> Result<(User, Vec<String>), Rejected> {
        let claims: LegacyClaims =
            serde_json::from_value(claims).map_err(|e| Rejected::Malformed(e.to_string()))?;
        let common = common(std::slice::from_ref(&self.issuer), wanted)?;
        let user = claims.user_if_current(token, &*self.objects).ok_or(Rejected::Invalidated)?;
        Ok((user, common))
    }

    /// Whether the objects that the token speaks of are still those it was made for.
    fn still_there(&self, claims: &Claims) -> Result<(), Rejected> {
        let scope = &claims.kubernetes;
        let lookup = |resource: &str, bound: &claims::Bound| {
            let found = self.objects.get("", resource, Some(&scope.namespace), &bound.name);
            found.filter(|o| o["metadata"]["uid"] == bound.uid).ok_or(Rejected::Invalidated)
        };
        let mut bound = vec![lookup("serviceaccounts", &scope.serviceaccount)?];
        match (&scope.pod, &scope.node) {
            (Some(pod), _) => bound.push(lookup("pods", pod)?),
            (None, Some(node)) => {
                let found = self.objects.get("", "nodes", None, &node.name);
                let same = |o: &Arc<Value>| o["metadata"]["uid"] == node.uid;
                bound.push(found.filter(same).ok_or(Rejected::Invalidated)?);
            }
            (None, None) => {}
        }
        if let Some(secret) = &scope.secret {
            bound.push(lookup("secrets", secret)?);
        }
        // A pod that is being stopped may use its token until a minute after its time is over.
        let over = |object: &Arc<Value>| {
            let stamp = object["metadata"]["deletionTimestamp"].as_str();
            let stamp = stamp.and_then(|s| s.parse::<jiff::Timestamp>().ok());
            let now = i64::try_from(self.now()).unwrap_or(i64::MAX);
            stamp.is_some_and(|s| s.as_second() < now - 60)
        };
        if bound.iter().any(over) { Err(Rejected::Invalidated) } else { Ok(()) }
    }
}

fn common(held: &[String], wanted: &[String]) -> Result<Vec<String>, Rejected> {
    let common: Vec<_> = wanted.iter().filter(|w| held.contains(w)).cloned().collect();
    if common.is_empty() {
        return Err(Rejected::Audience { held: held.to_vec(), wanted: wanted.to_vec() });
    }
    Ok(common)
}

fn go_list(list: &[String]) -> String {
    super::rbac::rule::quoted(list)
}
