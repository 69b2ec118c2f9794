//! One map filled from others, and copies that share nothing.

use std::collections::HashSet;

use super::Outcome;
use crate::error::Fault;
use crate::exec::Run;
use crate::limit::DEEPEST_VALUE;
use crate::value::{List, Map, Value};

/// Entries that the first map lacks, or has empty, come from the others.
pub(super) fn merge(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    all(run, args, false)
}

/// Entries of later maps win.
pub(super) fn merge_overwrite(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    all(run, args, true)
}

fn all(run: &mut Run<'_>, args: &[Value], overwrite: bool) -> Outcome {
    let target = args.first().and_then(Value::as_map).cloned().unwrap_or_default();
    for source in args[1..].iter().filter_map(Value::as_map) {
        fill(run, &target, source, overwrite, 0)?;
    }
    Ok(target.into())
}

fn fill(
    run: &mut Run<'_>,
    target: &Map,
    source: &Map,
    overwrite: bool,
    depth: usize,
) -> Result<(), Fault> {
    check_depth(depth)?;
    for (key, new) in source.entries() {
        run.spend(64)?;
        let old = target.get(&key);
        if new.is_nil() {
            // A nil never fills a gap, but it overwrites.
            if overwrite {
                insert(run, target, &key, new)?;
            }
            continue;
        }
        if let (Some(Value::Map(old)), Value::Map(new)) = (&old, &new) {
            fill(run, old, new, overwrite, depth + 1)?;
            if !old.is_empty() {
                continue;
            }
        }
        if overwrite || !old.is_some_and(|old| old.is_true()) {
            insert(run, target, &key, new)?;
        }
    }
    Ok(())
}

/// Puts a value into a map that others may hold, but never a map into itself: such a map could be
/// neither printed nor freed.
pub(super) fn insert(run: &mut Run<'_>, map: &Map, key: &str, value: Value) -> Result<(), Fault> {
    run.spend(64)?;
    let mut seen = HashSet::new();
    let mut waiting = vec![value.clone()];
    while let Some(next) = waiting.pop() {
        run.spend(1)?;
        match next {
            Value::Map(inner) if inner.identity() == map.identity() => {
                return Err("a map cannot hold itself".into());
            }
            Value::Map(inner) if seen.insert(inner.identity()) => {
                waiting.extend(inner.entries().into_iter().map(|(_, value)| value));
            }
            Value::List(inner) if seen.insert(inner.identity()) => {
                waiting.extend_from_slice(inner.items());
            }
            _ => {}
        }
    }
    map.insert(key, value);
    Ok(())
}

pub(super) fn deep_copy(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    if args[0].is_nil() {
        return Err("there is nothing to copy".into());
    }
    copy(run, &args[0], 0)
}

pub(super) fn copy(run: &mut Run<'_>, value: &Value, depth: usize) -> Outcome {
    check_depth(depth)?;
    run.spend(32)?;
    Ok(match value {
        Value::List(list) => {
            let mut items = Vec::new();
            for item in list.items() {
                items.push(copy(run, item, depth + 1)?);
            }
            Value::List(List::of(list.elem(), items))
        }
        Value::Map(map) => {
            let out = map.empty_like();
            for (key, item) in map.entries() {
                out.insert(&key, copy(run, &item, depth + 1)?);
            }
            out.into()
        }
        scalar => scalar.clone(),
    })
}

fn check_depth(depth: usize) -> Result<(), Fault> {
    if depth > DEEPEST_VALUE {
        return Err(Fault::Bound("the value is nested too deep".to_owned()));
    }
    Ok(())
}
