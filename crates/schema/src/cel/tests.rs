//! CEL rules: texts, old values, budget, and that no rule ends the process.

#![expect(clippy::needless_pass_by_value, reason = "cases read better as plain values")]

use serde_json::{Value, json};

use crate::{Schema, field};

fn schema(x: Value) -> Schema {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"x": x}}}});
    Schema::parse(&schema, "schema").expect("a structural schema")
}

fn judge(schema: &Schema, x: Value, old: Option<Value>) -> String {
    let old = old.map(|x| json!({"spec": {"x": x}}));
    field::aggregate(&schema.validate(&json!({"spec": {"x": x}}), old.as_ref()))
}

#[test]
fn failed_rules_are_told_by_message_reason_and_path() {
    let schema = schema(json!({"type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "x-kubernetes-validations": [
        {"rule": "self.a <= self.b", "message": "a must not exceed b"},
        {"rule": "self.a > 0"},
        {"rule": "self.a < 100", "messageExpression": "'a is ' + string(self.a)",
         "reason": "FieldValueForbidden", "fieldPath": ".a"},
    ]}));
    assert_eq!(judge(&schema, json!({"a": 1, "b": 2}), None), "[]");
    assert_eq!(
        judge(&schema, json!({"a": 5, "b": 3}), None),
        "spec.x: Invalid value: a must not exceed b"
    );
    assert_eq!(
        judge(&schema, json!({"a": -1, "b": 0}), None),
        "spec.x: Invalid value: failed rule: self.a > 0"
    );
    assert_eq!(judge(&schema, json!({"a": 200, "b": 300}), None), "spec.x.a: Forbidden: a is 200");
    assert_eq!(
        judge(&schema, json!({"b": 3}), None).split(", ").next(),
        Some(
            "[spec.x: Invalid value: \"object\": no such key: a evaluating rule: a must not exceed b"
        )
    );
}

#[test]
fn errors_of_evaluation_are_told_in_kubernetes_words() {
    let cases = [
        (
            json!({"type": "string"}),
            json!("x"),
            "int(self) > 0",
            "type conversion error from 'string' to 'int'",
        ),
        (json!({"type": "integer"}), json!(0), "1 / self > 0", "division by zero"),
        (
            json!({"type": "integer"}),
            json!(1),
            "self + 9223372036854775807 > 0",
            "integer overflow",
        ),
        (
            json!({"type": "array", "items": {"type": "string"}}),
            json!(["a"]),
            "self[3] == 'a'",
            "index out of bounds: 3",
        ),
        (
            json!({"type": "string"}),
            json!("x"),
            "duration(self) > duration('1s')",
            "type conversion error from 'string' to 'google.protobuf.Duration'",
        ),
    ];
    for (mut property, value, rule, expect) in cases {
        property["x-kubernetes-validations"] = json!([{"rule": rule}]);
        let kind = property["type"].clone();
        let expect = format!("spec.x: Invalid value: {kind}: {expect} evaluating rule: {rule}");
        assert_eq!(judge(&schema(property), value, None), expect);
    }
}

#[test]
fn rules_wait_until_simpler_errors_are_gone() {
    let schema = schema(
        json!({"type": "string", "maxLength": 1, "x-kubernetes-validations": [{"rule": "self == 'a'"}]}),
    );
    assert_eq!(
        judge(&schema, json!("b"), None),
        "spec.x: Invalid value: \"b\": failed rule: self == 'a'"
    );
    assert_eq!(
        judge(&schema, json!("bb"), None),
        "[spec.x: Too long: may not be more than 1 byte, <nil>: Invalid value: null: some validation rules \
         were not checked because the object was invalid; correct the existing errors to complete validation]"
    );
}

