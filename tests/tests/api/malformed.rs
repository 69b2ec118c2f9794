//! Input that is wrong: refused with Kubernetes' words, and the server goes on.

use http::{Method, Request};
use serde_json::json;

use crate::server::{deployment, server};

#[test]
fn bodies_that_are_not_objects_are_refused() {
    server("bodies", async |s| {
        let path = s.core("configmaps");
        for body in ["", "{", "[]", "7", "null", "\"a\"", "{\"kind\": 5}", "\u{0}"] {
            let reply = s.raw(Method::POST, &path, "application/json", body.into()).await;
            assert!((400..=422).contains(&reply.code), "{body:?}: {} {}", reply.code, reply.body);
            assert_eq!(reply.body["kind"], "Status", "{body:?}");
        }
        assert_eq!(s.get("/healthz").await.code, 200);
    });
}

#[test]
fn another_kind_than_the_path_says_is_refused() {
    server("kind", async |s| {
        let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}});
        s.post(&s.core("configmaps"), &object).await.refused(
            400,
            "BadRequest",
            "Secret in version \"v1\" cannot be handled as a ConfigMap",
        );
        let object = json!({"metadata": {"name": "a", "namespace": "other"}});
        s.post(&s.core("configmaps"), &object).await.refused(
            400,
            "BadRequest",
            "the namespace of the provided object does not match the namespace sent on the request",
        );
        s.config_map("a", "1").await;
        let object = json!({"metadata": {"name": "b"}});
        s.put(&s.core("configmaps/a"), &object).await.refused(
            400,
            "BadRequest",
            "the name of the object (b) does not match the name on the URL (a)",
        );
    });
}

#[test]
fn wrong_types_are_refused() {
    server("types", async |s| {
        let mut object = deployment("d");
        object["spec"]["replicas"] = json!("three");
        s.post(&s.group("apps/v1", "deployments"), &object).await.refused(
            400,
            "BadRequest",
            "Deployment in version \"v1\" cannot be handled as a Deployment",
        );
        let object = json!({"metadata": {"name": "a"}, "data": {"key": 7}});
        s.post(&s.core("configmaps"), &object).await.refused(
            400,
            "BadRequest",
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap",
        );
    });
}

#[test]
fn unknown_fields_are_refused_warned_of_or_dropped() {
    server("fields", async |s| {
        let path = s.group("apps/v1", "deployments");
        let mut object = deployment("d");
        object["spec"]["replcas"] = json!(3);
        s.post(&format!("{path}?fieldValidation=Strict"), &object).await.refused(
            400,
            "BadRequest",
            "strict decoding error: unknown field \"spec.replcas\"",
        );
        let warned = s.post(&path, &object).await;
        let warning = warned.headers["warning"].to_str().unwrap().to_owned();
        assert!(warning.contains("unknown field \\\"spec.replcas\\\""), "{warning}");
        assert!(warned.ok()["spec"].get("replcas").is_none());
        object["metadata"]["name"] = json!("e");
        let quiet = s.post(&format!("{path}?fieldValidation=Ignore"), &object).await;
        assert!(!quiet.headers.contains_key("warning"));
        quiet.ok();
    });
}

#[test]
fn a_body_over_three_mebibytes_is_refused() {
    server("large", async |s| {
        let object = json!({"metadata": {"name": "a"}, "data": {"key": "x".repeat(3 << 20)}});
        s.post(&s.core("configmaps"), &object).await.refused(
            413,
            "RequestEntityTooLarge",
            "limit is 3145728",
        );
        // Below that, a config map has a limit of its own.
        let object = json!({"metadata": {"name": "a"}, "data": {"key": "x".repeat((1 << 20) + 1)}});
        s.post(&s.core("configmaps"), &object).await.refused(
            422,
            "Invalid",
            "Too long: may not be more than 1048576 bytes",
        );
    });
}

#[test]
fn yaml_bodies_are_read() {
    server("yaml", async |s| {
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  key: 'yes'\n";
        let made =
            s.raw(Method::POST, &s.core("configmaps"), "application/yaml", text.into()).await.ok();
        assert_eq!(made["data"]["key"], "yes");
    });
}

#[test]
fn unknown_media_types_are_refused() {
    server("media", async |s| {
        s.raw(Method::POST, &s.core("configmaps"), "text/plain", b"x".to_vec()).await.refused(
            415,
            "UnsupportedMediaType",
            "the body of the request was in an unknown format",
        );
        let request = Request::get(s.core("configmaps")).header("accept", "text/html");
        s.send(request.body(Vec::new()).unwrap()).await.refused(
            406,
            "NotAcceptable",
            "application/json",
        );
    });
}

#[test]
fn deployments_are_checked_as_users_know_it() {
    server("deploy", async |s| {
        let path = s.group("apps/v1", "deployments");
        let mut object = deployment("d");
        object["spec"]["template"]["metadata"]["labels"] = json!({"app": "other"});
        s.post(&path, &object).await.refused(
            422,
            "Invalid",
            "`selector` does not match template `labels`",
        );
        let mut object = deployment("d");
        object["spec"]["template"]["spec"]["containers"] = json!([]);
        s.post(&path, &object).await.refused(
            422,
            "Invalid",
            "spec.template.spec.containers: Required value",
        );
        let mut object = deployment("d");
        object["spec"]["template"]["spec"]["containers"][0]["ports"] =
            json!([{"containerPort": 70000}]);
        s.post(&path, &object).await.refused(422, "Invalid", "spec.template.spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive");
        let mut object = deployment("d");
        object["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] =
            json!([{"name": "no", "mountPath": "/a"}]);
        s.post(&path, &object).await.refused(
            422,
            "Invalid",
            "spec.template.spec.containers[0].volumeMounts[0].name: Not found: \"no\"",
        );
    });
}
