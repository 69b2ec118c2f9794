//! `eq`, `lt` and their kin: only values of one basic kind compare.

use super::Outcome;
use crate::buffer::Buffer;
use crate::error::Fault;
use crate::exec::Run;
use crate::format::spec::Spec;
use crate::value::Value;

/// Kinds that compare with each other; both integers do as well.
enum Basic<'v> {
    Bool(bool),
    Int(i64),
    Byte(u8),
    Float(f64),
    Str(&'v str),
}

fn basic(value: &Value) -> Option<Basic<'_>> {
    Some(match value {
        Value::Bool(b) => Basic::Bool(*b),
        Value::Int(n) | Value::Int64(n) => Basic::Int(*n),
        Value::Byte(n) => Basic::Byte(*n),
        Value::Float(f) => Basic::Float(*f),
        Value::Str(s) => Basic::Str(s),
        Value::Nil | Value::List(_) | Value::Map(_) => return None,
    })
}

/// Equal to any of the others.
pub(super) fn eq(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    let Some((first, others)) = args.split_first().filter(|(_, others)| !others.is_empty()) else {
        return Err("missing argument for comparison".into());
    };
    for other in others {
        if equal(first, other)? {
            return Ok(true.into());
        }
    }
    Ok(false.into())
}

pub(super) fn ne(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok((!equal(&args[0], &args[1])?).into())
}

pub(super) fn lt(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(less(&args[0], &args[1])?.into())
}

pub(super) fn le(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok((less(&args[0], &args[1])? || equal(&args[0], &args[1])?).into())
}

pub(super) fn gt(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok((!le(run, args)?.is_true()).into())
}

pub(super) fn ge(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok((!less(&args[0], &args[1])?).into())
}

fn incompatible(a: &Value, b: &Value) -> Fault {
    let (a, b) = (a.type_name(), b.type_name());
    format!("incompatible types for comparison: {a} and {b}").into()
}

#[expect(clippy::float_cmp, reason = "Go compares floats exactly")]
fn equal(a: &Value, b: &Value) -> Result<bool, Fault> {
    Ok(match (basic(a), basic(b)) {
        (Some(Basic::Bool(x)), Some(Basic::Bool(y))) => x == y,
        (Some(Basic::Int(x)), Some(Basic::Int(y))) => x == y,
        (Some(Basic::Byte(x)), Some(Basic::Byte(y))) => x == y,
        (Some(Basic::Int(x)), Some(Basic::Byte(y)))
        | (Some(Basic::Byte(y)), Some(Basic::Int(x))) => x == i64::from(y),
        (Some(Basic::Float(x)), Some(Basic::Float(y))) => x == y,
        (Some(Basic::Str(x)), Some(Basic::Str(y))) => x == y,
        (None, None) => return equal_containers(a, b),
        _ if a.is_nil() || b.is_nil() => false,
        _ => return Err(incompatible(a, b)),
    })
}

/// Lists and maps compare only with nil.
fn equal_containers(a: &Value, b: &Value) -> Result<bool, Fault> {
    let nil = |v: &Value| v.is_nil() || v.as_list().is_some_and(crate::value::List::is_nil);
    let kinds = |v: &Value| v.kind_name();
    if !a.is_nil() && !b.is_nil() && kinds(a) != kinds(b) {
        let (kind, other) = (a.type_name(), b.type_name());
        let (a, b) = (shown(a, 's'), shown(b, 'v'));
        return Err(format!("non-comparable types {a}: {kind}, {other}: {b}").into());
    }
    if nil(a) || nil(b) {
        return Ok(nil(a) == nil(b));
    }
    Err(format!("non-comparable type {}: {}", shown(b, 's'), b.type_name()).into())
}

/// A value inside an error.
fn shown(value: &Value, verb: char) -> String {
    let mut out = Buffer::new(200);
    Spec::default().write(&mut out, verb, value);
    out.as_str().to_owned()
}

fn less(a: &Value, b: &Value) -> Result<bool, Fault> {
    let bad = || Fault::from("invalid type for comparison");
    let (Some(x), Some(y)) = (basic(a), basic(b)) else { return Err(bad()) };
    Ok(match (x, y) {
        (Basic::Int(x), Basic::Int(y)) => x < y,
        (Basic::Byte(x), Basic::Byte(y)) => x < y,
        (Basic::Int(x), Basic::Byte(y)) => x < i64::from(y),
        (Basic::Byte(x), Basic::Int(y)) => i64::from(x) < y,
        (Basic::Float(x), Basic::Float(y)) => x < y,
        (Basic::Str(x), Basic::Str(y)) => x < y,
        (Basic::Bool(_), Basic::Bool(_)) => return Err(bad()),
        _ => return Err(incompatible(a, b)),
    })
}

/// Go's `reflect.DeepEqual`: same types, same content.
#[expect(clippy::float_cmp, reason = "Go compares floats exactly")]
pub(super) fn deep_equal(
    run: &mut Run<'_>,
    a: &Value,
    b: &Value,
    depth: usize,
) -> Result<bool, Fault> {
    run.spend(1)?;
    if depth > crate::limit::DEEPEST_VALUE {
        return Err(Fault::Bound("the values are nested too deep to be compared".to_owned()));
    }
    if a.type_name() != b.type_name() {
        return Ok(false);
    }
    Ok(match (a, b) {
        (Value::Bool(x), Value::Bool(y)) => x == y,
        (Value::Int(x), Value::Int(y)) | (Value::Int64(x), Value::Int64(y)) => x == y,
        (Value::Byte(x), Value::Byte(y)) => x == y,
        (Value::Float(x), Value::Float(y)) => x == y,
        (Value::Str(x), Value::Str(y)) => x == y,
        (Value::List(x), Value::List(y)) => {
            if x.items().len() != y.items().len() || x.is_nil() != y.is_nil() {
                return Ok(false);
            }
            for (x, y) in x.items().iter().zip(y.items()) {
                if !deep_equal(run, x, y, depth + 1)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Map(x), Value::Map(y)) => {
            if x.len() != y.len() {
                return Ok(false);
            }
            for ((k, x), (l, y)) in x.entries().iter().zip(y.entries().iter()) {
                if k != l || !deep_equal(run, x, y, depth + 1)? {
                    return Ok(false);
                }
            }
            true
        }
        _ => true,
    })
}
