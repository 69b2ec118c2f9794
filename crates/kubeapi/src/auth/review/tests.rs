//! Reviews as clients send them.

use super::*;
use crate::auth::builtin;
use crate::auth::objects::memory::Memory;
use crate::auth::token::tests::{account, tokens};

fn reviews() -> (tempfile::TempDir, Arc<Tokens>, Reviews) {
    let memory = Memory::with(builtin::objects());
    memory.put(account("a", "b", "u1"));
    memory.put(json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": { "name": "viewers", "namespace": "a" },
        "roleRef": { "kind": "ClusterRole", "name": "view" },
        "subjects": [{ "kind": "ServiceAccount", "name": "b", "namespace": "a" }] }));
    let (directory, tokens) = tokens(&memory);
    let authorizer = Arc::new(Authorizer::new(memory));
    (directory, Arc::clone(&tokens), Reviews::new(tokens, authorizer, Clock::system()))
}

#[test]
fn token_reviews_tell_the_user_or_why_not() {
    let (_directory, tokens, reviews) = reviews();
    let request = json!({ "spec": { "audiences": ["istio-ca"] } });
    let token = tokens.request("a", "b", request).unwrap()["status"]["token"].clone();
    let ask = |spec: Value| {
        let body = json!({ "kind": "TokenReview", "spec": spec });
        reviews.answer(&User::admin(), "tokenreviews", "", body).map(|mut b| b["status"].take())
    };
    let yes = ask(json!({ "token": token, "audiences": ["istio-ca"] })).unwrap();
    assert_eq!(yes["authenticated"], true);
    assert_eq!(yes["audiences"], json!(["istio-ca"]));
    assert_eq!(yes["user"]["username"], "system:serviceaccount:a:b");
    let no = ask(json!({ "token": token })).unwrap();
    assert_eq!(no["authenticated"], Value::Null);
    assert_eq!(
        no["error"],
        "[invalid bearer token, token audiences [\"istio-ca\"] is invalid for the target audiences \
         [\"https://kubernetes.default.svc.cluster.local\"]]"
    );
    assert_eq!(ask(json!({})).unwrap_err().code, 400);
}

#[test]
fn access_reviews_answer_for_others_and_oneself() {
    let (_directory, _tokens, reviews) = reviews();
    let me = User::service_account("a", "b", "u1");
    let ask = |resource: &str, namespace: &str, spec: Value| {
        let body = json!({ "spec": spec });
        reviews.answer(&me, resource, namespace, body).map(|mut b| b["status"].take())
    };
    let pods = json!({ "verb": "list", "resource": "pods", "namespace": "a" });
    let own = ask("selfsubjectaccessreviews", "", json!({ "resourceAttributes": pods })).unwrap();
    assert_eq!(
        own,
        json!({ "allowed": true, "reason": "RBAC: allowed by RoleBinding \"viewers/a\" of \
            ClusterRole \"view\" to ServiceAccount \"b/a\"" })
    );
    let other = json!({ "user": "bob", "resourceAttributes": pods });
    let no = ask("subjectaccessreviews", "", other.clone()).unwrap();
    assert_eq!(no, json!({ "allowed": false }));
    assert_eq!(ask("localsubjectaccessreviews", "b", other).unwrap_err().code, 422);
    let path = json!({ "groups": ["system:masters"],
        "nonResourceAttributes": { "path": "/metrics", "verb": "get" } });
    assert_eq!(ask("subjectaccessreviews", "", path).unwrap(), json!({ "allowed": true }));
    let neither = ask("subjectaccessreviews", "", json!({ "user": "x" })).unwrap_err();
    assert!(neither.message.contains("exactly one of nonResourceAttributes"), "{neither}");
}

#[test]
fn one_can_ask_for_all_rules_and_for_oneself() {
    let (_directory, _tokens, reviews) = reviews();
    let me = User::service_account("a", "b", "u1");
    let body = json!({ "spec": { "namespace": "a" } });
    let status = reviews.answer(&me, "selfsubjectrulesreviews", "", body).unwrap();
    let rules = status["status"]["resourceRules"].as_array().unwrap();
    assert!(rules.iter().any(|r| r["resources"].as_array().unwrap().contains(&json!("pods/log"))));
    let paths = status["status"]["nonResourceRules"].to_string();
    assert!(paths.contains("/healthz"), "{paths}");
    let none = reviews.answer(&me, "selfsubjectrulesreviews", "", json!({ "spec": {} }));
    assert_eq!(none.unwrap_err().message, "no namespace on request");
    let me_again = reviews.answer(&me, "selfsubjectreviews", "", json!({})).unwrap();
    assert_eq!(me_again["status"]["userInfo"]["username"], "system:serviceaccount:a:b");
}
