//! Lists: made, taken apart and searched. None of these changes a list, all give new ones.

use super::Param::{Any, Int};
use super::{Outcome, Row, any_at, compare, int_at};
use crate::error::Fault;
use crate::exec::Run;
use crate::value::{Elem, List, Value};

pub(super) const TABLE: &[Row] = &[
    ("append", &[Any, Any], None, append),
    ("chunk", &[Int, Any], None, chunk),
    ("compact", &[Any], None, compact),
    ("concat", &[], Some(Any), concat),
    ("first", &[Any], None, first),
    ("has", &[Any, Any], None, has),
    ("initial", &[Any], None, initial),
    ("last", &[Any], None, last),
    ("list", &[], Some(Any), list),
    ("mustAppend", &[Any, Any], None, append),
    ("mustChunk", &[Int, Any], None, chunk),
    ("mustCompact", &[Any], None, compact),
    ("mustFirst", &[Any], None, first),
    ("mustHas", &[Any, Any], None, has),
    ("mustInitial", &[Any], None, initial),
    ("mustLast", &[Any], None, last),
    ("mustPrepend", &[Any, Any], None, prepend),
    ("mustPush", &[Any, Any], None, append),
    ("mustRest", &[Any], None, rest),
    ("mustReverse", &[Any], None, reverse),
    ("mustSlice", &[Any], Some(Any), slice),
    ("mustUniq", &[Any], None, uniq),
    ("mustWithout", &[Any], Some(Any), without),
    ("prepend", &[Any, Any], None, prepend),
    ("push", &[Any, Any], None, append),
    ("rest", &[Any], None, rest),
    ("reverse", &[Any], None, reverse),
    ("slice", &[Any], Some(Any), slice),
    ("tuple", &[], Some(Any), list),
    ("uniq", &[Any], None, uniq),
    ("without", &[Any], Some(Any), without),
];

/// What one element counts for in work: about the memory it takes.
const WEIGHT: u64 = 32;

pub(super) fn items<'v>(
    run: &mut Run<'_>,
    value: &'v Value,
    doing: &str,
) -> Result<&'v [Value], Fault> {
    match value {
        Value::List(list) => {
            run.spend(list.items().len() as u64 * WEIGHT)?;
            Ok(list.items())
        }
        Value::Nil => Err(format!("Cannot {doing} nil").into()),
        other => Err(format!("Cannot {doing} type {}", other.kind_name()).into()),
    }
}

fn append(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    let mut out = items(run, &args[0], "push on")?.to_vec();
    out.push(any_at(args, 1));
    Ok(out.into())
}

fn prepend(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    let mut out = vec![any_at(args, 1)];
    out.extend_from_slice(items(run, &args[0], "prepend on")?);
    Ok(out.into())
}

fn chunk(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    let items = items(run, &args[1], "chunk")?;
    let size = usize::try_from(int_at(args, 0)).unwrap_or(0);
    if size == 0 {
        return Err("the size of a chunk must be positive".into());
    }
    Ok(items.chunks(size).map(|part| Value::from(part.to_vec())).collect::<Vec<_>>().into())
}

fn compact(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    let items = items(run, &args[0], "compact on")?;
    Ok(items.iter().filter(|item| item.is_true()).cloned().collect::<Vec<_>>().into())
}

fn concat(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    let mut out = Vec::new();
    for list in args {
        out.extend_from_slice(items(run, list, "concat")?);
    }
    Ok(if out.is_empty() { Value::List(List::nil(Elem::Any)) } else { out.into() })
}

fn first(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(items(run, &args[0], "find first on")?.first().cloned().unwrap_or_default())
}

fn last(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(items(run, &args[0], "find last on")?.last().cloned().unwrap_or_default())
}

fn rest(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    let items = items(run, &args[0], "find rest on")?;
    Ok(part(items.split_first().map(|(_, rest)| rest)))
}

fn initial(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    let items = items(run, &args[0], "find initial on")?;
    Ok(part(items.split_last().map(|(_, rest)| rest)))
}

fn part(items: Option<&[Value]>) -> Value {
    match items {
        Some(items) => items.to_vec().into(),
        None => Value::List(List::nil(Elem::Any)),
    }
}

fn has(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    if args[1].is_nil() {
        return Ok(false.into());
    }
    let items = items(run, &args[1], "find has on")?;
    Ok(contains(run, items, &args[0])?.into())
}

fn contains(run: &mut Run<'_>, items: &[Value], wanted: &Value) -> Result<bool, Fault> {
    for item in items {
        if compare::deep_equal(run, wanted, item, 0)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn list(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    run.spend(args.len() as u64 * WEIGHT)?;
    Ok(args.to_vec().into())
}

fn reverse(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    let items = items(run, &args[0], "find reverse on")?;
    Ok(items.iter().rev().cloned().collect::<Vec<_>>().into())
}

fn slice(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    if args[0].as_list().is_none() {
        let kind = args[0].kind_name();
        return Err(format!("list should be type of slice or array but {kind}").into());
    }
    let items = items(run, &args[0], "slice")?;
    if items.is_empty() {
        return Ok(Value::Nil);
    }
    let bound = |index: usize, fallback: usize| match args.get(index) {
        Some(value) => usize::try_from(super::number::to_int(value)).ok(),
        None => Some(fallback),
    };
    let (from, to) = (bound(1, 0), bound(2, items.len()));
    let (Some(from), Some(to)) = (from, to) else {
        return Err("reflect.Value.Slice: slice index out of bounds".into());
    };
    let elem = args[0].as_list().map_or(Elem::Any, List::elem);
    match items.get(from..to) {
        Some(part) => Ok(Value::List(List::of(elem, part.to_vec()))),
        None => Err("reflect.Value.Slice: slice index out of bounds".into()),
    }
}

fn uniq(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    let mut out: Vec<Value> = Vec::new();
    for item in items(run, &args[0], "find uniq on")? {
        if !contains(run, &out, item)? {
            out.push(item.clone());
        }
    }
    Ok(out.into())
}

fn without(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    let mut out = Vec::new();
    for item in items(run, &args[0], "find without on")? {
        if !contains(run, &args[1..], item)? {
            out.push(item.clone());
        }
    }
    Ok(out.into())
}
