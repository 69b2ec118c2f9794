//! Webhooks behind a real HTTPS server, tables of what matches, and answers of all sorts.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::hook::{Address, Rule};
use super::*;
use crate::admission::{Admission, Operation};
use crate::auth::User;
use crate::auth::objects::memory::Memory;

mod server;

use server::{Reply, Server};

fn request(operation: Operation, resource: &str) -> Request {
    let object = json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "c", "namespace": "a", "labels": { "app": "web" } } });
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    Request {
        operation,
        group: String::new(),
        version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        resource: resource.to_owned(),
        subresource: subresource.to_owned(),
        other_versions: vec![],
        namespace: "a".to_owned(),
        name: "c".to_owned(),
        user: User::admin(),
        object: Some(object),
        old: None,
        options: Value::Null,
        dry_run: false,
    }
}

fn rule(resources: &[&str]) -> Value {
    json!({ "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": resources })
}

fn namespace(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace",
        "metadata": { "name": name, "labels": { "team": "x" } } })
}

fn hook(name: &str, server: &Server) -> Value {
    json!({ "name": name, "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "failurePolicy": "Fail", "timeoutSeconds": 5, "rules": [rule(&["configmaps"])],
        "clientConfig": { "caBundle": BASE64.encode(&server.ca_pem),
            "service": { "namespace": "sys", "name": "hook", "path": "/check" } } })
}

fn configuration(kind: &str, name: &str, hooks: &[Value]) -> Value {
    json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
        "metadata": { "name": name }, "webhooks": hooks })
}

const MUTATING_KIND: &str = "MutatingWebhookConfiguration";
const VALIDATING_KIND: &str = "ValidatingWebhookConfiguration";

fn admission(server: &Server, configurations: Vec<Value>) -> Admission {
    let service = json!({ "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": "hook", "namespace": "sys" },
        "spec": { "clusterIP": "10.96.7.7", "ports": [{ "port": 443 }] } });
    let objects = [namespace("a"), service].into_iter().chain(configurations);
    Admission::new(Memory::with(objects), server.dial())
}

fn patch(operations: &Value) -> Value {
    json!({ "allowed": true, "patchType": "JSONPatch", "patch": BASE64.encode(operations.to_string()) })
}

async fn validated(server: &Server, change: impl Fn(&mut Value)) -> Result<Warnings, Refusal> {
    let mut hook = hook("x.example.org", server);
    change(&mut hook);
    let admission = admission(server, vec![configuration(VALIDATING_KIND, "v", &[hook])]);
    admission.validate(&request(Operation::Create, "configmaps")).await
}

