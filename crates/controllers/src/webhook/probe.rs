//! Whether validation works: a Gateway without servers, created as a dry run, must be refused by our
//! webhook.
//!
//! In: a client. Out: `true` on a channel, once. Nothing is stored by the API.

use std::time::Duration;

use ironsail_source::Backoff;
use kube::api::{DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::watch;

use super::Config;
use crate::revision::{LABEL, or_default};

/// What a trial says.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Works,
    NotYet(String),
}

/// Tries until the webhook refuses a bad object.
pub(super) async fn until_refused(config: &Config, working: &watch::Sender<bool>, every: Duration) {
    let mut backoff = Backoff::up_to(every * 10);
    loop {
        match judge(trial(&config.client, &config.namespace, &config.revision).await.as_ref().err())
        {
            Verdict::Works => {
                tracing::info!(
                    "validation refuses bad objects: its webhooks fail closed from now on"
                );
                working.send_replace(true);
                return;
            }
            Verdict::NotYet(why) => tracing::debug!(%why, "validation stays open"),
        }
        tokio::time::sleep(every.max(backoff.pause())).await;
    }
}

async fn trial(client: &Client, namespace: &str, revision: &str) -> Result<(), kube::Error> {
    let kind = GroupVersionKind::gvk("networking.istio.io", "v1", "Gateway");
    let resource = ApiResource::from_gvk(&kind);
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &resource);
    let mut gateway = DynamicObject::new("invalid-gateway", &resource).within(namespace);
    // Our webhook looks only at objects of its revision.
    gateway.metadata.labels = Some([(LABEL.to_owned(), or_default(revision).to_owned())].into());
    gateway.data = json!({"spec": {}});
    let params = PostParams { dry_run: true, ..PostParams::default() };
    api.create(&params, &gateway).await.map(|_| ())
}

fn judge(error: Option<&kube::Error>) -> Verdict {
    let status = match error {
        None => return Verdict::NotYet("a bad Gateway was accepted".to_owned()),
        Some(kube::Error::Api(status)) => status,
        Some(error) => return Verdict::NotYet(error.to_string()),
    };
    let message = &status.message;
    let ours = message.contains("admission webhook") && message.contains("validation.istio.io");
    if ours && message.contains("denied the request") {
        return Verdict::Works;
    }
    // Without the CRD there is nothing to try, and nothing that could be let in wrongly.
    if status.code == 404 {
        return Verdict::Works;
    }
    Verdict::NotYet(message.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: u16, message: &str) -> kube::Error {
        let status = kube::core::Status::failure(message, "Test").with_code(code).boxed();
        kube::Error::Api(status)
    }

    #[test]
    fn only_a_refusal_by_our_own_webhook_proves_that_it_works() {
        let ours = r#"admission webhook "rev.validation.istio.io" denied the request: no servers"#;
        assert_eq!(judge(Some(&refused(400, ours))), Verdict::Works);
        let other = r#"admission webhook "policy.example.com" denied the request: no"#;
        assert!(matches!(judge(Some(&refused(400, other))), Verdict::NotYet(_)));
        let down = r#"failed calling webhook "rev.validation.istio.io": connection refused"#;
        assert!(matches!(judge(Some(&refused(500, down))), Verdict::NotYet(_)));
        assert!(matches!(judge(None), Verdict::NotYet(_)));
        assert_eq!(judge(Some(&refused(404, "not found"))), Verdict::Works);
    }
}
