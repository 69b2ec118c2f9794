//! What custom resources share with built-in kinds: the shape and the rules of `metadata`.

use ironsail_schema::FieldError;
use serde_json::Value;

use super::{NameRule, age, decode, meta};

/// Checks the types of `metadata`, drops unknown fields and tells their paths. The error is the text
/// after `cannot be handled as a …: `.
pub(crate) fn decode_metadata(metadata: Value) -> Result<(Value, Vec<String>), String> {
    decode::metadata(metadata)
}

/// `metadata` of a new object.
pub(crate) fn validate_metadata(object: &Value, namespaced: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let rule = meta::Finalizers::Any;
    meta::validate(NameRule::Subdomain, namespaced, rule, object, &mut errors);
    errors
}

/// `metadata` of a changed object.
pub(crate) fn validate_metadata_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    meta::validate_update(new, old, meta::Finalizers::Any, &mut errors);
    errors
}

/// How long ago a timestamp is, as `kubectl` shows it.
pub(crate) fn ago(timestamp: &Value, now: std::time::SystemTime) -> Option<String> {
    age::time(Some(timestamp)).map(|then| age::ago(then, now))
}
