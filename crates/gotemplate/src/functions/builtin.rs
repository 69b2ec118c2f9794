//! The functions of the language itself.

use super::Param::{Any, Str};
use super::{Outcome, Row, compare, escape, length, str_at};
use crate::error::Fault;
use crate::exec::Run;
use crate::format;
use crate::value::{Elem, List, Value};

pub(super) const TABLE: &[Row] = &[
    ("eq", &[Any], Some(Any), compare::eq),
    ("ge", &[Any, Any], None, compare::ge),
    ("gt", &[Any, Any], None, compare::gt),
    ("html", &[], Some(Any), escape::html),
    ("index", &[Any], Some(Any), index),
    ("js", &[], Some(Any), escape::js),
    ("le", &[Any, Any], None, compare::le),
    ("len", &[Any], None, len),
    ("lt", &[Any, Any], None, compare::lt),
    ("ne", &[Any, Any], None, compare::ne),
    ("not", &[Any], None, not),
    ("print", &[], Some(Any), print),
    ("printf", &[Str], Some(Any), printf),
    ("println", &[], Some(Any), println),
    ("slice", &[Any], Some(Any), slice),
    ("urlquery", &[], Some(Any), escape::urlquery),
];

fn not(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok((!args[0].is_true()).into())
}

fn print(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    let mut out = run.buffer();
    format::print(&mut out, args);
    finish(run, out.finish()?)
}

fn println(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    let mut out = run.buffer();
    format::println(&mut out, args);
    finish(run, out.finish()?)
}

fn printf(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    let mut out = run.buffer();
    format::printf::printf(&mut out, str_at(args, 0), &args[1..]);
    finish(run, out.finish()?)
}

fn finish(run: &mut Run<'_>, text: String) -> Outcome {
    run.spend(text.len() as u64)?;
    Ok(text.into())
}

fn len(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    match &args[0] {
        Value::Str(text) => Ok(length(text.len())),
        Value::List(list) => Ok(length(list.items().len())),
        Value::Map(map) => Ok(length(map.len())),
        Value::Nil => Err("len of nil pointer".into()),
        other => Err(format!("len of type {}", other.type_name()).into()),
    }
}

/// `index x 1 "a"` is `x[1]["a"]`.
fn index(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    let mut item = args[0].clone();
    if item.is_nil() {
        return Err("index of untyped nil".into());
    }
    for key in &args[1..] {
        item = match &item {
            Value::Nil => return Err("index of nil pointer".into()),
            Value::Str(text) => {
                let at = position(key, text.len())?;
                let byte = text.as_bytes().get(at).copied();
                Value::Byte(byte.ok_or("reflect: string index out of range")?)
            }
            Value::List(list) => {
                let (at, items) = (position(key, list.items().len())?, list.items());
                items.get(at).cloned().ok_or("reflect: slice index out of range")?
            }
            Value::Map(map) => match key {
                Value::Str(key) => map.get(key).unwrap_or_else(|| zero(map.elem())),
                Value::Nil => return Err("value is nil; should be of type string".into()),
                other => {
                    let kind = other.type_name();
                    return Err(format!("value has type {kind}; should be string").into());
                }
            },
            other => {
                return Err(format!("can't index item of type {}", other.type_name()).into());
            }
        };
    }
    Ok(item)
}

fn zero(elem: Elem) -> Value {
    match elem {
        Elem::Any => Value::Nil,
        Elem::Str => Value::from(""),
        Elem::Int => Value::Int(0),
    }
}

/// A place in something of this length; the end itself is allowed.
fn position(value: &Value, len: usize) -> Result<usize, Fault> {
    let n = match value {
        Value::Int(n) | Value::Int64(n) => *n,
        Value::Byte(n) => i64::from(*n),
        Value::Nil => return Err("cannot index slice/array with nil".into()),
        other => {
            return Err(format!("cannot index slice/array with type {}", other.type_name()).into());
        }
    };
    let at = usize::try_from(n).ok().filter(|at| *at <= len);
    at.ok_or_else(|| format!("index out of range: {n}").into())
}

/// `slice x 1 2` is `x[1:2]`.
fn slice(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    if args[0].is_nil() {
        return Err("slice of untyped nil".into());
    }
    if args.len() > 4 {
        return Err(format!("too many slice indexes: {}", args.len() - 1).into());
    }
    let len = match &args[0] {
        Value::Str(_) if args.len() == 4 => return Err("cannot 3-index slice a string".into()),
        Value::Str(text) => text.len(),
        Value::List(list) => list.items().len(),
        other => return Err(format!("can't slice item of type {}", other.type_name()).into()),
    };
    let mut bounds = [0, len, len];
    for (bound, value) in bounds.iter_mut().zip(&args[1..]) {
        *bound = position(value, len)?;
    }
    let [from, to, most] = bounds;
    if from > to || to > most {
        let (a, b) = if from > to { (from, to) } else { (to, most) };
        return Err(format!("invalid slice index: {a} > {b}").into());
    }
    run.spend((to - from) as u64)?;
    match &args[0] {
        Value::Str(text) => {
            Ok(String::from_utf8_lossy(&text.as_bytes()[from..to]).into_owned().into())
        }
        Value::List(list) => {
            Ok(Value::List(List::of(list.elem(), list.items()[from..to].to_vec())))
        }
        _ => Ok(Value::Nil),
    }
}
