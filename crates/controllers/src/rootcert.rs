//! A text of the mesh's authority in a ConfigMap of every namespace: its roots in `istio-ca-root-cert`,
//! and the certificates that it took back in `istio-ca-crl`.
//!
//! In: namespaces, these ConfigMaps, the text as it changes, the discovery selectors. Out: ConfigMaps
//! created, and repaired when they were changed or deleted. Namespaces that the selectors no longer
//! select keep their map; Kubernetes' own namespaces get none.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt;
use ironsail_source::Selectors;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::election::Chain;
use crate::queue::Queue;

/// Which map, and under which key the text lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Map {
    pub name: &'static str,
    pub key: &'static str,
}

/// The roots of the mesh. They are never taken away.
pub const ROOTS: Map = Map { name: "istio-ca-root-cert", key: "root-cert.pem" };
/// Certificates that were taken back. Without a list no map is made, and one of ours is emptied; a list
/// that somebody else keeps stays.
pub const REVOKED: Map = Map { name: "istio-ca-crl", key: "ca-crl.pem" };

const LABEL: &str = "istio.io/config";
/// The same as Istio's: they hold no workloads of the mesh.
const SKIPPED: [&str; 4] = ["kube-system", "kube-public", "kube-node-lease", "local-path-storage"];

pub struct Config {
    pub client: Client,
    pub map: Map,
    /// PEM; no map is made while it is empty.
    pub bundle: watch::Receiver<Arc<str>>,
    pub selectors: watch::Receiver<Arc<Selectors>>,
}

/// What is known of one namespace.
#[derive(Clone, Debug, Default)]
struct Place {
    labels: BTreeMap<String, String>,
    ending: bool,
}

#[derive(Debug, PartialEq)]
enum Action {
    Nothing,
    Create(Value),
    Patch(Value),
}

/// What a namespace's map needs.
fn decide(
    which: Map,
    name: &str,
    place: &Place,
    map: Option<&ConfigMap>,
    bundle: &str,
    selectors: &Selectors,
) -> Action {
    let ours = |map: &ConfigMap| map.labels().get(LABEL).is_some_and(|label| label == "true");
    let nothing = bundle.is_empty() && (which == ROOTS || !map.is_some_and(ours));
    if place.ending || nothing || SKIPPED.contains(&name) || !selectors.select(&place.labels) {
        return Action::Nothing;
    }
    let wanted = json!({
        "metadata": {"name": which.name, "namespace": name, "labels": {LABEL: "true"}},
        "data": {which.key: bundle},
    });
    let Some(map) = map else { return Action::Create(wanted) };
    let current = map.data.as_ref().and_then(|data| data.get(which.key));
    if ours(map) && current.is_some_and(|text| text == bundle) {
        return Action::Nothing;
    }
    Action::Patch(wanted)
}

struct State {
    client: Client,
    map: Map,
    places: BTreeMap<String, Place>,
    maps: BTreeMap<String, ConfigMap>,
    queue: Queue<String>,
}

/// Keeps the maps right until `stop`.
pub async fn run(mut config: Config, stop: CancellationToken) {
    let namespaces = Api::<PartialObjectMeta<Namespace>>::all(config.client.clone());
    let mut namespaces = pin!(watcher(namespaces, watcher::Config::default()).default_backoff());
    let maps = Api::<ConfigMap>::all(config.client.clone());
    let name = config.map.name;
    let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut maps = pin!(watcher(maps, only).default_backoff());
    let mut state = State {
        client: config.client.clone(),
        map: config.map,
        places: BTreeMap::new(),
        maps: BTreeMap::new(),
        queue: Queue::new(),
    };
    // Until the first list of maps is complete, a map that was not told yet is not missing.
    let mut listed = false;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            Some(event) = namespaces.next() => match event {
                Ok(event) => state.namespace(event),
                Err(error) => tracing::warn!(error = %Chain(&error), "watching namespaces"),
            },
            Some(event) = maps.next() => match event {
                Ok(event) => {
                    listed |= matches!(event, watcher::Event::InitDone);
                    state.map(event);
                }
                Err(error) => tracing::warn!(error = %Chain(&error), "watching {name}"),
            },
            Ok(()) = config.bundle.changed() => state.all(),
            Ok(()) = config.selectors.changed() => state.all(),
            () = state.queue.due(), if listed => {
                let bundle = config.bundle.borrow_and_update().clone();
                let selectors = config.selectors.borrow_and_update().clone();
                state.work(&bundle, &selectors).await;
            }
        }
    }
}

impl State {
    fn all(&mut self) {
        for name in self.places.keys() {
            self.queue.push(name.clone());
        }
    }

    fn namespace(&mut self, event: watcher::Event<PartialObjectMeta<Namespace>>) {
        match event {
            watcher::Event::Init => self.places.clear(),
            watcher::Event::InitApply(object) | watcher::Event::Apply(object) => {
                let name = object.name_any();
                let ending = object.metadata.deletion_timestamp.is_some();
                let labels = object.metadata.labels.unwrap_or_default();
                self.places.insert(name.clone(), Place { labels, ending });
                self.queue.push(name);
            }
            watcher::Event::InitDone => {}
            watcher::Event::Delete(object) => {
                self.places.remove(&object.name_any());
            }
        }
    }

    fn map(&mut self, event: watcher::Event<ConfigMap>) {
        match event {
            watcher::Event::Init => self.maps.clear(),
            watcher::Event::InitApply(map) | watcher::Event::Apply(map) => {
                let namespace = map.namespace().unwrap_or_default();
                self.queue.push(namespace.clone());
                self.maps.insert(namespace, map);
            }
            watcher::Event::InitDone => self.all(),
            watcher::Event::Delete(map) => {
                let namespace = map.namespace().unwrap_or_default();
                self.maps.remove(&namespace);
                self.queue.push(namespace);
            }
        }
    }

    /// Does what is due.
    async fn work(&mut self, bundle: &str, selectors: &Selectors) {
        while let Some(name) = self.queue.take() {
            let Some(place) = self.places.get(&name) else {
                self.queue.done(&name);
                continue;
            };
            let known = self.maps.get(&name);
            let action = decide(self.map, &name, place, known, bundle, selectors);
            match self.perform(&name, action).await {
                Ok(()) => self.queue.done(&name),
                Err(error) => {
                    tracing::warn!(namespace = %name, error = %Chain(&error), "writing {}, trying again", self.map.name);
                    self.queue.retry(&name);
                }
            }
        }
    }

    async fn perform(&mut self, name: &str, action: Action) -> Result<(), kube::Error> {
        let api = Api::<ConfigMap>::namespaced(self.client.clone(), name);
        let written = match action {
            Action::Nothing => return Ok(()),
            Action::Create(map) => {
                let map = serde_json::from_value(map).map_err(kube::Error::SerdeError)?;
                api.create(&PostParams::default(), &map).await
            }
            Action::Patch(patch) => {
                api.patch(self.map.name, &PatchParams::default(), &Patch::Merge(&patch)).await
            }
        };
        match written {
            Ok(map) => {
                self.maps.insert(name.to_owned(), map);
                Ok(())
            }
            Err(kube::Error::Api(status)) if is_settled(&status) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// The namespace is going or gone, or somebody wrote the map just now: the watch will tell.
fn is_settled(status: &kube::core::Status) -> bool {
    status.code == 404
        || status.code == 409
        || (status.code == 403 && status.message.contains("being terminated"))
}
