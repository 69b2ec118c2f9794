//! What every object has: name, labels and so on.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::wire::{Reader, Wire, message};

/// An object's metadata, without what nobody here uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Meta {
    pub name: String,
    /// Empty if the kind has no namespaces.
    pub namespace: String,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub uid: String,
    pub resource_version: String,
    pub generation: i64,
    pub created: Option<Timestamp>,
    /// Somebody asked for its end; it is still there.
    pub deleted: bool,
    pub owners: Vec<OwnerRef>,
}

/// The object that an object belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OwnerRef {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    pub controller: bool,
}

message! {
    /// The metadata as Kubernetes writes it.
    pub struct RawMeta {
        pub name: String,
        pub namespace: String,
        pub labels: BTreeMap<String, String>,
        pub annotations: BTreeMap<String, String>,
        pub uid: String,
        pub resource_version: String,
        pub generation: i64,
        pub creation_timestamp: String,
        pub deletion_timestamp: String,
        pub owner_references: Vec<RawOwner>,
    }

    /// An owner as Kubernetes writes it.
    pub struct RawOwner {
        pub api_version: String,
        pub kind: String,
        pub name: String,
        pub uid: String,
        pub controller: bool,
    }
}

/// Large, of no meaning to us, and different at each `kubectl apply`.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

impl Meta {
    /// The `metadata` of an object; `reader` stands at it.
    pub(crate) fn read(value: &Value, reader: &mut Reader) -> Self {
        let raw = RawMeta::read(value, reader);
        let mut annotations = raw.annotations;
        annotations.remove(LAST_APPLIED);
        Self {
            name: raw.name,
            namespace: raw.namespace,
            labels: raw.labels,
            annotations,
            uid: raw.uid,
            resource_version: raw.resource_version,
            generation: raw.generation,
            created: raw.creation_timestamp.parse().ok(),
            deleted: !raw.deletion_timestamp.is_empty(),
            owners: raw.owner_references.into_iter().map(OwnerRef::from).collect(),
        }
    }

    /// The owner that manages the object, if any.
    #[must_use]
    pub fn controller(&self) -> Option<&OwnerRef> {
        self.owners.iter().find(|owner| owner.controller)
    }

    #[must_use]
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.get(name).map(String::as_str)
    }

    #[must_use]
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.annotations.get(name).map(String::as_str)
    }
}

impl From<RawOwner> for OwnerRef {
    fn from(raw: RawOwner) -> Self {
        let RawOwner { api_version, kind, name, uid, controller } = raw;
        Self { api_version, kind, name, uid, controller }
    }
}
