//! Arithmetic and conversions. Whole numbers wrap as Go's do; what is no number counts as zero.

use super::Param::{Any, Float, Int, Str};
use super::{Outcome, Row, int_at, str_at, to_text};
use crate::error::Fault;
use crate::exec::Run;
use crate::literal::{parse_float, parse_int};
use crate::value::{Elem, List, Value};

pub(super) const TABLE: &[Row] = &[
    ("add", &[], Some(Any), add),
    ("add1", &[Any], None, add1),
    ("atoi", &[Str], None, atoi),
    ("biggest", &[Any], Some(Any), max),
    ("ceil", &[Any], None, ceil),
    ("div", &[Any, Any], None, div),
    ("float64", &[Any], None, float64),
    ("floor", &[Any], None, floor),
    ("int", &[Any], None, int),
    ("int64", &[Any], None, int64),
    ("max", &[Any], Some(Any), max),
    ("maxf", &[Any], Some(Any), maxf),
    ("min", &[Any], Some(Any), min),
    ("minf", &[Any], Some(Any), minf),
    ("mod", &[Any, Any], None, modulo),
    ("mul", &[Any], Some(Any), mul),
    ("round", &[Any, Int], Some(Float), round),
    ("seq", &[], Some(Int), seq),
    ("sub", &[Any, Any], None, sub),
    ("toDecimal", &[Any], None, to_decimal),
    ("until", &[Int], None, until),
    ("untilStep", &[Int, Int, Int], None, until_step),
];

/// Any value as a whole number.
pub(super) fn to_int(value: &Value) -> i64 {
    match value {
        Value::Int(n) | Value::Int64(n) => *n,
        Value::Byte(n) => i64::from(*n),
        Value::Bool(b) => i64::from(*b),
        Value::Float(f) => truncated(*f),
        Value::Str(text) => parse_int(without_zero_fraction(text)).unwrap_or(0),
        Value::Nil | Value::List(_) | Value::Map(_) => 0,
    }
}

/// As Go on the machines we run on: what does not fit becomes the smallest number.
#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn truncated(f: f64) -> i64 {
    const EDGE: f64 = 9_223_372_036_854_775_808.0;
    if (-EDGE..EDGE).contains(&f) { f as i64 } else { i64::MIN }
}

/// `8.00` as `8`.
fn without_zero_fraction(text: &str) -> &str {
    match text.rsplit_once('.') {
        Some((whole, zeros)) if !zeros.is_empty() && zeros.bytes().all(|b| b == b'0') => whole,
        _ => text,
    }
}

#[expect(clippy::cast_precision_loss, reason = "as Go converts")]
fn to_float(value: &Value) -> f64 {
    match value {
        Value::Float(f) => *f,
        Value::Str(text) => parse_float(text).unwrap_or(0.0),
        other => to_int(other) as f64,
    }
}

fn add(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(Value::Int64(args.iter().fold(0, |sum, n| sum.wrapping_add(to_int(n)))))
}

fn add1(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(Value::Int64(to_int(&args[0]).wrapping_add(1)))
}

fn sub(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(Value::Int64(to_int(&args[0]).wrapping_sub(to_int(&args[1]))))
}

fn mul(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(Value::Int64(args.iter().fold(1, |product, n| product.wrapping_mul(to_int(n)))))
}

fn divisor(value: &Value) -> Result<i64, Fault> {
    match to_int(value) {
        0 => Err("runtime error: integer divide by zero".into()),
        n => Ok(n),
    }
}

fn div(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(Value::Int64(to_int(&args[0]).wrapping_div(divisor(&args[1])?)))
}

fn modulo(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(Value::Int64(to_int(&args[0]).wrapping_rem(divisor(&args[1])?)))
}

fn max(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(Value::Int64(args.iter().map(to_int).max().unwrap_or(0)))
}

fn min(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(Value::Int64(args.iter().map(to_int).min().unwrap_or(0)))
}

fn maxf(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(Value::Float(args.iter().map(to_float).fold(f64::NEG_INFINITY, f64::max)))
}

fn minf(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(Value::Float(args.iter().map(to_float).fold(f64::INFINITY, f64::min)))
}

fn floor(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(Value::Float(to_float(&args[0]).floor()))
}

fn ceil(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(Value::Float(to_float(&args[0]).ceil()))
}

/// To `places` digits; a fraction from the third argument on rounds up.
fn round(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    let up = match args.get(2) {
        Some(Value::Float(f)) => *f,
        _ => 0.5,
    };
    let places = i32::try_from(int_at(args, 1)).unwrap_or(0);
    let scale = 10_f64.powi(places);
    let digits = scale * to_float(&args[0]);
    let whole = if digits.fract() >= up { digits.ceil() } else { digits.floor() };
    Ok(Value::Float(whole / scale))
}

fn int(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(Value::Int(to_int(&args[0])))
}

fn int64(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(Value::Int64(to_int(&args[0])))
}

fn float64(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(Value::Float(to_float(&args[0])))
}

fn atoi(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(Value::Int(str_at(args, 0).parse().unwrap_or(0)))
}

/// The digits read as an octal number.
fn to_decimal(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    let text = to_text(run, &args[0])?;
    Ok(Value::Int64(i64::from_str_radix(&text, 8).unwrap_or(0)))
}

fn until(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    let count = int_at(args, 0);
    Ok(ints(steps(run, 0, count, if count < 0 { -1 } else { 1 })?))
}

fn until_step(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(ints(steps(run, int_at(args, 0), int_at(args, 1), int_at(args, 2))?))
}

fn ints(numbers: Vec<i64>) -> Value {
    Value::List(List::of(Elem::Int, numbers.into_iter().map(Value::Int).collect()))
}

fn steps(run: &mut Run<'_>, start: i64, stop: i64, step: i64) -> Result<Vec<i64>, Fault> {
    let up = stop >= start;
    if (up && step <= 0) || (!up && step >= 0) {
        return Ok(Vec::new());
    }
    let count = stop.abs_diff(start).div_ceil(step.unsigned_abs());
    run.spend(count.saturating_mul(32))?;
    let mut out = Vec::new();
    let mut next = Some(start);
    while let Some(n) = next.filter(|n| if up { *n < stop } else { *n > stop }) {
        out.push(n);
        next = n.checked_add(step);
    }
    Ok(out)
}

/// Like the program `seq`: `end`, `start end`, or `start step end`.
fn seq(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    let (start, step, end) = match args.len() {
        1 => (1, None, int_at(args, 0)),
        2 => (int_at(args, 0), None, int_at(args, 1)),
        3 => (int_at(args, 0), Some(int_at(args, 1)), int_at(args, 2)),
        _ => return Ok("".into()),
    };
    let towards = if end < start { -1 } else { 1 };
    if end < start && step.is_some_and(|step| step > 0) {
        return Ok("".into());
    }
    let numbers = steps(run, start, end.saturating_add(towards), step.unwrap_or(towards))?;
    let texts: Vec<String> = numbers.iter().map(i64::to_string).collect();
    Ok(texts.join(" ").into())
}
