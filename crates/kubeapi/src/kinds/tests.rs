//! Tests over all kinds.
//!
//! `testdata/kinds/stored.json` holds objects as a user writes them and as a server stores them; what
//! a server makes up by itself (uid, addresses) is left out. `refused.json` holds broken objects and
//! the texts they are refused with.

use serde_json::{Value, json};

use super::*;

#[derive(serde::Deserialize)]
struct Stored {
    name: String,
    given: Value,
    stored: Value,
}

#[derive(serde::Deserialize)]
struct Refused {
    given: Value,
    errors: Vec<String>,
}

fn kind_of(obj: &Value) -> &'static Kind {
    let api = obj["apiVersion"].as_str().unwrap();
    let (group, version) = api.split_once('/').unwrap_or(("", api));
    by_kind(group, version, obj["kind"].as_str().unwrap()).unwrap()
}

/// What a create does, up to the store.
fn create(given: &Value) -> (Value, Vec<FieldError>) {
    let kind = kind_of(given);
    let decoded = kind.decode(given.clone()).unwrap();
    assert_eq!(decoded.unknown, [""; 0], "{given}");
    let mut obj = decoded.value;
    kind.default(&mut obj);
    obj["metadata"]["uid"] = json!("UID");
    if kind.namespaced {
        obj["metadata"]["namespace"] = json!("kinds");
    }
    kind.prepare_create(&mut obj);
    let errors = kind.validate_create(&obj);
    (obj, errors)
}

#[test]
fn objects_are_stored_as_a_cluster_stores_them() {
    let cases: Vec<Stored> =
        serde_json::from_str(include_str!("../../testdata/kinds/stored.json")).unwrap();
    assert!(cases.len() > 40);
    for case in cases {
        let (mut obj, errors) = create(&case.given);
        assert_eq!(errors, [], "{}", case.name);
        obj["metadata"].as_object_mut().unwrap().remove("uid");
        assert_eq!(obj, case.stored, "{}", case.name);
    }
}

#[test]
fn rows_read_as_kubectl_shows_them() {
    #[derive(serde::Deserialize)]
    struct Row {
        given: Value,
        cells: Vec<Value>,
    }
    let rows: Vec<Row> =
        serde_json::from_str(include_str!("../../testdata/kinds/rows.json")).unwrap();
    assert!(rows.len() > 50);
    for row in rows {
        let now = age::time(row.given["metadata"].get("creationTimestamp")).unwrap();
        assert_eq!(kind_of(&row.given).cells(&row.given, now), row.cells, "{}", row.given);
    }
}

#[test]
fn what_is_stored_stays_the_same_when_it_is_read_and_written_again() {
    let cases: Vec<Stored> =
        serde_json::from_str(include_str!("../../testdata/kinds/stored.json")).unwrap();
    for case in cases {
        let kind = kind_of(&case.given);
        let (obj, _) = create(&case.given);
        let again = kind.decode(obj.clone()).unwrap();
        assert_eq!(again.unknown, [""; 0], "{}", case.name);
        let mut again = again.value;
        kind.default(&mut again);
        kind.prepare_update(&mut again, &obj, None);
        assert_eq!(again, obj, "{}", case.name);
        assert_eq!(kind.validate_update(&again, &obj), [], "{}", case.name);
        kind.prepare_update(&mut again, &obj, Some("status"));
        assert_eq!(again, obj, "{} at its status", case.name);
    }
}

#[test]
fn broken_objects_are_refused_with_the_known_texts() {
    let cases: Vec<Refused> =
        serde_json::from_str(include_str!("../../testdata/kinds/refused.json")).unwrap();
    assert!(cases.len() > 60);
    for case in cases {
        let (_, errors) = create(&case.given);
        let mut texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
        texts.sort();
        texts.dedup();
        let mut expected = case.errors;
        expected.sort();
        assert_eq!(texts.join("\n"), expected.join("\n"), "{}", case.given);
    }
}

