//! get, list, create, update, delete: what each does and how it refuses.

use http::Method;
use serde_json::json;

use crate::server::{deployment, server};

#[test]
fn create_fills_in_metadata() {
    server("create", async |s| {
        let made = s.config_map("a", "1").await;
        let meta = &made["metadata"];
        assert_eq!((&made["kind"], &made["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
        for field in ["uid", "resourceVersion", "creationTimestamp"] {
            assert!(meta[field].as_str().is_some_and(|f| !f.is_empty()), "{field}: {made}");
        }
        assert_eq!(meta["namespace"], s.namespace);
        let read = s.get(&s.core("configmaps/a")).await.ok();
        assert_eq!(read, made);
    });
}

#[test]
fn generate_name_makes_distinct_names() {
    server("generate", async |s| {
        let object = json!({"metadata": {"generateName": "x-"}});
        let one = s.post(&s.core("configmaps"), &object).await.ok();
        let two = s.post(&s.core("configmaps"), &object).await.ok();
        let name = |o: &serde_json::Value| o["metadata"]["name"].as_str().unwrap().to_owned();
        assert!(name(&one).starts_with("x-") && name(&one) != name(&two));
        assert_eq!(name(&one).len(), 7);
    });
}

#[test]
fn a_second_object_of_the_name_is_refused() {
    server("twice", async |s| {
        s.config_map("a", "1").await;
        let again = s.post(&s.core("configmaps"), &json!({"metadata": {"name": "a"}})).await;
        again.refused(409, "AlreadyExists", "configmaps \"a\" already exists");
    });
}

#[test]
fn what_is_not_there_is_not_found() {
    server("missing", async |s| {
        let body = s.get(&s.core("configmaps/no")).await.refused(
            404,
            "NotFound",
            "configmaps \"no\" not found",
        );
        assert_eq!(body["details"], json!({"name": "no", "kind": "configmaps"}));
        s.delete(&s.core("configmaps/no")).await.refused(404, "NotFound", "");
        s.get(&s.group("apps/v1", "deployments/no")).await.refused(
            404,
            "NotFound",
            "deployments.apps \"no\" not found",
        );
        let text = s.get("/apis/nobody.example/v1/things").await;
        assert_eq!(text.code, 404);
    });
}

#[test]
fn a_bad_name_is_invalid() {
    server("name", async |s| {
        let bad = s.post(&s.core("configmaps"), &json!({"metadata": {"name": "Not_OK"}})).await;
        let body = bad.refused(
            422,
            "Invalid",
            "ConfigMap \"Not_OK\" is invalid: metadata.name: Invalid value: \"Not_OK\"",
        );
        assert_eq!(body["details"]["causes"][0]["field"], "metadata.name");
        assert_eq!(body["details"]["causes"][0]["reason"], "FieldValueInvalid");
        let none = s.post(&s.core("configmaps"), &json!({"metadata": {}})).await;
        none.refused(422, "Invalid", "name or generateName is required");
    });
}

#[test]
fn a_missing_namespace_is_not_found() {
    server("nons", async |s| {
        let object = json!({"metadata": {"name": "a"}});
        s.post("/api/v1/namespaces/no-such-namespace/configmaps", &object).await.refused(
            404,
            "NotFound",
            "namespaces \"no-such-namespace\" not found",
        );
    });
}

#[test]
fn an_update_needs_the_newest_version() {
    server("conflict", async |s| {
        let path = s.core("configmaps/a");
        let old = s.config_map("a", "1").await;
        let mut new = old.clone();
        new["data"]["key"] = json!("2");
        let updated = s.put(&path, &new).await.ok();
        assert_ne!(updated["metadata"]["resourceVersion"], old["metadata"]["resourceVersion"]);
        new["data"]["key"] = json!("3");
        s.put(&path, &new).await.refused(409, "Conflict", "the object has been modified; please apply your changes to the latest version and try again");
        // Without a version the update is unconditional.
        new["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        assert_eq!(s.put(&path, &new).await.ok()["data"]["key"], "3");
    });
}

#[test]
fn an_update_that_changes_nothing_keeps_the_version() {
    server("noop", async |s| {
        let made = s.config_map("a", "1").await;
        let same = s.put(&s.core("configmaps/a"), &made).await.ok();
        assert_eq!(same["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    });
}

#[test]
fn another_uid_is_a_conflict() {
    server("uid", async |s| {
        let mut made = s.config_map("a", "1").await;
        made["metadata"]["uid"] = json!("11111111-2222-3333-4444-555555555555");
        s.put(&s.core("configmaps/a"), &made).await.refused(
            409,
            "Conflict",
            "Precondition failed: UID in precondition",
        );
    });
}

#[test]
fn status_and_spec_have_their_own_endpoints() {
    server("status", async |s| {
        // No controller touches an Ingress without a class.
        let path = s.group("networking.k8s.io/v1", "ingresses");
        let backend = |name: &str| json!({"service": {"name": name, "port": {"number": 80}}});
        let balancer = |ip: &str| json!({"loadBalancer": {"ingress": [{"ip": ip}]}});
        let object = json!({"metadata": {"name": "i"}, "spec": {"defaultBackend": backend("a")}, "status": balancer("1.1.1.1")});
        let made = s.post(&path, &object).await.ok();
        assert_eq!(made["status"], json!({"loadBalancer": {}}));
        assert_eq!(made["metadata"]["generation"], 1);
        let mut status = made.clone();
        status["status"] = balancer("2.2.2.2");
        status["spec"]["defaultBackend"] = backend("b");
        let after = s.put(&format!("{path}/i/status"), &status).await.ok();
        assert_eq!(after["status"], balancer("2.2.2.2"));
        assert_eq!(after["spec"]["defaultBackend"], backend("a"));
        assert_eq!(after["metadata"]["generation"], 1);
        let mut spec = after.clone();
        spec["spec"]["defaultBackend"] = backend("c");
        spec["status"] = balancer("3.3.3.3");
        let after = s.put(&format!("{path}/i"), &spec).await.ok();
        assert_eq!(after["status"], balancer("2.2.2.2"));
        assert_eq!(after["metadata"]["generation"], 2);
    });
}

#[test]
fn scale_is_a_small_object_of_its_own() {
    server("scale", async |s| {
        let path = s.group("apps/v1", "deployments");
        s.post(&path, &deployment("d")).await.ok();
        let mut scale = s.get(&format!("{path}/d/scale")).await.ok();
        assert_eq!(
            (&scale["kind"], &scale["apiVersion"]),
            (&json!("Scale"), &json!("autoscaling/v1"))
        );
        assert_eq!(scale["status"]["selector"], "app=d");
        scale["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        scale["spec"]["replicas"] = json!(0);
        s.put(&format!("{path}/d/scale"), &scale).await.ok();
        let patched = s
            .patch("merge", &format!("{path}/d/scale"), &json!({"spec": {"replicas": 0}}))
            .await
            .ok();
        assert_eq!(patched["kind"], "Scale");
        assert_eq!(s.get(&format!("{path}/d")).await.ok()["spec"]["replicas"], 0);
    });
}

#[test]
fn selectors_choose_by_label_and_field() {
    server("select", async |s| {
        for (name, tier) in [("a", "web"), ("b", "db"), ("c", "web")] {
            let object = json!({"metadata": {"name": name, "labels": {"tier": tier, "app": name}}});
            s.post(&s.core("configmaps"), &object).await.ok();
        }
        let names = async |query: &str| -> Vec<String> {
            let list = s.get(&s.core(&format!("configmaps?{query}"))).await.ok();
            let items = list["items"].as_array().unwrap();
            let mut names: Vec<_> =
                items.iter().map(|i| i["metadata"]["name"].as_str().unwrap().to_owned()).collect();
            names.retain(|n| n != "kube-root-ca.crt");
            names
        };
        assert_eq!(names("labelSelector=tier%3Dweb").await, ["a", "c"]);
        assert_eq!(names("labelSelector=tier!%3Dweb,app").await, ["b"]);
        assert_eq!(names("labelSelector=app%20in%20(a,b)").await, ["a", "b"]);
        assert_eq!(names("labelSelector=app%20notin%20(a,b),tier").await, ["c"]);
        assert_eq!(names("labelSelector=!tier").await, [""; 0]);
        assert_eq!(names("fieldSelector=metadata.name%3Db").await, ["b"]);
        s.get(&s.core("configmaps?fieldSelector=data.key%3Db")).await.refused(
            400,
            "BadRequest",
            "\"data.key\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        );
        s.get(&s.core("configmaps?labelSelector=a%3D%3D%3D")).await.refused(
            400,
            "BadRequest",
            "unable to parse",
        );
    });
}

#[test]
fn a_list_comes_in_pages() {
    server("pages", async |s| {
        for i in 0..7 {
            s.config_map(&format!("m{i}"), "1").await;
        }
        let (mut names, mut token, mut versions) = (Vec::new(), String::new(), Vec::new());
        loop {
            let path = s.core(&format!("configmaps?limit=3&continue={token}&fieldSelector=metadata.name!%3Dkube-root-ca.crt"));
            let page = s.get(&path).await.ok();
            for item in page["items"].as_array().unwrap() {
                names.push(item["metadata"]["name"].as_str().unwrap().to_owned());
            }
            versions.push(page["metadata"]["resourceVersion"].clone());
            match page["metadata"]["continue"].as_str() {
                Some(next) if !next.is_empty() => token = next.to_owned(),
                _ => break,
            }
            // Later pages show the list as it was when the first was made.
            s.config_map(&format!("z{}", names.len()), "1").await;
        }
        assert_eq!(names, ["m0", "m1", "m2", "m3", "m4", "m5", "m6"]);
        assert!(versions.windows(2).all(|w| w[0] == w[1]), "{versions:?}");
        s.get(&s.core("configmaps?limit=3&continue=garbage")).await.refused(
            400,
            "BadRequest",
            "continue",
        );
    });
}

#[test]
fn delete_answers_with_status_and_honours_preconditions() {
    server("delete", async |s| {
        let made = s.config_map("a", "1").await;
        let path = s.core("configmaps/a");
        let wrong = json!({"preconditions": {"uid": "11111111-2222-3333-4444-555555555555"}});
        s.delete_with(&path, &wrong).await.refused(
            409,
            "Conflict",
            "the UID in the precondition (11111111-2222-3333-4444-555555555555) does not match the UID in record",
        );
        let gone = s.delete(&path).await.ok();
        assert_eq!((&gone["kind"], &gone["status"]), (&json!("Status"), &json!("Success")));
        assert_eq!(gone["details"]["uid"], made["metadata"]["uid"]);
        assert_eq!(s.get(&path).await.code, 404);
    });
}

#[test]
fn a_finalizer_holds_an_object_back() {
    server("finalizer", async |s| {
        let object = json!({"metadata": {"name": "a", "finalizers": ["example.com/hold"]}});
        s.post(&s.core("configmaps"), &object).await.ok();
        let path = s.core("configmaps/a");
        let marked = s.delete(&path).await.ok();
        assert!(marked["metadata"]["deletionTimestamp"].is_string(), "{marked}");
        let more = s.patch("json", &path, &json!([{"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/late"}])).await;
        more.refused(
            422,
            "Invalid",
            "Forbidden: no new finalizers can be added if the object is being deleted",
        );
        s.patch("merge", &path, &json!({"metadata": {"finalizers": null}})).await.ok();
        assert_eq!(s.get(&path).await.code, 404);
    });
}

#[test]
fn a_collection_is_deleted_by_selector() {
    server("collection", async |s| {
        for (name, tier) in [("a", "x"), ("b", "x"), ("c", "y")] {
            s.post(
                &s.core("configmaps"),
                &json!({"metadata": {"name": name, "labels": {"tier": tier}}}),
            )
            .await
            .ok();
        }
        s.delete(&s.core("configmaps?labelSelector=tier%3Dx")).await.ok();
        assert_eq!(s.get(&s.core("configmaps/a")).await.code, 404);
        assert_eq!(s.get(&s.core("configmaps/c")).await.code, 200);
    });
}

#[test]
fn a_dry_run_changes_nothing() {
    server("dryrun", async |s| {
        let object = json!({"metadata": {"name": "a"}});
        let made = s.post(&s.core("configmaps?dryRun=All"), &object).await.ok();
        assert!(made["metadata"]["uid"].is_string());
        assert_eq!(s.get(&s.core("configmaps/a")).await.code, 404);
        s.config_map("b", "1").await;
        s.patch("merge", &s.core("configmaps/b?dryRun=All"), &json!({"data": {"key": "2"}}))
            .await
            .ok();
        s.delete(&s.core("configmaps/b?dryRun=All")).await.ok();
        assert_eq!(s.get(&s.core("configmaps/b")).await.ok()["data"]["key"], "1");
        s.post(&s.core("configmaps?dryRun=Some"), &object).await.refused(
            422,
            "Invalid",
            "Unsupported value: [\"Some\"]: supported values: \"All\"",
        );
    });
}

#[test]
fn a_service_gets_an_address_and_keeps_it() {
    server("service", async |s| {
        let object = json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}});
        let made = s.post(&s.core("services"), &object).await.ok();
        let ip = made["spec"]["clusterIP"].as_str().unwrap().to_owned();
        assert!(ip.parse::<std::net::IpAddr>().is_ok(), "{made}");
        assert_eq!(made["spec"]["clusterIPs"], json!([ip]));
        assert_eq!(
            made["spec"]["ports"][0],
            json!({"port": 80, "protocol": "TCP", "targetPort": 80})
        );
        assert_eq!(
            (&made["spec"]["type"], &made["spec"]["sessionAffinity"]),
            (&json!("ClusterIP"), &json!("None"))
        );
        let mut other = made.clone();
        other["spec"]["clusterIP"] = json!("10.96.77.77");
        s.put(&s.core("services/a"), &other).await.refused(422, "Invalid", "spec.clusterIP");
        let taken =
            json!({"metadata": {"name": "b"}, "spec": {"clusterIP": ip, "ports": [{"port": 80}]}});
        s.post(&s.core("services"), &taken).await.refused(
            422,
            "Invalid",
            "provided IP is already allocated",
        );
        let node = json!({"metadata": {"name": "c"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
        let node = s.post(&s.core("services"), &node).await.ok();
        let port = node["spec"]["ports"][0]["nodePort"].as_u64().unwrap();
        assert!((30000..32768).contains(&port));
        let low = json!({"metadata": {"name": "d"}, "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]}});
        s.post(&s.core("services"), &low).await.refused(
            422,
            "Invalid",
            "provided port is not in the valid range",
        );
    });
}

#[test]
fn methods_that_a_resource_does_not_have_are_refused() {
    server("method", async |s| {
        s.raw(Method::PUT, &s.core("configmaps"), "application/json", b"{}".to_vec())
            .await
            .refused(
                405,
                "MethodNotAllowed",
                "the server does not allow this method on the requested resource",
            );
    });
}
