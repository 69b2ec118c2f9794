//! Objects good and bad.

use serde_json::json;

use super::*;

fn virtual_service(spec: &Value) -> Value {
    json!({"metadata": {"name": "reviews", "namespace": "shop"}, "spec": spec})
}

#[test]
fn an_object_is_read_by_its_kind_in_any_version() {
    let object = json!({
        "apiVersion": "networking.istio.io/v1beta1",
        "kind": "VirtualService",
        "metadata": {"name": "reviews", "namespace": "shop", "generation": 3},
        "spec": {"hosts": ["reviews"], "http": [{"timeout": "1.5s", "match": [{"uri": {"prefix": "/a"}}]}]},
    });
    let decoded = decode_any(&object).unwrap();
    assert_eq!(decoded.diagnostics, []);
    let Ok(Object::VirtualService(service)) = decoded.object else { panic!("another kind") };
    assert_eq!(service.meta.generation, 3);
    let route = &service.spec.http[0];
    assert_eq!(route.timeout, Some(std::time::Duration::from_millis(1500)));
    let prefix = crate::istio::networking::StringMatch::Prefix("/a".to_owned());
    assert_eq!(route.r#match[0].uri, Some(prefix));
}

#[test]
fn a_bad_value_is_an_error_that_names_its_place() {
    let object =
        virtual_service(&json!({"http": [{}, {"timeout": "soon", "retries": {"attempts": "x"}}]}));
    let decoded = decode(Kind::VirtualService, &object);
    let error = decoded.object.unwrap_err();
    assert_eq!(error.field.as_deref(), Some("spec.http[1].timeout"));
    assert!(error.to_string().starts_with("Error [IST0106] (VirtualService shop/reviews) spec.http[1].timeout: invalid duration \"soon\""), "{error}");
    assert_eq!(decoded.diagnostics.len(), 2);
}

#[test]
fn an_unknown_field_is_a_warning_and_the_object_stays_usable() {
    let object = virtual_service(&json!({"hosts": ["a"], "htpp": []}));
    let decoded = decode(Kind::VirtualService, &object);
    assert!(decoded.object.is_ok());
    assert_eq!(
        decoded.diagnostics[0].to_string(),
        "Warning [IRN0001] (VirtualService shop/reviews) spec.htpp: unknown field \"htpp\""
    );
}

#[test]
fn two_alternatives_of_one_choice_are_an_error() {
    let object =
        virtual_service(&json!({"http": [{"match": [{"uri": {"exact": "/a", "prefix": "/b"}}]}]}));
    let decoded = decode(Kind::VirtualService, &object);
    assert_eq!(
        decoded.object.unwrap_err().field.as_deref(),
        Some("spec.http[0].match[0].uri.prefix")
    );
}

#[test]
fn the_digest_follows_what_matters_and_nothing_else() {
    let digest = |value: &Value| decode(Kind::VirtualService, value).object.unwrap().digest();
    let mut object = virtual_service(&json!({"hosts": ["a"]}));
    let first = digest(&object);
    object["metadata"]["resourceVersion"] = json!("77");
    object["metadata"]["managedFields"] = json!([{"manager": "x"}]);
    object["status"] = json!({"conditions": []});
    assert_eq!(digest(&object), first);
    object["metadata"]["labels"] = json!({"a": "b"});
    assert_ne!(digest(&object), first);
    object["spec"]["hosts"] = json!(["b"]);
    assert_ne!(digest(&object), first);
}

#[test]
fn proto_names_and_nulls_are_understood() {
    let object = json!({
        "metadata": {"name": "a"},
        "spec": {"jwtRules": [{"issuer": "x", "jwks_uri": "https://x", "audiences": null}]},
    });
    let decoded = decode(Kind::RequestAuthentication, &object);
    let Ok(Object::RequestAuthentication(policy)) = decoded.object else { panic!("refused") };
    assert_eq!(policy.spec.jwt_rules[0].jwks_uri, "https://x");
    assert_eq!(decoded.diagnostics, []);
}

#[test]
fn a_pod_is_trimmed_to_what_is_used() {
    let object = json!({
        "metadata": {"name": "p", "namespace": "n", "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "{}", "a": "b"}},
        "spec": {"serviceAccountName": "sa", "containers": [{"name": "c", "image": "i",
            "ports": [{"containerPort": 80, "name": "http"}]}]},
        "status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
            "conditions": [{"type": "Ready", "status": "True"}]},
    });
    let decoded = decode(Kind::Pod, &object);
    assert_eq!(decoded.diagnostics, []);
    let Ok(Object::Pod(pod)) = decoded.object else { panic!("refused") };
    assert_eq!(pod.spec.ips, ["10.0.0.1", "fd00::1"]);
    assert!(pod.spec.ready);
    assert_eq!(pod.spec.containers[0].ports[0].container_port, 80);
    assert_eq!(pod.meta.annotations.len(), 1);
}

#[test]
fn an_object_without_a_name_is_refused() {
    let decoded = decode(Kind::Gateway, &json!({"spec": {}}));
    assert_eq!(decoded.object.unwrap_err().field.as_deref(), Some("metadata.name"));
    assert!(decode(Kind::Pod, &json!(5)).object.is_err());
}
