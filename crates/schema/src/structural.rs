//! Is a schema structural? Only such schemas can prune and default, so no other is accepted.
//!
//! The raw JSON comes in, so that fields which [`crate::Schema`] does not keep are seen as well; field
//! errors with Kubernetes' texts go out, in the order of their texts.

use serde_json::{Map, Value};

use crate::{FieldError, node::Schema};

mod extension;
mod nested;

/// Where in an object a schema stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

pub(crate) fn check(schema: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    node(schema, Level::Root, path, &mut errors);
    nested::complete(schema, schema, path, path, &mut errors);
    errors.sort_by_key(FieldError::to_string);
    errors.dedup();
    errors
}

fn flag(map: &Map<String, Value>, name: &str) -> bool {
    map.get(name).and_then(Value::as_bool).unwrap_or(false)
}

fn text<'a>(map: &'a Map<String, Value>, name: &str) -> &'a str {
    map.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn node(schema: &Value, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    let Value::Object(map) = schema else { return };
    unsupported(map, path, errors);
    let kind = text(map, "type");
    if kind == "array" && !map.contains_key("items") {
        errors.push(FieldError::required(format!("{path}.items"), "must be specified"));
    }
    if let Some(items) = map.get("items") {
        node(items, Level::Item, &format!("{path}.items"), errors);
    }
    for (name, property) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
        node(property, Level::Field, &format!("{path}.properties[{name}]"), errors);
    }
    additional(map, level, path, errors);
    extension::check(map, path, errors);
    types(map, level, path, errors);
    metadata(map, level, path, errors);
    nested::check(map, level, path, errors);
}

fn unsupported(map: &Map<String, Value>, path: &str, errors: &mut Vec<FieldError>) {
    for name in
        ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"]
    {
        if map.get(name).is_some_and(|value| !value.is_null() && value != "") {
            errors.push(FieldError::forbidden(
                format!("{path}.{name}"),
                format!("{name} is not supported"),
            ));
        }
    }
    if map.get("items").is_some_and(Value::is_array) {
        errors.push(FieldError::forbidden(
            format!("{path}.items"),
            "items must be a schema object and not an array",
        ));
    }
    if flag(map, "uniqueItems") {
        errors.push(FieldError::forbidden(
            format!("{path}.uniqueItems"),
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ));
    }
}

fn additional(map: &Map<String, Value>, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    let at = format!("{path}.additionalProperties");
    let Some(additional) = map.get("additionalProperties").filter(|a| !a.is_null()) else { return };
    if *additional == Value::Bool(false) {
        errors.push(FieldError::forbidden(&at, "additionalProperties cannot be set to false"));
    } else if map.get("properties").and_then(Value::as_object).is_some_and(|p| !p.is_empty()) {
        errors.push(FieldError::forbidden(
            &at,
            "additionalProperties and properties are mutual exclusive",
        ));
    }
    if level == Level::Root {
        errors.push(FieldError::forbidden(&at, "must not be used at the root"));
    }
    if flag(map, "x-kubernetes-embedded-resource") {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(&at, detail));
    }
    node(additional, Level::Field, &at, errors);
}

fn types(map: &Map<String, Value>, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    let at = format!("{path}.type");
    let kind = text(map, "type");
    if flag(map, "x-kubernetes-embedded-resource") && kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(match kind {
            "" => FieldError::required(&at, detail),
            kind => FieldError::invalid(&at, kind, detail),
        });
    } else if kind.is_empty()
        && !flag(map, "x-kubernetes-int-or-string")
        && !flag(map, "x-kubernetes-preserve-unknown-fields")
    {
        let place = match level {
            Level::Root => "at the root",
            Level::Item => "for specified array items",
            Level::Field => "for specified object fields",
        };
        errors.push(FieldError::required(&at, format!("must not be empty {place}")));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        errors.push(FieldError::invalid(&at, kind, "must be object at the root"));
    }
    if level == Level::Root && flag(map, "nullable") {
        errors.push(FieldError::forbidden(
            format!("{path}.nullable"),
            "nullable cannot be true at the root",
        ));
    }
}

/// The fields that every object has are specified elsewhere; here they may only be named.
fn metadata(map: &Map<String, Value>, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    let embedded = flag(map, "x-kubernetes-embedded-resource");
    let properties = map.get("properties").and_then(Value::as_object);
    let is_object = level == Level::Root || embedded;
    for name in ["kind", "apiVersion"] {
        let kind = properties
            .and_then(|p| p.get(name))
            .and_then(Value::as_object)
            .map(|p| text(p, "type"));
        if let Some(kind) = kind.filter(|kind| is_object && *kind != "string") {
            let at = format!("{path}.properties[{name}].type");
            errors.push(FieldError::invalid(at, kind, "must be string"));
        }
    }
    if embedded
        && !flag(map, "x-kubernetes-preserve-unknown-fields")
        && properties.is_none_or(Map::is_empty)
    {
        errors.push(FieldError::required(
            format!("{path}.properties"),
            "must not be empty if x-kubernetes-embedded-resource is true without \
             x-kubernetes-preserve-unknown-fields",
        ));
    }
    let Some(metadata) = properties.and_then(|p| p.get("metadata")).and_then(Value::as_object)
    else {
        return;
    };
    let at = format!("{path}.properties[metadata]");
    if is_object && text(metadata, "type") != "object" {
        errors.push(FieldError::invalid(
            format!("{at}.type"),
            text(metadata, "type"),
            "must be object",
        ));
    }
    if level == Level::Root {
        let names_only = |(name, value): (&String, &Value)| match name.as_str() {
            "type" | "description" | "default" | "title" => true,
            "properties" => value
                .as_object()
                .is_some_and(|p| p.keys().all(|name| name == "name" || name == "generateName")),
            _ => false,
        };
        if !metadata.iter().all(names_only) {
            errors.push(FieldError::forbidden(
                at,
                "must not specify anything other than name and generateName, but metadata is implicitly specified",
            ));
        }
    }
}

/// Every default must itself fulfil the schema it stands in.
pub(crate) fn check_defaults(schema: &Schema, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    defaults(schema, path, &mut errors);
    errors
}

fn defaults(schema: &Schema, path: &str, errors: &mut Vec<FieldError>) {
    if let Some(default) = &schema.default {
        let at = format!("{path}.default");
        // The check of a default is that of an object that consists of it alone.
        let mut filled = default.clone();
        schema.default_object(&mut filled);
        if !schema.unknown_below(&filled).is_empty() {
            errors.push(FieldError::invalid(&at, default.clone(), "must not have unknown fields"));
        }
        for mut error in schema.validate(&filled, None) {
            let below = match error.path.as_str() {
                "" => String::new(),
                path if path.starts_with('[') => path.to_owned(),
                path => format!(".{path}"),
            };
            error.path = format!("{at}{below}");
            errors.push(error);
        }
    }
    for (name, property) in &schema.properties {
        defaults(property, &format!("{path}.properties[{name}]"), errors);
    }
    if let Some(items) = &schema.items {
        defaults(items, &format!("{path}.items"), errors);
    }
    if let crate::Additional::Schema(additional) = &schema.additional {
        defaults(additional, &format!("{path}.additionalProperties"), errors);
    }
}

#[cfg(test)]
mod tests;
