//! A custom resource in one version, as the registry serves it.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::SystemTime;

use ironsail_patch::TypeInfo;
use ironsail_schema::{FieldError, Schema};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::version::Version;
use super::{GROUP, PLURAL, column, openapi};
use crate::kinds::{Decoded, Subresource, custom};
use crate::meta;
use crate::registry::{Definition, Names, ScalePaths, Unconditional};
use crate::store::Reader;

const VERBS: [&str; 8] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

pub(super) struct Resource {
    pub(super) names: Names,
    pub(super) version: Arc<Version>,
    /// The version in which objects are stored.
    pub(super) storage: Arc<Version>,
    /// The definition is being deleted: nothing new is taken.
    pub(super) terminating: bool,
    pub(super) retired: CancellationToken,
    /// The definition itself is read again for OpenAPI, which is rarely asked for and large.
    pub(super) reader: Reader,
    pub(super) definition: Arc<str>,
}

impl Resource {
    fn schema(&self) -> &Schema {
        &self.version.schema.schema
    }
}

impl Definition for Resource {
    fn names(&self) -> &Names {
        &self.names
    }

    fn verbs(&self) -> Vec<String> {
        VERBS.iter().map(|verb| (*verb).to_owned()).collect()
    }

    fn refuses_create(&self) -> Option<&'static str> {
        let why = "create not allowed while custom resource definition is terminating";
        self.terminating.then_some(why)
    }

    fn subresources(&self) -> Vec<String> {
        let status = self.version.has_status.then(|| "status".to_owned());
        let scale = self.version.scale.as_ref().map(|_| "scale".to_owned());
        status.into_iter().chain(scale).collect()
    }

    fn subresource(&self, name: &str) -> Option<Subresource> {
        if !self.subresources().iter().any(|one| one == name) {
            return None;
        }
        let own = |name: &Arc<str>| Cow::Owned(name.to_string());
        Some(match name {
            "scale" => Subresource {
                group: "autoscaling".into(),
                version: "v1".into(),
                kind: "Scale".into(),
                verbs: &["get", "patch", "update"],
            },
            _ => Subresource {
                group: own(&self.names.group),
                version: own(&self.names.version),
                kind: own(&self.names.kind),
                verbs: &["get", "patch", "update"],
            },
        })
    }

    fn from_storage(&self, mut object: Value) -> Value {
        // Defaults are those of the version it is stored in; they may have come after the object.
        self.storage.schema.schema.default_object(&mut object);
        let own = self.names.api_version();
        if object["apiVersion"] != own.as_str() {
            object["apiVersion"] = own.into();
            self.schema().prune(&mut object);
        }
        object
    }

    fn to_storage(&self, mut object: Value) -> Value {
        if self.storage.name != *self.names.version {
            object["apiVersion"] = format!("{}/{}", self.names.group, self.storage.name).into();
            self.storage.schema.schema.prune(&mut object);
        }
        object
    }

    fn answers_stored_bytes(&self) -> bool {
        !self.storage.schema.schema.has_defaults()
    }

    fn retired(&self) -> CancellationToken {
        self.retired.clone()
    }

    fn decode(&self, mut object: Value) -> Result<Decoded, String> {
        let refuse = |text: String| {
            let (kind, version) = (&self.names.kind, &self.names.version);
            format!("{kind} in version {:?} cannot be handled as a {kind}: {text}", &**version)
        };
        let Some(map) = object.as_object_mut() else {
            return Err(refuse("an object was expected".to_owned()));
        };
        let metadata = map.remove("metadata").unwrap_or(Value::Null);
        let (metadata, mut unknown) = custom::decode_metadata(metadata).map_err(refuse)?;
        map.insert("metadata".to_owned(), metadata);
        whole_numbers(&mut object);
        unknown.extend(self.schema().prune(&mut object));
        self.schema().drop_nulls(&mut object);
        Ok(Decoded { value: object, unknown })
    }

    fn default(&self, object: &mut Value) {
        self.schema().default_object(object);
    }

    fn prepare_create(&self, object: &mut Value) {
        if self.version.has_status
            && let Some(map) = object.as_object_mut()
        {
            map.remove("status");
        }
        if let Some(metadata) = meta::of(object) {
            metadata.insert("generation".to_owned(), 1.into());
        }
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, subresource: Option<&str>) {
        let (Some(fresh), Some(stored)) = (new.as_object_mut(), old.as_object()) else { return };
        match subresource {
            None if self.version.has_status => restore(fresh, stored, "status"),
            Some("status") => keep_all_but_status(fresh, stored),
            _ => {}
        }
        let counts = |key: &&String| match key.as_str() {
            "metadata" | "apiVersion" | "kind" => false,
            "status" => !self.version.has_status,
            _ => true,
        };
        let mut keys = fresh.keys().chain(stored.keys()).filter(counts);
        let changed = keys.any(|key| fresh.get(key) != stored.get(key));
        let before = old["metadata"]["generation"].as_i64().unwrap_or(1);
        if let Some(metadata) = meta::of(new) {
            metadata.insert("generation".to_owned(), (before + i64::from(changed)).into());
        }
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = custom::validate_metadata(object, self.names.namespaced);
        errors.extend(self.schema().validate(object, None));
        if errors.is_empty() {
            errors.extend(self.scale_errors(object));
        }
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = custom::validate_metadata_update(new, old);
        errors.extend(self.schema().validate(new, Some(old)));
        if errors.is_empty() {
            errors.extend(self.scale_errors(new));
        }
        errors
    }

    fn unconditional(&self) -> Unconditional {
        Unconditional::Refused
    }

    fn columns(&self) -> Value {
        column::definitions(&self.version.columns)
    }

    fn cells(&self, object: &Value, now: SystemTime) -> Vec<Value> {
        column::cells(&self.version.columns, object, now)
    }

    fn field(&self, object: &Value, path: &str) -> Option<Option<String>> {
        if !self.selectable().iter().any(|one| one == path) {
            return None;
        }
        let own = ["metadata.name", "metadata.namespace"].contains(&path);
        let found = match self.version.selectable.iter().find(|(name, _)| name == path) {
            Some((_, path)) => path.find(object).first().copied(),
            None if own => object["metadata"].get(&path["metadata.".len()..]),
            None => None,
        };
        Some(match found {
            Some(Value::String(text)) => Some(text.clone()),
            Some(other @ (Value::Bool(_) | Value::Number(_))) => Some(other.to_string()),
            _ => None,
        })
    }

    fn selectable(&self) -> Vec<String> {
        let namespace = self.names.namespaced.then_some("metadata.namespace");
        let own = ["metadata.name"].into_iter().chain(namespace).map(str::to_owned);
        own.chain(self.version.selectable.iter().map(|(name, _)| name.clone())).collect()
    }

    fn scale(&self) -> Option<ScalePaths> {
        self.version.scale.clone()
    }

    fn type_info(&self) -> TypeInfo {
        self.version.schema.info.clone()
    }

    fn openapi(&self) -> Vec<(String, Value)> {
        let Some(definition) = self.reader.get(GROUP, PLURAL, "", &self.definition) else {
            return Vec::new();
        };
        openapi::schemas(&definition.value(), &self.names)
    }

    fn strategic(&self) -> bool {
        false
    }
}

