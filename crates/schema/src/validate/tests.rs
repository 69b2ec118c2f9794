//! Validation, pruning and defaulting of objects; the texts are those a kube-apiserver answers with.

#![expect(clippy::needless_pass_by_value, reason = "cases read better as plain values")]

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::field;

fn schema(spec: Value) -> Schema {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    Schema::parse(&schema, "schema").expect("a structural schema")
}

/// All errors for a `spec` of one property `x`.
fn errors(property: Value, x: Value) -> String {
    let schema = schema(json!({"type": "object", "properties": {"x": property}}));
    field::aggregate(&schema.validate(&json!({"spec": {"x": x}}), None))
}

#[test]
fn texts_are_those_of_kubernetes() {
    let text = json!({"type": "string", "maxLength": 3, "minLength": 2, "pattern": "^[a-z]+$"});
    let cases = [
        (
            json!({"type": "string"}),
            json!(1),
            "spec.x: Invalid value: \"integer\": spec.x in body must be of type string: \"integer\"",
        ),
        (
            json!({"type": "string"}),
            json!(null),
            "spec.x: Invalid value: \"null\": spec.x in body must be of type string: \"null\"",
        ),
        (text.clone(), json!("abcd"), "spec.x: Too long: may not be more than 3 bytes"),
        (
            text.clone(),
            json!("A"),
            "spec.x: Invalid value: \"A\": spec.x in body should be at least 2 chars long",
        ),
        (
            text,
            json!("AB"),
            "spec.x: Invalid value: \"AB\": spec.x in body should match '^[a-z]+$'",
        ),
        (
            json!({"type": "string", "enum": ["A", "B"]}),
            json!("C"),
            "spec.x: Unsupported value: \"C\": supported values: \"A\", \"B\"",
        ),
        (
            json!({"type": "integer", "enum": [1]}),
            json!(3),
            "spec.x: Unsupported value: 3: supported values: \"1\"",
        ),
        (
            json!({"type": "integer", "minimum": 1}),
            json!(0),
            "spec.x: Invalid value: 0: spec.x in body should be greater than or equal to 1",
        ),
        (
            json!({"type": "number", "maximum": 1_000_000, "exclusiveMaximum": true}),
            json!(1_000_000.5),
            "spec.x: Invalid value: 1000000.5: spec.x in body should be less than 1e+06",
        ),
        (
            json!({"type": "integer", "format": "int32"}),
            json!(3_000_000_000u64),
            "<nil>: Invalid value: \"\": Checked value must be of type integer with format int32 in spec.x",
        ),
        (
            json!({"type": "integer", "multipleOf": 5}),
            json!(7),
            "spec.x: Invalid value: 7: spec.x in body should be a multiple of 5",
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "maxItems": 1}),
            json!(["a", "b"]),
            "spec.x: Too many: 2: must have at most 1 item",
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "minItems": 1}),
            json!([]),
            "spec.x: Invalid value: 0: spec.x in body should have at least 1 items",
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}),
            json!(["a", "b", "a"]),
            "spec.x[2]: Duplicate value: \"a\"",
        ),
        (
            json!({"type": "string", "format": "date-time"}),
            json!("x"),
            "spec.x: Invalid value: \"x\": spec.x in body must be of type date-time: \"x\"",
        ),
        (
            json!({"x-kubernetes-int-or-string": true}),
            json!(true),
            "spec.x: Invalid value: \"boolean\": spec.x in body must be of type integer,string: \"boolean\"",
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "integer"}}),
            json!({"a": "b"}),
            "spec.x.a: Invalid value: \"string\": spec.x.a in body must be of type integer: \"string\"",
        ),
        (
            json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
            json!({"kind": "x"}),
            "spec.x.apiVersion: Required value",
        ),
    ];
    for (property, x, expect) in cases {
        assert_eq!(errors(property, x), expect);
    }
}

#[test]
fn alternatives_tell_the_one_that_came_furthest() {
    let pair = json!({"a": {"type": "string"}, "b": {"type": "string"}});
    let with = |name: &str| json!({"type": "object", "properties": pair, name: [{"required": ["a"]}, {"required": ["b"]}]});
    assert_eq!(
        errors(with("oneOf"), json!({})),
        "[<nil>: Invalid value: \"\": \"spec.x\" must validate one and only one schema (oneOf). \
         Found none valid, spec.x.a: Required value]"
    );
    assert_eq!(
        errors(with("oneOf"), json!({"a": "1", "b": "1"})),
        "<nil>: Invalid value: \"\": \"spec.x\" must validate one and only one schema (oneOf). \
         Found 2 valid alternatives"
    );
    assert_eq!(
        errors(with("allOf"), json!({})),
        "[spec.x.a: Required value, spec.x.b: Required value, <nil>: Invalid value: \"\": \"spec.x\" \
         must validate all the schemas (allOf). None validated]"
    );
    assert_eq!(errors(with("anyOf"), json!({"b": "1"})), "[]");
}

