//! One stored object: its key, its JSON and the few fields that are needed without parsing it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;

/// Where an object lives. Versions of one resource share their objects.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Empty for the core group.
    pub group: Arc<str>,
    /// The plural name.
    pub resource: Arc<str>,
    /// Empty for a cluster-scoped object.
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl Key {
    pub fn new(group: &str, resource: &str, namespace: &str, name: &str) -> Self {
        Self {
            group: group.into(),
            resource: resource.into(),
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The key inside its resource; lists are in the order of these.
    pub fn path(&self) -> String {
        path(&self.namespace, &self.name)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{} {}/{}", self.resource, self.group, self.namespace, self.name)
    }
}

pub(super) fn path(namespace: &str, name: &str) -> String {
    let mut path = String::with_capacity(namespace.len() + name.len() + 1);
    path.push_str(namespace);
    path.push('/');
    path.push_str(name);
    path
}

/// What selectors, preconditions and garbage collection need of `metadata`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Meta {
    pub uid: String,
    pub labels: Option<BTreeMap<String, String>>,
    pub deletion_timestamp: Option<String>,
}

/// One state of one object. Never changes; shared by readers, watchers and the log.
#[derive(Debug)]
pub struct Object {
    pub key: Key,
    /// The `resourceVersion`.
    pub revision: u64,
    /// The object as JSON, with its `resourceVersion`.
    pub bytes: Bytes,
    /// The version in which it is stored.
    pub api_version: Box<str>,
    pub meta: Meta,
}

impl Object {
    /// Takes what was read from disk or just encoded.
    pub(super) fn decode(key: Key, revision: u64, bytes: Bytes) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Envelope {
            #[serde(default)]
            api_version: Box<str>,
            metadata: Meta,
        }
        let Envelope { api_version, metadata } = serde_json::from_slice(&bytes)?;
        Ok(Self { key, revision, bytes, api_version, meta: metadata })
    }

    /// Gives `value` the revision and encodes it.
    pub(super) fn encode(
        key: Key,
        revision: u64,
        value: &mut Value,
    ) -> Result<Self, serde_json::Error> {
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("resourceVersion".to_owned(), revision.to_string().into());
        }
        let bytes = Bytes::from(serde_json::to_vec(value)?);
        Self::decode(key, revision, bytes)
    }

    /// The whole object, parsed.
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.bytes).expect("stored objects were encoded from a value")
    }

    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.meta.labels.as_ref()?.get(name).map(String::as_str)
    }
}
