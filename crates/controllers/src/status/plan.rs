//! From findings and the status that is there to the patch that is needed. No IO, no clock.

use ironsail_api::{Code, Diagnostic, Severity};
use jiff::Timestamp;
use kube::api::DynamicObject;
use serde_json::{Value, json};

const CONDITION: &str = "Reconciled";
/// A status is for reading: nobody reads more.
const MOST_MESSAGES: usize = 32;
const LONGEST_TEXT: usize = 4096;

/// Whether the status says anything of ours.
pub(super) fn is_marked(object: &DynamicObject) -> bool {
    let status = &object.data["status"];
    status["validationMessages"].as_array().is_some_and(|all| !all.is_empty())
        || condition(status).is_some_and(|ours| ours["status"] != "True")
}

/// The merge patch that makes the status tell `diagnostics`; nothing when it does already, or when
/// there is nothing to tell and never was.
pub(super) fn patch(
    object: &DynamicObject,
    diagnostics: &[Diagnostic],
    now: Timestamp,
) -> Option<Value> {
    let status = &object.data["status"];
    let marked = is_marked(object) || condition(status).is_some();
    if diagnostics.is_empty() && !marked {
        return None;
    }
    let generation = object.metadata.generation.unwrap_or(0);
    let messages = messages(diagnostics);
    let ours = updated(condition(status), diagnostics, generation, now);
    let told = status["validationMessages"].as_array().cloned().unwrap_or_default();
    if condition(status) == Some(&ours) && told == messages {
        return None;
    }
    let others = status["conditions"].as_array().into_iter().flatten();
    let mut conditions: Vec<_> = others.filter(|one| one["type"] != CONDITION).cloned().collect();
    conditions.push(ours);
    // Null takes the field away.
    let messages = if messages.is_empty() { Value::Null } else { Value::Array(messages) };
    Some(json!({
        // Whoever wrote in between is not overwritten.
        "metadata": {"resourceVersion": object.metadata.resource_version},
        "status": {
            "conditions": conditions,
            "validationMessages": messages,
            "observedGeneration": generation,
        },
    }))
}

fn condition(status: &Value) -> Option<&Value> {
    status["conditions"].as_array()?.iter().find(|one| one["type"] == CONDITION)
}

/// Our condition; its time of transition changes only with its status.
fn updated(
    old: Option<&Value>,
    diagnostics: &[Diagnostic],
    generation: i64,
    now: Timestamp,
) -> Value {
    let bad = diagnostics.iter().any(Diagnostic::is_error);
    let (status, reason) = if bad { ("False", "Invalid") } else { ("True", "Accepted") };
    let since = old
        .filter(|old| old["status"] == status)
        .and_then(|old| old["lastTransitionTime"].as_str())
        .map_or_else(|| now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(), str::to_owned);
    json!({
        "type": CONDITION,
        "status": status,
        "reason": reason,
        "message": text(diagnostics),
        "observedGeneration": generation,
        "lastTransitionTime": since,
    })
}

fn text(diagnostics: &[Diagnostic]) -> String {
    let one = |diagnostic: &Diagnostic| match &diagnostic.field {
        Some(field) => format!("[{}] {field}: {}", diagnostic.code, diagnostic.message),
        None => format!("[{}] {}", diagnostic.code, diagnostic.message),
    };
    let mut text: String =
        diagnostics.iter().take(MOST_MESSAGES).map(one).collect::<Vec<_>>().join("; ");
    if text.len() > LONGEST_TEXT {
        text.truncate(text.floor_char_boundary(LONGEST_TEXT));
        text.push('…');
    }
    text
}

/// As Istio's analysis writes them: which finding and how bad; the words are in the condition.
fn messages(diagnostics: &[Diagnostic]) -> Vec<Value> {
    let mut sorted: Vec<_> = diagnostics.iter().map(|one| (one.code, one.severity)).collect();
    sorted.sort_by_key(|(code, severity)| (std::cmp::Reverse(*severity), *code));
    sorted.dedup();
    let message = |(code, severity): &(Code, Severity)| {
        let level = match severity {
            Severity::Info => "INFO",
            Severity::Warning => "WARNING",
            Severity::Error => "ERROR",
        };
        let mut message = json!({"type": {"name": name(*code), "code": code.0}, "level": level});
        if code.0.starts_with("IST") {
            let page = code.0.to_lowercase();
            let url = format!("https://istio.io/latest/docs/reference/config/analysis/{page}/");
            message["documentationUrl"] = url.into();
        }
        message
    };
    sorted.iter().take(MOST_MESSAGES).map(message).collect()
}

