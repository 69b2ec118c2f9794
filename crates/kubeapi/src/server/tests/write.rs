//! Create, update and patch.

use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{Bench, DEPLOYMENTS, MAPS, SERVICES, deployment, map};

#[tokio::test]
async fn a_created_object_has_what_only_the_server_gives() {
    let bench = Bench::new().await;
    let sent: ConfigMap = serde_json::from_value(json!({
        "metadata": {"name": "a", "uid": "mine", "creationTimestamp": "2000-01-01T00:00:00Z"},
    }))
    .unwrap();
    let params = PostParams { field_manager: Some("tester".to_owned()), ..PostParams::default() };
    let created = bench.config_maps().create(&params, &sent).await.unwrap();
    let meta = &created.metadata;
    assert_ne!(meta.uid.as_deref(), Some("mine"));
    assert_eq!(meta.namespace.as_deref(), Some("default"));
    assert!(meta.resource_version.is_some());
    assert!(meta.creation_timestamp.as_ref().unwrap().0.as_second() > 1_700_000_000);
    let again = bench.config_maps().create(&params, &sent).await.unwrap_err();
    let kube::Error::Api(status) = again else { panic!("{again}") };
    assert_eq!((status.code, status.reason.as_str()), (409, "AlreadyExists"));
    assert_eq!(status.message, "configmaps \"a\" already exists");
}

#[tokio::test]
async fn generated_names_begin_as_asked_and_differ() {
    let bench = Bench::new().await;
    let object = json!({"metadata": {"generateName": "job-"}});
    let (_, first) = bench.post(MAPS, &object).await;
    let (_, second) = bench.post(MAPS, &object).await;
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
    assert!(name(&first).starts_with("job-"));
    assert_eq!(name(&first).len(), "job-".len() + 5);
    assert_ne!(name(&first), name(&second));
}

#[tokio::test]
async fn a_stale_update_is_a_conflict_and_an_equal_one_changes_nothing() {
    let bench = Bench::new().await;
    let path = format!("{MAPS}/a");
    let (_, first) = bench.post(MAPS, &map("a")).await;
    let (code, same) = bench.put(&path, &first).await;
    assert_eq!((code, &same), (200, &first), "nothing changed, so nothing was written");
    let mut changed = first.clone();
    changed["data"]["k"] = "w".into();
    let (code, second) = bench.put(&path, &changed).await;
    assert_eq!(code, 200);
    assert_ne!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    changed["data"]["k"] = "x".into();
    let (code, refused) = bench.put(&path, &changed).await;
    assert_eq!(code, 409);
    assert_eq!(
        refused["message"],
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please \
         apply your changes to the latest version and try again"
    );
    let (code, _) = bench.put(&path, &map("a")).await;
    assert_eq!(code, 200, "without a version it is overwritten");
}