#[test]
fn the_wrong_type_is_refused_as_a_go_client_would_be() {
    let kind = by_kind("apps", "v1", "Deployment").unwrap();
    let prefix = "Deployment in version \"v1\" cannot be handled as a Deployment: ";
    let cases = [
        (
            json!({"spec": {"replicas": "x"}}),
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            json!({"spec": {"replicas": 99_999_999_999_i64}}),
            "json: cannot unmarshal number 99999999999 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            json!({"spec": []}),
            "json: cannot unmarshal array into Go struct field Deployment.spec of type v1.DeploymentSpec",
        ),
        (
            json!({"spec": {"template": {"spec": {"containers": {}}}}}),
            "json: cannot unmarshal object into Go struct field PodSpec.spec.template.spec.containers of type []v1.Container",
        ),
        (
            json!({"spec": {"template": {"spec": {"containers": [{"ports": [{"containerPort": "x"}]}]}}}}),
            "json: cannot unmarshal string into Go struct field ContainerPort.spec.template.spec.containers.ports.containerPort of type int32",
        ),
        (
            json!({"spec": {"template": {"spec": {"containers": [{"resources": {"limits": {"cpu": "zz"}}}]}}}}),
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            json!({"spec": {"template": {"spec": {"containers": [{"resources": {"limits": []}}]}}}}),
            "json: cannot unmarshal array into Go struct field ResourceRequirements.spec.template.spec.containers.resources.limits of type v1.ResourceList",
        ),
        (
            json!({"spec": {"template": {"metadata": {"labels": {"a": 1}}}}}),
            "json: cannot unmarshal number into Go struct field ObjectMeta.spec.template.metadata.labels of type string",
        ),
        (
            json!({"metadata": {"creationTimestamp": "zz"}}),
            "parsing time \"zz\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"zz\" as \"2006\"",
        ),
        (
            json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": true}}}}),
            "json: cannot unmarshal bool into Go struct field RollingUpdateDeployment.spec.strategy.rollingUpdate.maxSurge of type int32",
        ),
    ];
    for (given, expected) in cases {
        let error = kind.decode(given).unwrap_err().to_string();
        assert_eq!(error, format!("{prefix}{expected}"));
    }
}

#[test]
fn unknown_fields_are_dropped_and_reported() {
    let kind = by_kind("apps", "v1", "Deployment").unwrap();
    let given = json!({"spec": {"foo": 1, "template": {"spec": {"containers": [
        {"name": "a", "bar": 1, "ports": [{"containerPort": 1, "x": 1}]},
    ]}}}});
    let decoded = kind.decode(given).unwrap();
    let places = ["spec.foo", "spec.template.spec.containers[0].bar"];
    assert_eq!(decoded.unknown[..2], places);
    assert_eq!(decoded.unknown[2], "spec.template.spec.containers[0].ports[0].x");
    assert_eq!(decoded.value["spec"].get("foo"), None);
}

#[test]
fn each_endpoint_changes_only_its_part() {
    let kind = by_kind("apps", "v1", "Deployment").unwrap();
    let old = json!({
        "metadata": {"name": "a", "generation": 3},
        "spec": {"replicas": 1}, "status": {"replicas": 1},
    });
    let changed = json!({
        "metadata": {"name": "a", "generation": 9, "labels": {"a": "b"}},
        "spec": {"replicas": 2}, "status": {"replicas": 5},
    });
    let mut main = changed.clone();
    kind.prepare_update(&mut main, &old, None);
    assert_eq!(main["status"], old["status"]);
    assert_eq!(main["metadata"]["generation"], 4);
    assert_eq!(main["metadata"]["labels"], json!({"a": "b"}));
    let mut status = changed;
    kind.prepare_update(&mut status, &old, Some("status"));
    assert_eq!(status["spec"], old["spec"]);
    assert_eq!(status["status"], json!({"replicas": 5}));
    assert_eq!(status["metadata"], old["metadata"]);
}

#[test]
fn scaling_changes_the_spec_and_leaves_the_status() {
    let kind = by_kind("apps", "v1", "Deployment").unwrap();
    let old =
        json!({"metadata": {"generation": 1}, "spec": {"replicas": 1}, "status": {"replicas": 1}});
    let mut new = json!({"metadata": {}, "spec": {"replicas": 4}, "status": {"replicas": 9}});
    kind.prepare_update(&mut new, &old, Some("scale"));
    assert_eq!(new["spec"]["replicas"], 4);
    assert_eq!(new["status"], old["status"]);
    assert_eq!(new["metadata"]["generation"], 2);
}

