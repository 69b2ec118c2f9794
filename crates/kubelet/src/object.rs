//! Config maps and secrets that pods of this node refer to, kept fresh while they do.
//!
//! In come references; out come the objects and a call when one changes. Each object is watched
//! once however many pods name it, and only as long as one does.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Weak};

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::watch_object;
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio_util::task::AbortOnDropHandle;

use crate::field::containers;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    ConfigMap,
    Secret,
}

/// A config map or secret of some namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reference {
    pub kind: Kind,
    pub namespace: String,
    pub name: String,
}

#[derive(Clone, Debug)]
enum State {
    /// The API has not answered yet.
    Unknown,
    Missing,
    ConfigMap(Arc<ConfigMap>),
    Secret(Arc<Secret>),
}

struct Watched {
    state: watch::Receiver<State>,
    listeners: Arc<Mutex<Vec<Weak<Notify>>>>,
    _task: AbortOnDropHandle<()>,
}

/// All objects that are watched now.
pub struct Cache {
    client: Client,
    watched: Mutex<HashMap<Reference, Weak<Watched>>>,
}

/// The objects of one pod. Watched until this is dropped.
pub struct Held {
    namespace: String,
    objects: HashMap<(Kind, String), Arc<Watched>>,
    /// Told whenever one of them changes.
    pub changed: Arc<Notify>,
}

impl Cache {
    pub fn new(client: Client) -> Arc<Self> {
        Arc::new(Self { client, watched: Mutex::default() })
    }

    /// Starts to watch what `pod` refers to.
    pub fn hold(&self, pod: &Pod) -> Held {
        let namespace = pod.metadata.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let changed = Arc::new(Notify::new());
        let mut objects = HashMap::new();
        for (kind, name) in references(pod) {
            let reference = Reference { kind, namespace: namespace.clone(), name: name.clone() };
            let watched = self.watch(reference);
            watched.listeners.lock().push(Arc::downgrade(&changed));
            objects.insert((kind, name), watched);
        }
        Held { namespace, objects, changed }
    }

    fn watch(&self, reference: Reference) -> Arc<Watched> {
        let mut all = self.watched.lock();
        if let Some(watched) = all.get(&reference).and_then(Weak::upgrade) {
            return watched;
        }
        all.retain(|_, watched| watched.strong_count() > 0);
        let (tx, rx) = watch::channel(State::Unknown);
        let listeners = Arc::new(Mutex::new(Vec::<Weak<Notify>>::new()));
        let task =
            tokio::spawn(follow(self.client.clone(), reference.clone(), tx, listeners.clone()));
        let watched =
            Arc::new(Watched { state: rx, listeners, _task: AbortOnDropHandle::new(task) });
        all.insert(reference, Arc::downgrade(&watched));
        watched
    }
}

async fn follow(
    client: Client,
    reference: Reference,
    tx: watch::Sender<State>,
    listeners: Arc<Mutex<Vec<Weak<Notify>>>>,
) {
    let tell = |state: State| {
        let _ = tx.send(state);
        listeners.lock().retain(|listener| match listener.upgrade() {
            Some(listener) => {
                listener.notify_one();
                true
            }
            None => false,
        });
    };
    let Reference { kind, namespace, name } = reference;
    let failed = |error: &dyn std::fmt::Display| {
        tracing::debug!(%error, ?kind, namespace, name, "cannot watch an object");
    };
    match kind {
        Kind::ConfigMap => {
            let api: Api<ConfigMap> = Api::namespaced(client, &namespace);
            let mut stream = watch_object(api, &name).default_backoff().boxed();
            while let Some(item) = stream.next().await {
                match item {
                    Ok(object) => {
                        tell(object.map_or(State::Missing, |o| State::ConfigMap(Arc::new(o))));
                    }
                    Err(error) => failed(&error),
                }
            }
        }
        Kind::Secret => {
            let api: Api<Secret> = Api::namespaced(client, &namespace);
            let mut stream = watch_object(api, &name).default_backoff().boxed();
            while let Some(item) = stream.next().await {
                match item {
                    Ok(object) => {
                        tell(object.map_or(State::Missing, |o| State::Secret(Arc::new(o))));
                    }
                    Err(error) => failed(&error),
                }
            }
        }
    }
}

impl Held {
    /// Returns once the API has told of every object whether it is there.
    pub async fn known(&self) {
        for watched in self.objects.values() {
            let mut state = watched.state.clone();
            // The sender lives as long as `watched`.
            let _ = state.wait_for(|s| !matches!(s, State::Unknown)).await;
        }
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }
}

impl crate::env::Objects for Held {
    fn config_map(&self, name: &str) -> Option<Arc<ConfigMap>> {
        let watched = self.objects.get(&(Kind::ConfigMap, name.to_owned()))?;
        match &*watched.state.borrow() {
            State::ConfigMap(map) => Some(map.clone()),
            _ => None,
        }
    }

    fn secret(&self, name: &str) -> Option<Arc<Secret>> {
        let watched = self.objects.get(&(Kind::Secret, name.to_owned()))?;
        match &*watched.state.borrow() {
            State::Secret(secret) => Some(secret.clone()),
            _ => None,
        }
    }
}

/// Every config map and secret that the pod's volumes and environment name.
pub fn references(pod: &Pod) -> BTreeSet<(Kind, String)> {
    let mut out = BTreeSet::new();
    let mut add = |kind: Kind, name: Option<&String>| {
        if let Some(name) = name {
            out.insert((kind, name.clone()));
        }
    };
    for volume in pod.spec.iter().flat_map(|s| s.volumes.iter().flatten()) {
        add(Kind::ConfigMap, volume.config_map.as_ref().map(|s| &s.name));
        add(Kind::Secret, volume.secret.as_ref().and_then(|s| s.secret_name.as_ref()));
        for source in volume.projected.iter().flat_map(|p| p.sources.iter().flatten()) {
            add(Kind::ConfigMap, source.config_map.as_ref().map(|s| &s.name));
            add(Kind::Secret, source.secret.as_ref().map(|s| &s.name));
        }
    }
    for container in containers(pod) {
        for from in container.env_from.iter().flatten() {
            add(Kind::ConfigMap, from.config_map_ref.as_ref().map(|r| &r.name));
            add(Kind::Secret, from.secret_ref.as_ref().map(|r| &r.name));
        }
        for from in container.env.iter().flatten().filter_map(|v| v.value_from.as_ref()) {
            add(Kind::ConfigMap, from.config_map_key_ref.as_ref().map(|r| &r.name));
            add(Kind::Secret, from.secret_key_ref.as_ref().map(|r| &r.name));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn references_are_found_wherever_they_stand() {
        let pod: Pod = serde_json::from_value(json!({"spec": {
            "volumes": [
                {"name": "a", "configMap": {"name": "m1"}}, {"name": "b", "secret": {"secretName": "s1"}},
                {"name": "c", "projected": {"sources": [{"configMap": {"name": "m2"}}, {"secret": {"name": "s2"}}]}}],
            "initContainers": [{"name": "i", "envFrom": [{"configMapRef": {"name": "m3"}}, {"secretRef": {"name": "s3"}}]}],
            "containers": [{"name": "c", "env": [
                {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "m4", "key": "k"}}},
                {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s4", "key": "k"}}}]}]
        }}))
        .unwrap();
        let names: Vec<String> = references(&pod).into_iter().map(|(_, n)| n).collect();
        assert_eq!(names, ["m1", "m2", "m3", "m4", "s1", "s2", "s3", "s4"]);
    }
}
