//! Does an object fulfil its schema? The answer is a list of field errors with Kubernetes' texts.
//!
//! On an update, what did not change is not held against the object: a schema may have become
//! stricter since it was written.

use serde_json::{Map, Value};

use crate::{
    FieldError, Reason, cel, embedded,
    listtype::{self, key_of},
    node::{Additional, ListType, Schema, Type},
};

mod limit;
mod number;

/// Told when rules were left out because the object is wrong in simpler ways.
const UNCHECKED: &str = "some validation rules were not checked because the object was invalid; \
                         correct the existing errors to complete validation";

impl Schema {
    /// Checks a whole object, after pruning and defaulting. `old` is what it replaces.
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = self.check(object, old, "").errors;
        let duplicates = listtype::check(self, object, "");
        if !duplicates.is_empty() && old.is_none_or(|old| listtype::check(self, old, "").is_empty())
        {
            errors.extend(duplicates);
        }
        errors.extend(embedded::check(self, object, ""));
        if self.rule_depth == 0 {
            return errors;
        }
        if errors.iter().any(is_blocking) {
            errors.push(FieldError::new("", Reason::Invalid, Value::Null, UNCHECKED));
        } else {
            errors.extend(cel::evaluate(self, object, old));
        }
        errors
    }

    fn check(&self, value: &Value, old: Option<&Value>, path: &str) -> Outcome {
        let mut out = Outcome::default();
        if old == Some(value) {
            return out;
        }
        out.add(self.check_type(value, path));
        if value.is_null() {
            out.add(self.check_enum(value, path));
            return out;
        }
        if let Some(limits) = &self.limits {
            limit::alternatives(limits, value, old, path, &mut out);
        }
        match value {
            Value::String(text) => out.add(limit::text(self, text, path)),
            Value::Number(number) => out.add(number::check(self, number, path)),
            Value::Array(items) => self.check_items(items, old, path, &mut out),
            _ => {}
        }
        out.add(self.check_enum(value, path));
        if let Value::Object(map) = value {
            self.check_members(map, old, path, &mut out);
        }
        out
    }

    fn check_type(&self, value: &Value, path: &str) -> Vec<FieldError> {
        let expected = match (self.int_or_string, self.kind) {
            (true, _) => "integer,string",
            (false, Some(kind)) => kind.as_str(),
            (false, None) => return Vec::new(),
        };
        let found = type_name(value);
        let whole =
            value.as_f64().is_some_and(|number| number.fract() == 0.0 && number.is_finite());
        let fits = match (value, self.kind) {
            (Value::Null, _) => self.nullable,
            (_, None) => found == "string" || (found != "boolean" && whole),
            (Value::Number(_), Some(Type::Integer)) => whole,
            (Value::Number(_), Some(Type::Number)) => true,
            _ => found == expected,
        };
        if fits {
            return Vec::new();
        }
        // A value of another type in a field with a format is told by the format's name.
        let format = self.limits.as_ref().and_then(|limits| limits.format_name.as_deref());
        let (expected, found) = match (format, value) {
            (Some(format), Value::Number(n)) if n.is_f64() => (format, "float64"),
            (Some(format), Value::Number(_)) => (format, "int64"),
            (Some(format), Value::Bool(_) | Value::Object(_)) => (format, ""),
            (Some(_), Value::Array(_)) if self.kind == Some(Type::String) => return Vec::new(),
            _ => (expected, found),
        };
        vec![wrong_type(path, expected, found)]
    }

    fn check_enum(&self, value: &Value, path: &str) -> Vec<FieldError> {
        let Some(values) = self.limits.as_ref().and_then(|limits| limits.one_of_values.as_ref())
        else {
            return Vec::new();
        };
        let same = |allowed: &Value| match (allowed, value) {
            (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
            (allowed, value) => allowed == value,
        };
        if values.iter().any(same) || (value.is_null() && self.nullable) {
            return Vec::new();
        }
        let texts: Vec<String> = values
            .iter()
            .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
            .collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        vec![FieldError::not_supported(path, value.clone(), &texts)]
    }

    fn check_items(&self, items: &[Value], old: Option<&Value>, path: &str, out: &mut Outcome) {
        if let Some(below) = &self.items {
            for (at, item) in items.iter().enumerate() {
                let old = self.old_item(item, old);
                out.merge(below.check(item, old, &format!("{path}[{at}]")));
            }
        }
        if let Some(limits) = &self.limits {
            out.add(limit::items(limits, items, path));
        }
    }

    /// The item of the old list that this one replaces; known for list maps only.
    pub(crate) fn old_item<'a>(&self, item: &Value, old: Option<&'a Value>) -> Option<&'a Value> {
        if self.list_type != ListType::Map {
            return None;
        }
        let key = key_of(self, item);
        old?.as_array()?.iter().find(|old| key_of(self, old) == key)
    }

    fn check_members(
        &self,
        map: &Map<String, Value>,
        old: Option<&Value>,
        path: &str,
        out: &mut Outcome,
    ) {
        let old = old.and_then(Value::as_object);
        let limits = self.limits.as_deref();
        if let Some(limits) = limits {
            out.add(limit::properties(limits, map.len(), path));
        }
        for (name, member) in map {
            let below = match (self.properties.get(name), &self.additional) {
                (Some(property), _) => property,
                (None, Additional::Schema(below)) => below,
                _ => continue,
            };
            let old = old.and_then(|old| old.get(name));
            out.merge(below.check(member, old, &join(path, name)));
        }
        for name in limits.map(|limits| limits.required.as_slice()).unwrap_or_default() {
            if !map.contains_key(name) {
                out.add(vec![FieldError::required(join(path, name), "")]);
            }
        }
    }
}

/// Errors, and how many checks were made: of several failed alternatives, the one that came furthest
/// is told.
#[derive(Default)]
struct Outcome {
    errors: Vec<FieldError>,
    passed: usize,
}

impl Outcome {
    /// The outcome of one check.
    fn add(&mut self, errors: Vec<FieldError>) {
        if errors.is_empty() {
            self.passed += 1;
        }
        self.errors.extend(errors);
    }

    fn merge(&mut self, other: Self) {
        self.passed += other.passed;
        self.errors.extend(other.errors);
    }
}

fn is_blocking(error: &FieldError) -> bool {
    matches!(
        error.reason,
        Reason::NotSupported
            | Reason::Required
            | Reason::TooLong
            | Reason::TooMany
            | Reason::TypeInvalid
    )
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn wrong_type(path: &str, expected: &str, found: &str) -> FieldError {
    let detail = format!("{path} in body must be of type {expected}: {found:?}");
    FieldError::new(path, Reason::TypeInvalid, Value::from(found), detail)
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// An error about the object as a whole, whose text names the field.
fn loose(text: String) -> FieldError {
    FieldError::invalid("", "", text)
}

#[cfg(test)]
mod tests;
