//! Service-account tokens, checked by the API server that made them (TokenReview).
//!
//! An accepted token is not asked about again for half a minute: a proxy that connects asks for
//! certificates and for configuration at the same time. Rejections are never remembered.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use aws_lc_rs::digest;
use futures::FutureExt;
use futures::future::BoxFuture;
use ironsail_sys::clock::Clock;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use kube::api::{Api, PostParams};
use parking_lot::Mutex;

use super::{Evidence, Method, Refusal};
use crate::authority::chain;
use crate::caller::{BoundObject, Caller, Domains, Proof};

const REMEMBER: Duration = Duration::from_secs(30);
const MAX_REMEMBERED: usize = 10_000;
/// The API server must answer within this time.
const TIMEOUT: Duration = Duration::from_secs(10);
const ACCOUNTS_GROUP: &str = "system:serviceaccounts";
const ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// A digest of cluster and token: tokens themselves are not kept.
type Fingerprint = [u8; 32];

/// Asks API servers about tokens. Cheap to clone.
#[derive(Clone)]
pub struct TokenReviews(Arc<Shared>);

struct Shared {
    client: kube::Client,
    cluster: String,
    audiences: Vec<String>,
    domains: Domains,
    clock: Clock,
    remotes: ArcSwap<BTreeMap<String, kube::Client>>,
    known: Mutex<HashMap<Fingerprint, (Caller, SystemTime)>>,
}

impl TokenReviews {
    /// `cluster` is the own cluster's name; `audiences` are those that a token may be for
    /// (`TOKEN_AUDIENCES`, by default `istio-ca`).
    pub fn new(
        client: kube::Client,
        cluster: impl Into<String>,
        audiences: Vec<String>,
        domains: Domains,
        clock: Clock,
    ) -> Self {
        Self(Arc::new(Shared {
            client,
            cluster: cluster.into(),
            audiences,
            domains,
            clock,
            remotes: ArcSwap::default(),
            known: Mutex::default(),
        }))
    }

    /// The other clusters whose tokens are known from now on.
    pub fn set_remotes(&self, remotes: BTreeMap<String, kube::Client>) {
        self.0.remotes.store(Arc::new(remotes));
        self.0.known.lock().clear();
    }

    async fn check(&self, evidence: Evidence<'_>) -> Result<Caller, Refusal> {
        let token = evidence.usable_token()?;
        let shared = &*self.0;
        let print = fingerprint(evidence.cluster, token);
        if let Some(caller) = shared.recall(&print) {
            return Ok(caller);
        }
        let client = shared.client_of(evidence.cluster)?;
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: token.to_owned(),
                audiences: Some(shared.audiences.clone()),
            },
            ..TokenReview::default()
        };
        let api: Api<TokenReview> = Api::all(client);
        let (how, failed) = (PostParams::default(), "the API server did not review the token");
        let answered = tokio::time::timeout(TIMEOUT, api.create(&how, &review)).await;
        let reviewed = match answered {
            Ok(Ok(reviewed)) => reviewed,
            Ok(Err(error)) => {
                return Err(Refusal::Unavailable(format!("{failed}: {}", chain(&error))));
            }
            Err(_) => return Err(Refusal::Unavailable(format!("{failed}: it took too long"))),
        };
        let status = reviewed.status.unwrap_or_default();
        let caller = shared.caller(&status, evidence.cluster).map_err(Refusal::Rejected)?;
        shared.remember(print, &caller, token);
        Ok(caller)
    }
}

impl Shared {
    fn client_of(&self, cluster: &str) -> Result<kube::Client, Refusal> {
        if cluster.is_empty() || cluster == self.cluster {
            return Ok(self.client.clone());
        }
        self.remotes.load().get(cluster).cloned().ok_or_else(|| {
            let cluster: String = cluster.chars().take(100).collect();
            Refusal::Rejected(format!("could not get cluster {cluster}'s kube client"))
        })
    }

    fn caller(&self, status: &TokenReviewStatus, cluster: &str) -> Result<Caller, String> {
        if let Some(error) = status.error.as_ref().filter(|error| !error.is_empty()) {
            return Err(format!("the service account authentication returns an error: {error}"));
        }
        if status.authenticated != Some(true) {
            return Err("the token is not authenticated".to_owned());
        }
        // An API server that does not know audiences would take any token.
        let meant = status.audiences.iter().flatten().any(|a| self.audiences.contains(a));
        if !self.audiences.is_empty() && !meant {
            return Err(format!("the token is not for {}", self.audiences.join(" or ")));
        }
        let user = status.user.clone().unwrap_or_default();
        if !user.groups.iter().flatten().any(|group| group == ACCOUNTS_GROUP) {
            return Err("the token is not a service account".to_owned());
        }
        let name = user.username.unwrap_or_default();
        let account = name.strip_prefix(ACCOUNT_PREFIX).and_then(|rest| rest.split_once(':'));
        let (namespace, account) =
            account.ok_or("invalid username field in the token review result")?;
        let identity = self.domains.identity(namespace, account).map_err(|e| e.to_string())?;
        let extra = user.extra.unwrap_or_default();
        let bound = |kind: &str| {
            let value = |what: &str| {
                let key = format!("authentication.kubernetes.io/{kind}-{what}");
                extra.get(&key).and_then(|values| values.first()).cloned()
            };
            Some(BoundObject { name: value("name")?, uid: value("uid").unwrap_or_default() })
        };
        let proof = Proof::Token { pod: bound("pod"), node: bound("node") };
        Ok(Caller { identity, proof, cluster: self.normal(cluster) })
    }

    /// The own cluster has no name.
    fn normal(&self, cluster: &str) -> String {
        if cluster == self.cluster { String::new() } else { cluster.to_owned() }
    }

    fn recall(&self, print: &Fingerprint) -> Option<Caller> {
        let known = self.known.lock();
        let (caller, until) = known.get(print)?;
        let current = caller.identity.trust_domain == *self.domains.current().own();
        (current && self.clock.now() < *until).then(|| caller.clone())
    }

    fn remember(&self, print: Fingerprint, caller: &Caller, token: &str) {
        let now = self.clock.now();
        let until = (now + REMEMBER).min(expiry(token).unwrap_or(now + REMEMBER));
        let mut known = self.known.lock();
        if known.len() >= MAX_REMEMBERED {
            known.retain(|_, (_, until)| now < *until);
        }
        if known.len() < MAX_REMEMBERED {
            known.insert(print, (caller.clone(), until));
        }
    }
}

impl Method for TokenReviews {
    fn name(&self) -> &'static str {
        "KubeJWTAuthenticator"
    }

    fn authenticate<'a>(
        &'a self,
        evidence: Evidence<'a>,
    ) -> BoxFuture<'a, Result<Caller, Refusal>> {
        self.check(evidence).boxed()
    }
}

fn fingerprint(cluster: &str, token: &str) -> Fingerprint {
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(cluster.as_bytes());
    context.update(&[0]);
    context.update(token.as_bytes());
    let mut print = [0; 32];
    print.copy_from_slice(context.finish().as_ref());
    print
}

/// When an accepted token ends, as it says itself.
fn expiry(token: &str) -> Option<SystemTime> {
    #[derive(serde::Deserialize)]
    struct Claims {
        exp: u64,
    }
    let claims: Claims = jsonwebtoken::dangerous::insecure_decode_claims(token).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(claims.exp))
}