impl Resource {
    /// Replicas must be numbers that a Scale can carry.
    fn scale_errors(&self, object: &Value) -> Vec<FieldError> {
        let Some(paths) = &self.version.scale else { return Vec::new() };
        let mut errors = Vec::new();
        for pointer in [&paths.spec_replicas, &paths.status_replicas] {
            let Some(replicas) = object.pointer(pointer).filter(|r| !r.is_null()) else { continue };
            let path = pointer.trim_start_matches('/').replace('/', ".");
            match replicas.as_i64() {
                Some(count) if count < 0 => {
                    errors.push(FieldError::invalid(
                        path,
                        count,
                        "should be a non-negative integer",
                    ));
                }
                Some(count) if i32::try_from(count).is_err() => errors.push(FieldError::invalid(
                    path,
                    count,
                    "should be less than or equal to 2147483647",
                )),
                Some(_) => {}
                None => {
                    errors.push(FieldError::invalid(
                        path,
                        replicas.clone(),
                        "should be an integer",
                    ));
                }
            }
        }
        errors
    }
}

/// `2.0` is written as `2`, as Kubernetes does.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let number = number.as_f64().unwrap_or_default();
            #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and in range")]
            if number.fract() == 0.0 && number.abs() < 9e15 {
                *value = Value::from(number as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(map) => map.values_mut().for_each(whole_numbers),
        _ => {}
    }
}

fn restore(new: &mut Map<String, Value>, old: &Map<String, Value>, key: &str) {
    match old.get(key) {
        Some(value) => new.insert(key.to_owned(), value.clone()),
        None => new.remove(key),
    };
}

/// The status endpoint changes the status alone; of the metadata only who owns which field.
fn keep_all_but_status(new: &mut Map<String, Value>, old: &Map<String, Value>) {
    let status = new.remove("status");
    let owners = new.get("metadata").and_then(|metadata| metadata.get("managedFields")).cloned();
    new.clone_from(old);
    match status {
        Some(status) => new.insert("status".to_owned(), status),
        None => new.remove("status"),
    };
    if let (Some(owners), Some(Value::Object(metadata))) = (owners, new.get_mut("metadata")) {
        metadata.insert("managedFields".to_owned(), owners);
    }
}
