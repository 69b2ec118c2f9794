//! Server-side apply: owners, conflicts, removal, order. The expected entries are what a
//! kube-apiserver answers to the same sequence.

#![expect(clippy::needless_pass_by_value, reason = "cases read better as plain values")]

use proptest::{prelude::*, strategy::Strategy};
use serde_json::json;

use super::*;
use crate::json::tests::any_json;

/// An object on its way through several writes.
struct Story {
    ty: TypeInfo,
    api_version: &'static str,
    object: Option<Value>,
    clock: u32,
}

impl Story {
    fn of(group: &str, version: &str, kind: &str, api_version: &'static str) -> Self {
        let ty = TypeInfo::builtin(group, version, kind).expect("a built-in kind");
        Self { ty, api_version, object: None, clock: 0 }
    }

    fn config_map() -> Self {
        Self::of("", "v1", "ConfigMap", "v1")
    }

    fn deployment() -> Self {
        Self::of("apps", "v1", "Deployment", "apps/v1")
    }

    fn time(&mut self) -> String {
        self.clock += 1;
        format!("2026-01-01T00:00:{:02}Z", self.clock)
    }

    fn try_apply(&mut self, manager: &str, applied: Value, force: bool) -> Result<(), ApplyError> {
        let time = self.time();
        let writer = Writer {
            manager,
            api_version: self.api_version,
            subresource: "",
            time: &time,
            reset: &["status"],
        };
        self.object = Some(apply(self.object.as_ref(), &applied, &writer, force, &self.ty)?);
        Ok(())
    }

    #[track_caller]
    fn apply(&mut self, manager: &str, applied: Value) -> &mut Self {
        self.try_apply(manager, applied, false).expect("no conflict");
        self
    }

    fn refused(&mut self, manager: &str, applied: Value) -> String {
        self.try_apply(manager, applied, false).expect_err("refused").to_string()
    }

    fn write(&mut self, manager: &str, subresource: &str, mut new: Value) -> &mut Self {
        let time = self.time();
        let reset: &[&str] = if subresource == "status" { &["spec"] } else { &["status"] };
        let writer =
            Writer { manager, api_version: self.api_version, subresource, time: &time, reset };
        track_update(self.object.as_ref(), &mut new, &writer, &self.ty);
        self.object = Some(new);
        self
    }

    fn value(&self) -> &Value {
        self.object.as_ref().expect("was written")
    }

    fn owned(&self, manager: &str) -> Value {
        let entries = self.value()["metadata"]["managedFields"].as_array();
        let mut found = entries.into_iter().flatten().filter(|entry| entry["manager"] == manager);
        found.next().map_or(Value::Null, |entry| entry["fieldsV1"].clone())
    }
}

fn container(name: &str) -> Value {
    json!({"name": name, "image": "i"})
}

#[test]
fn appliers_own_what_they_set_and_lose_what_they_drop() {
    let mut story = Story::config_map();
    story.apply("one", json!({"data": {"a": "1", "b": "1"}}));
    assert_eq!(story.owned("one"), json!({"f:data": {"f:a": {}, "f:b": {}}}));
    story.apply("two", json!({"data": {"b": "1", "c": "1"}}));
    story.apply("one", json!({"data": {"d": "1"}}));
    assert_eq!(story.value()["data"], json!({"b": "1", "c": "1", "d": "1"}));
    assert_eq!(story.owned("two"), json!({"f:data": {"f:b": {}, "f:c": {}}}));
    story.apply("one", json!({}));
    assert_eq!(story.owned("one"), Value::Null);
    assert_eq!(story.value()["data"], json!({"b": "1", "c": "1"}));
}

#[test]
fn changing_what_others_own_is_a_conflict_until_forced() {
    let mut story = Story::deployment();
    let spec = json!({"spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}}});
    story.write("kubectl-create", "", spec);
    assert_eq!(
        story.owned("kubectl-create"),
        json!({"f:spec": {"f:replicas": {}, "f:selector": {}}})
    );
    let wanted = json!({"spec": {"replicas": 2, "selector": {"matchLabels": {"a": "c"}}}});
    assert_eq!(
        story.refused("me", json!({"spec": {"replicas": 2}})),
        "Apply failed with 1 conflict: conflict with \"kubectl-create\" using apps/v1: .spec.replicas"
    );
    assert_eq!(
        story.refused("me", wanted.clone()),
        "Apply failed with 2 conflicts: conflicts with \"kubectl-create\" using apps/v1:\n\
         - .spec.replicas\n- .spec.selector"
    );
    story.try_apply("me", wanted, true).expect("forced");
    assert_eq!(story.owned("kubectl-create"), Value::Null);
    assert_eq!(story.value()["spec"]["replicas"], 2);
}

#[test]
fn list_maps_merge_by_key_and_keep_order() {
    let mut story = Story::deployment();
    let pods =
        |containers: Value| json!({"spec": {"template": {"spec": {"containers": containers}}}});
    let port = json!({"name": "a", "image": "i", "ports": [{"containerPort": 80}]});
    story.apply("one", pods(json!([port, container("b")])));
    assert_eq!(
        story.owned("one"),
        json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {
            "k:{\"name\":\"a\"}": {".": {}, "f:image": {}, "f:name": {}, "f:ports": {
                "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}
            }},
            "k:{\"name\":\"b\"}": {".": {}, "f:image": {}, "f:name": {}},
        }}}}})
    );
    story.apply("two", pods(json!([container("c"), container("b")])));
    story.apply("one", pods(json!([container("b")])));
    let names: Vec<_> = story.value()["spec"]["template"]["spec"]["containers"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|c| c["name"].clone())
        .collect();
    assert_eq!(names, ["c", "b"]);
}