#[test]
fn what_did_not_change_is_not_held_against_an_update() {
    let schema = schema(json!({"type": "object", "properties": {
        "a": {"type": "string", "maxLength": 1}, "b": {"type": "integer"},
    }}));
    let old = json!({"spec": {"a": "long", "b": 1}});
    assert!(!schema.validate(&old, None).is_empty());
    assert!(schema.validate(&json!({"spec": {"a": "long", "b": 2}}), Some(&old)).is_empty());
    assert!(!schema.validate(&json!({"spec": {"a": "other", "b": 2}}), Some(&old)).is_empty());
}

fn pruning() -> Schema {
    schema(json!({"type": "object", "properties": {
        "known": {"type": "object", "properties": {"a": {"type": "string"}}},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                 "properties": {"inner": {"type": "object", "properties": {"a": {"type": "string"}}}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
        "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "string"}}}},
        "emb": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}},
    }}))
}

#[test]
fn unknown_fields_are_pruned_and_named() {
    let mut object = json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}, "zz": 1, "spec": {
        "known": {"a": "1", "b": 1},
        "open": {"free": {"x": 1}, "inner": {"a": "1", "b": 1}},
        "list": [{"a": "1"}, {"b": 1}],
        "map": {"k": {"a": "1", "b": 1}},
        "emb": {"apiVersion": "v1", "kind": "Y", "metadata": {"name": "y"}, "other": 1, "spec": {"q": 1}},
    }});
    let unknown = pruning().prune(&mut object);
    assert_eq!(
        unknown,
        [
            "spec.emb.other",
            "spec.emb.spec.q",
            "spec.known.b",
            "spec.list[1].b",
            "spec.map.k.b",
            "spec.open.inner.b",
            "zz",
        ]
    );
    assert_eq!(
        object,
        json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}, "spec": {
            "known": {"a": "1"},
            "open": {"free": {"x": 1}, "inner": {"a": "1"}},
            "list": [{"a": "1"}, {}],
            "map": {"k": {"a": "1"}},
            "emb": {"apiVersion": "v1", "kind": "Y", "metadata": {"name": "y"}, "spec": {}},
        }})
    );
}

#[test]
fn defaults_fill_what_is_missing_or_null() {
    let schema = schema(json!({"type": "object", "properties": {
        "a": {"type": "string", "default": "x"},
        "n": {"type": "string", "nullable": true, "default": "x"},
        "o": {"type": "object", "default": {}, "properties": {"i": {"type": "integer", "default": 1}}},
        "p": {"type": "object", "properties": {"i": {"type": "integer", "default": 1}}},
        "l": {"type": "array", "items": {"type": "object", "properties": {"i": {"type": "integer", "default": 1}}}},
        "z": {"type": "string"},
    }}));
    let mut object = json!({"spec": {"a": null, "n": null, "l": [{}], "z": null}});
    schema.drop_nulls(&mut object);
    schema.default_object(&mut object);
    assert_eq!(object, json!({"spec": {"a": "x", "n": null, "o": {"i": 1}, "l": [{"i": 1}]}}));
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-c]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        let names = "known|open|list|map|emb|inner|a|b|spec|type|properties|items|kind";
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(names, inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Schemas made of their usual members, not all of them structural.
fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({"type": "string", "default": "x", "maxLength": 3})),
        Just(json!({"type": "integer", "format": "int32", "minimum": 1, "default": 1})),
        Just(json!({"x-kubernetes-int-or-string": true})),
        Just(json!({"type": "boolean", "nullable": true})),
        any_json(),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::btree_map("[abc]", inner.clone(), 0..4)
                .prop_map(|p| json!({"type": "object", "properties": p, "default": {}})),
            inner.clone().prop_map(|items| json!({"type": "array", "items": items})),
            inner
                .clone()
                .prop_map(|below| json!({"type": "object", "additionalProperties": below})),
            (inner.clone(), inner)
                .prop_map(|(a, b)| json!({"type": "object", "anyOf": [a], "not": b})),
        ]
    })
}

proptest! {
    #[test]
    fn pruning_twice_changes_nothing_more(object in any_json()) {
        let schema = pruning();
        let mut once = json!({"spec": object});
        schema.prune(&mut once);
        let mut twice = once.clone();
        prop_assert!(schema.prune(&mut twice).is_empty());
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn arbitrary_schemas_and_objects_never_panic(schema in any_schema(), object in any_json(), old in any_json()) {
        if let Ok(schema) = Schema::parse(&json!({"type": "object", "properties": {"spec": schema}}), "s") {
            let mut object = json!({"spec": object});
            schema.prune(&mut object);
            schema.drop_nulls(&mut object);
            schema.default_object(&mut object);
            let mut again = object.clone();
            schema.default_object(&mut again);
            prop_assert_eq!(&object, &again, "defaulting twice changes nothing more");
            let _ = schema.validate(&object, Some(&json!({"spec": old})));
            let _ = schema.validate(&object, None);
        }
    }

    #[test]
    fn a_valid_object_stays_valid_when_defaulted(schema in any_schema(), object in any_json()) {
        if let Ok(schema) = Schema::parse(&json!({"type": "object", "properties": {"spec": schema}}), "s") {
            let mut object = json!({"spec": object});
            schema.prune(&mut object);
            if schema.validate(&object, None).is_empty() {
                schema.default_object(&mut object);
                prop_assert!(schema.validate(&object, None).is_empty());
            }
        }
    }
}