#[tokio::test]
async fn leases_must_say_which_version_they_change() {
    let bench = Bench::new().await;
    let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let (_, mut lease) = bench.post(path, &json!({"metadata": {"name": "l"}})).await;
    lease["spec"] = json!({"holderIdentity": "a"});
    let (code, _) = bench.put(&format!("{path}/l"), &lease).await;
    assert_eq!(code, 200);
    lease["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    let (code, refused) = bench.put(&format!("{path}/l"), &lease).await;
    assert_eq!(code, 422, "{refused}");
}

#[tokio::test]
async fn the_generation_rises_with_the_spec_and_the_status_has_its_own_endpoint() {
    let bench = Bench::new().await;
    let path = format!("{DEPLOYMENTS}/d");
    let mut object = deployment("d");
    object["status"] = json!({"replicas": 9});
    let (_, created) = bench.post(DEPLOYMENTS, &object).await;
    assert_eq!(created["metadata"]["generation"], 1);
    assert!(created["status"]["replicas"].is_null(), "a create cannot set the status");
    let (_, object) = bench.merge(&path, &json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(object["metadata"]["generation"], 1);
    let patch = json!({"spec": {"replicas": 3}, "status": {"replicas": 3}});
    let (_, object) = bench.merge(&path, &patch).await;
    assert_eq!(object["metadata"]["generation"], 2);
    assert!(object["status"]["replicas"].is_null());
    let patch = json!({"spec": {"replicas": 7}, "status": {"replicas": 3}});
    let (_, object) = bench.merge(&format!("{path}/status"), &patch).await;
    assert_eq!(
        (&object["spec"]["replicas"], &object["status"]["replicas"]),
        (&json!(3), &json!(3))
    );
    assert_eq!(object["metadata"]["generation"], 2);
}

#[tokio::test]
async fn the_four_kinds_of_patch_change_an_object() {
    let bench = Bench::new().await;
    bench.post(DEPLOYMENTS, &deployment("d")).await;
    let api = bench.api("apps", "Deployment");
    let none = PatchParams::default();
    let merge = json!({"spec": {"template": {"spec": {"hostNetwork": true}}}});
    api.patch("d", &none, &Patch::Merge(merge)).await.unwrap();
    let operations = json!([{"op": "replace", "path": "/spec/replicas", "value": 4}]);
    let operations: json_patch::Patch = serde_json::from_value(operations).unwrap();
    api.patch("d", &none, &Patch::<Value>::Json(operations)).await.unwrap();
    let strategic = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "side", "image": "s"},
    ]}}}});
    api.patch("d", &none, &Patch::Strategic(strategic)).await.unwrap();
    let applied = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "labels": {"by": "apply"}},
    });
    let object = api.patch("d", &PatchParams::apply("me"), &Patch::Apply(applied)).await.unwrap();
    assert_eq!(object.metadata.labels.unwrap()["by"], "apply");
    let spec = &object.data["spec"];
    assert_eq!(spec["replicas"], 4);
    assert_eq!(spec["template"]["spec"]["hostNetwork"], true);
    assert_eq!(spec["template"]["spec"]["containers"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn server_side_apply_creates_conflicts_and_can_be_forced() {
    let bench = Bench::new().await;
    let apply = async |manager: &str, value: &str, force: bool| {
        let path = format!("{MAPS}/a?fieldManager={manager}&force={force}");
        let body =
            format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: {value}\n");
        let kind = [("content-type", "application/apply-patch+yaml")];
        let (code, _, answer) = bench.ask(Method::PATCH, &path, &kind, body).await;
        (code, answer)
    };
    let (code, first) = apply("one", "x", false).await;
    assert_eq!(code, 201);
    let (code, again) = apply("one", "x", false).await;
    assert_eq!((code, again), (200, first), "applying the same again changes nothing");
    let (code, refused) = apply("two", "z", false).await;
    assert_eq!(code, 409);
    assert_eq!(refused["message"], "Apply failed with 1 conflict: conflict with \"one\": .data.k");
    assert_eq!(refused["details"]["causes"][0]["reason"], "FieldManagerConflict");
    let (code, forced) = apply("two", "z", true).await;
    assert_eq!((code, &forced["data"]["k"]), (200, &json!("z")));
}

#[tokio::test]
async fn a_patch_cannot_make_another_object_of_one() {
    let bench = Bench::new().await;
    bench.post(MAPS, &map("a")).await;
    let path = format!("{MAPS}/a");
    for (patch, code) in [
        (json!({"metadata": {"name": "b"}}), 400),
        (json!({"metadata": {"namespace": "kube-system"}}), 400),
        (json!({"metadata": {"uid": "x"}}), 422),
        (json!({"metadata": {"resourceVersion": "1"}}), 409),
        (json!({"data": {"k": 1}}), 422),
    ] {
        let (answered, refused) = bench.merge(&path, &patch).await;
        assert_eq!(answered, code, "{patch}: {refused}");
    }
}

#[tokio::test]
async fn a_dry_run_answers_as_if_and_stores_nothing() {
    let bench = Bench::new().await;
    let (code, object) = bench.post(&format!("{MAPS}?dryRun=All"), &map("a")).await;
    assert_eq!((code, &object["metadata"]["name"]), (201, &json!("a")));
    assert_eq!(bench.get(&format!("{MAPS}/a")).await.0, 404);
    bench.post(MAPS, &map("a")).await;
    let (_, changed) =
        bench.merge(&format!("{MAPS}/a?dryRun=All"), &json!({"data": {"k": "w"}})).await;
    assert_eq!(changed["data"]["k"], "w");
    assert_eq!(bench.delete(&format!("{MAPS}/a?dryRun=All"), &Value::Null).await.0, 200);
    assert_eq!(bench.get(&format!("{MAPS}/a")).await.1["data"]["k"], "v");
    let service = json!({"metadata": {"name": "s"}, "spec": {"clusterIP": "10.96.0.9", "ports": [{"port": 1}]}});
    for _ in 0..2 {
        let (code, answer) = bench.post(&format!("{SERVICES}?dryRun=All"), &service).await;
        assert_eq!(code, 201, "a dry run takes no address: {answer}");
    }
}

#[tokio::test]
async fn unknown_fields_are_refused_warned_of_or_dropped() {
    let bench = Bench::new().await;
    let body = r#"{"metadata":{"name":"a"},"foo":1,"data":{"k":"v","k":"w"}}"#;
    let ask = async |how: &str| {
        let path = format!("{MAPS}?fieldValidation={how}&dryRun=All");
        bench.ask(Method::POST, &path, &[], body).await
    };
    let (code, _, refused) = ask("Strict").await;
    assert_eq!(code, 400);
    assert_eq!(
        refused["message"],
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: \
         unknown field \"foo\", duplicate field \"data.k\""
    );
    let (code, headers, object) = ask("Warn").await;
    let warnings: Vec<_> = headers.get_all("warning").iter().collect();
    assert_eq!(code, 201);
    assert_eq!(
        warnings,
        [r#"299 - "unknown field \"foo\"""#, r#"299 - "duplicate field \"data.k\"""#]
    );
    assert!(object["foo"].is_null());
    let (code, headers, _) = ask("Ignore").await;
    assert_eq!((code, headers.get("warning")), (201, None));
}

#[tokio::test]
async fn yaml_is_read_and_written() {
    let bench = Bench::new().await;
    let kind = [("content-type", "application/yaml"), ("accept", "application/yaml")];
    let body = "metadata: {name: a}\ndata:\n  k: |\n    two\n    lines\n";
    let (code, headers, answer) = bench.ask(Method::POST, MAPS, &kind, body).await;
    assert_eq!((code, headers["content-type"].to_str().unwrap()), (201, "application/yaml"));
    let value: Value = ironsail_yaml::parse(answer.as_str().unwrap()).unwrap();
    assert_eq!(value["data"]["k"], "two\nlines\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn patches_at_the_same_time_all_count() {
    let bench = std::sync::Arc::new(Bench::new().await);
    bench.post(MAPS, &map("a")).await;
    let tasks: Vec<_> = (0..15)
        .map(|n| {
            let bench = bench.clone();
            tokio::spawn(async move {
                let patch = json!({"data": {format!("k{n}"): "v"}});
                bench.merge(&format!("{MAPS}/a"), &patch).await.0
            })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap(), 200);
    }
    let (_, object) = bench.get(&format!("{MAPS}/a")).await;
    assert_eq!(object["data"].as_object().unwrap().len(), 16);
}

#[tokio::test]
async fn nothing_is_created_in_a_namespace_that_is_missing_or_ending() {
    let bench = Bench::new().await;
    let (code, refused) = bench.post("/api/v1/namespaces/nope/configmaps", &map("a")).await;
    assert_eq!((code, &refused["message"]), (404, &json!("namespaces \"nope\" not found")));
    bench.post("/api/v1/namespaces", &json!({"metadata": {"name": "n"}})).await;
    bench.delete("/api/v1/namespaces/n", &Value::Null).await;
    let (code, refused) = bench.post("/api/v1/namespaces/n/configmaps", &map("a")).await;
    assert_eq!(code, 403);
    assert_eq!(refused["details"]["causes"][0]["reason"], "NamespaceTerminating");
}

#[tokio::test]
async fn events_of_both_groups_are_the_same_objects() {
    let bench = Bench::new().await;
    let event = json!({
        "metadata": {"name": "e"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "c",
        "reportingInstance": "i",
        "action": "Act",
        "reason": "Because",
        "type": "Normal",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
        "note": "something happened",
    });
    let path = "/apis/events.k8s.io/v1/namespaces/default/events";
    let (code, answer) = bench.post(path, &event).await;
    assert_eq!((code, &answer["note"]), (201, &json!("something happened")), "{answer}");
    let path = "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Dp";
    let (_, list) = bench.get(path).await;
    assert_eq!(list["items"][0]["message"], "something happened");
}
