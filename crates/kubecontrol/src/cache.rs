//! One kind of object, kept in memory by a watch: in comes the stream of a watch, out go objects by
//! key and a call to every hook for every change.
//!
//! A controller puts the answer of each of its own writes in with [`Cache::observe`], so that its
//! next look never shows it the world before that write; hooks hear of it when the watch does.
//! Resource versions are compared as numbers, which Kubernetes promises since 1.35.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, pin_mut};
use kube::runtime::watcher;
use kube::{Api, Resource};
use parking_lot::RwLock;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::key::Key;

/// What every cached kind can do.
pub(crate) trait Object:
    Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static
{
}

impl<K> Object for K where
    K: Resource<DynamicType = ()>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

type Hook<K> = Box<dyn Fn(Option<&Arc<K>>, Option<&Arc<K>>) + Send + Sync>;

pub(crate) struct Cache<K> {
    inner: RwLock<Inner<K>>,
    hooks: RwLock<Vec<Hook<K>>>,
    synced: watch::Sender<bool>,
    trim: fn(&mut K),
}

struct Inner<K> {
    objects: BTreeMap<Key, Arc<K>>,
    /// The newest resource version that the watch has shown.
    seen: u64,
}

/// The resource version as a number; zero when it is absent.
pub(crate) fn version<K: Resource>(object: &K) -> u64 {
    object.meta().resource_version.as_deref().and_then(|v| v.parse().ok()).unwrap_or(0)
}

impl<K: Resource + Clone> Cache<K> {
    /// An empty cache; `trim` drops what nobody here reads before an object is kept.
    pub(crate) fn new(trim: fn(&mut K)) -> Arc<Self> {
        Arc::new(Self {
            inner: RwLock::new(Inner { objects: BTreeMap::new(), seen: 0 }),
            hooks: RwLock::new(Vec::new()),
            synced: watch::Sender::new(false),
            trim,
        })
    }