#[test]
fn rules_match_operations_groups_versions_resources_and_scopes() {
    let in_namespace = request(Operation::Create, "pods");
    let exec = request(Operation::Connect, "pods/exec");
    let mut itself = request(Operation::Create, "namespaces");
    itself.namespace = String::new();
    let full = |resource: &str| json!({ "operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": [resource] });
    let scoped = |scope: &str| json!({ "operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "scope": scope });
    for (rule, request, expected) in [
        (rule(&["pods"]), &in_namespace, true),
        (rule(&["services", "pods"]), &in_namespace, true),
        (rule(&["services"]), &in_namespace, false),
        (rule(&["pods"]), &exec, false),
        (full("*"), &in_namespace, true),
        (full("*"), &exec, false),
        (full("*/*"), &exec, true),
        (full("*/*"), &in_namespace, true),
        (full("pods/*"), &exec, true),
        (full("pods/exec"), &exec, true),
        (full("pods/exec"), &in_namespace, false),
        (full("*/exec"), &exec, true),
        (scoped("Namespaced"), &in_namespace, true),
        (scoped("Cluster"), &in_namespace, false),
        (scoped("Cluster"), &itself, true),
        (scoped("Namespaced"), &itself, false),
        (
            json!({ "operations": ["UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"] }),
            &in_namespace,
            false,
        ),
        (
            json!({ "operations": ["CREATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["pods"] }),
            &in_namespace,
            false,
        ),
        (
            json!({ "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v2"], "resources": ["pods"] }),
            &in_namespace,
            false,
        ),
        (json!({}), &in_namespace, false),
    ] {
        let hook = Hook::parse(&json!({ "rules": [rule] }));
        let matched = matching::rule_matches(&hook.rules[0], request, "v1");
        assert_eq!(matched, expected, "{rule} {}/{}", request.resource, request.subresource);
    }
    let _: &[Rule] = &Hook::parse(&json!({})).rules;
    assert!(matches!(Hook::parse(&json!({})).address, Address::Url(url) if url.is_empty()));
}

#[test]
fn selectors_look_at_the_namespace_and_at_both_objects() {
    let memory = Memory::with([namespace("a")]);
    let wanted = |hook: Value, request: &Request| {
        let mut hook = hook;
        hook["rules"] = json!([{ "operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"] }]);
        matching::view(&Hook::parse(&hook), request, &*memory).unwrap().is_some()
    };
    let by_namespace =
        |value: &str| json!({ "namespaceSelector": { "matchLabels": { "team": value } } });
    let by_object = |value: &str| json!({ "objectSelector": { "matchLabels": { "app": value } } });
    let mut request = request(Operation::Update, "configmaps");
    assert!(wanted(by_namespace("x"), &request));
    assert!(!wanted(by_namespace("y"), &request));
    assert!(wanted(by_object("web"), &request));
    assert!(!wanted(by_object("db"), &request));
    request.old = Some(Arc::new(json!({ "metadata": { "labels": { "app": "db" } } })));
    assert!(wanted(by_object("db"), &request), "the old object counts as well");
    request.namespace = "gone".to_owned();
    let hook = Hook::parse(
        &json!({ "rules": [rule(&["configmaps"])], "namespaceSelector": { "matchLabels": { "a": "b" } } }),
    );
    request.operation = Operation::Create;
    assert_eq!(matching::view(&hook, &request, &*memory).unwrap_err().code, 404);
    request.resource = "namespaces".to_owned();
    request.namespace = String::new();
    request.object = Some(namespace("new"));
    assert!(wanted(by_namespace("x"), &request), "a namespace is selected by its own labels");
}

#[test]
fn equivalent_versions_are_sent_as_the_webhook_knows_them() {
    let memory = Memory::with([namespace("a")]);
    let mut request = request(Operation::Create, "gateways");
    request.group = "networking.istio.io".to_owned();
    request.version = "v1beta1".to_owned();
    request.other_versions = vec!["v1alpha3".to_owned(), "v1".to_owned()];
    request.object =
        Some(json!({ "apiVersion": "networking.istio.io/v1beta1", "kind": "Gateway" }));
    let rules = json!([{ "operations": ["*"], "apiGroups": ["networking.istio.io"], "apiVersions": ["v1"], "resources": ["*"] }]);
    let equivalent = Hook::parse(&json!({ "rules": rules }));
    let view = matching::view(&equivalent, &request, &*memory).unwrap().unwrap();
    assert_eq!(view.api_version, "networking.istio.io/v1");
    let asked: Value = serde_json::from_slice(&review::request(&request, &view).body).unwrap();
    let asked = &asked["request"];
    assert_eq!(asked["object"]["apiVersion"], "networking.istio.io/v1");
    assert_eq!(
        (&asked["kind"]["version"], &asked["requestKind"]["version"]),
        (&json!("v1"), &json!("v1beta1"))
    );
    assert_eq!(
        (&asked["resource"]["version"], &asked["requestResource"]["version"]),
        (&json!("v1"), &json!("v1beta1"))
    );
    let exact = Hook::parse(&json!({ "rules": rules, "matchPolicy": "Exact" }));
    assert_eq!(matching::view(&exact, &request, &*memory).unwrap(), None);
}

#[tokio::test]
async fn an_allowed_request_passes_with_warnings() {
    let server = Server::start(|review| {
        assert_eq!(review["request"]["userInfo"]["username"], "kubernetes-admin");
        assert_eq!(review["request"]["operation"], "CREATE");
        Reply::Response(json!({ "allowed": true, "warnings": ["old\nfield", ""] }))
    })
    .await;
    assert_eq!(validated(&server, |_| {}).await, Ok(vec!["old field".to_owned()]));
    assert_eq!(server.calls(), ["POST /check?timeout=5s"]);
}

#[tokio::test]
async fn denials_read_as_those_of_kubernetes() {
    for (status, code, text) in [
        (
            json!(null),
            400,
            "admission webhook \"x.example.org\" denied the request without explanation",
        ),
        (
            json!({ "message": "no", "code": 403, "reason": "Forbidden" }),
            403,
            "admission webhook \"x.example.org\" denied the request: no",
        ),
        (
            json!({ "reason": "Invalid", "code": 200 }),
            400,
            "admission webhook \"x.example.org\" denied the request: Invalid",
        ),
        (
            json!({ "message": 7, "code": "x" }),
            400,
            "admission webhook \"x.example.org\" denied the request without explanation",
        ),
    ] {
        let answer = json!({ "allowed": false, "status": status });
        let server = Server::start(move |_| Reply::Response(answer.clone())).await;
        for policy in ["Fail", "Ignore"] {
            let refusal =
                validated(&server, |hook| hook["failurePolicy"] = json!(policy)).await.unwrap_err();
            assert_eq!((refusal.code, refusal.message.as_str()), (code, text), "{policy}");
        }
    }
}

/// Fails with `part` in the text under `Fail`, passes under `Ignore`.
async fn fails(server: &Server, part: &str, change: impl Fn(&mut Value)) {
    let refusal = validated(server, &change).await.unwrap_err();
    assert_eq!(refusal.code, 500, "{refusal}");
    let start = "Internal error occurred: failed calling webhook \"x.example.org\": ";
    assert!(refusal.message.starts_with(start), "{refusal}");
    assert!(refusal.message.contains(part), "{refusal} does not say {part:?}");
    let ignored = validated(server, |hook| {
        change(hook);
        hook["failurePolicy"] = json!("Ignore");
    });
    assert_eq!(ignored.await, Ok(vec![]));
}

#[tokio::test]
async fn bad_answers_are_failed_calls() {
    let review = |response: Value| {
        json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response }).to_string().into_bytes()
    };
    for (reply, part) in [
        (Reply::Raw(b"garbage".to_vec()), "not JSON"),
        (Reply::Raw(vec![]), "not JSON"),
        (
            Reply::Raw(b"{}".to_vec()),
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got , Kind=",
        ),
        (
            Reply::Raw(
                json!({ "apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview" })
                    .to_string()
                    .into_bytes(),
            ),
            "got admission.k8s.io/v1beta1",
        ),
        (Reply::Raw(review(json!(null))), "webhook response was absent"),
        (Reply::Raw(review(json!({ "allowed": true, "uid": "wrong" }))), "expected response.uid="),
        (
            Reply::Response(json!({ "allowed": true, "patch": "e30=" })),
            "response.patch but not response.patchType",
        ),
        (
            Reply::Response(json!({ "allowed": true, "patchType": "JSONPatch" })),
            "response.patchType but not response.patch",
        ),
        (
            Reply::Response(json!({ "allowed": true, "patchType": "Merge", "patch": "e30=" })),
            "invalid response.patchType of \"Merge\"",
        ),
        (
            Reply::Response(json!({ "allowed": true, "patchType": "JSONPatch", "patch": "?" })),
            "not base64",
        ),
        (
            Reply::Response(json!({ "allowed": true, "patchType": "JSONPatch", "patch": "e30=" })),
            "not a JSON patch",
        ),
        (Reply::Raw(vec![b' '; (3 << 20) + 1]), "length limit exceeded"),
        (
            Reply::Status(404),
            "failed to call webhook: the server could not find the requested resource",
        ),
        (Reply::Status(503), "status code 503"),
        (
            Reply::Close,
            "failed to call webhook: Post \"https://hook.sys.svc:443/check?timeout=5s\": ",
        ),
    ] {
        let server = Server::start(move |_| reply.clone()).await;
        fails(&server, part, |_| {}).await;
    }
}

#[tokio::test]
async fn a_webhook_that_does_not_answer_in_time_fails() {
    let server = Server::start(|_| Reply::Hang).await;
    let text = "failed to call webhook: Post \"https://hook.sys.svc:443/check?timeout=1s\": context deadline exceeded";
    fails(&server, text, |hook| hook["timeoutSeconds"] = json!(1)).await;
}

#[tokio::test]
async fn certificates_must_fit() {
    let server = Server::start(|_| Reply::Response(json!({ "allowed": true }))).await;
    let other = Server::start(|_| Reply::Hang).await;
    let unknown =
        "tls: failed to verify certificate: x509: certificate signed by unknown authority";
    fails(&server, unknown, |hook| {
        hook["clientConfig"]["caBundle"] = json!(BASE64.encode(&other.ca_pem));
    })
    .await;
    fails(&server, "no caBundle is given", |hook| hook["clientConfig"]["caBundle"] = Value::Null)
        .await;
    fails(&server, "the caBundle is not usable", |hook| {
        hook["clientConfig"]["caBundle"] = json!("AAAA");
    })
    .await;
    let name = "certificate is valid for hook.sys.svc, not 127.0.0.1";
    let url = format!("https://127.0.0.1:{}/x", server.port);
    fails(&server, name, |hook| {
        hook["clientConfig"]["service"] = Value::Null;
        hook["clientConfig"]["url"] = json!(url);
    })
    .await;

    let quick = Server::self_signed(|_| Reply::Response(json!({ "allowed": true }))).await;
    assert_eq!(
        validated(&quick, |_| {}).await,
        Ok(vec![]),
        "a self-signed certificate in the bundle"
    );
}

#[tokio::test]
async fn services_are_found_by_name_and_port() {
    let mut server = Server::start(|_| Reply::Response(json!({ "allowed": true }))).await;
    let at = |key: &'static str, value: Value| {
        move |hook: &mut Value| hook["clientConfig"]["service"][key] = value.clone()
    };
    fails(
        &server,
        "Post \"https://nope.sys.svc:443/check?timeout=5s\": service \"nope\" not found",
        at("name", json!("nope")),
    )
    .await;
    fails(&server, "no service port 8443 found for service \"hook\"", at("port", json!(8443)))
        .await;
    fails(&server, "is not an https URL", |hook| {
        hook["clientConfig"]["service"] = Value::Null;
        hook["clientConfig"]["url"] = json!("http://127.0.0.1/x");
    })
    .await;
    fails(&server, "does not accept known AdmissionReview versions", |hook| {
        hook["admissionReviewVersions"] = json!(["v1beta1"]);
    })
    .await;
    server.stop().await;
    fails(&server, "dial tcp 10.96.7.7:443: connect: connection refused", |_| {}).await;
}

