//! The `x-kubernetes-…` members of a schema, and how they go together.

use serde_json::{Map, Value};

use super::{flag, text};
use crate::FieldError;

pub(super) fn check(map: &Map<String, Value>, path: &str, errors: &mut Vec<FieldError>) {
    let at = |name: &str| format!("{path}.{name}");
    if map.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let detail = "must be true or undefined";
        errors.push(FieldError::invalid(at("x-kubernetes-preserve-unknown-fields"), false, detail));
    }
    if flag(map, "x-kubernetes-int-or-string") {
        for name in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
            if flag(map, name) {
                let detail = "must be false if x-kubernetes-int-or-string is true";
                errors.push(FieldError::invalid(at(name), true, detail));
            }
        }
    }
    typed(map, path, "x-kubernetes-map-type", "object", &["atomic", "granular"], errors);
    typed(map, path, "x-kubernetes-list-type", "array", &["atomic", "set", "map"], errors);
    list(map, path, errors);
}

/// An extension for one type only, with few values.
fn typed(
    map: &Map<String, Value>,
    path: &str,
    name: &str,
    kind: &str,
    values: &[&str],
    errors: &mut Vec<FieldError>,
) {
    let Some(value) = map.get(name).and_then(Value::as_str) else { return };
    let found = text(map, "type");
    if found != kind {
        let detail = format!("must be {kind} if {name} is specified");
        errors.push(match found {
            "" => FieldError::required(format!("{path}.type"), detail),
            found => FieldError::invalid(format!("{path}.type"), found, detail),
        });
    }
    if !values.contains(&value) {
        errors.push(FieldError::not_supported(format!("{path}.{name}"), value, values));
    }
}

fn list(map: &Map<String, Value>, path: &str, errors: &mut Vec<FieldError>) {
    let list_type = text(map, "x-kubernetes-list-type");
    let keys: Vec<&str> = map
        .get("x-kubernetes-list-map-keys")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let items = map.get("items").and_then(Value::as_object);
    if matches!(list_type, "map" | "set") && items.is_some_and(|items| flag(items, "nullable")) {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(format!("{path}.items.nullable"), detail));
    }
    if list_type != "map" {
        if !keys.is_empty() {
            let at = format!("{path}.x-kubernetes-list-type");
            let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
            errors.push(match list_type {
                "" => FieldError::required(at, detail),
                other => FieldError::invalid(at, other, detail),
            });
        }
        return;
    }
    let keys_at = format!("{path}.x-kubernetes-list-map-keys");
    if keys.is_empty() {
        let detail = "must not be empty if x-kubernetes-list-type is map";
        errors.push(FieldError::required(&keys_at, detail));
    }
    let Some(items) = items else {
        let detail = "must have a schema if x-kubernetes-list-type is map";
        errors.push(FieldError::required(format!("{path}.items"), detail));
        return;
    };
    if text(items, "type") != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(FieldError::invalid(format!("{path}.items.type"), text(items, "type"), detail));
    }
    let mut sorted = keys.clone();
    sorted.sort_unstable();
    sorted.dedup();
    if sorted.len() != keys.len() {
        errors.push(FieldError::invalid(
            &keys_at,
            keys.clone(),
            "must not contain duplicate entries",
        ));
    }
    for key in &keys {
        match items.get("properties").and_then(|p| p.get(*key)).and_then(Value::as_object) {
            None => errors.push(FieldError::invalid(
                &keys_at,
                keys.clone(),
                "entries must all be names of item properties",
            )),
            Some(property) => key_property(items, key, property, path, errors),
        }
    }
}

/// A key must be there in every item, as itself.
fn key_property(
    items: &Map<String, Value>,
    key: &str,
    property: &Map<String, Value>,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    let at = format!("{path}.items.properties[{key}]");
    if matches!(text(property, "type"), "array" | "object") {
        errors.push(FieldError::invalid(
            format!("{at}.type"),
            text(property, "type"),
            "must be a scalar type if parent array's x-kubernetes-list-type is map",
        ));
    }
    let required = items.get("required").and_then(Value::as_array).into_iter().flatten();
    if !property.contains_key("default") && !required.into_iter().any(|name| name == key) {
        errors.push(FieldError::required(
            format!("{at}.default"),
            "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
        ));
    }
    if flag(property, "nullable") {
        errors.push(FieldError::forbidden(
            format!("{at}.nullable"),
            "this property is in x-kubernetes-list-map-keys, so it cannot be nullable",
        ));
    }
}
