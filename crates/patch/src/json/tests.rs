//! JSON patch: the rules of the RFC, the texts, the bounds.

#![expect(clippy::needless_pass_by_value, reason = "cases read better as plain values")]

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Arbitrary small JSON with few names, so that patches and documents meet.
pub(crate) fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3i64..4).prop_map(Value::from),
        "[ab-]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[abc]", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn ok(doc: Value, patch: Value) -> Value {
    json_patch(&doc, &patch).expect("the patch applies")
}

fn refused(doc: Value, patch: Value) -> String {
    json_patch(&doc, &patch).expect_err("the patch is refused").to_string()
}

#[test]
fn operations_do_what_the_rfc_says() {
    let doc = json!({"a": {"b": [1, 2]}, "x/y": "s", "m~n": 1});
    assert_eq!(
        ok(doc.clone(), json!([{"op": "add", "path": "/a/b/1", "value": 9}]))["a"]["b"],
        json!([1, 9, 2])
    );
    assert_eq!(
        ok(doc.clone(), json!([{"op": "add", "path": "/a/b/-", "value": 9}]))["a"]["b"],
        json!([1, 2, 9])
    );
    assert_eq!(ok(doc.clone(), json!([{"op": "remove", "path": "/a/b/-1"}]))["a"]["b"], json!([1]));
    assert_eq!(
        ok(doc.clone(), json!([{"op": "replace", "path": "/x~1y", "value": 3}]))["x/y"],
        json!(3)
    );
    assert_eq!(ok(doc.clone(), json!([{"op": "remove", "path": "/m~0n"}])).get("m~n"), None);
    assert_eq!(
        ok(doc.clone(), json!([{"op": "move", "from": "/a/b/0", "path": "/c"}])),
        json!({"a": {"b": [2]}, "c": 1, "x/y": "s", "m~n": 1})
    );
    assert_eq!(
        ok(doc.clone(), json!([{"op": "copy", "from": "/a/b", "path": "/c"}]))["c"],
        json!([1, 2])
    );
    assert_eq!(ok(doc.clone(), json!([{"op": "test", "path": "/a/b/0", "value": 1.0}])), doc);
}

#[test]
fn refusals_name_the_path() {
    let doc = json!({"data": {"a": "1"}, "l": []});
    assert_eq!(
        refused(doc.clone(), json!([{"op": "test", "path": "/data/a", "value": "2"}])),
        "testing value /data/a failed: test failed"
    );
    assert_eq!(
        refused(doc.clone(), json!([{"op": "remove", "path": "/data/z"}])),
        "error in remove for path: '/data/z': Unable to remove nonexistent key: z: missing value"
    );
    assert_eq!(
        refused(doc.clone(), json!([{"op": "add", "path": "/x/y", "value": 1}])),
        "add operation does not apply: doc is missing path: \"/x/y\": missing value"
    );
    assert_eq!(
        refused(doc.clone(), json!([{"op": "add", "path": "/l/1", "value": 1}])),
        "error in add for path: '/l/1': Unable to access invalid index: 1: invalid index referenced"
    );
    assert_eq!(refused(doc.clone(), json!([{"op": "foo", "path": "/l"}])), "Unexpected kind: foo");
    assert_eq!(json_patch(&doc, &json!({})).expect_err("not a list").code(), 400);
}

#[test]
fn operations_copies_and_depth_are_bounded() {
    let many =
        Value::from(vec![json!({"op": "test", "path": "/x", "value": null}); MAX_OPERATIONS + 1]);
    assert_eq!(json_patch(&json!({}), &many), Err(Error::TooManyOperations(MAX_OPERATIONS + 1)));

    let doubling = Value::from(vec![json!({"op": "copy", "from": "/a", "path": "/a/-"}); 60]);
    let out =
        json_patch(&json!({"a": ["0123456789"]}), &doubling).expect_err("grows without bound");
    assert_eq!(out.code(), 413);

    let mut path = String::new();
    let mut deeper = Vec::new();
    for _ in 0..200 {
        path.push_str("/a");
        deeper.push(json!({"op": "add", "path": path, "value": {}}));
    }
    assert_eq!(json_patch(&json!({}), &Value::from(deeper)).expect_err("too deep").code(), 413);
}

proptest! {
    #[test]
    fn arbitrary_patches_never_panic(doc in any_json(), op in "add|remove|replace|test|move|copy|x", path in "(/[abc0-]){0,3}", from in "(/[abc0-]){0,3}", value in any_json()) {
        let patch = json!([{"op": op, "path": path, "from": from, "value": value}]);
        let _ = json_patch(&doc, &patch);
        let _ = json_patch(&doc, &value);
    }

    #[test]
    fn what_was_added_tests_equal(value in any_json()) {
        let patch = json!([{"op": "add", "path": "/n", "value": value}, {"op": "test", "path": "/n", "value": value}]);
        let out = json_patch(&json!({}), &patch);
        prop_assert!(out.is_ok());
    }
}
