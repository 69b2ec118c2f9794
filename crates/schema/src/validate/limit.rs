//! Lengths, patterns, counts and alternatives.

use serde_json::Value;

use super::{Outcome, loose, wrong_type};
use crate::{
    FieldError, Reason,
    node::{Limits, Schema},
};

/// Length first, then pattern: the first that fails is told. A wrong format is told besides.
pub(super) fn text(schema: &Schema, text: &str, path: &str) -> Vec<FieldError> {
    let Some(limits) = &schema.limits else { return Vec::new() };
    let mut errors = Vec::new();
    let length = text.chars().count() as u64;
    if let Some(most) = limits.max_length.filter(|most| length > *most) {
        let unit = if most == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {most} {unit}");
        errors.push(FieldError::new(path, Reason::TooLong, Value::from(text), detail));
    } else if let Some(least) = limits.min_length.filter(|least| length < *least) {
        let detail = format!("{path} in body should be at least {least} chars long");
        errors.push(FieldError::invalid(path, text, detail));
    } else if let Some(pattern) = limits.pattern.as_ref().filter(|p| !p.is_match(text)) {
        let detail = format!("{path} in body should match '{}'", pattern.text());
        errors.push(FieldError::invalid(path, text, detail));
    }
    if let (Some(format), Some(name)) = (limits.format, &limits.format_name)
        && !format.fits(text)
    {
        errors.push(wrong_type(path, name, text));
    }
    errors
}

pub(super) fn items(limits: &Limits, items: &[Value], path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let count = items.len() as u64;
    if let Some(least) = limits.min_items.filter(|least| count < *least) {
        let detail = format!("{path} in body should have at least {least} items");
        errors.push(FieldError::invalid(path, count, detail));
    }
    if let Some(most) = limits.max_items.filter(|most| count > *most) {
        errors.push(too_many(path, count, most));
    }
    if limits.unique_items {
        let mut texts: Vec<String> = items.iter().map(Value::to_string).collect();
        texts.sort();
        if texts.windows(2).any(|pair| pair[0] == pair[1]) {
            let detail = format!("{path} in body shouldn't contain duplicates");
            errors.push(FieldError::invalid(path, "", detail));
        }
    }
    errors
}

pub(super) fn properties(limits: &Limits, count: usize, path: &str) -> Vec<FieldError> {
    let count = count as u64;
    let mut errors = Vec::new();
    if let Some(least) = limits.min_properties.filter(|least| count < *least) {
        let detail = format!("{path} in body should have at least {least} properties");
        errors.push(FieldError::invalid(path, count, detail));
    }
    if let Some(most) = limits.max_properties.filter(|most| count > *most) {
        errors.push(too_many(path, count, most));
    }
    errors
}

fn too_many(path: &str, count: u64, most: u64) -> FieldError {
    let unit = if most == 1 { "item" } else { "items" };
    let detail = format!("must have at most {most} {unit}");
    FieldError::new(path, Reason::TooMany, Value::from(count), detail)
}

/// `anyOf`, `oneOf`, `allOf`, `not`.
pub(super) fn alternatives(
    limits: &Limits,
    value: &Value,
    old: Option<&Value>,
    path: &str,
    out: &mut Outcome,
) {
    if !limits.any_of.is_empty() {
        let tried: Vec<Outcome> = try_all(&limits.any_of, value, old, path);
        if !tried.iter().any(|one| one.errors.is_empty()) {
            out.add(vec![loose(format!("{path:?} must validate at least one schema (anyOf)"))]);
            out.merge(furthest(tried));
        }
    }
    if !limits.one_of.is_empty() {
        let tried = try_all(&limits.one_of, value, old, path);
        let valid = tried.iter().filter(|one| one.errors.is_empty()).count();
        if valid != 1 {
            let found = match valid {
                0 => "Found none valid".to_owned(),
                many => format!("Found {many} valid alternatives"),
            };
            out.add(vec![loose(format!(
                "{path:?} must validate one and only one schema (oneOf). {found}"
            ))]);
            if valid == 0 {
                out.merge(furthest(tried));
            }
        }
    }
    if !limits.all_of.is_empty() {
        let tried = try_all(&limits.all_of, value, old, path);
        let valid = tried.iter().filter(|one| one.errors.is_empty()).count();
        let all = tried.len();
        for one in tried {
            out.merge(one);
        }
        if valid != all {
            let none = if valid == 0 { ". None validated" } else { "" };
            out.add(vec![loose(format!("{path:?} must validate all the schemas (allOf){none}"))]);
        }
    }
    if let Some(not) = &limits.not
        && not.check(value, None, path).errors.is_empty()
    {
        out.add(vec![loose(format!("{path:?} must not validate the schema (not)"))]);
    }
}

fn try_all(all: &[Schema], value: &Value, old: Option<&Value>, path: &str) -> Vec<Outcome> {
    all.iter().map(|schema| schema.check(value, old, path)).collect()
}

/// The first of the alternatives that passed the most checks.
fn furthest(tried: Vec<Outcome>) -> Outcome {
    let mut best = Outcome::default();
    for one in tried {
        if best.errors.is_empty() || one.passed > best.passed {
            best = one;
        }
    }
    best
}
