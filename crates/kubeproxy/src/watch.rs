//! Keeping the model in step with the API.
//!
//! In: watches; out: a model and a nudge whenever it changed. A watch that breaks is taken up again
//! by listing anew; until then the last state stands.

use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch_api};
use kube::{Api, Client, ResourceExt};
use parking_lot::RwLock;
use tokio::sync::Notify;

use crate::model::{Key, Model, key};

/// The model, shared with those who read it.
#[derive(Clone, Default)]
pub(crate) struct Shared {
    pub(crate) model: Arc<RwLock<Model>>,
    pub(crate) changed: Arc<Notify>,
    services_listed: Arc<AtomicBool>,
    slices_listed: Arc<AtomicBool>,
}

impl Shared {
    /// Whether both kinds were listed whole. Before that a Service may seem to lack endpoints.
    pub(crate) fn is_complete(&self) -> bool {
        self.services_listed.load(Ordering::Acquire) && self.slices_listed.load(Ordering::Acquire)
    }

    pub(crate) async fn watch_services(&self, client: &Client) {
        let api: Api<Service> = Api::all(client.clone());
        let kind = Watched {
            shared: self,
            listed: &self.services_listed,
            apply: Model::apply_service,
            remove: Model::remove_service,
            known: |model| model.services().map(|(key, _)| key.clone()).collect(),
        };
        kind.follow(watch_api(api, watcher::Config::default()).default_backoff()).await;
    }

    pub(crate) async fn watch_slices(&self, client: &Client) {
        let api: Api<EndpointSlice> = Api::all(client.clone());
        let kind = Watched {
            shared: self,
            listed: &self.slices_listed,
            apply: Model::apply_slice,
            remove: Model::remove_slice,
            known: |model| model.slice_keys().cloned().collect(),
        };
        kind.follow(watch_api(api, watcher::Config::default()).default_backoff()).await;
    }
}

struct Watched<'a, K> {
    shared: &'a Shared,
    listed: &'a AtomicBool,
    apply: fn(&mut Model, &K) -> bool,
    remove: fn(&mut Model, &Key) -> bool,
    known: fn(&Model) -> Vec<Key>,
}

impl<K: ResourceExt + Debug> Watched<'_, K> {
    async fn follow(&self, events: impl Stream<Item = watcher::Result<Event<K>>>) {
        let mut events = std::pin::pin!(events);
        let mut seen = HashSet::new();
        while let Some(event) = events.next().await {
            let changed = match event {
                Ok(event) => self.take(event, &mut seen),
                Err(error) => {
                    tracing::warn!(%error, "watching Services and EndpointSlices; trying again");
                    false
                }
            };
            if changed {
                self.shared.changed.notify_one();
            }
        }
    }

    fn take(&self, event: Event<K>, seen: &mut HashSet<Key>) -> bool {
        let mut model = self.shared.model.write();
        match event {
            Event::Init => {
                seen.clear();
                false
            }
            Event::InitApply(object) => {
                seen.extend(key(&object));
                (self.apply)(&mut model, &object)
            }
            Event::InitDone => {
                for gone in (self.known)(&model).iter().filter(|k| !seen.contains(*k)) {
                    (self.remove)(&mut model, gone);
                }
                seen.clear();
                self.listed.store(true, Ordering::Release);
                true
            }
            Event::Apply(object) => (self.apply)(&mut model, &object),
            Event::Delete(object) => key(&object).is_some_and(|k| (self.remove)(&mut model, &k)),
        }
    }
}
