//! What is wrong with a definition beyond its outline: the schemas of its versions, the paths of its
//! columns and fields, and what is not supported here.

use ironsail_schema::{FieldError, Schema};
use serde_json::Value;

use super::jsonpath::Path;

/// Groups of Kubernetes itself need an approval in the definition's annotations.
const PROTECTED: [&str; 2] = ["k8s.io", "kubernetes.io"];
const APPROVED: &str = "api-approved.kubernetes.io";

/// Checks a definition that is to be stored. What did not change is not compiled again.
pub(crate) fn check(definition: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let spec = &definition["spec"];
    if old.is_some_and(|old| old["spec"] == *spec) {
        return Vec::new();
    }
    let mut errors = Vec::new();
    if spec["conversion"]["strategy"] == "Webhook" {
        errors.push(FieldError::invalid(
            "spec.conversion.strategy",
            "Webhook",
            "conversion webhooks are not supported; all versions must work with strategy None",
        ));
    }
    if old.is_none() {
        errors.extend(approval(definition));
    }
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let alike = versions.windows(2).all(|pair| pair[0]["schema"] == pair[1]["schema"]);
    for (at, version) in versions.iter().enumerate() {
        let raw = &version["schema"]["openAPIV3Schema"];
        let before = versions[..at].iter().any(|other| other["schema"] == version["schema"]);
        if raw.is_object() && !before {
            // Kubernetes tells of a schema that all versions share by its old place.
            let path = match alike {
                true => "spec.validation.openAPIV3Schema".to_owned(),
                false => format!("spec.versions[{at}].schema.openAPIV3Schema"),
            };
            match Schema::parse(raw, &path) {
                Ok(schema) => errors.extend(selectable(version, &schema, at)),
                Err(wrong) => errors.extend(wrong),
            }
        }
        errors.extend(columns(version, at));
    }
    errors
}

fn approval(definition: &Value) -> Option<FieldError> {
    let group = definition["spec"]["group"].as_str().unwrap_or_default();
    let inside = |root: &str| group == root || group.ends_with(&format!(".{root}"));
    if !PROTECTED.iter().any(|root| inside(root)) {
        return None;
    }
    let note = definition["metadata"]["annotations"][APPROVED].as_str().unwrap_or_default();
    let path = format!("metadata.annotations[{APPROVED}]");
    if note.is_empty() {
        let detail = format!(
            "protected groups must have approval annotation {APPROVED:?}, see \
             https://github.com/kubernetes/enhancements/pull/1111"
        );
        return Some(FieldError::required(path, detail));
    }
    let good = note.starts_with("unapproved")
        || note.starts_with("http://")
        || note.starts_with("https://");
    let detail = format!(
        "protected groups must have approval annotation {APPROVED:?} with either a URL or a reason \
         starting with \"unapproved\", see https://github.com/kubernetes/enhancements/pull/1111"
    );
    (!good).then(|| FieldError::invalid(path, note, detail))
}

/// The outline of columns is checked with the definition; here it is whether paths are understood.
fn columns(version: &Value, at: usize) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, column) in
        version["additionalPrinterColumns"].as_array().into_iter().flatten().enumerate()
    {
        let text = column["jsonPath"].as_str().unwrap_or_default();
        if !text.starts_with('.') {
            continue;
        }
        if let Err(wrong) = Path::parse(text) {
            let path = format!("spec.versions[{at}].additionalPrinterColumns[{index}].jsonPath");
            errors.push(FieldError::invalid(path, text, wrong));
        }
    }
    errors
}

fn selectable(version: &Value, schema: &Schema, at: usize) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, field) in version["selectableFields"].as_array().into_iter().flatten().enumerate() {
        let path = format!("spec.versions[{at}].selectableFields[{index}].jsonPath");
        let text = field["jsonPath"].as_str().unwrap_or_default();
        if text.is_empty() {
            errors.push(FieldError::required(path, ""));
            continue;
        }
        let parsed = Path::parse(text);
        let members = parsed.as_ref().ok().and_then(Path::members);
        let Some(members) = members else {
            errors.push(FieldError::invalid(
                path,
                text,
                "is an invalid path: only member names are supported",
            ));
            continue;
        };
        let found = members.iter().try_fold(schema, |schema, name| schema.properties.get(name));
        if members.first().is_some_and(|first| first == "metadata") {
            errors.push(FieldError::invalid(path, text, "must not point to fields in metadata"));
        } else if let Some(found) = found {
            use ironsail_schema::Type::{Boolean, Integer, String};
            if !matches!(found.kind, Some(String | Boolean | Integer)) {
                let detail = "must point to a field of type string, boolean or integer. Enum string \
                              fields and strings with formats are allowed.";
                errors.push(FieldError::invalid(path, text, detail));
            }
        } else {
            let detail = "is an invalid path: does not refer to a valid field";
            errors.push(FieldError::invalid(path, text, detail));
        }
    }
    errors
}