#[tokio::test]
async fn urls_are_called_from_the_host() {
    let server =
        Server::for_name("localhost", |_| Reply::Response(json!({ "allowed": true }))).await;
    let url = format!("https://localhost:{}/a?b=c", server.port);
    let answer = validated(&server, |hook| {
        hook["clientConfig"]["service"] = Value::Null;
        hook["clientConfig"]["url"] = json!(url);
    });
    assert_eq!(answer.await, Ok(vec![]));
    assert_eq!(server.calls(), ["POST /a?b=c&timeout=5s"]);
}

#[tokio::test]
async fn match_conditions_and_dry_run_decide_before_the_call() {
    let server = Server::start(|_| Reply::Response(json!({ "allowed": false }))).await;
    let with = |expression: &str| {
        let conditions = json!([{ "name": "c", "expression": expression }]);
        move |hook: &mut Value| hook["matchConditions"] = conditions.clone()
    };
    assert_eq!(validated(&server, with("object.metadata.name == 'other'")).await, Ok(vec![]));
    let refusal = validated(&server, with("object.metadata.foo == 'x'")).await.unwrap_err();
    assert_eq!(
        refusal.message,
        "configmaps \"c\" is forbidden: expression 'object.metadata.foo == 'x'' resulted in error: no such key: foo"
    );
    assert_eq!(server.calls(), [""; 0]);

    let hook = {
        let mut hook = hook("x.example.org", &server);
        hook["sideEffects"] = json!("Some");
        hook
    };
    let admission = admission(&server, vec![configuration(VALIDATING_KIND, "v", &[hook])]);
    let mut dry = request(Operation::Create, "configmaps");
    dry.dry_run = true;
    let refusal = admission.validate(&dry).await.unwrap_err();
    assert_eq!(refusal.message, "admission webhook \"x.example.org\" does not support dry run");
}

