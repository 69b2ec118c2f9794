//! What the API server asks and is answered: `AdmissionReview` with a pod in, with a patch out.
//!
//! Every body gets an answer that says what was wrong with it; none is an error of the server.

use std::collections::BTreeMap;

use base64::Engine;
use serde_json::{Value, json};

use crate::annotation;
use crate::diff::json_patch_between;
use crate::injector::{Injector, Outcome, Subject};
use crate::object::{annotations, section, text};
use crate::owner::Owner;

const V1: &str = "admission.k8s.io/v1";
const V1BETA1: &str = "admission.k8s.io/v1beta1";

/// `path` is that of the webhook: `/inject/cluster/NAME/net/NAME` says where the pod is.
pub fn review(injector: &Injector, path: &str, body: &[u8]) -> Vec<u8> {
    let (api_version, mut response) = match serde_json::from_slice::<Value>(body) {
        Ok(review) => answer(injector, path, &review),
        Err(error) => (V1, refused(&format!("could not decode the review: {error}"))),
    };
    let response_of = json!({ "apiVersion": api_version, "kind": "AdmissionReview",
                              "response": response.take() });
    serde_json::to_vec(&response_of).expect("JSON values are JSON")
}

fn answer(injector: &Injector, path: &str, review: &Value) -> (&'static str, Value) {
    let api_version = match text(review, &["apiVersion"]) {
        V1 => V1,
        V1BETA1 => V1BETA1,
        other => return (V1, refused(&format!("{other:?} is no version of AdmissionReview"))),
    };
    let request = &review["request"];
    let mut response = if request.is_object() {
        respond(injector, path, request)
    } else {
        refused("the review has no request")
    };
    response["uid"] = text(request, &["uid"]).into();
    (api_version, response)
}

fn respond(injector: &Injector, path: &str, request: &Value) -> Value {
    let pod = &request["object"];
    let kind = text(request, &["kind", "kind"]);
    // Deletions have no object; other kinds are not ours to change.
    if pod.is_null() || (!kind.is_empty() && kind != "Pod") {
        return json!({ "allowed": true });
    }
    let mut pod = pod.clone();
    if !pod.is_object() {
        return refused("the object of the request is no pod");
    }
    let mut seen = pod.clone();
    // Large, and nothing that templates should see.
    section(&mut seen, &["metadata"]).remove("managedFields");
    let namespace = match text(&pod, &["metadata", "namespace"]) {
        "" => text(request, &["namespace"]).to_owned(),
        own => own.to_owned(),
    };
    section(&mut seen, &["metadata"]).insert("namespace".to_owned(), namespace.as_str().into());
    let subject = Subject {
        owner: Owner::of_pod(&seen),
        pod: &seen,
        namespace: &namespace,
        env: env_of(path),
    };
    match injector.inject(&subject) {
        Err(error) => refused(&error.to_string()),
        Ok(Outcome::Skipped(_)) => json!({ "allowed": true }),
        Ok(Outcome::Injected(injected)) => {
            section(&mut pod, &["metadata"]).remove("managedFields");
            section(&mut pod, &["metadata"])
                .insert("namespace".to_owned(), namespace.as_str().into());
            let patch = json_patch_between(&pod, &injected).to_string();
            let patch = base64::engine::general_purpose::STANDARD.encode(patch);
            let mut response = json!({ "allowed": true, "patchType": "JSONPatch", "patch": patch });
            let doubts = annotation::doubts(&annotations(&seen));
            if !doubts.is_empty() {
                response["warnings"] = doubts.into();
            }
            response
        }
    }
}

fn refused(message: &str) -> Value {
    json!({ "allowed": false, "status": { "message": message } })
}

/// `/inject/key/value/…`: `cluster` and `net` have short names; `--slash--` stands for a slash.
fn env_of(path: &str) -> BTreeMap<String, String> {
    let rest = path.trim_end_matches('/').splitn(3, '/').nth(2).unwrap_or_default();
    let mut env = BTreeMap::new();
    let mut add = |key: &str, value: &str| {
        let name = match key {
            "cluster" => "ISTIO_META_CLUSTER_ID".to_owned(),
            "net" => "ISTIO_META_NETWORK".to_owned(),
            other => other.to_uppercase(),
        };
        if !name.is_empty() {
            env.insert(name, value.replace("--slash--", "/"));
        }
    };
    if let Some(pairs) = rest.strip_prefix(":ENV:") {
        for (key, value) in pairs.split(":ENV:").filter_map(|pair| pair.split_once('=')) {
            add(key, value);
        }
        return env;
    }
    let mut parts = rest.split('/').filter(|_| !rest.is_empty());
    while let (Some(key), Some(value)) = (parts.next(), parts.next()) {
        add(key, value);
    }
    env
}
