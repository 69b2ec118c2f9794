//! `x-kubernetes-list-type`: items of sets and of list maps stand once.

use serde_json::{Map, Value};

use crate::{
    FieldError,
    node::{Additional, ListType, Schema},
};

/// The duplicates in all lists of an object.
pub(crate) fn check(schema: &Schema, value: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    visit(schema, value, path, &mut errors);
    errors
}

fn visit(schema: &Schema, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    match value {
        Value::Array(items) => {
            match schema.list_type {
                ListType::Atomic => {}
                ListType::Set => duplicates(items, path, Value::clone, errors),
                ListType::Map => {
                    if let Some(at) =
                        items.iter().position(|item| !item.is_object() && !item.is_null())
                    {
                        errors.push(FieldError::invalid(
                            format!("{path}[{at}]"),
                            items[at].clone(),
                            "must be an object for an array of list-type map",
                        ));
                    } else {
                        duplicates(items, path, |item| key_of(schema, item), errors);
                    }
                }
            }
            if let Some(below) = &schema.items {
                for (at, item) in items.iter().enumerate() {
                    visit(below, item, &format!("{path}[{at}]"), errors);
                }
            }
        }
        Value::Object(map) => {
            for (name, member) in map {
                if let Some(property) = schema.properties.get(name) {
                    visit(property, member, &join(path, name), errors);
                } else if let Additional::Schema(below) = &schema.additional {
                    visit(below, member, &format!("{path}[{name}]"), errors);
                }
            }
        }
        _ => {}
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// The key fields of an item of a list map.
pub(crate) fn key_of(schema: &Schema, item: &Value) -> Value {
    let mut key = Map::new();
    for name in &schema.list_map_keys {
        if let Some(value) = item.get(name) {
            key.insert(name.clone(), value.clone());
        }
    }
    Value::Object(key)
}

/// Every value that stands again is told once, at its second place.
fn duplicates(
    items: &[Value],
    path: &str,
    key: impl Fn(&Value) -> Value,
    errors: &mut Vec<FieldError>,
) {
    let mut seen: std::collections::HashMap<String, usize> = std::collections::HashMap::new();
    for (at, item) in items.iter().enumerate() {
        let key = key(item);
        let times = seen.entry(key.to_string()).or_insert(0);
        *times += 1;
        if *times == 2 {
            errors.push(FieldError::duplicate(format!("{path}[{at}]"), key));
        }
    }
}