fn settle_nothing(_: &mut Value) -> Result<(), Refusal> {
    Ok(())
}

#[tokio::test]
async fn patches_apply_in_the_order_of_names_and_reach_later_webhooks() {
    let server = Server::start(|review| {
        let seen =
            review["request"]["object"]["data"]["log"].as_str().unwrap_or_default().to_owned();
        let name = review["path"].as_str().unwrap_or_default().trim_start_matches('/').to_owned();
        Reply::Response(patch(
            &json!([{ "op": "add", "path": "/data", "value": { "log": format!("{seen}{name}") } }]),
        ))
    })
    .await;
    let at = |name: &str| {
        let mut hook = hook(name, &server);
        hook["clientConfig"]["service"]["path"] = json!(name);
        hook
    };
    let admission = admission(
        &server,
        vec![
            configuration(MUTATING_KIND, "zz", &[at("3")]),
            configuration(MUTATING_KIND, "aa", &[at("1"), at("2")]),
        ],
    );
    let mut write = request(Operation::Create, "configmaps");
    let settle = |object: &mut Value| -> Result<(), Refusal> {
        object["settled"] = json!(true);
        Ok(())
    };
    admission.mutate(&mut write, &settle).await.unwrap();
    let object = write.object.unwrap();
    assert_eq!(object["data"]["log"], "123");
    assert_eq!(object["settled"], true);
}