#[test]
fn transition_rules_see_the_old_value() {
    let fixed = schema(
        json!({"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "immutable"}]}),
    );
    assert_eq!(judge(&fixed, json!("a"), None), "[]");
    assert_eq!(judge(&fixed, json!("a"), Some(json!("a"))), "[]");
    assert_eq!(
        judge(&fixed, json!("b"), Some(json!("a"))),
        "spec.x: Invalid value: \"b\": immutable"
    );

    let optional = schema(json!({"type": "string", "x-kubernetes-validations": [
        {"rule": "oldSelf.hasValue() || self == 'first'", "optionalOldSelf": true, "message": "start with first"}]}));
    assert_eq!(judge(&optional, json!("first"), None), "[]");
    assert_eq!(
        judge(&optional, json!("x"), None),
        "spec.x: Invalid value: \"x\": start with first"
    );
    assert_eq!(judge(&optional, json!("x"), Some(json!("first"))), "[]");
}

#[test]
fn items_of_list_maps_are_compared_by_key_and_sets_without_order() {
    let item = json!({"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "string",
        "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "fixed"}]}}});
    let map = schema(
        json!({"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}),
    );
    let old = json!([{"k": "a", "v": "1"}, {"k": "b", "v": "2"}]);
    assert_eq!(
        judge(&map, json!([{"k": "b", "v": "2"}, {"k": "c", "v": "3"}]), Some(old.clone())),
        "[]"
    );
    assert_eq!(
        judge(&map, json!([{"k": "b", "v": "9"}]), Some(old)),
        "spec.x[0].v: Invalid value: \"9\": fixed"
    );

    let set = schema(
        json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set",
        "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "fixed"}]}),
    );
    assert_eq!(judge(&set, json!(["b", "a"]), Some(json!(["a", "b"]))), "[]");
    assert_eq!(judge(&set, json!(["b"]), Some(json!(["a", "b"]))), "spec.x: Invalid value: fixed");
}

#[test]
fn values_have_the_types_that_kubernetes_gives_them() {
    let rules = [
        (
            json!({"type": "string", "format": "date-time"}),
            json!("2024-01-02T03:04:05Z"),
            "self.getFullYear() == 2024",
        ),
        (
            json!({"type": "string", "format": "duration"}),
            json!("1h30m"),
            "self == duration('90m')",
        ),
        (json!({"type": "number"}), json!(1), "self == 1.0"),
        (
            json!({"x-kubernetes-int-or-string": true}),
            json!("80%"),
            "type(self) == int ? self < 100 : self.endsWith('%') && int(self.replace('%', '')) < 100",
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            json!({"a-b": "1"}),
            "self.exists(k, k == 'a-b')",
        ),
        (
            json!({"type": "object", "properties": {"a-b": {"type": "string"}, "namespace": {"type": "string"}}}),
            json!({"a-b": "1", "namespace": "n"}),
            "self.a__dash__b == '1' && self.__namespace__ == 'n'",
        ),
    ];
    for (mut property, value, rule) in rules {
        property["x-kubernetes-validations"] = json!([{"rule": rule}]);
        assert_eq!(judge(&schema(property), value, None), "[]", "{rule}");
    }
}

#[test]
fn wrong_rules_are_refused_with_the_schema() {
    let refused = |rule: Value| {
        let schema = json!({"type": "object", "x-kubernetes-validations": [rule]});
        let errors = Schema::parse(&schema, "s").expect_err("a wrong rule");
        field::aggregate(&errors)
    };
    assert_eq!(
        refused(json!({})),
        "s.x-kubernetes-validations[0].rule: Required value: rule is not specified"
    );
    assert!(refused(json!({"rule": "self."})).starts_with(
        "s.x-kubernetes-validations[0].rule: Invalid value: \"self.\": compilation failed: "
    ));
    assert_eq!(
        refused(json!({"rule": "true", "reason": "Odd"})),
        "s.x-kubernetes-validations[0].reason: Unsupported value: \"Odd\": supported values: \
         \"FieldValueRequired\", \"FieldValueInvalid\", \"FieldValueForbidden\", \"FieldValueDuplicate\""
    );
    assert_eq!(
        refused(json!({"rule": "true", "optionalOldSelf": true})),
        "s.x-kubernetes-validations[0].optionalOldSelf: Invalid value: true: may not be set if oldSelf is \
         not used in rule"
    );
}

#[test]
fn rules_that_cost_too_much_are_not_run() {
    let schema =
        schema(json!({"type": "array", "items": {"type": "integer"}, "x-kubernetes-validations": [
        {"rule": "self.all(a, self.all(b, self.all(c, self.all(d, a + b + c + d >= 0))))"}]}));
    let many: Vec<u32> = (0..1000).collect();
    assert_eq!(
        judge(&schema, json!(many), None),
        "spec.x: Invalid value: \"array\": validation failed due to running out of cost budget, no further \
         validation rules will be run"
    );
    assert_eq!(judge(&schema, json!([1, 2, 3]), None), "[]");
}

#[test]
fn expressions_made_to_end_the_stack_do_not() {
    let chains = [
        "(".repeat(5000),
        "!".repeat(5000) + "true",
        "[".repeat(3000),
        format!("self{}", ".a".repeat(4000)),
        format!("true{}", " || true".repeat(1000)),
        format!("1{}", " + 1".repeat(4000)),
        format!("{}1", "true ? 1 : ".repeat(1000)),
        "-".repeat(3000) + "1",
        format!("self{}", "[0]".repeat(2000)),
        // Just within the bounds.
        format!("{}true{}", "(".repeat(24), ")".repeat(24)),
        "!".repeat(600) + "true",
        format!("self{}", ".a".repeat(600)),
        format!("1{} > 0", " + 1".repeat(150)),
        format!("true{}", " || true".repeat(300)),
    ];
    for chain in chains {
        let parsed = Schema::parse(
            &json!({"type": "object", "x-kubernetes-validations": [{"rule": chain}]}),
            "s",
        );
        if let Ok(schema) = parsed {
            let _ = schema.validate(&json!({"a": {"a": 1}}), None);
        }
    }
}