#[test]
fn status_is_tracked_apart_by_subresource() {
    let mut story = Story::deployment();
    story.write("me", "", json!({"spec": {"replicas": 1}}));
    story.write(
        "ctl",
        "status",
        json!({"spec": {"replicas": 1}, "status": {"conditions": [{"type": "A", "status": "x"}]}}),
    );
    assert_eq!(
        story.owned("ctl"),
        json!({"f:status": {"f:conditions": {".": {}, "k:{\"type\":\"A\"}": {".": {}, "f:status": {}, "f:type": {}}}}})
    );
    assert_eq!(story.value()["metadata"]["managedFields"][1]["subresource"], "status");
    assert_eq!(
        story.refused("x", json!({"status": {"observedGeneration": 1}, "spec": {"replicas": 3}})),
        "Apply failed with 1 conflict: conflict with \"me\" using apps/v1: .spec.replicas"
    );
}

#[test]
fn ordinary_writes_take_fields_and_may_reset_all_owners() {
    let mut story = Story::config_map();
    story.write("one", "", json!({"data": {"a": "1", "b": "1"}}));
    assert_eq!(story.owned("one"), json!({"f:data": {".": {}, "f:a": {}, "f:b": {}}}));
    story.write("two", "", json!({"data": {"a": "2"}}));
    assert_eq!(story.owned("one"), json!({"f:data": {}}));
    assert_eq!(story.owned("two"), json!({"f:data": {"f:a": {}}}));
    story.write("two", "", json!({"data": {"a": "2"}, "metadata": {"managedFields": []}}));
    assert!(story.value()["metadata"].get("managedFields").is_none());
    // From here on nothing is tracked, until someone applies.
    story.write("two", "", json!({"data": {"a": "3"}}));
    assert!(story.value()["metadata"].get("managedFields").is_none());
    story.apply("three", json!({"data": {"c": "1"}}));
    assert_eq!(story.owned("before-first-apply"), json!({"f:data": {".": {}, "f:a": {}}}));
}

#[test]
fn no_more_than_ten_updaters_are_kept_apart() {
    let mut story = Story::config_map();
    for at in 0..14 {
        let mut data = story.object.clone().unwrap_or(json!({"data": {}}));
        data["data"][format!("k{at}")] = json!("1");
        story.write(&format!("u{at}"), "", data);
    }
    let entries = story.value()["metadata"]["managedFields"].as_array().expect("entries").len();
    assert_eq!(entries, 10);
    let ancient = story.owned("ancient-changes");
    for at in 0..5 {
        assert!(ancient["f:data"].get(format!("f:k{at}")).is_some(), "{ancient}");
    }
}

#[test]
fn kubectl_moves_from_client_side_to_server_side_apply() {
    let last = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1", "b": "2"}});
    let annotations = json!({"kubectl.kubernetes.io/last-applied-configuration": last.to_string()});
    let mut story = Story::config_map();
    story.write(
        "kubectl-client-side-apply",
        "",
        json!({"data": {"a": "1", "b": "2"}, "metadata": {"annotations": annotations}}),
    );
    story.apply("kubectl", json!({"data": {"a": "2", "b": "3"}}));
    assert_eq!(story.value()["data"], json!({"a": "2", "b": "3"}));
    let text = &story.value()["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"];
    assert_eq!(text, "{\"data\":{\"a\":\"2\",\"b\":\"3\"}}\n");
    // What others changed since is a conflict all the same.
    let mut changed = story.value().clone();
    changed["data"]["a"] = json!("9");
    story.write("other", "", changed);
    assert_eq!(
        story.refused("kubectl", json!({"data": {"a": "5", "b": "4"}})),
        "Apply failed with 1 conflict: conflict with \"other\" using v1: .data.a"
    );
}

