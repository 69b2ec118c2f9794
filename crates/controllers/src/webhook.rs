//! Webhook configurations that trust us: the CA bundle of the injection and validation webhooks of
//! our revision.
//!
//! In: the bundle as a watched text, the configurations with label `istio.io/rev`. Out: patches of
//! `caBundle`, and for validation of `failurePolicy`. Webhooks of other names are not touched.

mod patch;
mod probe;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use kube::api::{Patch, PatchParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::election::Chain;
use crate::queue::Queue;
use crate::revision::{LABEL, or_default};

use patch::Patched;

/// How long until the next look whether validation works.
const PROBE_EVERY: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub struct Config {
    pub client: Client,
    /// Empty for the default one.
    pub revision: String,
    /// Where the trial object of the validation probe would lie: the control plane's namespace.
    pub namespace: String,
    /// PEM; nothing is written while it is empty.
    pub bundle: watch::Receiver<Arc<str>>,
}

/// Keeps the bundle of the injection webhooks right until `stop`.
pub async fn patch_injection(config: Config, stop: CancellationToken) {
    let working = watch::Sender::new(false);
    keep::<MutatingWebhookConfiguration>(config, working.subscribe(), stop).await;
}

/// Keeps the bundle of the validation webhooks right until `stop`, and makes them fail closed once
/// they were seen refusing a bad object.
///
/// A webhook that fails closed already is never opened again: that would let bad objects in
/// whenever a replica starts.
pub async fn patch_validation(config: Config, stop: CancellationToken) {
    let working = watch::Sender::new(false);
    let probing = probe::until_refused(&config, &working, PROBE_EVERY);
    let keeping =
        keep::<ValidatingWebhookConfiguration>(config.clone(), working.subscribe(), stop.clone());
    tokio::select! {
        () = keeping => {}
        () = async { probing.await; std::future::pending().await } => {}
    }
}

async fn keep<K>(mut config: Config, mut working: watch::Receiver<bool>, stop: CancellationToken)
where
    K: Patched + Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let api = Api::<K>::all(config.client.clone());
    let only =
        watcher::Config::default().labels(&format!("{LABEL}={}", or_default(&config.revision)));
    let mut events = pin!(watcher(api.clone(), only).default_backoff());
    let mut known = BTreeMap::new();
    let mut queue = Queue::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            Some(event) = events.next() => match event {
                Ok(watcher::Event::Init) => known.clear(),
                Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => {
                    queue.push(object.name_any());
                    known.insert(object.name_any(), object);
                }
                Ok(watcher::Event::Delete(object)) => {
                    known.remove(&object.name_any());
                }
                Ok(watcher::Event::InitDone) => {}
                Err(error) => {
                    tracing::warn!(kind = %K::kind(&()), error = %Chain(&error), "watching webhooks");
                }
            },
            Ok(()) = config.bundle.changed() => known.keys().for_each(|name: &String| queue.push(name.clone())),
            Ok(()) = working.changed() => known.keys().for_each(|name| queue.push(name.clone())),
            () = queue.due() => {
                let bundle = config.bundle.borrow_and_update().clone();
                let works = *working.borrow_and_update();
                while let Some(name) = queue.take() {
                    let patch = known.get(&name).and_then(|object| object.patch(&bundle, works));
                    let Some(patch) = patch else {
                        queue.done(&name);
                        continue;
                    };
                    let params = PatchParams::default();
                    match api.patch(&name, &params, &Patch::Strategic(&patch)).await {
                        Ok(object) => {
                            tracing::info!(kind = %K::kind(&()), %name, "webhook patched");
                            known.insert(name.clone(), object);
                            queue.done(&name);
                        }
                        Err(kube::Error::Api(status)) if status.code == 404 => queue.done(&name),
                        Err(error) => {
                            tracing::warn!(%name, error = %Chain(&error), "patching a webhook, trying again");
                            queue.retry(&name);
                        }
                    }
                }
            }
        }
    }
}
