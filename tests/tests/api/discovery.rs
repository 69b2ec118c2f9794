//! What clients ask before anything else, and output in other shapes.

use http::Request;
use serde_json::{Value, json};

use crate::server::server;

#[test]
fn groups_versions_and_resources_are_listed() {
    server("discovery", async |s| {
        let core = s.get("/api/v1").await.ok();
        let find = |list: &Value, name: &str| -> Value {
            let all = list["resources"].as_array().unwrap();
            all.iter().find(|r| r["name"] == name).cloned().unwrap_or_default()
        };
        let pods = find(&core, "pods");
        assert_eq!(
            (&pods["kind"], &pods["namespaced"], &pods["shortNames"]),
            (&json!("Pod"), &json!(true), &json!(["po"]))
        );
        for sub in [
            "pods/log",
            "pods/exec",
            "pods/portforward",
            "pods/status",
            "pods/binding",
            "pods/eviction",
            "serviceaccounts/token",
        ] {
            assert_eq!(find(&core, sub)["name"], sub);
        }
        let groups = s.get("/apis").await.ok();
        let names: Vec<_> = groups["groups"]
            .as_array()
            .unwrap()
            .iter()
            .map(|g| g["name"].as_str().unwrap())
            .collect();
        for group in [
            "apps",
            "batch",
            "discovery.k8s.io",
            "networking.k8s.io",
            "rbac.authorization.k8s.io",
            "coordination.k8s.io",
            "apiextensions.k8s.io",
            "admissionregistration.k8s.io",
            "authentication.k8s.io",
            "authorization.k8s.io",
        ] {
            assert!(names.contains(&group), "{group} in {names:?}");
        }
        assert_eq!(find(&s.get("/apis/apps/v1").await.ok(), "deployments/scale")["kind"], "Scale");
        assert_eq!(s.get("/apis/apps").await.ok()["preferredVersion"]["groupVersion"], "apps/v1");
    });
}

#[test]
fn aggregated_discovery_is_one_document() {
    server("aggregated", async |s| {
        let request = Request::get("/apis").header(
            "accept",
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        );
        let list = s.send(request.body(Vec::new()).unwrap()).await;
        assert!(list.headers["content-type"].to_str().unwrap().contains("APIGroupDiscoveryList"));
        let list = list.ok();
        assert_eq!(list["kind"], "APIGroupDiscoveryList");
        let apps = list["items"]
            .as_array()
            .unwrap()
            .iter()
            .find(|g| g["metadata"]["name"] == "apps")
            .unwrap();
        let resources = apps["versions"][0]["resources"].as_array().unwrap();
        let deployments = resources.iter().find(|r| r["resource"] == "deployments").unwrap();
        assert_eq!(deployments["responseKind"]["kind"], "Deployment");
        assert_eq!(deployments["scope"], "Namespaced");
    });
}

#[test]
fn version_and_health_answer() {
    server("health", async |s| {
        assert_eq!(s.get("/version").await.ok()["major"], "1");
        for path in ["/healthz", "/readyz", "/livez"] {
            assert_eq!(s.get(path).await.ok(), json!("ok"), "{path}");
        }
    });
}

#[test]
fn openapi_documents_are_indexed() {
    server("openapi", async |s| {
        let index = s.get("/openapi/v3").await.ok();
        let address =
            index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().unwrap().to_owned();
        let document = s.get(&address).await.ok();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        assert!(schemas.contains_key("io.k8s.api.apps.v1.Deployment"), "{:?}", schemas.keys());
        let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
            ["parameters"];
        let names: Vec<_> = patch.as_array().unwrap().iter().map(|p| p["name"].clone()).collect();
        assert!(names.contains(&json!("fieldValidation")), "{names:?}");
    });
}

#[test]
fn a_table_has_columns_and_rows() {
    server("table", async |s| {
        s.config_map("a", "1").await;
        let request = Request::get(s.core("configmaps?fieldSelector=metadata.name%3Da"))
            .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
        let table = s.send(request.body(Vec::new()).unwrap()).await.ok();
        assert_eq!(
            (&table["kind"], &table["apiVersion"]),
            (&json!("Table"), &json!("meta.k8s.io/v1"))
        );
        let columns: Vec<_> = table["columnDefinitions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| c["name"].as_str().unwrap())
            .collect();
        assert_eq!(columns, ["Name", "Data", "Age"]);
        assert_eq!(table["rows"][0]["cells"][0], "a");
        assert_eq!(table["rows"][0]["cells"][1], 1);
        assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    });
}

#[test]
fn metadata_alone_can_be_asked_for() {
    server("partial", async |s| {
        s.config_map("a", "1").await;
        let request = Request::get(s.core("configmaps/a"))
            .header("accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io");
        let object = s.send(request.body(Vec::new()).unwrap()).await.ok();
        assert_eq!(object["kind"], "PartialObjectMetadata");
        assert_eq!((&object["metadata"]["name"], &object["data"]), (&json!("a"), &Value::Null));
    });
}
