//! Custom resources: served as soon as defined, pruned, defaulted, validated, printed.

use std::time::Duration;

use http::Request;
use serde_json::{Value, json};

use crate::server::{Server, server};

/// A resource `gadgets` in a group of this test's own.
fn definition(group: &str) -> Value {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "required": ["size"],
            "x-kubernetes-validations": [
                {"rule": "self.size <= self.limit", "message": "size must not exceed limit"},
                {"rule": "self.color == oldSelf.color", "message": "color cannot change"}],
            "properties": {
                "size": {"type": "integer", "minimum": 1},
                "limit": {"type": "integer", "default": 10},
                "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
                "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "required": ["name"], "properties": {
                        "name": {"type": "string"}, "port": {"type": "integer"}}}},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}},
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}}}});
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.replicas"}},
            "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]})
    };
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("gadgets.{group}")},
        "spec": {"group": group, "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "shortNames": ["gd"]},
            "versions": [version("v1", true), version("v1beta1", false)]}})
}

/// Defines gadgets and waits until they are served; the path of their collection.
async fn gadgets(s: &Server) -> (String, String) {
    let group = format!("{}.example.com", s.namespace);
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    s.post(path, &definition(&group)).await.ok();
    let collection = s.group(&format!("{group}/v1"), "gadgets");
    for _ in 0..1_200 {
        if s.get(&collection).await.code == 200 {
            return (group, collection);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("gadgets were not served");
}

async fn undefine(s: &Server, group: &str) {
    s.delete(&format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.{group}"))
        .await
        .ok();
}

fn gadget(group: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": format!("{group}/v1"), "kind": "Gadget", "metadata": {"name": name}, "spec": spec})
}

#[test]
fn objects_are_pruned_and_defaulted() {
    server("crd-prune", async |s| {
        let (group, path) = gadgets(s).await;
        let spec = json!({"size": 2, "wrong": true, "free": {"any": [1]}});
        let made = s.post(&path, &gadget(&group, "a", &spec)).await.ok();
        assert_eq!(
            made["spec"],
            json!({"size": 2, "limit": 10, "color": "red", "free": {"any": [1]}})
        );
        assert_eq!(made["metadata"]["generation"], 1);
        s.post(&format!("{path}?fieldValidation=Strict"), &gadget(&group, "b", &spec))
            .await
            .refused(400, "BadRequest", "strict decoding error: unknown field \"spec.wrong\"");
        undefine(s, &group).await;
    });
}

#[test]
fn objects_are_validated() {
    server("crd-valid", async |s| {
        let (group, path) = gadgets(s).await;
        let post = async |spec: Value| s.post(&path, &gadget(&group, "a", &spec)).await;
        post(json!({})).await.refused(422, "Invalid", "Gadget.");
        post(json!({})).await.refused(422, "Invalid", "spec.size: Required value");
        post(json!({"size": 0})).await.refused(
            422,
            "Invalid",
            "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
        );
        post(json!({"size": "x"})).await.refused(422, "Invalid", "spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\"");
        post(json!({"size": 1, "color": "green"})).await.refused(
            422,
            "Invalid",
            "spec.color: Unsupported value: \"green\": supported values: \"red\", \"blue\"",
        );
        post(json!({"size": 11})).await.refused(422, "Invalid", "size must not exceed limit");
        post(json!({"size": 1, "ports": [{"name": "a"}, {"name": "a"}]})).await.refused(
            422,
            "Invalid",
            "spec.ports[1]: Duplicate value",
        );
        post(json!({"size": 1})).await.ok();
        s.patch("merge", &format!("{path}/a"), &json!({"spec": {"color": "blue"}})).await.refused(
            422,
            "Invalid",
            "color cannot change",
        );
        undefine(s, &group).await;
    });
}

#[test]
fn versions_show_the_same_object() {
    server("crd-version", async |s| {
        let (group, path) = gadgets(s).await;
        s.post(&path, &gadget(&group, "a", &json!({"size": 1}))).await.ok();
        let other = s.get(&s.group(&format!("{group}/v1beta1"), "gadgets/a")).await.ok();
        assert_eq!(other["apiVersion"], format!("{group}/v1beta1"));
        assert_eq!(other["spec"]["size"], 1);
        undefine(s, &group).await;
    });
}

#[test]
fn subresources_and_columns_work() {
    server("crd-sub", async |s| {
        let (group, path) = gadgets(s).await;
        s.post(&path, &gadget(&group, "a", &json!({"size": 3}))).await.ok();
        let after = s
            .patch(
                "merge",
                &format!("{path}/a/status"),
                &json!({"status": {"replicas": 2}, "spec": {"size": 9}}),
            )
            .await
            .ok();
        assert_eq!((&after["status"]["replicas"], &after["spec"]["size"]), (&json!(2), &json!(3)));
        let scale = s.get(&format!("{path}/a/scale")).await.ok();
        assert_eq!(
            (&scale["spec"]["replicas"], &scale["status"]["replicas"]),
            (&json!(3), &json!(2))
        );
        let request =
            Request::get(&path).header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
        let table = s.send(request.body(Vec::new()).unwrap()).await.ok();
        assert_eq!(table["columnDefinitions"][1]["name"], "Size");
        assert_eq!(table["rows"][0]["cells"], json!(["a", 3]));
        undefine(s, &group).await;
    });
}

#[test]
fn apply_merges_lists_by_the_schemas_keys() {
    server("crd-apply", async |s| {
        let (group, path) = gadgets(s).await;
        let with = |ports: Value| gadget(&group, "a", &json!({"size": 1, "ports": ports}));
        s.patch(
            "apply",
            &format!("{path}/a?fieldManager=one"),
            &with(json!([{"name": "x", "port": 1}])),
        )
        .await
        .ok();
        let after = s
            .patch(
                "apply",
                &format!("{path}/a?fieldManager=two"),
                &with(json!([{"name": "y", "port": 2}])),
            )
            .await
            .ok();
        assert_eq!(after["spec"]["ports"].as_array().unwrap().len(), 2);
        s.patch("strategic-merge", &format!("{path}/a"), &json!({})).await.refused(
            415,
            "UnsupportedMediaType",
            "application/merge-patch+json",
        );
        undefine(s, &group).await;
    });
}

#[test]
fn a_bad_definition_is_refused() {
    server("crd-bad", async |s| {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let mut bad = definition("bad.example.com");
        bad["metadata"]["name"] = json!("other.bad.example.com");
        s.post(path, &bad).await.refused(422, "Invalid", "metadata.name: Invalid value: \"other.bad.example.com\": must be spec.names.plural+\".\"+spec.group");
        let mut bad = definition("bad.example.com");
        bad["spec"]["versions"][1]["storage"] = json!(true);
        s.post(path, &bad).await.refused(
            422,
            "Invalid",
            "must have exactly one version marked as storage version",
        );
        let mut bad = definition("bad.example.com");
        bad["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] =
            json!({"properties": {}});
        s.post(path, &bad).await.refused(
            422,
            "Invalid",
            "must not be empty for specified object fields",
        );
    });
}

#[test]
fn a_definition_takes_its_objects_along() {
    server("crd-gone", async |s| {
        let (group, path) = gadgets(s).await;
        s.post(&path, &gadget(&group, "a", &json!({"size": 1}))).await.ok();
        undefine(s, &group).await;
        for _ in 0..1_200 {
            if s.get(&path).await.code == 404 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("gadgets are still served");
    });
}
