//! What went wrong, as the `Status` object that every Kubernetes client understands.
//!
//! Made by verbs with the reasons, codes and texts users know; turned into an answer by the server.

use ironsail_schema::FieldError;
use ironsail_schema::field::aggregate;
use serde_json::{Map, Value, json};

use crate::registry::Names;

/// A refused request.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Status {
    pub code: u16,
    /// Empty where Kubernetes gives none.
    pub reason: String,
    pub message: String,
    pub details: Option<Value>,
    /// Answered as a `continue` token in the metadata of an expired list.
    pub next: Option<String>,
}

impl Status {
    pub fn new(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Self { code, reason: reason.to_owned(), message: message.into(), details: None, next: None }
    }

    fn about(mut self, group: &str, kind: &str, name: &str) -> Self {
        let mut details = Map::new();
        for (field, text) in [("name", name), ("group", group), ("kind", kind)] {
            if !text.is_empty() {
                details.insert(field.to_owned(), text.into());
            }
        }
        self.details = Some(details.into());
        self
    }

    fn cause(mut self, reason: &str, message: &str, field: &str) -> Self {
        let mut cause = json!({"reason": reason, "message": message});
        if !field.is_empty() {
            cause["field"] = field.into();
        }
        let details = self.details.get_or_insert_with(|| json!({}));
        match details.get_mut("causes").and_then(Value::as_array_mut) {
            Some(causes) => causes.push(cause),
            None => details["causes"] = json!([cause]),
        }
        self
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub fn internal(message: impl Into<String>) -> Self {
        let message = message.into();
        let mut status =
            Self::new(500, "InternalError", format!("Internal error occurred: {message}"));
        status.details = Some(json!({"causes": [{"message": message}]}));
        status
    }

    pub fn not_found(names: &Names, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} {name:?} not found", names.qualified())).about(
            &names.group,
            &names.plural,
            name,
        )
    }

    pub fn namespace_not_found(namespace: &str) -> Self {
        Self::new(404, "NotFound", format!("namespaces {namespace:?} not found")).about(
            "",
            "namespaces",
            namespace,
        )
    }

    /// A path under `/api` or `/apis` for which no resource is served.
    pub fn unknown_resource() -> Self {
        let message = "the server could not find the requested resource";
        Self { details: Some(json!({})), ..Self::new(404, "NotFound", message) }
    }

    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self { details: Some(json!({})), ..Self::new(405, "MethodNotAllowed", message) }
    }

    pub fn already_exists(names: &Names, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{} {name:?} already exists", names.qualified()))
            .about(&names.group, &names.plural, name)
    }

    /// A conflict with its own text.
    pub fn conflict(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let subject = qualified(group, resource);
        let message = format!("Operation cannot be fulfilled on {subject} {name:?}: {why}");
        Self::new(409, "Conflict", message).about(group, resource, name)
    }

    /// The object is newer than the one the client changed.
    pub fn modified(names: &Names, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version \
                   and try again";
        Self::conflict(&names.group, &names.plural, name, why)
    }

    pub fn forbidden(names: &Names, name: &str, why: &str) -> Self {
        let message = format!("{} {name:?} is forbidden: {why}", names.qualified());
        Self::new(403, "Forbidden", message).about(&names.group, &names.plural, name)
    }

    pub fn namespace_terminating(names: &Names, name: &str, namespace: &str) -> Self {
        let why = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        let cause = format!("namespace {namespace} is being terminated");
        Self::forbidden(names, name, &why).cause(
            "NamespaceTerminating",
            &cause,
            "metadata.namespace",
        )
    }

    /// `Kind.group "name" is invalid: …` with one cause per field.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let subject = qualified(group, kind);
        let message = format!("{subject} {name:?} is invalid: {}", aggregate(errors));
        let status = Self::new(422, "Invalid", message).about(group, kind, name);
        errors.iter().fold(status, |status, error| {
            // An error about no field in particular is told as Go prints an absent path.
            let path = if error.path.is_empty() { "<nil>" } else { error.path.as_str() };
            status.cause(error.reason.as_str(), &error.message(), path)
        })
    }

    /// Bad query parameters: `ListOptions.meta.k8s.io "" is invalid: …`.
    pub fn invalid_options(kind: &str, errors: &[FieldError]) -> Self {
        Self::invalid("meta.k8s.io", kind, "", errors)
    }

    /// The wanted revision is no longer kept.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// The wanted revision does not exist yet.
    pub fn too_large_revision(wanted: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
        let mut status = Self::new(504, "Timeout", message).cause(
            "ResourceVersionTooLarge",
            "Too large resource version",
            "",
        );
        if let Some(details) = &mut status.details {
            details["retryAfterSeconds"] = 1.into();
        }
        status
    }

    pub fn too_large_body(limit: usize) -> Self {
        let message = format!("Request entity too large: limit is {limit}");
        Self::new(413, "RequestEntityTooLarge", message)
    }

    pub fn unsupported_media_type(accepted: &str) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: \
             {accepted}"
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    pub fn not_acceptable(accepted: &str) -> Self {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {accepted}");
        Self { details: Some(json!({})), ..Self::new(406, "NotAcceptable", message) }
    }

    /// The `Status` object.
    pub fn to_json(&self) -> Value {
        let mut out = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if !self.reason.is_empty() {
            out["reason"] = self.reason.as_str().into();
        }
        if let Some(details) = &self.details {
            out["details"] = details.clone();
        }
        if let Some(next) = &self.next {
            out["metadata"]["continue"] = next.as_str().into();
        }
        out
    }
}

/// The `Status` of a deletion that is done.
pub(crate) fn deleted(names: &Names, name: &str, uid: &str) -> Value {
    let mut details = json!({"name": name, "kind": &*names.plural, "uid": uid});
    if !names.group.is_empty() {
        details["group"] = (*names.group).into();
    }
    success(200, Some(details))
}

pub(crate) fn success(code: u16, details: Option<Value>) -> Value {
    let mut out =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"});
    match details {
        Some(details) => out["details"] = details,
        None => out["code"] = code.into(),
    }
    out
}

/// `deployments.apps`, or `pods` in the core group.
pub(crate) fn qualified(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

impl From<crate::auth::Refusal> for Status {
    fn from(refusal: crate::auth::Refusal) -> Self {
        Self {
            code: refusal.code,
            reason: refusal.reason,
            message: refusal.message,
            details: refusal.details,
            next: None,
        }
    }
}
