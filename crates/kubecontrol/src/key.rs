//! The name of an object inside its kind: namespace and name. Cheap to clone.

use std::fmt;
use std::sync::Arc;

use kube::Resource;

/// Namespace and name; cluster-scoped objects have an empty namespace.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) ns: Arc<str>,
    pub(crate) name: Arc<str>,
}

impl Key {
    pub(crate) fn new(ns: &str, name: &str) -> Self {
        Self { ns: ns.into(), name: name.into() }
    }

    pub(crate) fn of<K: Resource>(object: &K) -> Self {
        let meta = object.meta();
        Self::new(meta.namespace.as_deref().unwrap_or(""), meta.name.as_deref().unwrap_or(""))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.ns.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.ns, self.name)
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