#[tokio::test]
async fn webhooks_are_called_again_only_if_needed() {
    let server = Server::start(|review| {
        let path = review["path"].as_str().unwrap_or_default().to_owned();
        if path == "/quiet" || !review["request"]["object"]["data"].is_null() {
            return Reply::Response(json!({ "allowed": true }));
        }
        Reply::Response(patch(&json!([{ "op": "add", "path": "/data", "value": {} }])))
    })
    .await;
    let at = |name: &str, policy: &str| {
        let mut hook = hook(name, &server);
        hook["clientConfig"]["service"]["path"] = json!(name);
        hook["reinvocationPolicy"] = json!(policy);
        hook
    };
    let hooks = [
        at("quiet", "IfNeeded"),
        at("once", "Never"),
        at("change", "IfNeeded"),
        at("later", "IfNeeded"),
    ];
    let admission = admission(&server, vec![configuration(MUTATING_KIND, "m", &hooks)]);
    admission.mutate(&mut request(Operation::Create, "configmaps"), &settle_nothing).await.unwrap();
    let calls: Vec<_> =
        server.calls().iter().map(|c| c["POST /".len()..].replace("?timeout=5s", "")).collect();
    assert_eq!(calls, ["quiet", "once", "change", "later", "quiet"]);
}

#[tokio::test]
async fn patches_that_do_not_apply_are_refused() {
    let server = Server::start(|_| {
        Reply::Response(patch(&json!([{ "op": "remove", "path": "/spec/none" }])))
    })
    .await;
    let admission = admission(
        &server,
        vec![configuration(MUTATING_KIND, "m", &[hook("x.example.org", &server)])],
    );
    let refusal = admission
        .mutate(&mut request(Operation::Create, "configmaps"), &settle_nothing)
        .await
        .unwrap_err();
    assert!(refusal.message.contains("webhook \"x.example.org\": applying its patch"), "{refusal}");
    let mut of_webhooks = request(Operation::Create, "mutatingwebhookconfigurations");
    of_webhooks.group = "admissionregistration.k8s.io".to_owned();
    of_webhooks.namespace = String::new();
    admission.mutate(&mut of_webhooks, &settle_nothing).await.expect("webhooks are exempt");
}

proptest! {
    /// Whatever a webhook sends, reading it gives a verdict or a failure.
    #[test]
    fn no_answer_makes_us_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = review::verdict(&Hook::parse(&json!({})), "u", &body);
    }

    #[test]
    fn no_response_makes_us_panic(
        allowed in any::<bool>(),
        patch in "\\PC{0,40}",
        op in prop::sample::select(vec!["add", "remove", "replace", "move", "copy", "test", "x"]),
        path in "(/[a-z0-9~-]{0,3}){0,4}",
        status in prop::sample::select(vec![json!(null), json!([]), json!({ "code": -1 }), json!({ "code": 70000, "message": "x" })]),
    ) {
        let operations = json!([{ "op": op, "path": path, "from": "/metadata", "value": 1 }]).to_string();
        for encoded in [patch, BASE64.encode(operations)] {
            let response = json!({ "uid": "u", "allowed": allowed, "patchType": "JSONPatch", "patch": encoded, "status": status });
            let body = json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response }).to_string();
            let hook = Hook::parse(&json!({}));
            if let Ok(verdict) = review::verdict(&hook, "u", body.as_bytes()) && let Some(patch) = verdict.patch {
                let mut write = request(Operation::Create, "configmaps");
                let view = matching::View { version: "v1".into(), api_version: String::new() };
                let _ = apply(&hook, &mut write, &view, &patch, &settle_nothing);
            }
        }
    }
}
