//! Reading and changing Kubernetes objects as JSON, whatever shape they really have.
//!
//! A wrong type on the way reads as nothing and is replaced when written.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// The value at the path; null when there is none.
pub(crate) fn at<'a>(mut value: &'a Value, path: &[&str]) -> &'a Value {
    for key in path {
        value = &value[*key];
    }
    value
}

pub(crate) fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    at(value, path).as_str().unwrap_or_default()
}

/// A boolean, as it is or as text.
pub(crate) fn flag(value: &Value) -> bool {
    value.as_bool().unwrap_or_else(|| value.as_str() == Some("true"))
}

pub(crate) fn items<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    at(value, path).as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The object at the path, made where there is none.
pub(crate) fn section<'a>(mut value: &'a mut Value, path: &[&str]) -> &'a mut Map<String, Value> {
    for key in path {
        value = object(value).entry(*key).or_insert(Value::Null);
    }
    object(value)
}

fn object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("made an object just above")
}

/// The list at the path if there is one.
pub(crate) fn list_mut<'a>(value: &'a mut Value, path: &[&str]) -> Option<&'a mut Vec<Value>> {
    let mut value = value;
    for key in path {
        value = value.get_mut(*key)?;
    }
    value.as_array_mut()
}

/// Labels or annotations: entries that are not text do not count.
pub(crate) fn strings(value: &Value) -> BTreeMap<String, String> {
    let entries = value.as_object().into_iter().flatten();
    entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

pub(crate) fn annotations(pod: &Value) -> BTreeMap<String, String> {
    strings(at(pod, &["metadata", "annotations"]))
}

pub(crate) fn labels(pod: &Value) -> BTreeMap<String, String> {
    strings(at(pod, &["metadata", "labels"]))
}

/// Go's `strconv.ParseBool`.
pub(crate) fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}
