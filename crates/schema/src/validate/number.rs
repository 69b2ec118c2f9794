//! Ranges and multiples of numbers, and their texts.

use serde_json::{Number, Value};

use super::loose;
use crate::{
    FieldError,
    node::{Schema, Type},
};

pub(super) fn check(schema: &Schema, number: &Number, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    errors.extend(range(schema, number, path));
    let Some(limits) = &schema.limits else { return errors };
    let value = number.as_f64().unwrap_or(f64::NAN);
    let whole = !number.is_f64();
    // Beside a whole number, a limit counts by its whole part alone.
    let limit = |limit: f64| if whole { limit.trunc() } else { limit };
    let refuse = |detail: String| FieldError::invalid(path, Value::Number(number.clone()), detail);
    if let Some(factor) = limits.multiple_of {
        let wrong = match number.as_i64() {
            Some(value) if factor >= 1.0 => value % (factor as i64) != 0,
            _ if factor <= 0.0 => false,
            _ => (value / factor).fract() != 0.0,
        };
        if wrong {
            errors.push(refuse(format!(
                "{path} in body should be a multiple of {}",
                show(factor, whole)
            )));
        }
    }
    if let Some(least) = limits.minimum.map(limit) {
        let wrong = if limits.exclusive_minimum { value <= least } else { value < least };
        if wrong {
            let or_equal = if limits.exclusive_minimum { "" } else { " or equal to" };
            errors.push(refuse(format!(
                "{path} in body should be greater than{or_equal} {}",
                show(least, whole)
            )));
        }
    }
    if let Some(most) = limits.maximum.map(limit) {
        let wrong = if limits.exclusive_maximum { value >= most } else { value > most };
        if wrong {
            let or_equal = if limits.exclusive_maximum { "" } else { " or equal to" };
            errors.push(refuse(format!(
                "{path} in body should be less than{or_equal} {}",
                show(most, whole)
            )));
        }
    }
    errors
}

/// Does the number fit its type and format?
fn range(schema: &Schema, number: &Number, path: &str) -> Option<FieldError> {
    if schema.kind != Some(Type::Integer) {
        return None;
    }
    let format = schema.limits.as_ref().and_then(|limits| limits.format_name.as_deref());
    let value = number.as_i64().or_else(|| whole_number(number.as_f64()?));
    let fits = match (value, format) {
        (Some(value), Some("int32")) => i32::try_from(value).is_ok(),
        (value, _) => value.is_some(),
    };
    if fits {
        return None;
    }
    Some(loose(match format {
        Some(format) => {
            format!("Checked value must be of type integer with format {format} in {path}")
        }
        None => format!("Checked value must be of type integer (default format) in {path}"),
    }))
}

fn whole_number(value: f64) -> Option<i64> {
    let fits = value.fract() == 0.0 && value.abs() < 9.2e18;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "checked to be whole and in range just above"
    )]
    fits.then_some(value as i64)
}

/// A limit as Go prints it: plainly beside whole numbers, else with an exponent from 1e+06 on.
fn show(limit: f64, whole: bool) -> String {
    if whole && limit.abs() < 9.2e18 {
        return format!("{:.0}", limit.trunc());
    }
    if limit == 0.0 {
        return "0".to_owned();
    }
    let exponent = limit.abs().log10().floor();
    if (-4.0..21.0).contains(&exponent) && exponent < 6.0 {
        return format!("{limit}");
    }
    let text = format!("{limit:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exponent),
    };
    format!("{mantissa}e{sign}{digits:0>2}")
}
