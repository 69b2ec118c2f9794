//! Errors about one field of an object, with the reasons and texts that Kubernetes users know.
//!
//! They go out as `status.details.causes` of a 422 answer, and joined by [`aggregate`] as its text.

use std::fmt;

use serde_json::Value;

/// Why a field was refused. The names are those of Kubernetes' causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    Required,
    Invalid,
    NotSupported,
    Duplicate,
    Forbidden,
    NotFound,
    TooLong,
    TooMany,
    TypeInvalid,
    /// Refused by a rule about a whole object or list, which is too much to show.
    RuleInvalid,
    Internal,
}

impl Reason {
    /// The machine-readable word in `status.details.causes[].reason`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid | Self::RuleInvalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Forbidden => "FieldValueForbidden",
            Self::NotFound => "FieldValueNotFound",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::Internal => "InternalError",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid | Self::TypeInvalid | Self::RuleInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Duplicate => "Duplicate value",
            Self::Forbidden => "Forbidden",
            Self::NotFound => "Not found",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Internal => "Internal error",
        }
    }

    fn shows_value(self) -> bool {
        !matches!(
            self,
            Self::Required | Self::Forbidden | Self::TooLong | Self::RuleInvalid | Self::Internal
        )
    }
}

/// One refused field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// As in `spec.containers[0].name`; empty for the object itself.
    pub path: String,
    pub reason: Reason,
    /// The offending value, shown where the reason shows one.
    pub value: Value,
    /// What would be right; may be empty.
    pub detail: String,
}

impl FieldError {
    pub fn new(
        path: impl Into<String>,
        reason: Reason,
        value: Value,
        detail: impl Into<String>,
    ) -> Self {
        Self { path: path.into(), reason, value, detail: detail.into() }
    }

    pub fn required(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(path, Reason::Required, Value::Null, detail)
    }

    pub fn invalid(
        path: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(path, Reason::Invalid, value.into(), detail)
    }

    pub fn forbidden(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(path, Reason::Forbidden, Value::Null, detail)
    }

    pub fn duplicate(path: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(path, Reason::Duplicate, value.into(), "")
    }

    /// `supported` is listed in the text, quoted and in the given order.
    pub fn not_supported(
        path: impl Into<String>,
        value: impl Into<Value>,
        supported: &[&str],
    ) -> Self {
        let list: Vec<_> = supported.iter().map(|s| format!("{s:?}")).collect();
        let detail = format!("supported values: {}", list.join(", "));
        Self::new(path, Reason::NotSupported, value.into(), detail)
    }

    /// The text without the path, as in `status.details.causes[].message`.
    pub fn message(&self) -> String {
        let mut out = self.reason.text().to_owned();
        if self.reason.shows_value() {
            out.push_str(": ");
            out.push_str(&self.value.to_string());
        }
        if !self.detail.is_empty() {
            out.push_str(": ");
            out.push_str(&self.detail);
        }
        out
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            write!(f, "<nil>: {}", self.message())
        } else {
            write!(f, "{}: {}", self.path, self.message())
        }
    }
}

/// Several errors as one text, each once: `[a: Required value, b: …]`, or the bare text of one.
pub fn aggregate(errors: &[FieldError]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for error in errors {
        let text = error.to_string();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_of_kubernetes() {
        let name = FieldError::required("metadata.name", "name or generateName is required");
        let policy = FieldError::not_supported("spec.restartPolicy", "Nope", &["Always", "Never"]);
        assert_eq!(
            aggregate(&[name.clone(), policy, name]),
            "[metadata.name: Required value: name or generateName is required, \
             spec.restartPolicy: Unsupported value: \"Nope\": supported values: \"Always\", \"Never\"]"
        );
    }
}
