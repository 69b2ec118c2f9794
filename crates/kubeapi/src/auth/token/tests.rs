//! Tokens from request to check, and everything that must end them.
#![expect(clippy::needless_pass_by_value, reason = "cases read better as literals")]

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use parking_lot::Mutex;
use std::time::Duration;

use super::*;
use crate::auth::objects::memory::Memory;

const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

pub(crate) fn account(namespace: &str, name: &str, uid: &str) -> Value {
    object("ServiceAccount", namespace, name, uid)
}

fn object(kind: &str, namespace: &str, name: &str, uid: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": kind,
        "metadata": { "name": name, "namespace": namespace, "uid": uid } })
}

fn pod(uid: &str) -> Value {
    let mut pod = object("Pod", "a", "p", uid);
    pod["spec"] = json!({ "serviceAccountName": "b", "nodeName": "n1" });
    pod
}

pub(crate) fn tokens(memory: &Arc<Memory>) -> (tempfile::TempDir, Arc<Tokens>) {
    let directory = tempfile::tempdir().unwrap();
    let objects = Arc::clone(memory) as Arc<dyn Objects>;
    let tokens = Tokens::open(directory.path(), ISSUER, objects, Clock::system()).unwrap();
    (directory, Arc::new(tokens))
}

fn token(tokens: &Tokens, spec: Value) -> String {
    let answer = tokens.request("a", "b", json!({ "spec": spec })).unwrap();
    answer["status"]["token"].as_str().unwrap().to_owned()
}

fn bound_to_pod() -> Value {
    json!({ "boundObjectRef": { "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u2" } })
}

#[test]
fn a_token_names_its_account_pod_and_node_and_ends_with_them() {
    let memory = Memory::with([account("a", "b", "u1"), pod("u2")]);
    let (_directory, tokens) = tokens(&memory);
    let token = token(&tokens, bound_to_pod());
    let (user, audiences) = tokens.check(&token, &[]).unwrap();
    assert_eq!((user.name.as_str(), user.uid.as_str()), ("system:serviceaccount:a:b", "u1"));
    assert_eq!(audiences, [ISSUER]);
    assert_eq!(user.extra["authentication.kubernetes.io/pod-name"], ["p"]);
    assert_eq!(user.extra["authentication.kubernetes.io/pod-uid"], ["u2"]);
    assert_eq!(user.extra["authentication.kubernetes.io/node-name"], ["n1"]);

    let mut stopping = pod("u2");
    stopping["metadata"]["deletionTimestamp"] = json!(request::stamp(tokens.now() + 30));
    memory.put(stopping.clone());
    assert!(tokens.check(&token, &[]).is_ok(), "it may still say goodbye");
    stopping["metadata"]["deletionTimestamp"] = json!(request::stamp(tokens.now() - 61));
    memory.put(stopping);
    assert_eq!(tokens.check(&token, &[]), Err(Rejected::Invalidated));
    memory.put(pod("another"));
    assert_eq!(tokens.check(&token, &[]), Err(Rejected::Invalidated), "same name, other pod");
    memory.remove("pods", "p");
    assert_eq!(tokens.check(&token, &[]), Err(Rejected::Invalidated));
    memory.put(pod("u2"));
    memory.put(account("a", "b", "another"));
    assert_eq!(tokens.check(&token, &[]), Err(Rejected::Invalidated), "same name, other account");
}

#[test]
fn audiences_are_kept_apart() {
    let memory = Memory::with([account("a", "b", "u1")]);
    let (_directory, tokens) = tokens(&memory);
    let token = token(&tokens, json!({ "audiences": ["istio-ca", "x"] }));
    let ask = |audiences: &[&str]| {
        let audiences: Vec<_> = audiences.iter().map(|a| (*a).to_owned()).collect();
        tokens.check(&token, &audiences).map(|(_, common)| common)
    };
    assert_eq!(ask(&["istio-ca", "y"]).unwrap(), ["istio-ca"]);
    assert_eq!(
        ask(&["foo"]).unwrap_err().to_string(),
        "token audiences [\"istio-ca\" \"x\"] is invalid for the target audiences [\"foo\"]"
    );
    assert!(ask(&[]).is_err(), "it is not meant for the API server");
}

#[test]
fn tokens_end_and_survive_restarts() {
    let memory = Memory::with([account("a", "b", "u1")]);
    let directory = tempfile::tempdir().unwrap();
    let now = Arc::new(Mutex::new(Clock::system().now()));
    let open = || {
        let now = Arc::clone(&now);
        let objects = Arc::clone(&memory) as Arc<dyn Objects>;
        let clock = Clock::from_fn(move || *now.lock());
        Tokens::open(directory.path(), ISSUER, objects, clock).unwrap()
    };
    let token = token(&open(), json!({ "expirationSeconds": 600 }));
    assert!(open().check(&token, &[]).is_ok());
    *now.lock() += Duration::from_secs(601);
    assert_eq!(open().check(&token, &[]), Err(Rejected::Expired));
    *now.lock() -= Duration::from_secs(700);
    assert_eq!(open().check(&token, &[]), Err(Rejected::NotYet));
}

