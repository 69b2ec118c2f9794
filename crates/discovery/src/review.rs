//! What the API server is told about an object that somebody writes: taken, taken with warnings, or
//! refused with every reason.

use ironsail_api::{Diagnostic, Object, Severity, decode_any};
use ironsail_model::Snapshot;
use serde_json::{Value, json};

use crate::diagnostic::judge as judge_object;

/// Most warnings that the API server passes on.
const MAX_WARNINGS: usize = 20;

/// `AdmissionReview` in, `AdmissionReview` out. What an object clashes with in the mesh as it is, is
/// worth a warning: the other one may be about to go.
pub fn review(body: &[u8], mesh: Option<&Snapshot>) -> Vec<u8> {
    let review: Value = serde_json::from_slice(body).unwrap_or_default();
    let version = review["apiVersion"].as_str().unwrap_or("admission.k8s.io/v1");
    let mut response = judge(&review["request"], mesh);
    response["uid"] = review["request"]["uid"].clone();
    let answer = json!({"apiVersion": version, "kind": "AdmissionReview", "response": response});
    serde_json::to_vec(&answer).expect("JSON values are JSON")
}

fn judge(request: &Value, mesh: Option<&Snapshot>) -> Value {
    if !request.is_object() {
        return refused("the review has no request", &[]);
    }
    let object = &request["object"];
    // Nothing is left to say about what is deleted.
    if request["operation"] == "DELETE" || object.is_null() {
        return json!({"allowed": true});
    }
    let Some(decoded) = decode_any(object) else {
        let (version, kind) = (&object["apiVersion"], &object["kind"]);
        return refused(&format!("{version} {kind} is of no kind that is validated here"), &[]);
    };
    let mut found = decoded.diagnostics;
    if let Ok(object) = &decoded.object {
        found.extend(judge_object(object));
        if let (Object::VirtualService(route), Some(mesh)) = (object, mesh) {
            found.extend(mesh.clashes_of(route));
        }
    }
    found.sort();
    found.dedup();
    let (errors, others): (Vec<_>, Vec<_>) = found.into_iter().partition(Diagnostic::is_error);
    if errors.is_empty() {
        return json!({"allowed": true, "warnings": warnings(&others)});
    }
    let reasons: Vec<String> = errors.iter().map(text).collect();
    refused(&format!("configuration is invalid: {}", reasons.join("; ")), &others)
}

fn refused(message: &str, others: &[Diagnostic]) -> Value {
    json!({"allowed": false, "warnings": warnings(others),
        "status": {"code": 400, "reason": "BadRequest", "message": message}})
}

fn warnings(found: &[Diagnostic]) -> Vec<String> {
    let worth = found.iter().filter(|d| d.severity == Severity::Warning);
    worth.take(MAX_WARNINGS).map(text).collect()
}

/// The object is known to who asks.
fn text(diagnostic: &Diagnostic) -> String {
    match &diagnostic.field {
        Some(field) => format!("{field}: {} [{}]", diagnostic.message, diagnostic.code),
        None => format!("{} [{}]", diagnostic.message, diagnostic.code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(operation: &str, object: &Value) -> Value {
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {"uid": "7", "operation": operation, "object": object}});
        let answer: Value =
            serde_json::from_slice(&super::review(review.to_string().as_bytes(), None)).unwrap();
        assert_eq!(answer["response"]["uid"], "7");
        answer["response"].clone()
    }

    fn route(http: &Value) -> Value {
        json!({"apiVersion": "networking.istio.io/v1", "kind": "VirtualService",
            "metadata": {"name": "a", "namespace": "b"}, "spec": {"hosts": ["x"], "http": [http]}})
    }

    #[test]
    fn a_good_object_is_taken() {
        let good = route(&json!({"route": [{"destination": {"host": "x"}}]}));
        assert_eq!(ask("CREATE", &good)["allowed"], true);
    }

    #[test]
    fn a_bad_regex_is_refused_with_its_place() {
        let bad = route(
            &json!({"match": [{"uri": {"regex": "("}}], "route": [{"destination": {"host": "x"}}]}),
        );
        let answer = ask("UPDATE", &bad);
        assert_eq!(answer["allowed"], false, "{answer}");
        let message = answer["status"]["message"].as_str().unwrap();
        assert!(message.contains("http[0].match[0]"), "{message}");
    }

    #[test]
    fn a_patch_that_is_no_object_of_envoy_is_refused_with_its_place() {
        let filter = json!({"apiVersion": "networking.istio.io/v1alpha3", "kind": "EnvoyFilter",
            "metadata": {"name": "a", "namespace": "b"}, "spec": {"configPatches": [{
                "applyTo": "CLUSTER", "patch": {"operation": "ADD",
                    "value": {"name": "c", "conect_timeout": "1s"}}}]}});
        let answer = ask("CREATE", &filter);
        let message = answer["status"]["message"].as_str().unwrap();
        assert!(message.contains("configPatches[0].patch.value"), "{message}");
        assert!(message.contains("conect_timeout"), "{message}");
    }

    #[test]
    fn what_is_deleted_may_be_broken() {
        assert_eq!(ask("DELETE", &Value::Null)["allowed"], true);
    }

    #[test]
    fn what_is_no_review_is_refused() {
        let answer: Value = serde_json::from_slice(&review(b"nonsense", None)).unwrap();
        assert_eq!(answer["response"]["allowed"], false);
    }
}