    /// Calls `hook` with the old and the new object at every change that the watch shows.
    pub(crate) fn on_change(
        &self,
        hook: impl Fn(Option<&Arc<K>>, Option<&Arc<K>>) + Send + Sync + 'static,
    ) {
        self.hooks.write().push(Box::new(hook));
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.inner.read().objects.get(key).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<K>> {
        self.inner.read().objects.values().cloned().collect()
    }

    /// The objects of one namespace, by name.
    pub(crate) fn namespace(&self, ns: &str) -> Vec<Arc<K>> {
        let inner = self.inner.read();
        inner
            .objects
            .range(Key::new(ns, "")..)
            .take_while(|(key, _)| &*key.ns == ns)
            .map(|(_, object)| object.clone())
            .collect()
    }

    /// Takes in the answer of our own write, unless the watch already knows better.
    pub(crate) fn observe(&self, mut object: K) -> Arc<K> {
        (self.trim)(&mut object);
        let object = Arc::new(object);
        let key = Key::of(&*object);
        let mut inner = self.inner.write();
        match inner.objects.get(&key) {
            Some(old) if version(&**old) >= version(&*object) => return old.clone(),
            // Not there although the watch is past this version: it is deleted already.
            None if version(&*object) <= inner.seen => return object,
            _ => {}
        }
        inner.objects.insert(key, object.clone());
        object
    }

    /// Puts in what a write that answers with no object has made of an object, until the watch
    /// shows it. Nothing happens if the object has changed or gone meanwhile.
    pub(crate) fn assume(&self, object: K) {
        let key = Key::of(&object);
        let mut inner = self.inner.write();
        if let Some(old) = inner.objects.get_mut(&key)
            && old.meta().resource_version == object.meta().resource_version
        {
            *old = Arc::new(object);
        }
    }

    /// Takes out an object that our own request removed.
    pub(crate) fn forget(&self, key: &Key, uid: Option<&str>) {
        let mut inner = self.inner.write();
        if inner.objects.get(key).is_some_and(|o| o.meta().uid.as_deref() == uid) {
            inner.objects.remove(key);
        }
    }

    pub(crate) async fn synced(&self) {
        let mut receiver = self.synced.subscribe();
        // The sender lives in `self`, so waiting cannot fail.
        let _ = receiver.wait_for(|synced| *synced).await;
    }

    fn tell(&self, old: Option<&Arc<K>>, new: Option<&Arc<K>>) {
        for hook in self.hooks.read().iter() {
            hook(old, new);
        }
    }

    /// An object as the watch shows it.
    pub(crate) fn apply(&self, mut object: K) {
        (self.trim)(&mut object);
        let object = Arc::new(object);
        let key = Key::of(&*object);
        let (old, new) = {
            let mut inner = self.inner.write();
            inner.seen = inner.seen.max(version(&*object));
            let old = inner.objects.get(&key).cloned();
            match old {
                Some(newer) if version(&*newer) > version(&*object) => (Some(newer.clone()), newer),
                old => {
                    inner.objects.insert(key, object.clone());
                    (old, object)
                }
            }
        };
        self.tell(old.as_ref(), Some(&new));
    }

    /// An object that the watch shows as gone.
    pub(crate) fn remove(&self, object: &K) {
        let key = Key::of(object);
        let gone = {
            let mut inner = self.inner.write();
            inner.seen = inner.seen.max(version(object));
            match inner.objects.get(&key) {
                // A successor of the same name that we made ourselves is already here.
                Some(old) if old.meta().uid != object.meta().uid => None,
                _ => inner.objects.remove(&key),
            }
        };
        if let Some(gone) = gone {
            self.tell(Some(&gone), None);
        } else {
            let mut last = object.clone();
            (self.trim)(&mut last);
            self.tell(Some(&Arc::new(last)), None);
        }
    }

    /// The whole truth after a list. Every object is told of again, which makes up for missed events.
    pub(crate) fn replace(&self, objects: Vec<K>) {
        let mut fresh = BTreeMap::new();
        let mut seen = 0;
        for mut object in objects {
            (self.trim)(&mut object);
            seen = seen.max(version(&object));
            fresh.insert(Key::of(&object), Arc::new(object));
        }
        let old = {
            let mut inner = self.inner.write();
            inner.seen = seen;
            std::mem::replace(&mut inner.objects, fresh.clone())
        };
        for (key, object) in &fresh {
            self.tell(old.get(key), Some(object));
        }
        for (key, object) in &old {
            if !fresh.contains_key(key) {
                self.tell(Some(object), None);
            }
        }
        self.synced.send_replace(true);
    }
}

/// Keeps `cache` true until `stop`; a broken watch is started again, ever more slowly.
pub(crate) async fn feed<K: Object>(
    cache: Arc<Cache<K>>,
    api: Api<K>,
    config: watcher::Config,
    stop: CancellationToken,
) {
    let stream = watcher(api, config);
    pin_mut!(stream);
    let mut pause = Pause::default();
    let mut listed = Vec::new();
    loop {
        let event = tokio::select! {
            () = stop.cancelled() => return,
            event = stream.next() => event,
        };
        let failure = match event {
            None => return,
            Some(Ok(event)) => {
                pause = Pause::default();
                match event {
                    watcher::Event::Init => listed.clear(),
                    watcher::Event::InitApply(object) => listed.push(object),
                    watcher::Event::InitDone => cache.replace(std::mem::take(&mut listed)),
                    watcher::Event::Apply(object) => cache.apply(object),
                    watcher::Event::Delete(object) => cache.remove(&object),
                }
                continue;
            }
            Some(Err(failure)) => failure,
        };
        let wait = pause.next();
        tracing::warn!(kind = %K::plural(&()), error = %failure, "watch broke, trying again");
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// How long to wait before the next try: doubles from 50 ms to 10 s.
#[derive(Default)]
pub(crate) struct Pause(u32);

impl Pause {
    pub(crate) fn next(&mut self) -> Duration {
        let wait = Duration::from_millis(50u64 << self.0.min(8)).min(Duration::from_secs(10));
        self.0 += 1;
        wait
    }
}

#[cfg(test)]
mod tests;