#[test]
fn the_published_keys_check_tokens_offline() {
    let memory = Memory::with([account("a", "b", "u1")]);
    let (_directory, tokens) = tokens(&memory);
    let token = token(&tokens, json!({ "audiences": ["istio-ca"] }));
    let set: jsonwebtoken::jwk::JwkSet = serde_json::from_value(tokens.key_set()).unwrap();
    let header = jsonwebtoken::decode_header(&token).unwrap();
    let key = set.find(&header.kid.unwrap()).unwrap();
    let mut validation = Validation::new(Algorithm::RS256);
    validation.set_audience(&["istio-ca"]);
    validation.set_issuer(&[tokens.discovery()["issuer"].as_str().unwrap()]);
    let key_for_check = jsonwebtoken::DecodingKey::from_jwk(key).unwrap();
    let claims = jsonwebtoken::decode::<Value>(&token, &key_for_check, &validation).unwrap().claims;
    assert_eq!(claims["sub"], "system:serviceaccount:a:b");
    assert_eq!(claims["kubernetes.io"]["serviceaccount"], json!({ "name": "b", "uid": "u1" }));
    let public = &tokens.key_set()["keys"][0];
    assert_eq!(
        (&public["kty"], &public["alg"], &public["use"]),
        (&json!("RSA"), &json!("RS256"), &json!("sig"))
    );
    assert_eq!(public["e"], "AQAB");
}

#[test]
fn tampered_tokens_are_refused() {
    let memory = Memory::with([account("a", "b", "u1"), account("kube-system", "root", "u9")]);
    let (_directory, ours) = tokens(&memory);
    let (_other_directory, theirs) = tokens(&memory);
    let token = token(&ours, json!({}));
    let parts: Vec<&str> = token.split('.').collect();
    let claims: Value = serde_json::from_slice(&BASE64.decode(parts[1]).unwrap()).unwrap();
    let mut forged = claims.clone();
    forged["sub"] = json!("system:serviceaccount:kube-system:root");
    let forged = BASE64.encode(forged.to_string());
    let none = BASE64.encode(r#"{"alg":"none"}"#);
    let hmac = jsonwebtoken::encode(
        &jsonwebtoken::Header::new(Algorithm::HS256),
        &claims,
        &jsonwebtoken::EncodingKey::from_secret(ours.key_set().to_string().as_bytes()),
    )
    .unwrap();
    let stranger = theirs.request("a", "b", json!({})).unwrap();
    for bad in [
        format!("{}.{forged}.{}", parts[0], parts[2]),
        format!("{none}.{}.", parts[1]),
        format!("{none}.{}.{}", parts[1], parts[2]),
        format!("{}.{}", parts[0], parts[1]),
        format!("{token}A"),
        hmac,
        stranger["status"]["token"].as_str().unwrap().to_owned(),
        String::new(),
        "a.b.c".to_owned(),
        "x".repeat(MAX_TOKEN + 1),
    ] {
        assert!(matches!(ours.check(&bad, &[]), Err(Rejected::Malformed(_))), "{bad}");
    }
}

#[test]
fn requests_are_refused_with_the_texts_of_kubernetes() {
    let memory = Memory::with([account("a", "b", "u1"), account("a", "c", "u3"), pod("u2")]);
    let (_directory, tokens) = tokens(&memory);
    let ask = |name: &str, spec: Value| {
        let refusal = tokens.request("a", name, json!({ "spec": spec })).unwrap_err();
        (refusal.code, refusal.message)
    };
    let pod_ref = |uid: &str, name: &str| json!({ "boundObjectRef": { "apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid } });
    for (name, spec, code, text) in [
        ("nope", json!({}), 404, "serviceaccounts \"nope\" not found"),
        (
            "b",
            json!({ "expirationSeconds": 60 }),
            422,
            "TokenRequest.authentication.k8s.io \"\" is \
          invalid: spec.expirationSeconds: Invalid value: 60: may not specify a duration less than \
          10 minutes",
        ),
        ("b", pod_ref("", "x"), 404, "pods \"x\" not found"),
        (
            "b",
            pod_ref("u9", "p"),
            409,
            "Operation cannot be fulfilled on pods \"p\": the UID in \
          the bound object reference (u9) does not match the UID in record. The object might have \
          been deleted and then recreated",
        ),
        (
            "c",
            pod_ref("u2", "p"),
            400,
            "cannot bind token for serviceaccount \"c\" to pod running \
          with different serviceaccount name.",
        ),
    ] {
        assert_eq!(ask(name, spec), (code, text.to_owned()));
    }
}

#[test]
fn secrets_of_the_old_kind_hold_a_token_until_they_go() {
    use base64::engine::general_purpose::STANDARD;
    let memory = Memory::with([account("a", "b", "u1")]);
    let (_directory, tokens) = tokens(&memory);
    let mut secret = object("Secret", "a", "s", "u5");
    secret["type"] = json!("kubernetes.io/service-account-token");
    assert_eq!(tokens.for_secret(&secret), None, "it names no account");
    secret["metadata"]["annotations"] = json!({ "kubernetes.io/service-account.name": "b" });
    let token = tokens.for_secret(&secret).unwrap();
    assert_eq!(tokens.check(&token, &[]), Err(Rejected::Invalidated), "not stored yet");
    secret["data"] = json!({ "token": STANDARD.encode(&token) });
    memory.put(secret);
    assert_eq!(tokens.check(&token, &[]).unwrap().0.name, "system:serviceaccount:a:b");
    memory.remove("secrets", "s");
    assert_eq!(tokens.check(&token, &[]), Err(Rejected::Invalidated));
}