/// What people call a code.
fn name(code: Code) -> &'static str {
    match code {
        Code::INTERNAL => "InternalError",
        Code::DEPRECATED => "Deprecated",
        Code::REFERENCED_RESOURCE_NOT_FOUND => "ReferencedResourceNotFound",
        Code::SCHEMA => "SchemaValidationError",
        Code::UNKNOWN_FIELD => "UnknownField",
        Code::NOT_SUPPORTED => "NotSupported",
        Code::DOUBTFUL => "Doubtful",
        other => other.0,
    }
}

#[cfg(test)]
mod tests {
    use ironsail_api::{Kind, Meta};

    use super::*;

    fn object(status: &Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "networking.istio.io/v1", "kind": "VirtualService",
            "metadata": {"name": "v", "namespace": "n", "generation": 3, "resourceVersion": "7"},
            "status": status,
        }))
        .unwrap()
    }

    fn wrong(severity: Severity) -> Diagnostic {
        let meta = Meta::default();
        Diagnostic::new(Code::SCHEMA, severity, Kind::VirtualService, &meta, "no host")
            .at("spec.hosts")
    }

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    const EARLY: &str = "2026-01-01T00:00:00Z";
    const LATE: &str = "2026-01-02T00:00:00Z";

    fn after(object_before: &DynamicObject, patch: &Value) -> DynamicObject {
        let mut status = object_before.data["status"].clone();
        for (key, value) in patch["status"].as_object().unwrap() {
            if value.is_null() {
                status.as_object_mut().map(|map| map.remove(key));
            } else {
                status[key] = value.clone();
            }
        }
        object(&status)
    }

    #[test]
    fn an_object_without_findings_is_never_written() {
        assert_eq!(patch(&object(&Value::Null), &[], time(EARLY)), None);
        let other = json!({"conditions": [{"type": "Programmed", "status": "True"}]});
        assert_eq!(patch(&object(&other), &[], time(EARLY)), None);
    }

    #[test]
    fn findings_are_told_once_and_taken_back() {
        let before = object(&json!({"conditions": [{"type": "Programmed", "status": "True"}]}));
        let first = patch(&before, &[wrong(Severity::Error)], time(EARLY)).unwrap();
        let conditions = first["status"]["conditions"].as_array().unwrap();
        assert_eq!(conditions[0]["type"], "Programmed");
        assert_eq!(conditions[1]["status"], "False");
        assert_eq!(conditions[1]["message"], "[IST0106] spec.hosts: no host");
        assert_eq!(conditions[1]["observedGeneration"], 3);
        assert_eq!(conditions[1]["lastTransitionTime"], EARLY);
        assert_eq!(first["metadata"]["resourceVersion"], "7");
        let message = &first["status"]["validationMessages"][0];
        assert_eq!(
            (&message["type"]["code"], &message["level"]),
            (&"IST0106".into(), &"ERROR".into())
        );
        let told = after(&before, &first);
        assert!(is_marked(&told));
        assert_eq!(patch(&told, &[wrong(Severity::Error)], time(LATE)), None);
        let cured = after(&told, &patch(&told, &[], time(LATE)).unwrap());
        assert!(!is_marked(&cured));
        assert!(cured.data["status"].get("validationMessages").is_none());
        assert_eq!(cured.data["status"]["conditions"][1]["status"], "True");
        assert_eq!(cured.data["status"]["conditions"][1]["lastTransitionTime"], LATE);
        assert_eq!(patch(&cured, &[], time(LATE)), None);
    }

    #[test]
    fn a_warning_leaves_the_object_in_force_and_a_transition_keeps_its_time() {
        let before = object(&Value::Null);
        let first = patch(&before, &[wrong(Severity::Warning)], time(EARLY)).unwrap();
        assert_eq!(first["status"]["conditions"][0]["status"], "True");
        assert_eq!(first["status"]["validationMessages"][0]["level"], "WARNING");
        let told = after(&before, &first);
        let second = patch(&told, &[], time(LATE)).unwrap();
        assert_eq!(second["status"]["conditions"][0]["lastTransitionTime"], EARLY);
    }

    #[test]
    fn many_findings_are_cut() {
        let mut many = vec![wrong(Severity::Error); 200];
        many[0].message = "é".repeat(5000);
        let patch = patch(&object(&Value::Null), &many, time(EARLY)).unwrap();
        let text = patch["status"]["conditions"][0]["message"].as_str().unwrap().len();
        assert!(text <= LONGEST_TEXT + 4, "{text}");
        assert_eq!(patch["status"]["validationMessages"].as_array().unwrap().len(), 1);
    }
}