#[test]
fn only_a_binding_puts_a_pod_on_a_node() {
    let kind = by_kind("", "v1", "Pod").unwrap();
    let (old, _) = create(&json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "c", "image": "x"}]},
    }));
    let mut bound = old.clone();
    bound["spec"]["nodeName"] = json!("n");
    bound["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "True"}]);
    let mut update = bound.clone();
    kind.prepare_update(&mut bound, &old, Some("binding"));
    assert_eq!(bound["spec"]["nodeName"], "n");
    assert_eq!(kind.validate_update(&bound, &old), []);
    kind.prepare_update(&mut update, &old, None);
    let text = kind.validate_update(&update, &old)[0].to_string();
    assert!(text.starts_with("spec: Forbidden: pod updates may not change fields"), "{text}");
}

#[test]
fn every_kind_has_a_wire_type_and_a_unique_place() {
    let mut seen = std::collections::HashSet::new();
    for kind in all().iter().chain(embedded()) {
        assert!(decode::has_type(kind), "{}", kind.kind);
        assert!(seen.insert((kind.group, kind.version, kind.kind)), "{} twice", kind.kind);
        assert_eq!(kind.singular, kind.kind.to_lowercase());
        let object = json!({"metadata": {"name": "a"}});
        let cells = kind.cells(&object, std::time::UNIX_EPOCH);
        assert_eq!(cells.len(), kind.columns().len(), "cells of {}", kind.kind);
        for name in kind.subresources {
            assert!(kind.subresource(name).is_some());
        }
    }
}

#[test]
fn fields_for_selectors() {
    let kind = by_kind("", "v1", "Pod").unwrap();
    let pod = json!({"metadata": {"name": "a", "namespace": "b"}, "spec": {"nodeName": "n"}});
    assert_eq!(kind.field(&pod, "metadata.name"), Some(Some("a".to_owned())));
    assert_eq!(kind.field(&pod, "spec.nodeName"), Some(Some("n".to_owned())));
    assert_eq!(kind.field(&pod, "spec.hostNetwork"), Some(Some("false".to_owned())));
    assert_eq!(kind.field(&pod, "status.phase"), Some(None));
    assert_eq!(kind.field(&pod, "spec.containers"), None);
}

proptest::proptest! {
    /// Whatever a client sends, the functions come back.
    #[test]
    fn nonsense_never_panics(seed in arbitrary_json(), index in 0usize..60) {
        let kind = &all()[index % all().len()];
        let wrapped = json!({"metadata": seed.clone(), "spec": seed.clone(), "status": seed});
        for value in [wrapped.clone(), wrapped["spec"].clone()] {
            if let Ok(decoded) = kind.decode(value.clone()) {
                let mut obj = decoded.value;
                kind.default(&mut obj);
                kind.prepare_create(&mut obj);
                kind.validate_create(&obj);
                kind.prepare_update(&mut obj, &wrapped, None);
                kind.validate_update(&obj, &wrapped);
            }
            // Objects of older versions may be shown as they are.
            kind.cells(&value, std::time::UNIX_EPOCH);
        }
    }
}

fn arbitrary_json() -> impl proptest::strategy::Strategy<Value = Value> {
    use proptest::prelude::*;
    const KEYS: &str = "name|containers|initContainers|template|spec|selector|matchLabels|ports|port|\
        volumes|projected|sources|env|valueFrom|resources|limits|cpu|replicas|strategy|rules|webhooks|\
        endpoints|addresses|metadata|labels|type|clusterIP|versions|names|conditions";
    let keys: Vec<&'static str> = KEYS.split('|').collect();
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        "[0-9]{1,3}(m|Gi|%)".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((proptest::sample::select(keys.clone()), inner), 0..6)
                .prop_map(|e| e.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()),
        ]
    })
}
