//! Inside `allOf`, `anyOf`, `oneOf` and `not`, a schema may only restrict values that the structure
//! around it has specified.

use serde_json::{Map, Value, json};

use super::{Level, flag, text};
use crate::FieldError;

/// Members that specify structure, and the text that refuses them in a nested schema.
const STRUCTURE: [(&str, &str); 11] = [
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
];

/// The nested schemas of one that is specified.
pub(super) fn check(
    map: &Map<String, Value>,
    _level: Level,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    // Written out, int-or-string names its two types; that is no fault.
    let written_out =
        |any_of: Option<&Value>| any_of == Some(&json!([{"type": "integer"}, {"type": "string"}]));
    let skip_any = flag(map, "x-kubernetes-int-or-string") && written_out(map.get("anyOf"));
    for name in ["anyOf", "oneOf", "allOf"] {
        if name == "anyOf" && skip_any {
            continue;
        }
        for (at, schema) in
            map.get(name).and_then(Value::as_array).into_iter().flatten().enumerate()
        {
            let first = name == "allOf" && at == 0 && flag(map, "x-kubernetes-int-or-string");
            let mut schema = schema.clone();
            if first && written_out(schema.get("anyOf")) {
                schema.as_object_mut().map(|map| map.remove("anyOf"));
            }
            restricts(&schema, &format!("{path}.{name}[{at}]"), errors);
        }
    }
    if let Some(not) = map.get("not") {
        restricts(not, &format!("{path}.not"), errors);
    }
}

fn restricts(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let Value::Object(map) = schema else { return };
    for (name, detail) in STRUCTURE {
        let set = match map.get(name) {
            None | Some(Value::Null | Value::Bool(false)) => false,
            Some(Value::String(text)) => !text.is_empty(),
            Some(Value::Array(list)) => !list.is_empty(),
            Some(_) => true,
        };
        if set {
            errors.push(FieldError::forbidden(format!("{path}.{name}"), detail));
        }
    }
    if map.get("properties").is_some_and(|p| p.get("metadata").is_some()) {
        let detail = "must not be specified in a nested context";
        errors.push(FieldError::forbidden(format!("{path}.properties[metadata]"), detail));
    }
    for (name, property) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
        restricts(property, &format!("{path}.properties[{name}]"), errors);
    }
    if let Some(items) = map.get("items") {
        restricts(items, &format!("{path}.items"), errors);
    }
    check(map, Level::Field, path, errors);
}

/// Whatever a nested schema restricts must be specified: `structure` beside `schema`, of which the
/// nested schemas are looked at.
pub(super) fn complete(
    structure: &Value,
    schema: &Value,
    structure_path: &str,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    let Value::Object(map) = schema else { return };
    for name in ["anyOf", "oneOf", "allOf"] {
        for (at, nested) in
            map.get(name).and_then(Value::as_array).into_iter().flatten().enumerate()
        {
            specified(structure, nested, structure_path, &format!("{path}.{name}[{at}]"), errors);
        }
    }
    if let Some(not) = map.get("not") {
        specified(structure, not, structure_path, &format!("{path}.not"), errors);
    }
    if structure_path != path {
        return;
    }
    for (name, property) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let at = format!("{path}.properties[{name}]");
        complete(property, property, &at, &at, errors);
    }
    for name in ["items", "additionalProperties"] {
        if let Some(below) = map.get(name).filter(|below| below.is_object()) {
            let at = format!("{path}.{name}");
            complete(below, below, &at, &at, errors);
        }
    }
}

fn specified(
    structure: &Value,
    nested: &Value,
    structure_path: &str,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    let Value::Object(map) = nested else { return };
    let open = structure.as_object().is_some_and(|structure| {
        flag(structure, "x-kubernetes-preserve-unknown-fields")
            && text(structure, "type").is_empty()
    });
    let missing = |at: String, from: String| {
        FieldError::required(at, format!("because it is defined in {from}"))
    };
    for (name, property) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let at = format!("{path}.properties[{name}]");
        let declared = structure.get("properties").and_then(|p| p.get(name));
        let additional = structure.get("additionalProperties").filter(|a| a.is_object());
        match (declared, additional) {
            (Some(below), _) => {
                specified(
                    below,
                    property,
                    &format!("{structure_path}.properties[{name}]"),
                    &at,
                    errors,
                );
            }
            (None, Some(below)) => {
                let below_path = format!("{structure_path}.additionalProperties");
                specified(below, property, &below_path, &at, errors);
            }
            (None, None) if !open => {
                errors.push(missing(format!("{structure_path}.properties[{name}]"), at));
            }
            _ => {}
        }
    }
    if let Some(items) = map.get("items") {
        let at = format!("{path}.items");
        match structure.get("items") {
            Some(below) => specified(below, items, &format!("{structure_path}.items"), &at, errors),
            None if !open => errors.push(missing(format!("{structure_path}.items"), at)),
            None => {}
        }
    }
    complete(structure, nested, structure_path, path, errors);
}
