//! Who calls: the CA's authenticator behind discovery's seam, and who may have Secrets.

use std::collections::HashMap;
use std::time::Duration;

use futures::future::BoxFuture;
use ironsail_ca::{AuthenticationError, Authenticator};
use ironsail_discovery::{Authenticate, Identity, SecretAccess};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use parking_lot::Mutex;
use tokio::time::Instant;
use tonic::Status;

/// For ports with TLS: a token or a certificate of the mesh.
pub(crate) struct Proven(pub(crate) Authenticator);

impl Authenticate for Proven {
    fn authenticate<'a>(
        &'a self,
        headers: &'a http::HeaderMap,
        connection: &'a http::Extensions,
    ) -> BoxFuture<'a, Result<Option<Identity>, Status>> {
        Box::pin(async move {
            match self.0.authenticate(headers, connection).await {
                Ok(caller) => Ok(Some(Identity(caller.identity))),
                // What a stranger learns is only that; the reasons are in the log.
                Err(error @ AuthenticationError::Unknown { .. }) => {
                    tracing::warn!(target: "ads", "{error}");
                    Err(Status::unauthenticated("authentication failure"))
                }
                Err(error @ AuthenticationError::Unavailable { .. }) => {
                    tracing::warn!(target: "ads", "{error}");
                    Err(Status::unavailable("callers cannot be authenticated now"))
                }
            }
        })
    }
}

/// How long an answer of Kubernetes counts.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Answers that are remembered.
const MOST: usize = 10_000;

/// Asks Kubernetes whether an account may list Secrets of its namespace, as Istio does for gateways.
pub(crate) struct Reviews {
    client: kube::Client,
    known: Mutex<HashMap<String, (bool, Instant)>>,
}

impl Reviews {
    pub(crate) fn new(client: kube::Client) -> Self {
        Self { client, known: Mutex::default() }
    }

    async fn ask(&self, identity: &Identity) -> Result<bool, kube::Error> {
        let (namespace, account) = (&identity.0.namespace, &identity.0.service_account);
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(format!("system:serviceaccount:{namespace}:{account}")),
                resource_attributes: Some(ResourceAttributes {
                    namespace: Some(namespace.to_string()),
                    resource: Some("secrets".into()),
                    verb: Some("list".into()),
                    ..Default::default()
                }),
                ..Default::default()
            },
            ..Default::default()
        };
        let api = kube::Api::<SubjectAccessReview>::all(self.client.clone());
        let answer = api.create(&PostParams::default(), &review).await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }
}

impl SecretAccess for Reviews {
    fn may_read_secrets<'a>(&'a self, identity: &'a Identity) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let (name, now) = (identity.0.to_string(), Instant::now());
            let known = self.known.lock().get(&name).copied();
            if let Some((may, _)) = known.filter(|(_, at)| now - *at < REMEMBERED) {
                return may;
            }
            match self.ask(identity).await {
                Ok(may) => {
                    let mut known = self.known.lock();
                    if known.len() >= MOST {
                        known.clear();
                    }
                    known.insert(name, (may, now));
                    may
                }
                Err(error) => {
                    tracing::warn!(%error, "asking whether {name} may read Secrets");
                    false
                }
            }
        })
    }
}
