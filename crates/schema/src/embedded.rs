//! `x-kubernetes-embedded-resource`: an object inside an object says what it is.

use serde_json::Value;

use crate::{
    FieldError,
    node::{Additional, Schema},
};

pub(crate) fn check(schema: &Schema, value: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    visit(schema, value, path, &mut errors);
    errors
}

fn visit(schema: &Schema, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(map) => {
            if schema.embedded_resource {
                for name in ["apiVersion", "kind"] {
                    let at = format!("{path}.{name}");
                    match map.get(name) {
                        Some(Value::String(text)) if !text.is_empty() => {}
                        Some(Value::String(_)) | None => errors.push(FieldError::required(at, "")),
                        Some(other) => {
                            errors.push(FieldError::invalid(at, other.clone(), "must be a string"));
                        }
                    }
                }
                if map.get("metadata").is_some_and(|metadata| !metadata.is_object()) {
                    errors.push(FieldError::invalid(
                        format!("{path}.metadata"),
                        "",
                        "must be an object",
                    ));
                }
            }
            for (name, member) in map {
                let at = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                if let Some(property) = schema.properties.get(name) {
                    visit(property, member, &at, errors);
                } else if let Additional::Schema(below) = &schema.additional {
                    visit(below, member, &at, errors);
                }
            }
        }
        Value::Array(items) => {
            let Some(below) = &schema.items else { return };
            for (at, item) in items.iter().enumerate() {
                visit(below, item, &format!("{path}[{at}]"), errors);
            }
        }
        _ => {}
    }
}