#[test]
fn objects_that_do_not_fit_their_type_are_refused() {
    let mut story = Story::deployment();
    let named = |spec: Value| json!({"kind": "Deployment", "metadata": {"name": "d", "namespace": "n"}, "spec": spec});
    let prefix = "failed to create typed patch object (n/d; apps/v1, Kind=Deployment): ";
    let cases = [
        (json!({"bogus": 1}), ".spec.bogus: field not declared in schema"),
        (json!({"replicas": "x"}), ".spec.replicas: expected numeric (int or float), got string"),
        (
            json!({"template": {"spec": {"containers": [container("a"), container("a")]}}}),
            ".spec.template.spec.containers: duplicate entries for key [name=\"a\"]",
        ),
    ];
    for (spec, expect) in cases {
        assert_eq!(story.refused("m", named(spec)), format!("{prefix}{expect}"));
    }
    let managed = json!({"metadata": {"managedFields": [{}]}});
    assert_eq!(story.refused("m", managed), "metadata.managedFields must be nil");
}

#[test]
fn the_type_of_custom_resources_comes_from_their_schema() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "atomic": {"type": "array", "items": {"type": "string"}},
        "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
        "map": {"type": "object", "additionalProperties": {"type": "object", "additionalProperties": {"type": "string"}}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }}}});
    let schema = ironsail_schema::Schema::parse(&schema, "schema").expect("a structural schema");
    let mut story =
        Story { ty: TypeInfo::from_schema(&schema), api_version: "t/v1", object: None, clock: 0 };
    story.apply("one", json!({"spec": {
        "set": ["a"], "atomic": ["a"], "whole": {"a": "1"}, "map": {"a": {"x": "1"}}, "free": {"a": {"b": [1]}},
    }}));
    assert_eq!(
        story.owned("one"),
        json!({"f:spec": {
            "f:set": {"v:\"a\"": {}}, "f:atomic": {}, "f:whole": {},
            "f:map": {"f:a": {".": {}, "f:x": {}}}, "f:free": {"f:a": {".": {}, "f:b": {}}},
        }})
    );
    story.apply("two", json!({"spec": {"set": ["b"], "map": {"b": {"y": "1"}}}}));
    assert_eq!(story.value()["spec"]["set"], json!(["a", "b"]));
}

#[test]
fn names_of_managers_come_from_the_request_or_its_program() {
    assert_eq!(manager_name("", "kubectl/v1.36 (linux)"), "kubectl");
    assert_eq!(manager_name("istiod", "kubectl/v1.36"), "istiod");
    assert_eq!(manager_name(&"x".repeat(300), "").len(), 128);
}

fn untyped_apply(
    live: Option<&Value>,
    applied: &Value,
    manager: &str,
) -> Result<Value, ApplyError> {
    let writer = Writer {
        manager,
        api_version: "v1",
        subresource: "",
        time: "2026-01-01T00:00:00Z",
        reset: &[],
    };
    apply(live, applied, &writer, true, &TypeInfo::untyped())
}

/// Nulls ask for removal in some places and are values in others; they have tests of their own.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        Value::Object(map) => map
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name, without_nulls(value)))
            .collect::<Map<_, _>>()
            .into(),
        other => other,
    }
}

fn any_object() -> impl Strategy<Value = Value> {
    proptest::collection::btree_map("[abc]", any_json(), 0..4)
        .prop_map(|spec| {
            json!({"metadata": {"name": "x"}, "spec": without_nulls(Value::Object(spec.into_iter().collect()))})
        })
}

proptest! {
    #[test]
    fn applying_twice_changes_nothing_more(live in any_object(), applied in any_object()) {
        let once = untyped_apply(Some(&live), &applied, "m").expect("forced");
        let twice = untyped_apply(Some(&once), &applied, "m").expect("forced");
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn what_was_applied_is_in_the_outcome(live in any_object(), first in any_object(), applied in any_object()) {
        let before = untyped_apply(Some(&live), &first, "m").expect("forced");
        let after = untyped_apply(Some(&before), &applied, "m").expect("forced");
        let ty = TypeInfo::untyped();
        let again = combine::combine(&ty, ty.root, Some(&after), Some(&applied));
        prop_assert_eq!(again, Some(after));
    }

    #[test]
    fn arbitrary_objects_never_panic(live in any_json(), applied in any_json(), managed in any_json(), spec in any_json()) {
        let object = json!({"metadata": {"managedFields": managed}, "spec": spec, "data": live});
        for kind in [("", "v1", "Pod"), ("apps", "v1", "Deployment"), ("", "v1", "ConfigMap")] {
            let ty = TypeInfo::builtin(kind.0, kind.1, kind.2).expect("a built-in kind");
            let writer = Writer { manager: "kubectl", api_version: "v1", subresource: "", time: "", reset: &["status"] };
            let pods = json!({"spec": {"containers": applied, "template": {"spec": {"containers": applied}}}});
            let _ = apply(Some(&object), &pods, &writer, true, &ty);
            let _ = apply(Some(&live), &applied, &writer, false, &ty);
            let mut new = pods.clone();
            track_update(Some(&object), &mut new, &writer, &ty);
            let mut new = applied.clone();
            track_update(None, &mut new, &writer, &ty);
        }
    }
}
