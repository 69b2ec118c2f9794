//! Which resources are served, and what is known of each: built-in kinds and custom resources behind
//! one trait, in a table that can be exchanged while requests run.

mod builtin;
mod event;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use ironsail_patch::TypeInfo;
use ironsail_schema::FieldError;
use parking_lot::{Mutex, RwLock};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::kinds::{Decoded, Subresource};
use crate::status::qualified;

/// What a resource is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// Empty for the core group.
    pub group: Arc<str>,
    pub version: Arc<str>,
    pub kind: Arc<str>,
    pub list_kind: Arc<str>,
    pub plural: Arc<str>,
    pub singular: Arc<str>,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub namespaced: bool,
}

impl Names {
    /// `apps/v1`, or `v1` for the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// `deployments.apps`, or `pods` for the core group.
    pub fn qualified(&self) -> String {
        qualified(&self.group, &self.plural)
    }
}

/// Where the replicas of a scalable kind are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    /// JSON pointers.
    pub spec_replicas: String,
    pub status_replicas: String,
    /// A selector object, or a selector in its text form; a custom resource may have none.
    pub selector: Option<String>,
}

/// How an update may be made without a `resourceVersion`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unconditional {
    Allowed,
    Refused,
}

/// One resource in one version.
pub trait Definition: Send + Sync + 'static {
    fn names(&self) -> &Names;

    /// Of the resource itself.
    fn verbs(&self) -> Vec<String>;

    fn subresources(&self) -> Vec<String>;

    /// What is spoken at a subresource; `None` if there is no such.
    fn subresource(&self, name: &str) -> Option<Subresource>;

    /// Group and plural under which the objects are kept.
    fn storage(&self) -> (Arc<str>, Arc<str>) {
        (self.names().group.clone(), self.names().plural.clone())
    }

    /// A stored object in this version.
    #[expect(clippy::wrong_self_convention, reason = "it is the version that is asked")]
    fn from_storage(&self, mut object: Value) -> Value {
        object["apiVersion"] = self.names().api_version().into();
        object
    }

    /// An object of this version as it is stored.
    fn to_storage(&self, object: Value) -> Value {
        object
    }

    /// Checks the shape and drops unknown fields. The error is the text of a 400.
    fn decode(&self, object: Value) -> Result<Decoded, String>;

    fn default(&self, object: &mut Value);

    /// Why nothing new is taken at the moment, if so.
    fn refuses_create(&self) -> Option<&'static str> {
        None
    }

    fn prepare_create(&self, object: &mut Value);

    fn prepare_update(&self, new: &mut Value, old: &Value, subresource: Option<&str>);

    fn validate_create(&self, object: &Value) -> Vec<FieldError>;

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<FieldError>;

    /// Whether a PUT without `resourceVersion` overwrites what is there.
    fn unconditional(&self) -> Unconditional;

    /// The `columnDefinitions` of a Table.
    fn columns(&self) -> Value;

    fn cells(&self, object: &Value, now: SystemTime) -> Vec<Value>;

    /// The value of a field for a selector; `None` if the field cannot be selected by.
    fn field(&self, object: &Value, path: &str) -> Option<Option<String>>;

    /// The fields that [`Definition::field`] knows.
    fn selectable(&self) -> Vec<String>;

    fn scale(&self) -> Option<ScalePaths>;

    /// For strategic merge patches and server-side apply.
    fn type_info(&self) -> TypeInfo;

    /// Names and OpenAPI schemas of a custom resource; those of built-in kinds are in
    /// [`crate::kinds::openapi`].
    fn openapi(&self) -> Vec<(String, Value)> {
        Vec::new()
    }

    /// Whether objects that are stored in this version are answered as they are stored.
    fn answers_stored_bytes(&self) -> bool {
        true
    }

    /// Cancelled when the resource is no longer served in this version; watches end with it.
    fn retired(&self) -> CancellationToken {
        CancellationToken::new()
    }

    /// Whether strategic merge patches are understood; custom resources do not.
    fn strategic(&self) -> bool;
}

/// Group, version and plural.
type Key = (Arc<str>, Arc<str>, Arc<str>);
type Table = BTreeMap<Key, Arc<dyn Definition>>;

/// All served resources.
pub struct Registry {
    table: RwLock<Arc<Table>>,
    /// The OpenAPI index and the table it was made of.
    index: Mutex<Option<(Arc<Table>, Arc<Value>)>>,
}

impl Registry {
    /// The built-in kinds.
    pub fn builtin() -> Self {
        let table = Arc::new(builtin::all().map(keyed).collect());
        Self { table: RwLock::new(table), index: Mutex::new(None) }
    }

    /// Exchanges all custom resources for these. A built-in one cannot be replaced.
    pub fn set_custom(&self, custom: impl IntoIterator<Item = Arc<dyn Definition>>) {
        let mut table: Table = custom.into_iter().map(keyed).collect();
        table.extend(builtin::all().map(keyed));
        *self.table.write() = Arc::new(table);
    }

    pub fn get(&self, group: &str, version: &str, plural: &str) -> Option<Arc<dyn Definition>> {
        let key = (group.into(), version.into(), plural.into());
        self.table.read().get(&key).cloned()
    }

    /// Whether anything is served under this group and version.
    pub fn has_version(&self, group: &str, version: &str) -> bool {
        self.table.read().keys().any(|(g, v, _)| **g == *group && **v == *version)
    }

    /// Every resource, ordered by group, version and plural.
    pub fn all(&self) -> impl Iterator<Item = Arc<dyn Definition>> {
        let table = self.table.read().clone();
        table.values().cloned().collect::<Vec<_>>().into_iter()
    }

    /// The other served versions of a resource.
    pub fn other_versions(&self, names: &Names) -> Vec<String> {
        let table = self.table.read().clone();
        let all = table.keys().filter(|(group, version, plural)| {
            *group == names.group && *plural == names.plural && *version != names.version
        });
        all.map(|(_, version, _)| version.to_string()).collect()
    }

    /// What `make` made of the resources served now; made again when they change.
    pub(crate) fn index(&self, make: impl FnOnce() -> Value) -> Arc<Value> {
        let table = self.table.read().clone();
        let mut kept = self.index.lock();
        if let Some((of, index)) = &*kept
            && Arc::ptr_eq(of, &table)
        {
            return index.clone();
        }
        let index = Arc::new(make());
        *kept = Some((table, index.clone()));
        index
    }
}

fn keyed(one: Arc<dyn Definition>) -> (Key, Arc<dyn Definition>) {
    let names = one.names();
    ((names.group.clone(), names.version.clone(), names.plural.clone()), one)
}
