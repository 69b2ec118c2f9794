//! Namespaces.

use std::time::SystemTime;

use serde_json::{Value, json};

use super::at::{as_map, object, restore, set_default, set_if_zero};
use super::table::{AGE, Column, NAME, column, created, name};
use super::{BEHAVIOUR, Behaviour, Kind, NameRule, STORED};

pub(super) const KINDS: &[Kind] = &[Kind {
    kind: "Namespace",
    plural: "namespaces",
    singular: "namespace",
    short_names: &["ns"],
    namespaced: false,
    subresources: &["finalize", "status"],
    // There is no deletecollection: a slip would end everything.
    verbs: &["create", "delete", "get", "list", "patch", "update", "watch"],
    names: NameRule::Label,
    behaviour: Behaviour {
        default,
        prepare_create,
        prepare_update,
        columns: COLUMNS,
        row,
        selectable: &["status.phase", "name"],
        ..BEHAVIOUR
    },
    ..STORED
}];

const COLUMNS: &[Column] = &[NAME, column("Status"), AGE];

fn row(obj: &Value, now: SystemTime) -> Vec<Value> {
    vec![name(obj), obj["status"]["phase"].clone(), created(obj, now)]
}

fn default(obj: &mut Value) {
    set_if_zero(object(obj, "status"), "phase", "Active");
    label(obj);
}

/// Every namespace can be selected by its name.
fn label(obj: &mut Value) {
    if let Some(name) = obj["metadata"]["name"].as_str().filter(|n| !n.is_empty()) {
        let name = json!(name);
        let labels = object(object(obj, "metadata"), "labels");
        as_map(labels).insert("kubernetes.io/metadata.name".to_owned(), name);
    }
}

fn prepare_create(obj: &mut Value) {
    as_map(object(obj, "status")).insert("phase".to_owned(), json!("Active"));
    let spec = object(obj, "spec");
    set_default(spec, "finalizers", json!([]));
    if let Some(finalizers) = spec["finalizers"].as_array_mut()
        && !finalizers.contains(&json!("kubernetes"))
    {
        finalizers.push(json!("kubernetes"));
    }
    label(obj);
}

/// Only the finalize endpoint changes the finalizers.
fn prepare_update(new: &mut Value, old: &Value, subresource: Option<&str>) {
    if subresource != Some("finalize") {
        restore(object(new, "spec"), &old["spec"], "finalizers");
    }
    label(new);
}
