//! Server-side apply: owners of fields, conflicts, and what goes when its last owner lets go.

use serde_json::{Value, json};

use crate::server::{deployment, server};

fn map(data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
}

#[test]
fn apply_creates_and_then_owns() {
    server("apply", async |s| {
        let path = s.core("configmaps/a?fieldManager=one");
        let first = s.patch("apply", &path, &map(&json!({"x": "1", "y": "2"}))).await;
        assert_eq!(first.code, 201);
        let again = s.patch("apply", &path, &map(&json!({"x": "1", "y": "2"}))).await;
        assert_eq!(again.code, 200);
        assert_eq!(
            again.body["metadata"]["resourceVersion"],
            first.body["metadata"]["resourceVersion"]
        );
        let fields = &again.body["metadata"]["managedFields"][0];
        assert_eq!((&fields["manager"], &fields["operation"]), (&json!("one"), &json!("Apply")));
        assert_eq!(fields["fieldsV1"], json!({"f:data": {"f:x": {}, "f:y": {}}}));
        // What the manager no longer names goes away.
        let after = s.patch("apply", &path, &map(&json!({"x": "1"}))).await.ok();
        assert_eq!(after["data"], json!({"x": "1"}));
    });
}

#[test]
fn two_managers_conflict_over_one_field_and_share_equal_values() {
    server("conflict", async |s| {
        s.patch("apply", &s.core("configmaps/a?fieldManager=one"), &map(&json!({"x": "1"})))
            .await
            .ok();
        let two = s.core("configmaps/a?fieldManager=two");
        let refused = s.patch("apply", &two, &map(&json!({"x": "2"}))).await;
        let body = refused.refused(
            409,
            "Conflict",
            "Apply failed with 1 conflict: conflict with \"one\": .data.x",
        );
        assert_eq!(body["details"]["causes"][0]["reason"], "FieldManagerConflict");
        assert_eq!(body["details"]["causes"][0]["field"], ".data.x");
        // The same value is no conflict: both own it, and it stays until both let go.
        s.patch("apply", &two, &map(&json!({"x": "1", "z": "3"}))).await.ok();
        let after =
            s.patch("apply", &s.core("configmaps/a?fieldManager=one"), &map(&json!({}))).await.ok();
        assert_eq!(after["data"], json!({"x": "1", "z": "3"}));
        let forced = s
            .patch(
                "apply",
                &format!("{}&force=true", s.core("configmaps/a?fieldManager=one")),
                &map(&json!({"x": "9"})),
            )
            .await
            .ok();
        assert_eq!(forced["data"]["x"], "9");
    });
}

#[test]
fn an_update_takes_fields_over() {
    server("takeover", async |s| {
        let one = s.core("configmaps/a?fieldManager=one");
        s.patch("apply", &one, &map(&json!({"x": "1"}))).await.ok();
        s.patch("merge", &s.core("configmaps/a?fieldManager=editor"), &json!({"data": {"x": "5"}}))
            .await
            .ok();
        let refused = s.patch("apply", &one, &map(&json!({"x": "1"}))).await;
        refused.refused(409, "Conflict", "conflict with \"editor\" using v1: .data.x");
    });
}

#[test]
fn lists_with_keys_merge_by_item() {
    server("lists", async |s| {
        let path = s.group("apps/v1", "deployments/d");
        let one = format!("{path}?fieldManager=one");
        s.patch("apply", &one, &deployment("d")).await.ok();
        let mut side =
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}});
        side["spec"]["template"]["spec"]["containers"] =
            json!([{"name": "b", "image": "nowhere/b"}]);
        let after = s.patch("apply", &format!("{path}?fieldManager=two"), &side).await.ok();
        assert_eq!(after["spec"]["template"]["spec"]["containers"].as_array().unwrap().len(), 2);
        // One applies again: the other's container stays.
        let after = s.patch("apply", &one, &deployment("d")).await.ok();
        assert_eq!(after["spec"]["template"]["spec"]["containers"].as_array().unwrap().len(), 2);
        let mut none = side.clone();
        none["spec"] = json!({});
        let after = s.patch("apply", &format!("{path}?fieldManager=two"), &none).await.ok();
        assert_eq!(after["spec"]["template"]["spec"]["containers"].as_array().unwrap().len(), 1);
    });
}

#[test]
fn apply_wants_a_manager_and_a_matching_name() {
    server("wants", async |s| {
        s.patch("apply", &s.core("configmaps/a"), &map(&json!({}))).await.refused(
            422,
            "Invalid",
            "fieldManager: Required value: is required for apply patch",
        );
        s.patch("apply", &s.core("configmaps/b?fieldManager=x"), &map(&json!({}))).await.refused(
            400,
            "BadRequest",
            "the name of the object (a) does not match the name on the URL (b)",
        );
        let mut managed = map(&json!({}));
        managed["metadata"]["managedFields"] = json!([]);
        s.patch("apply", &s.core("configmaps/a?fieldManager=x"), &managed).await.refused(
            400,
            "BadRequest",
            "metadata.managedFields must be nil",
        );
    });
}
