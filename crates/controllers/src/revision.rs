//! Which revision of the control plane is the default one: what the webhook of the tag `default`
//! points to.
//!
//! In: MutatingWebhookConfiguration `istio-revision-tag-default`. Out: a watched name, `default`
//! while there is no such tag.

use std::pin::pin;

use futures::StreamExt;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::election::Chain;

const TAG: &str = "istio-revision-tag-default";
pub(crate) const LABEL: &str = "istio.io/rev";
pub const DEFAULT: &str = "default";

/// The revision of a control plane that was told none.
pub fn or_default(revision: &str) -> &str {
    if revision.is_empty() { DEFAULT } else { revision }
}

/// Follows the tag until `stop`, in a task of its own.
pub fn follow_default(client: Client, stop: CancellationToken) -> watch::Receiver<String> {
    let (sender, receiver) = watch::channel(DEFAULT.to_owned());
    tokio::spawn(async move {
        let api = Api::<PartialObjectMeta<MutatingWebhookConfiguration>>::all(client);
        let only = watcher::Config::default().fields(&format!("metadata.name={TAG}"));
        let mut events = pin!(watcher(api, only).default_backoff());
        loop {
            let event = tokio::select! {
                () = stop.cancelled() => return,
                Some(event) = events.next() => event,
            };
            let revision = match event {
                Ok(watcher::Event::Apply(tag) | watcher::Event::InitApply(tag)) => of(&tag),
                Ok(watcher::Event::Delete(_)) => DEFAULT.to_owned(),
                Ok(_) => continue,
                Err(error) => {
                    tracing::warn!(error = %Chain(&error), "watching {TAG}");
                    continue;
                }
            };
            sender.send_if_modified(|known| {
                let changed = *known != revision;
                known.clone_from(&revision);
                changed
            });
        }
    });
    receiver
}

fn of(tag: &PartialObjectMeta<MutatingWebhookConfiguration>) -> String {
    tag.labels().get(LABEL).cloned().unwrap_or_else(|| DEFAULT.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_tag_names_the_default_revision() {
        let api = ironsail_testkit::Api::open().await;
        let stop = CancellationToken::new();
        let mut revision = follow_default(api.client(), stop.clone());
        assert_eq!(*revision.borrow(), DEFAULT);
        let tag = "{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, \
                   metadata: {name: istio-revision-tag-default, labels: {istio.io/rev: blue}}}";
        api.apply(tag).await;
        revision.wait_for(|name| name == "blue").await.unwrap();
        api.delete(tag).await;
        revision.wait_for(|name| name == DEFAULT).await.unwrap();
        stop.cancel();
    }
}
