//! Maps: made, read and changed in place.

use super::Param::{Any, Map as MapParam, Str};
use super::{Outcome, Row, any_at, merge, str_at, to_text};
use crate::error::Fault;
use crate::exec::Run;
use crate::value::{Map, Value};

pub(super) const TABLE: &[Row] = &[
    ("deepCopy", &[Any], None, merge::deep_copy),
    ("dict", &[], Some(Any), dict),
    ("dig", &[], Some(Any), dig),
    ("get", &[MapParam, Str], None, get),
    ("hasKey", &[MapParam, Str], None, has_key),
    ("keys", &[], Some(MapParam), keys),
    ("merge", &[MapParam], Some(MapParam), merge::merge),
    ("mergeOverwrite", &[MapParam], Some(MapParam), merge::merge_overwrite),
    ("mustDeepCopy", &[Any], None, merge::deep_copy),
    ("mustMerge", &[MapParam], Some(MapParam), merge::merge),
    ("mustMergeOverwrite", &[MapParam], Some(MapParam), merge::merge_overwrite),
    ("omit", &[MapParam], Some(Str), omit),
    ("pick", &[MapParam], Some(Str), pick),
    ("pluck", &[Str], Some(MapParam), pluck),
    ("set", &[MapParam, Str, Any], None, set),
    ("unset", &[MapParam, Str], None, unset),
    ("values", &[MapParam], None, values),
];

/// The map of an argument; nothing counts as an empty one that cannot be changed.
fn map_at(args: &[Value], index: usize) -> Option<&Map> {
    args.get(index).and_then(Value::as_map)
}

fn dict(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    let map = Map::new();
    for pair in args.chunks(2) {
        run.spend(64)?;
        let key = to_text(run, &pair[0])?;
        map.insert(&key, pair.get(1).cloned().unwrap_or_else(|| Value::from("")));
    }
    Ok(map.into())
}

/// `dig "a" "b" fallback map` is `map.a.b` or the fallback.
fn dig(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    let [keys @ .., fallback, last] = args else {
        return Err("dig needs at least three arguments".into());
    };
    if keys.is_empty() {
        return Err("dig needs at least three arguments".into());
    }
    if let Some(other) = keys.iter().find(|key| key.as_str().is_none()) {
        let kind = other.type_name();
        return Err(format!("interface conversion: interface {{}} is {kind}, not string").into());
    }
    let mut item = last.clone();
    for key in keys.iter().filter_map(Value::as_str) {
        run.spend(1)?;
        let Some(map) = item.as_map() else {
            let kind = item.type_name();
            return Err(format!(
                "interface conversion: interface {{}} is {kind}, not map[string]interface {{}}"
            )
            .into());
        };
        match map.get(key) {
            Some(found) => item = found,
            None => return Ok(fallback.clone()),
        }
    }
    Ok(item)
}

fn get(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    let found = map_at(args, 0).and_then(|map| map.get(str_at(args, 1)));
    Ok(found.unwrap_or_else(|| Value::from("")))
}

fn has_key(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(map_at(args, 0).is_some_and(|map| map.contains(str_at(args, 1))).into())
}

/// In order, unlike sprig, whose order is chance.
fn keys(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    let mut all = Vec::new();
    for map in args.iter().filter_map(Value::as_map) {
        run.spend(map.len() as u64 * 32)?;
        all.extend(map.keys());
    }
    Ok(Value::strings(all))
}

fn values(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    let entries = map_at(args, 0).map(Map::entries).unwrap_or_default();
    run.spend(entries.len() as u64 * 32)?;
    Ok(entries.into_iter().map(|(_, value)| value).collect::<Vec<_>>().into())
}

fn pluck(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    let key = str_at(args, 0);
    let found = args[1..].iter().filter_map(Value::as_map).filter_map(|map| map.get(key));
    Ok(found.collect::<Vec<_>>().into())
}

fn pick(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    filtered(run, args, |key, names| names.iter().any(|name| name.as_str() == Some(key)))
}

fn omit(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    filtered(run, args, |key, names| names.iter().all(|name| name.as_str() != Some(key)))
}

fn filtered(run: &mut Run<'_>, args: &[Value], keeps: fn(&str, &[Value]) -> bool) -> Outcome {
    let out = Map::new();
    for (key, value) in map_at(args, 0).map(Map::entries).unwrap_or_default() {
        run.spend(64)?;
        if keeps(&key, &args[1..]) {
            out.insert(&key, value);
        }
    }
    Ok(out.into())
}

fn set(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    let Some(map) = map_at(args, 0) else {
        return Err(Fault::from("assignment to entry in nil map"));
    };
    merge::insert(run, map, str_at(args, 1), any_at(args, 2))?;
    Ok(map.clone().into())
}

fn unset(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    run.spend(1)?;
    let Some(map) = map_at(args, 0) else { return Ok(Map::new().into()) };
    map.remove(str_at(args, 1));
    Ok(map.clone().into())
}
