//! The order of a merged list: items of the patch as the patch orders them, the others as they stood,
//! the two woven together by the places they had before.

use serde_json::Value;

use super::bad;
use crate::Error;

/// Are two items the same one?
fn same(a: &Value, b: &Value, key: Option<&str>) -> bool {
    match key {
        Some(key) => a.get(key).is_some() && a.get(key) == b.get(key),
        None => a == b,
    }
}

fn place(item: &Value, order: &[Value], key: Option<&str>) -> Option<usize> {
    order.iter().position(|other| same(item, other, key))
}

/// Orders `merged` by `wanted` (what the patch says) and `before` (what the object had).
pub(super) fn arrange(
    merged: Vec<Value>,
    wanted: &[Value],
    before: &[Value],
    key: Option<&str>,
) -> Vec<Value> {
    let (mut ours, mut theirs): (Vec<_>, Vec<_>) =
        merged.into_iter().partition(|item| place(item, wanted, key).is_some());
    ours.sort_by_key(|item| place(item, wanted, key));
    theirs.sort_by_key(|item| place(item, before, key).unwrap_or(usize::MAX));

    let mut out = Vec::with_capacity(ours.len() + theirs.len());
    let mut ours = ours.into_iter().peekable();
    for item in theirs {
        let at = place(&item, before, key);
        while let Some(next) = ours.peek() {
            match (place(next, before, key), at) {
                (Some(next), Some(at)) if next > at => break,
                // New items stand before what they are not compared with.
                _ => out.extend(ours.next()),
            }
        }
        out.push(item);
    }
    out.extend(ours);
    out
}

/// What a patch adds to a list must stand in its `$setElementOrder` list, in the same order.
pub(super) fn check(change: &[Value], order: &[Value], key: Option<&str>) -> Result<(), Error> {
    let mut at = 0;
    for item in change {
        if item.get(super::PATCH).is_some() {
            continue;
        }
        match order[at..].iter().position(|other| same(item, other, key)) {
            Some(found) => at += found + 1,
            None => {
                return Err(bad(
                    "The order in patch list doesn't match the setElementOrder list of the patch",
                ));
            }
        }
    }
    Ok(())
}
