//! The applied configuration laid over the live object: what it sets wins, the rest stays.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::path::Step;
use crate::typeinfo::{DEDUCED, ListKind, ListShape, NodeId, Shape, TypeInfo};

pub(super) fn combine(
    ty: &TypeInfo,
    node: NodeId,
    live: Option<&Value>,
    applied: Option<&Value>,
) -> Option<Value> {
    let Some(applied) = applied else { return live.cloned() };
    let keep_applied = || Some(applied.clone());
    match ty.node(node).shape_of(applied) {
        Shape::Scalar => keep_applied(),
        Shape::Map(shape) => {
            let ours = applied.as_object();
            let theirs = live.and_then(Value::as_object);
            let hollow = ours.is_none_or(Map::is_empty) && theirs.is_none_or(Map::is_empty);
            if shape.atomic || hollow {
                return keep_applied();
            }
            let mut out = Map::new();
            let names = theirs.into_iter().chain(ours).flat_map(Map::keys);
            for name in names {
                if out.contains_key(name) {
                    continue;
                }
                let node = shape.member(name).unwrap_or(DEDUCED);
                let merged = combine(
                    ty,
                    node,
                    theirs.and_then(|map| map.get(name)),
                    ours.and_then(|map| map.get(name)),
                );
                if let Some(merged) = merged {
                    out.insert(name.clone(), merged);
                }
            }
            (!out.is_empty()).then_some(Value::Object(out))
        }
        Shape::List(list) => {
            let ours = applied.as_array().map(Vec::as_slice).unwrap_or_default();
            let theirs = live.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            if list.kind == ListKind::Atomic || (ours.is_empty() && theirs.is_empty()) {
                return keep_applied();
            }
            let out = items(ty, list, theirs, ours);
            (!out.is_empty()).then_some(Value::Array(out))
        }
    }
}

/// Weaves two lists together: shared items in the order of the applied list, items that only the
/// live object has stay before the shared ones they stood before.
fn items(ty: &TypeInfo, list: &ListShape, live: &[Value], applied: &[Value]) -> Vec<Value> {
    let steps = |items: &[Value]| -> Vec<Option<Step>> {
        items.iter().map(|item| Step::to_item(ty, list, item).ok()).collect()
    };
    let (live_steps, applied_steps) = (steps(live), steps(applied));
    // An item that stands twice in the live object is not merged with anything.
    let mut live_by: BTreeMap<&Step, Option<&Value>> = BTreeMap::new();
    for (step, item) in live_steps.iter().zip(live) {
        if let Some(step) = step {
            live_by.entry(step).and_modify(|seen| *seen = None).or_insert(Some(item));
        }
    }
    let applied_by: BTreeMap<&Step, &Value> = applied_steps
        .iter()
        .zip(applied)
        .filter_map(|(step, item)| Some((step.as_ref()?, item)))
        .collect();
    let mut shared =
        applied_steps.iter().flatten().filter(|step| live_by.contains_key(step)).peekable();
    let merge = |step: &Step| {
        let theirs = live_by.get(step).copied().flatten();
        combine(ty, list.element, theirs, applied_by.get(step).copied())
    };

    let mut out = Vec::new();
    let mut done: Vec<&Step> = Vec::new();
    let (mut l, mut a) = (0, 0);
    while l < live.len() || a < applied.len() {
        if let (Some(Some(live_step)), Some(Some(applied_step))) =
            (live_steps.get(l), applied_steps.get(a))
        {
            if live_step == applied_step {
                out.extend(merge(live_step));
                done.push(live_step);
                shared.next();
                l += 1;
                a += 1;
                continue;
            }
            let awaited = shared.peek().copied();
            if applied_by.contains_key(live_step) && awaited.is_some_and(|next| next != live_step) {
                // Shared, but its turn comes later.
                l += 1;
                continue;
            }
        }
        if l < live.len() {
            match &live_steps[l] {
                Some(step) if applied_by.contains_key(step) => {
                    if done.contains(&step) {
                        l += 1;
                    }
                }
                _ => {
                    out.push(live[l].clone());
                    l += 1;
                    continue;
                }
            }
        }
        if a < applied.len() {
            if let Some(step) = &applied_steps[a] {
                out.extend(merge(step));
                done.push(step);
                if shared.peek() == Some(&step) {
                    shared.next();
                }
            }
            a += 1;
        }
    }
    out
}
