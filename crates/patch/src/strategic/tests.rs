//! Strategic merge patch: directives, keys, order, and that it never panics.

#![expect(clippy::needless_pass_by_value, reason = "cases read better as plain values")]

use proptest::{prelude::*, strategy::Strategy};
use serde_json::json;

use super::*;
use crate::json::tests::any_json;

fn deployment() -> TypeInfo {
    TypeInfo::builtin("apps", "v1", "Deployment").expect("a built-in kind")
}

fn pod(doc: Value, patch: Value) -> Result<Value, Error> {
    strategic_merge(&doc, &patch, &TypeInfo::builtin("", "v1", "Pod").expect("a built-in kind"))
}

#[track_caller]
fn check(doc: Value, patch: Value, expect: Value) {
    assert_eq!(pod(doc, patch).expect("the patch applies"), expect);
}

#[test]
fn containers_merge_by_name_and_take_the_order_of_the_patch() {
    check(
        json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b"}]}}),
        json!({"spec": {"containers": [{"name": "c"}, {"name": "a", "image": "2"}]}}),
        json!({"spec": {"containers": [{"name": "c"}, {"name": "a", "image": "2"}, {"name": "b"}]}}),
    );
}

#[test]
fn patch_directives_delete_and_replace() {
    check(
        json!({"spec": {"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b"}]}}),
        json!({"spec": {"volumes": [{"name": "a", "$patch": "delete"}]}}),
        json!({"spec": {"volumes": [{"name": "b"}]}}),
    );
    check(
        json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}),
        json!({"spec": {"containers": [{"name": "z"}, {"$patch": "replace"}]}}),
        json!({"spec": {"containers": [{"name": "z"}]}}),
    );
    check(
        json!({"spec": {"nodeSelector": {"a": "1"}}}),
        json!({"spec": {"nodeSelector": {"$patch": "replace", "b": "2", "c": null}}}),
        json!({"spec": {"nodeSelector": {"b": "2"}}}),
    );
    check(
        json!({"spec": {"securityContext": {"runAsUser": 1}}}),
        json!({"spec": {"securityContext": {"$patch": "delete"}}}),
        json!({"spec": {"securityContext": {}}}),
    );
}

#[test]
fn retain_keys_drops_the_other_members() {
    let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    let doc =
        json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
    let out = strategic_merge(&doc, &patch, &deployment()).expect("applies");
    assert_eq!(out, json!({"spec": {"strategy": {"type": "Recreate"}}}));

    let wrong = json!({"spec": {"strategy": {"$retainKeys": ["x"], "type": "Recreate"}}});
    let error = strategic_merge(&doc, &wrong, &deployment()).expect_err("type is not retained");
    assert_eq!(error.to_string(), "patch content doesn't match retainKeys list");
}

#[test]
fn element_order_is_set_by_the_patch() {
    check(
        json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}}),
        json!({"spec": {
            "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}],
            "containers": [{"name": "a", "image": "2"}],
        }}),
        json!({"spec": {"containers": [{"name": "b"}, {"name": "c"}, {"name": "a", "image": "2"}]}}),
    );
}

#[test]
fn primitive_lists_merge_as_sets() {
    check(
        json!({"metadata": {"finalizers": ["a", "b"]}}),
        json!({"metadata": {"finalizers": ["c"]}}),
        json!({"metadata": {"finalizers": ["c", "a", "b"]}}),
    );
    check(
        json!({"metadata": {"finalizers": ["a", "b"]}}),
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "$setElementOrder/finalizers": ["b"]}}),
        json!({"metadata": {"finalizers": ["b"]}}),
    );
}

#[test]
fn lists_without_a_key_are_replaced() {
    check(
        json!({"spec": {"tolerations": [{"key": "a"}], "containers": [{"name": "a", "args": ["1", "2"]}]}}),
        json!({"spec": {"tolerations": [{"key": "b"}], "containers": [{"name": "a", "args": ["3"]}]}}),
        json!({"spec": {"tolerations": [{"key": "b"}], "containers": [{"name": "a", "args": ["3"]}]}}),
    );
}

#[test]
fn items_without_their_merge_key_are_refused() {
    let error = pod(json!({}), json!({"spec": {"containers": [{"image": "x"}]}}));
    assert_eq!(
        error.expect_err("no name").to_string(),
        "map in the patch does not contain declared merge key: name"
    );
}

/// A patch that turns `from` into `to`, for pods with containers and labels.
fn diff(from: &[(String, String)], to: &[(String, String)]) -> Value {
    let item = |(name, image): &(String, String)| json!({"name": name, "image": image});
    let mut items: Vec<Value> = to.iter().map(item).collect();
    for (name, _) in from.iter().filter(|(name, _)| !to.iter().any(|(other, _)| other == name)) {
        items.push(json!({"name": name, "$patch": "delete"}));
    }
    let order: Vec<Value> = to.iter().map(|(name, _)| json!({"name": name})).collect();
    json!({"spec": {"containers": items, "$setElementOrder/containers": order}})
}

fn containers() -> impl Strategy<Value = Vec<(String, String)>> {
    proptest::collection::btree_map("[a-f]", "[xyz]", 1..5)
        .prop_map(|map| map.into_iter().collect::<Vec<_>>())
        .prop_shuffle()
}

proptest! {
    #[test]
    fn a_diff_of_two_lists_leads_from_one_to_the_other(from in containers(), to in containers()) {
        let list = |all: &[(String, String)]| {
            let items: Vec<Value> =
                all.iter().map(|(name, image)| json!({"name": name, "image": image})).collect();
            json!({"spec": {"containers": items}})
        };
        prop_assert_eq!(pod(list(&from), diff(&from, &to)).expect("applies"), list(&to));
    }

    #[test]
    fn arbitrary_patches_never_panic(doc in any_json(), patch in any_json(), directive in "replace|delete|merge|x") {
        let _ = pod(json!({"spec": {"containers": [{"name": "a"}], "x": doc}}), json!({"spec": patch.clone()}));
        let _ = pod(json!({"spec": {"containers": patch.clone()}}), json!({"spec": {"containers": [patch.clone()], "$setElementOrder/containers": patch.clone(), "$retainKeys": patch.clone()}}));
        let _ = pod(json!({"metadata": {"finalizers": doc}}), json!({"metadata": {"finalizers": patch.clone(), "$deleteFromPrimitiveList/finalizers": patch, "$patch": directive}}));
    }
}
