//! A place in an object: its value and its path, for validation; and short ways to set defaults.
//!
//! Absent values read as empty ones, so rules can be written without asking at every step.

use ironsail_schema::FieldError;
use serde_json::{Map, Value};

pub(super) type Errors = Vec<FieldError>;

static NULL: Value = Value::Null;

/// A value and where it was found.
#[derive(Clone, Debug)]
pub(super) struct At<'a> {
    pub(super) value: &'a Value,
    pub(super) path: String,
}

impl<'a> At<'a> {
    pub(super) fn root(value: &'a Value) -> Self {
        Self { value, path: String::new() }
    }

    pub(super) fn get(&self, key: &str) -> Self {
        let path =
            if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
        Self { value: self.value.get(key).unwrap_or(&NULL), path }
    }

    /// Several steps at once, as in `spec.template`.
    pub(super) fn dig(&self, path: &str) -> Self {
        path.split('.').fold(self.clone(), |at, key| at.get(key))
    }

    pub(super) fn items(&self) -> impl Iterator<Item = Self> {
        let list = self.value.as_array().map(Vec::as_slice).unwrap_or_default();
        list.iter()
            .enumerate()
            .map(|(i, value)| Self { value, path: format!("{}[{i}]", self.path) })
    }

    /// The entries of a map, each at `path[key]`.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'a str, Self)> {
        self.value.as_object().into_iter().flatten().map(|(key, value)| {
            (key.as_str(), Self { value, path: format!("{}[{key}]", self.path) })
        })
    }

    pub(super) fn str(&self) -> &'a str {
        self.value.as_str().unwrap_or_default()
    }

    pub(super) fn int(&self) -> i64 {
        self.value.as_i64().unwrap_or_default()
    }

    pub(super) fn bool(&self) -> bool {
        self.value.as_bool().unwrap_or_default()
    }

    pub(super) fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    /// Absent, null, or an empty string, list or map.
    pub(super) fn is_empty(&self) -> bool {
        match self.value {
            Value::Null => true,
            Value::String(s) => s.is_empty(),
            Value::Array(a) => a.is_empty(),
            Value::Object(o) => o.is_empty(),
            _ => false,
        }
    }

    pub(super) fn len(&self) -> usize {
        match self.value {
            Value::Array(a) => a.len(),
            Value::Object(o) => o.len(),
            _ => 0,
        }
    }

    pub(super) fn required(&self, detail: &str) -> FieldError {
        FieldError::required(self.path.clone(), detail)
    }

    pub(super) fn invalid(&self, detail: impl Into<String>) -> FieldError {
        FieldError::invalid(self.path.clone(), self.value.clone(), detail)
    }

    pub(super) fn forbidden(&self, detail: impl Into<String>) -> FieldError {
        FieldError::forbidden(self.path.clone(), detail)
    }

    pub(super) fn duplicate(&self) -> FieldError {
        FieldError::duplicate(self.path.clone(), self.value.clone())
    }

    /// Reports a value that is not one of `allowed`; an absent one is required.
    pub(super) fn one_of(&self, allowed: &[&str], errors: &mut Errors) {
        if self.is_empty() {
            errors.push(self.required(""));
        } else {
            self.one_of_if_set(allowed, errors);
        }
    }

    pub(super) fn one_of_if_set(&self, allowed: &[&str], errors: &mut Errors) {
        if self.is_set() && !allowed.contains(&self.str()) {
            let path = self.path.clone();
            errors.push(FieldError::not_supported(path, self.value.clone(), allowed));
        }
    }

    pub(super) fn not_negative(&self, errors: &mut Errors) {
        if self.int() < 0 {
            errors.push(self.invalid("must be greater than or equal to 0"));
        }
    }

    /// Reports an empty value; says whether there is one.
    pub(super) fn need(&self, errors: &mut Errors) -> bool {
        let missing = self.is_empty();
        if missing {
            errors.push(self.required(""));
        }
        !missing
    }
}

/// The object at `key`, made if it is not there. Anything else there is replaced.
pub(super) fn object<'a>(value: &'a mut Value, key: &str) -> &'a mut Value {
    let map = as_map(value);
    let slot = map.entry(key).or_insert_with(|| Value::Object(Map::new()));
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    slot
}

/// The value as a map; anything else becomes an empty one.
pub(super) fn as_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("just made an object")
}

/// Sets `key` unless it is there.
pub(super) fn set_default(value: &mut Value, key: &str, default: impl Into<Value>) {
    let map = as_map(value);
    if map.get(key).is_none_or(Value::is_null) {
        map.insert(key.to_owned(), default.into());
    }
}

/// Sets `key` unless it is there and not an empty string or zero.
pub(super) fn set_if_zero(value: &mut Value, key: &str, default: impl Into<Value>) {
    let map = as_map(value);
    let zero = match map.get(key) {
        None | Some(Value::Null) => true,
        Some(Value::String(s)) => s.is_empty(),
        Some(Value::Number(n)) => n.as_f64() == Some(0.0),
        Some(_) => false,
    };
    if zero {
        map.insert(key.to_owned(), default.into());
    }
}

/// The items of a list to change, none if it is not there.
pub(super) fn each<'a>(value: &'a mut Value, key: &str) -> impl Iterator<Item = &'a mut Value> {
    value.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten()
}

/// A value that is there and not null.
pub(super) fn there<'a>(value: &'a mut Value, key: &str) -> Option<&'a mut Value> {
    value.get_mut(key).filter(|v| !v.is_null())
}

/// Gives `key` of `new` the value it has in `old`.
pub(super) fn restore(new: &mut Value, old: &Value, key: &str) {
    let map = as_map(new);
    match old.get(key) {
        Some(value) => map.insert(key.to_owned(), value.clone()),
        None => map.remove(key),
    };
}
