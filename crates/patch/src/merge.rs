//! JSON merge patch (RFC 7386): members of the patch replace, null removes, objects merge.

use serde_json::{Map, Value};

/// Applies `patch` to `doc`.
pub fn merge_patch(doc: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *doc = patch.clone();
        return;
    };
    if !doc.is_object() {
        *doc = Value::Object(Map::new());
    }
    let Value::Object(target) = doc else { unreachable!("made an object just above") };
    for (key, change) in patch {
        if change.is_null() {
            target.remove(key);
        } else {
            merge_patch(target.entry(key.clone()).or_insert(Value::Null), change);
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::needless_pass_by_value, reason = "cases read better as plain values")]

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::json::tests::any_json;

    fn check(doc: Value, patch: Value, expect: Value) {
        let mut out = doc;
        merge_patch(&mut out, &patch);
        assert_eq!(out, expect);
    }

    #[test]
    fn the_examples_of_the_rfc_hold() {
        check(json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"}));
        check(json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"}));
        check(json!({"a": "b"}), json!({"a": null}), json!({}));
        check(json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"}));
        check(
            json!({"a": {"b": "c"}}),
            json!({"a": {"b": "d", "c": null}}),
            json!({"a": {"b": "d"}}),
        );
        check(json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"]));
        check(json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1}));
        check(json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"}));
        check(json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}}));
    }

    proptest! {
        #[test]
        fn merging_twice_changes_nothing_more(doc in any_json(), patch in any_json()) {
            let mut once = doc;
            merge_patch(&mut once, &patch);
            let mut twice = once.clone();
            merge_patch(&mut twice, &patch);
            prop_assert_eq!(once, twice);
        }
    }
}
