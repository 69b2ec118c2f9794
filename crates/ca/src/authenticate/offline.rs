//! Tokens checked here, by the public keys of whoever signed them (OIDC): for istiod outside of a
//! cluster, and for issuers beside Kubernetes.
//!
//! Cheaper than asking the API server, but a token whose pod is gone is good until it ends.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::FutureExt;
use futures::future::BoxFuture;
use ironsail_sys::clock::Clock;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde::Deserialize;

use super::keys::{KeySource, Keys};
use super::{Evidence, Method, Refusal};
use crate::authority::chain;
use crate::caller::{BoundObject, Caller, Domains, Proof};

/// Clocks of issuers may be this far ahead or behind.
const SKEW: Duration = Duration::from_secs(60);
/// Public-key algorithms only: with a shared secret, whoever checks could also sign.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

/// Knows callers by tokens of one issuer.
#[derive(Clone)]
pub struct OfflineTokens(Arc<Shared>);

struct Shared {
    issuer: String,
    audiences: Vec<String>,
    keys: Keys,
    domains: Domains,
    clock: Clock,
}

#[derive(Deserialize)]
struct Claims {
    iss: String,
    sub: String,
    exp: f64,
    nbf: Option<f64>,
    #[serde(default)]
    aud: Audience,
    #[serde(default, rename = "kubernetes.io")]
    kubernetes: Option<Kubernetes>,
}

#[derive(Deserialize, Default)]
#[serde(untagged)]
enum Audience {
    #[default]
    None,
    One(String),
    Many(Vec<String>),
}

#[derive(Deserialize)]
struct Kubernetes {
    namespace: String,
    serviceaccount: Bound,
    pod: Option<Bound>,
    node: Option<Bound>,
}

#[derive(Deserialize)]
struct Bound {
    name: String,
    #[serde(default)]
    uid: String,
}

impl OfflineTokens {
    /// `issuer` is what `iss` must be; a token must be for one of `audiences`.
    pub fn new(
        issuer: impl Into<String>,
        audiences: Vec<String>,
        keys: KeySource,
        domains: Domains,
        clock: Clock,
    ) -> Self {
        let (issuer, keys) = (issuer.into(), Keys::new(keys));
        Self(Arc::new(Shared { issuer, audiences, keys, domains, clock }))
    }

    async fn check(&self, evidence: Evidence<'_>) -> Result<Caller, Refusal> {
        let token = evidence.usable_token()?;
        let shared = &*self.0;
        let now = shared.clock.now();
        let reject = |why: &dyn ToString| Refusal::Rejected(why.to_string());
        let header = jsonwebtoken::decode_header(token).map_err(|error| reject(&error))?;
        if !ALGORITHMS.contains(&header.alg) {
            return Err(reject(&format!("tokens signed by {:?} are not taken", header.alg)));
        }
        // Whoever shows another issuer's token does not make us ask for keys.
        shared.expect_issuer(token).map_err(Refusal::Rejected)?;
        let keys = shared.keys.candidates(header.kid.as_deref(), now).await;
        let keys = keys.map_err(Refusal::Unavailable)?;
        let mut why = "no key of the issuer has the name in the token".to_owned();
        for key in keys {
            match decode(token, header.alg, &key) {
                Ok(claims) => {
                    return shared.caller(claims, evidence, now).map_err(Refusal::Rejected);
                }
                Err(error) => why = format!("failed to verify the JWT token: {}", chain(&error)),
            }
        }
        Err(Refusal::Rejected(why))
    }
}

fn decode(
    token: &str,
    algorithm: Algorithm,
    key: &jsonwebtoken::jwk::Jwk,
) -> Result<Claims, jsonwebtoken::errors::Error> {
    let key = DecodingKey::from_jwk(key)?;
    let mut validation = Validation::new(algorithm);
    // Times and names are held against our own clock and settings afterwards.
    validation.validate_exp = false;
    validation.validate_aud = false;
    validation.required_spec_claims.clear();
    Ok(jsonwebtoken::decode::<Claims>(token, &key, &validation)?.claims)
}

impl Shared {
    /// What the token says of itself, before it is known to be true.
    fn expect_issuer(&self, token: &str) -> Result<(), String> {
        #[derive(Deserialize)]
        struct Issued {
            iss: String,
        }
        let issued: Issued = jsonwebtoken::dangerous::insecure_decode_claims(token)
            .map_err(|error| format!("the token cannot be read: {error}"))?;
        match issued.iss == self.issuer {
            true => Ok(()),
            false => Err(format!("the token is of issuer {:?}, not {:?}", issued.iss, self.issuer)),
        }
    }

    fn caller(
        &self,
        claims: Claims,
        evidence: Evidence<'_>,
        now: SystemTime,
    ) -> Result<Caller, String> {
        if claims.iss != self.issuer {
            return Err(format!("the token is of issuer {:?}, not {:?}", claims.iss, self.issuer));
        }
        let audiences = match claims.aud {
            Audience::None => Vec::new(),
            Audience::One(one) => vec![one],
            Audience::Many(many) => many,
        };
        if !audiences.iter().any(|audience| self.audiences.contains(audience)) {
            return Err(format!("invalid audiences {audiences:?}"));
        }
        let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let skew = SKEW.as_secs_f64();
        if now - skew >= claims.exp {
            return Err("the token has expired".to_owned());
        }
        if claims.nbf.is_some_and(|from| from > now + skew) {
            return Err("the token is not valid yet".to_owned());
        }
        let subject = claims.sub.strip_prefix("system:serviceaccount:");
        let (namespace, account) = subject
            .and_then(|rest| rest.split_once(':'))
            .ok_or_else(|| format!("invalid sub {:?}", claims.sub))?;
        let identity = self.domains.identity(namespace, account).map_err(|e| e.to_string())?;
        let mut proof = Proof::Token { pod: None, node: None };
        if let Some(bound) = claims.kubernetes {
            if (bound.namespace.as_str(), bound.serviceaccount.name.as_str())
                != (namespace, account)
            {
                return Err("the token's claims contradict its subject".to_owned());
            }
            let object = |bound: Bound| BoundObject { name: bound.name, uid: bound.uid };
            proof = Proof::Token { pod: bound.pod.map(object), node: bound.node.map(object) };
        }
        Ok(Caller { identity, proof, cluster: evidence.cluster.to_owned() })
    }
}

impl Method for OfflineTokens {
    fn name(&self) -> &'static str {
        "IDTokenAuthenticator"
    }

    fn authenticate<'a>(
        &'a self,
        evidence: Evidence<'a>,
    ) -> BoxFuture<'a, Result<Caller, Refusal>> {
        self.check(evidence).boxed()
    }
}
