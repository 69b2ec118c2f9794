//! Which schemas are refused, and in which words.

#![expect(clippy::needless_pass_by_value, reason = "cases read better as plain values")]

use serde_json::json;

use crate::{Schema, field};

#[track_caller]
fn refused(schema: serde_json::Value, expect: &str) {
    let errors = Schema::parse(&schema, "s").expect_err("not structural");
    assert_eq!(field::aggregate(&errors), expect);
}

fn spec(property: serde_json::Value) -> serde_json::Value {
    json!({"type": "object", "properties": {"x": property}})
}

#[test]
fn types_must_be_specified() {
    refused(json!({}), "s.type: Required value: must not be empty at the root");
    refused(
        json!({"type": "string"}),
        "s.type: Invalid value: \"string\": must be object at the root",
    );
    refused(
        spec(json!({})),
        "s.properties[x].type: Required value: must not be empty for specified object fields",
    );
    refused(
        spec(json!({"type": "array", "items": {}})),
        "s.properties[x].items.type: Required value: must not be empty for specified array items",
    );
    refused(
        spec(json!({"type": "array"})),
        "s.properties[x].items: Required value: must be specified",
    );
    refused(
        spec(json!({"type": "strin"})),
        "s.properties[x].type: Unsupported value: \"strin\": supported values: \"array\", \"boolean\", \
         \"integer\", \"number\", \"object\", \"string\"",
    );
}

#[test]
fn nested_schemas_may_only_restrict() {
    refused(
        spec(json!({"type": "string", "anyOf": [{"type": "string"}]})),
        "s.properties[x].anyOf[0].type: Forbidden: must be empty to be structural",
    );
    refused(
        spec(json!({"type": "object", "oneOf": [{"properties": {"a": {"minimum": 1}}}]})),
        "s.properties[x].properties[a]: Required value: because it is defined in \
         s.properties[x].oneOf[0].properties[a]",
    );
    let allowed = spec(
        json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
    );
    Schema::parse(&allowed, "s").expect("int-or-string may be written out");
}

#[test]
fn list_maps_need_keys_that_are_always_there() {
    let list = |keys: serde_json::Value, items: serde_json::Value| {
        spec(
            json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys, "items": items}),
        )
    };
    let item = json!({"type": "object", "properties": {"k": {"type": "string"}}});
    refused(
        list(json!(["k"]), item.clone()),
        "s.properties[x].items.properties[k].default: Required value: this property is in \
         x-kubernetes-list-map-keys, so it must have a default or be a required property",
    );
    refused(
        list(json!([]), item.clone()),
        "s.properties[x].x-kubernetes-list-map-keys: Required value: must not be empty if \
         x-kubernetes-list-type is map",
    );
    refused(
        list(json!(["z"]), item),
        "s.properties[x].x-kubernetes-list-map-keys: Invalid value: [\"z\"]: entries must all be names \
         of item properties",
    );
}

#[test]
fn unsupported_members_and_bad_patterns_are_refused() {
    refused(
        spec(json!({"type": "object", "$ref": "#/x"})),
        "s.properties[x].$ref: Forbidden: $ref is not supported",
    );
    refused(
        spec(json!({"type": "object", "additionalProperties": false})),
        "s.properties[x].additionalProperties: Forbidden: additionalProperties cannot be set to false",
    );
    let errors = Schema::parse(&spec(json!({"type": "string", "pattern": "("})), "s")
        .expect_err("bad pattern");
    assert!(errors[0].detail.starts_with("must be a valid regular expression, but isn't: "));
}

#[test]
fn defaults_must_fulfil_their_schema() {
    refused(
        spec(json!({"type": "string", "default": 3})),
        "s.properties[x].default: Invalid value: \"integer\":  in body must be of type string: \"integer\"",
    );
    refused(
        spec(json!({"type": "object", "default": {"a": 1}})),
        "s.properties[x].default: Invalid value: {\"a\":1}: must not have unknown fields",
    );
}

#[test]
fn schemas_that_nest_too_deep_are_refused() {
    let mut deep = json!({"type": "object"});
    for _ in 0..110 {
        deep = json!({"type": "object", "properties": {"a": deep}});
    }
    refused_deep(deep);
}

fn refused_deep(schema: serde_json::Value) {
    let errors = Schema::parse(&schema, "s").expect_err("too deep");
    assert_eq!(errors[0].detail, "the schema is too deep or too large");
}
