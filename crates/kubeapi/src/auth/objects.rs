//! What authentication, authorization and admission read from the store: objects as JSON, and a
//! counter per resource that tells when something derived from them is stale.

use std::sync::Arc;

use serde_json::Value;

/// A read-only view of stored objects. The group of the core API is the empty string.
pub trait Objects: Send + Sync + 'static {
    /// `namespace` is `None` for objects without one.
    fn get(
        &self,
        group: &str,
        resource: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Option<Arc<Value>>;

    /// All objects of a resource; of all namespaces where `namespace` is `None`.
    fn list(&self, group: &str, resource: &str, namespace: Option<&str>) -> Vec<Arc<Value>>;

    /// Changes whenever an object of the resource was created, changed or deleted.
    fn version(&self, group: &str, resource: &str) -> u64;
}

#[cfg(test)]
pub(crate) mod memory {
    //! Objects in memory, for tests.

    use super::{Arc, Objects, Value};
    use parking_lot::RwLock;

    #[derive(Default)]
    pub(crate) struct Memory {
        held: RwLock<Vec<(String, String, Arc<Value>)>>,
    }

    impl Memory {
        pub(crate) fn with(objects: impl IntoIterator<Item = Value>) -> Arc<Self> {
            let memory = Self::default();
            objects.into_iter().for_each(|object| memory.put(object));
            Arc::new(memory)
        }

        /// Adds or replaces an object; its resource is found from its kind.
        pub(crate) fn put(&self, object: Value) {
            let group = object["apiVersion"].as_str().expect("apiVersion");
            let group = group.split_once('/').map_or("", |(group, _)| group).to_owned();
            let kind = object["kind"].as_str().expect("kind").to_lowercase();
            let (namespace, name) = key(&object);
            let plural = format!("{kind}s");
            let mut held = self.held.write();
            held.retain(|(g, r, o)| {
                !(*g == group && *r == plural && key(o) == (namespace.clone(), name.clone()))
            });
            held.push((group, plural, Arc::new(object)));
        }

        pub(crate) fn remove(&self, resource: &str, name: &str) {
            self.held.write().retain(|(_, r, o)| !(r == resource && key(o).1 == name));
        }
    }

    fn key(object: &Value) -> (Option<String>, String) {
        let text = |v: &Value| v.as_str().map(str::to_owned);
        let meta = &object["metadata"];
        (text(&meta["namespace"]), text(&meta["name"]).unwrap_or_default())
    }

    impl Objects for Memory {
        fn get(
            &self,
            group: &str,
            resource: &str,
            namespace: Option<&str>,
            name: &str,
        ) -> Option<Arc<Value>> {
            let found = self.list(group, resource, namespace);
            found.into_iter().find(|o| o["metadata"]["name"] == name)
        }

        fn list(&self, group: &str, resource: &str, namespace: Option<&str>) -> Vec<Arc<Value>> {
            let held = self.held.read();
            let matching = held.iter().filter(|(g, r, o)| {
                g == group
                    && r == resource
                    && namespace.is_none_or(|n| o["metadata"]["namespace"] == n)
            });
            matching.map(|(_, _, o)| Arc::clone(o)).collect()
        }

        fn version(&self, _group: &str, _resource: &str) -> u64 {
            // A hash of everything: coarse, but it changes when something did.
            use std::hash::{Hash, Hasher};
            let mut hasher = rustc_hash::FxHasher::default();
            for (_, _, object) in self.held.read().iter() {
                object.to_string().hash(&mut hasher);
            }
            hasher.finish()
        }
    }
}
