//! Service-account tokens of one pod: fetched, kept, renewed in time.
//!
//! In comes the pod and a source of tokens; out come token texts and when to come back. Each
//! audience and lifetime is fetched once, however many volumes want it.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount, ServiceAccountTokenProjection};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::time::Instant;

/// Kubernetes' default lifetime.
const DEFAULT_SECONDS: i64 = 3600;
/// A failed renewal is tried again after this; the old token is good for much longer.
const RETRY: Duration = Duration::from_secs(10);
/// Tokens are renewed after a day at the latest, as kubelets do.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Where tokens come from.
pub trait TokenSource: Send + Sync + 'static {
    /// A token for `pod` and how long it is good for. An empty audience is the API server's own.
    fn request<'a>(
        &'a self,
        pod: &'a Pod,
        audience: &'a str,
        seconds: i64,
    ) -> BoxFuture<'a, Result<(String, Duration), String>>;
}

/// Asks the API server, bound to the pod.
pub struct ApiTokens {
    pub client: Client,
    pub clock: ironsail_sys::clock::Clock,
}

impl TokenSource for ApiTokens {
    fn request<'a>(
        &'a self,
        pod: &'a Pod,
        audience: &'a str,
        seconds: i64,
    ) -> BoxFuture<'a, Result<(String, Duration), String>> {
        Box::pin(async move {
            let meta = &pod.metadata;
            let account = pod
                .spec
                .as_ref()
                .and_then(|s| s.service_account_name.as_deref())
                .unwrap_or("default");
            let request = TokenRequest {
                spec: Some(TokenRequestSpec {
                    audiences: (!audience.is_empty()).then(|| vec![audience.to_owned()]),
                    expiration_seconds: Some(seconds),
                    bound_object_ref: Some(BoundObjectReference {
                        api_version: Some("v1".to_owned()),
                        kind: Some("Pod".to_owned()),
                        name: meta.name.clone(),
                        uid: meta.uid.clone(),
                    }),
                }),
                ..TokenRequest::default()
            };
            let api: Api<ServiceAccount> = Api::namespaced(
                self.client.clone(),
                meta.namespace.as_deref().unwrap_or("default"),
            );
            let failed = |e: &dyn std::fmt::Display| format!("failed to fetch token: {e}");
            let body = api.create_token_request(account, &PostParams::default(), &request).await;
            let status = body
                .map_err(|e| failed(&e))?
                .status
                .ok_or_else(|| failed(&"the answer has no status"))?;
            let now = Timestamp::try_from(self.clock.now()).unwrap_or(Timestamp::UNIX_EPOCH);
            let expires = status.expiration_timestamp.map_or(now, |t| t.0);
            let left = Duration::from_secs(
                u64::try_from(expires.as_second() - now.as_second()).unwrap_or(0),
            );
            let token = status.token.ok_or_else(|| failed(&"the answer has no token"))?;
            Ok((token, left))
        })
    }
}

type Key = (String, i64);

struct Token {
    text: String,
    renew_at: Instant,
}

/// The tokens of one pod.
#[derive(Default)]
pub struct Tokens {
    kept: BTreeMap<Key, Token>,
}

fn key(projection: &ServiceAccountTokenProjection) -> Key {
    let seconds = projection.expiration_seconds.unwrap_or(DEFAULT_SECONDS);
    (projection.audience.clone().unwrap_or_default(), seconds)
}

impl Tokens {
    pub fn get(&self, projection: &ServiceAccountTokenProjection) -> Option<String> {
        self.kept.get(&key(projection)).map(|t| t.text.clone())
    }

    /// Fetches what is missing or due. A renewal that fails keeps the old token; a first fetch that
    /// fails is the error.
    pub async fn refresh(
        &mut self,
        pod: &Pod,
        wanted: impl IntoIterator<Item = &ServiceAccountTokenProjection>,
        source: &dyn TokenSource,
    ) -> Result<(), String> {
        for projection in wanted {
            let key = key(projection);
            let now = Instant::now();
            if self.kept.get(&key).is_some_and(|t| t.renew_at > now) {
                continue;
            }
            match source.request(pod, &key.0, key.1).await {
                Ok((text, lifetime)) => {
                    let renew_at = now + lifetime.mul_f64(0.8).min(LONGEST);
                    self.kept.insert(key, Token { text, renew_at });
                }
                Err(error) => match self.kept.get_mut(&key) {
                    Some(old) => {
                        tracing::warn!(
                            audience = key.0,
                            error,
                            "cannot renew a service-account token"
                        );
                        old.renew_at = now + RETRY;
                    }
                    None => return Err(error),
                },
            }
        }
        Ok(())
    }

    /// When the next one is due.
    pub fn due(&self) -> Option<Instant> {
        self.kept.values().map(|t| t.renew_at).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;

    #[derive(Default)]
    struct Counted(Mutex<u32>);

    impl TokenSource for Counted {
        fn request<'a>(
            &'a self,
            _: &'a Pod,
            audience: &'a str,
            seconds: i64,
        ) -> BoxFuture<'a, Result<(String, Duration), String>> {
            *self.0.lock() += 1;
            let count = *self.0.lock();
            let answer = if audience == "bad" {
                Err("no".to_owned())
            } else {
                Ok(format!("{audience}-{count}"))
            };
            let seconds = Duration::from_secs(u64::try_from(seconds).unwrap());
            Box::pin(async move { answer.map(|text| (text, seconds)) })
        }
    }

    fn projection(audience: &str, seconds: i64) -> ServiceAccountTokenProjection {
        let audience = Some(audience.to_owned());
        ServiceAccountTokenProjection {
            audience,
            expiration_seconds: Some(seconds),
            path: "t".into(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_are_renewed_at_four_fifths_of_their_life() {
        let source = Counted::default();
        let mut tokens = Tokens::default();
        let wanted = [projection("a", 1000), projection("b", 10_000)];
        tokens.refresh(&Pod::default(), &wanted, &source).await.unwrap();
        assert_eq!(tokens.get(&wanted[0]).as_deref(), Some("a-1"));
        assert_eq!(tokens.due(), Some(Instant::now() + Duration::from_secs(800)));
        tokio::time::advance(Duration::from_secs(799)).await;
        tokens.refresh(&Pod::default(), &wanted, &source).await.unwrap();
        assert_eq!(tokens.get(&wanted[0]).as_deref(), Some("a-1"));
        tokio::time::advance(Duration::from_secs(1)).await;
        tokens.refresh(&Pod::default(), &wanted, &source).await.unwrap();
        assert_eq!(tokens.get(&wanted[0]).as_deref(), Some("a-3"));
        assert_eq!(tokens.get(&wanted[1]).as_deref(), Some("b-2"));
    }

    #[tokio::test]
    async fn a_first_fetch_that_fails_is_told() {
        let got = Tokens::default()
            .refresh(&Pod::default(), &[projection("bad", 600)], &Counted::default())
            .await;
        assert_eq!(got, Err("no".to_owned()));
    }
}
