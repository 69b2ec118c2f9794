//! Objects of one kind in the order in which Istio looks at them: oldest first.

use std::sync::Arc;

use ironsail_api::{ClusterId, ObjectKey, Resource};
use ironsail_names::Namespace;
use jiff::Timestamp;

use crate::table::Map;

/// The order of objects of one kind: by time of creation, then name, then namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Order {
    pub created: Option<Timestamp>,
    pub name: Arc<str>,
    pub namespace: Arc<str>,
    pub cluster: ClusterId,
}

type Entry<S> = (ObjectKey, Arc<Resource<S>>);

/// All objects of one kind. Cheap to clone.
#[derive(Debug)]
pub struct ConfigTable<S> {
    all: Map<Order, Arc<Resource<S>>>,
    namespaces: Map<Namespace, Map<Order, Entry<S>>>,
    keys: Map<ObjectKey, Arc<Resource<S>>>,
}

impl Order {
    pub fn of<S>(key: &ObjectKey, object: &Resource<S>) -> Self {
        Self {
            created: object.meta.created,
            name: key.name.clone(),
            namespace: key.namespace.clone(),
            cluster: key.cluster.clone(),
        }
    }
}

impl<S> ConfigTable<S> {
    /// Oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Resource<S>>> {
        self.all.values()
    }

    /// Those of one namespace, oldest first.
    pub fn in_namespace(&self, namespace: &Namespace) -> impl Iterator<Item = &Arc<Resource<S>>> {
        self.in_namespace_with_keys(namespace).map(|(_, object)| object)
    }

    /// The same with their keys.
    pub fn in_namespace_with_keys(
        &self,
        namespace: &Namespace,
    ) -> impl Iterator<Item = (ObjectKey, &Arc<Resource<S>>)> {
        let objects = self.namespaces.get(namespace).into_iter();
        objects.flat_map(Map::values).map(|(key, object)| (key.clone(), object))
    }

    pub fn namespaces(&self) -> impl Iterator<Item = &Namespace> {
        self.namespaces.keys()
    }

    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<Resource<S>>> {
        self.keys.get(key)
    }

    /// By name alone; with several clusters, the oldest.
    pub fn named(&self, namespace: &Namespace, name: &str) -> Option<&Arc<Resource<S>>> {
        self.namespaces
            .get(namespace)?
            .iter()
            .find(|(order, _)| &*order.name == name)
            .map(|(_, (_, object))| object)
    }

    /// With their keys, in the order of keys.
    pub fn entries(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<Resource<S>>)> {
        self.keys.iter()
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns what was there before; the caller knows that it differs.
    pub(crate) fn insert(
        &mut self,
        key: &ObjectKey,
        object: Arc<Resource<S>>,
    ) -> Option<Arc<Resource<S>>> {
        let old = self.remove(key);
        let order = Order::of(key, &object);
        if let Ok(namespace) = key.namespace.parse::<Namespace>() {
            let add = |objects: &mut Map<_, _>| {
                objects.insert(order.clone(), (key.clone(), object.clone()));
            };
            self.namespaces.update(&namespace, add, Map::is_empty);
        }
        self.all.insert(order, object.clone());
        self.keys.insert(key.clone(), object);
        old
    }

    pub(crate) fn remove(&mut self, key: &ObjectKey) -> Option<Arc<Resource<S>>> {
        let old = self.keys.get(key)?.clone();
        let order = Order::of(key, &old);
        if let Ok(namespace) = key.namespace.parse::<Namespace>() {
            let drop = |objects: &mut Map<_, _>| {
                objects.remove(&order);
            };
            self.namespaces.update(&namespace, drop, Map::is_empty);
        }
        self.all.remove(&order);
        self.keys.remove(key);
        Some(old)
    }
}

impl<S> Clone for ConfigTable<S> {
    fn clone(&self) -> Self {
        Self { all: self.all.clone(), namespaces: self.namespaces.clone(), keys: self.keys.clone() }
    }
}

impl<S> Default for ConfigTable<S> {
    fn default() -> Self {
        Self { all: Map::new(), namespaces: Map::new(), keys: Map::new() }
    }
}
