//! A refused request as a value: what a Kubernetes `Status` says, free of HTTP.

use ironsail_schema::field::{self, FieldError};
use serde_json::{Value, json};

/// Why a request was refused. The HTTP side answers with [`Refusal::status`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    pub code: u16,
    /// A word of `metav1.StatusReason`; may be empty where a webhook gave none.
    pub reason: String,
    pub message: String,
    /// `status.details`: name, group, kind, causes.
    pub details: Option<Value>,
}

impl Refusal {
    pub fn new(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Self { code, reason: reason.to_owned(), message: message.into(), details: None }
    }

    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// `pods "a" is forbidden: why`; `why` may be empty.
    pub fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let subject = qualified(group, resource);
        let message = match (name.is_empty(), why.is_empty()) {
            (true, _) => format!("{subject} is forbidden: {why}"),
            (false, true) => format!("{subject} {name:?} is forbidden"),
            (false, false) => format!("{subject} {name:?} is forbidden: {why}"),
        };
        Self::new(403, "Forbidden", message).about(group, resource, name)
    }

    pub fn not_found(group: &str, resource: &str, name: &str) -> Self {
        let message = format!("{} {name:?} not found", qualified(group, resource));
        Self::new(404, "NotFound", message).about(group, resource, name)
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub fn internal(message: impl Into<String>) -> Self {
        let message = message.into();
        let details = json!({ "causes": [{ "message": message }] });
        Self {
            details: Some(details),
            ..Self::new(500, "InternalError", format!("Internal error occurred: {message}"))
        }
    }

    /// 422 with one cause per field.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let message =
            format!("{} {name:?} is invalid: {}", qualified(group, kind), field::aggregate(errors));
        let mut out = Self::new(422, "Invalid", message).about(group, kind, name);
        let cause = |e: &FieldError| json!({ "reason": e.reason.as_str(), "message": e.message(), "field": e.path });
        if let Some(details) = &mut out.details {
            details["causes"] = errors.iter().map(cause).collect();
        }
        out
    }

    /// Kubernetes names the resource in `details.kind`.
    pub(crate) fn about(mut self, group: &str, resource: &str, name: &str) -> Self {
        let mut details = json!({ "kind": resource });
        if !name.is_empty() {
            details["name"] = json!(name);
        }
        if !group.is_empty() {
            details["group"] = json!(group);
        }
        self.details = Some(details);
        self
    }

    /// The `Status` object to answer with.
    pub fn status(&self) -> Value {
        let mut out = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if !self.reason.is_empty() {
            out["reason"] = json!(self.reason);
        }
        if let Some(details) = &self.details {
            out["details"] = details.clone();
        }
        out
    }
}

/// `deployments.apps`, or `pods` in the core group.
pub(crate) fn qualified(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}
