//! JSON, merge and strategic merge patches.

use http::Method;
use serde_json::json;

use crate::server::{deployment, server};

#[test]
fn a_json_patch_is_all_or_nothing() {
    server("jsonpatch", async |s| {
        s.config_map("a", "1").await;
        let path = s.core("configmaps/a");
        let ok = json!([{"op": "test", "path": "/data/key", "value": "1"}, {"op": "replace", "path": "/data/key", "value": "2"}, {"op": "add", "path": "/data/new", "value": "x"}]);
        assert_eq!(s.patch("json", &path, &ok).await.ok()["data"], json!({"key": "2", "new": "x"}));
        let half = json!([{"op": "remove", "path": "/data/new"}, {"op": "test", "path": "/data/key", "value": "9"}]);
        s.patch("json", &path, &half).await.refused(
            422,
            "Invalid",
            "the server rejected our request due to an error in our request",
        );
        assert_eq!(s.get(&path).await.ok()["data"]["new"], "x");
        s.patch("json", &path, &json!([{"op": "remove", "path": "/data/no"}]))
            .await
            .refused(422, "Invalid", "");
        s.patch("json", &path, &json!({"op": "remove"})).await.refused(400, "BadRequest", "");
    });
}

#[test]
fn a_merge_patch_removes_by_null() {
    server("merge", async |s| {
        s.config_map("a", "1").await;
        let path = s.core("configmaps/a");
        let after = s.patch("merge", &path, &json!({"data": {"key": null, "b": "2"}})).await.ok();
        assert_eq!(after["data"], json!({"b": "2"}));
        let stale = json!({"metadata": {"resourceVersion": "1"}, "data": {"b": "3"}});
        s.patch("merge", &path, &stale).await.refused(
            409,
            "Conflict",
            "the object has been modified",
        );
        s.patch("merge", &path, &json!({"metadata": {"name": "b"}})).await.refused(
            400,
            "BadRequest",
            "",
        );
    });
}

#[test]
fn a_strategic_merge_patch_knows_the_keys_of_lists() {
    server("strategic", async |s| {
        let path = s.group("apps/v1", "deployments");
        s.post(&path, &deployment("d")).await.ok();
        let path = format!("{path}/d");
        let containers = |list| json!({"spec": {"template": {"spec": {"containers": list}}}});
        let names = |o: &serde_json::Value| -> Vec<String> {
            let list = o["spec"]["template"]["spec"]["containers"].as_array().unwrap();
            list.iter().map(|c| c["name"].as_str().unwrap().to_owned()).collect()
        };
        let after = s
            .patch(
                "strategic-merge",
                &path,
                &containers(json!([{"name": "b", "image": "nowhere/b"}])),
            )
            .await
            .ok();
        assert_eq!(
            {
                let mut n = names(&after);
                n.sort();
                n
            },
            ["a", "b"]
        );
        let env = containers(json!([{"name": "a", "env": [{"name": "X", "value": "1"}]}]));
        s.patch("strategic-merge", &path, &env).await.ok();
        let env = containers(json!([{"name": "a", "env": [{"name": "Y", "value": "2"}]}]));
        let after = s.patch("strategic-merge", &path, &env).await.ok();
        let list = after["spec"]["template"]["spec"]["containers"].as_array().unwrap();
        let a = list.iter().find(|c| c["name"] == "a").unwrap();
        assert_eq!(a["env"].as_array().unwrap().len(), 2, "{a}");
        let gone = containers(json!([{"name": "b", "$patch": "delete"}]));
        assert_eq!(names(&s.patch("strategic-merge", &path, &gone).await.ok()), ["a"]);
        let replaced = json!({"spec": {"template": {"spec": {"containers": [{"name": "z", "image": "z"}, {"$patch": "replace"}]}}}});
        assert_eq!(names(&s.patch("strategic-merge", &path, &replaced).await.ok()), ["z"]);
    });
}

#[test]
fn an_unknown_patch_type_is_refused() {
    server("type", async |s| {
        s.config_map("a", "1").await;
        s.raw(Method::PATCH, &s.core("configmaps/a"), "application/json", b"{}".to_vec())
            .await
            .refused(415, "UnsupportedMediaType", "415");
    });
}

#[test]
fn a_patch_is_validated_like_an_update() {
    server("validate", async |s| {
        let path = s.group("apps/v1", "deployments");
        s.post(&path, &deployment("d")).await.ok();
        s.patch("merge", &format!("{path}/d"), &json!({"spec": {"replicas": -1}})).await.refused(
            422,
            "Invalid",
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
        );
        s.patch(
            "merge",
            &format!("{path}/d"),
            &json!({"spec": {"selector": {"matchLabels": {"app": "x"}}}}),
        )
        .await
        .refused(422, "Invalid", "field is immutable");
    });
}
