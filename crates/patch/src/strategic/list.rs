//! Merging one list: scalars as a set, maps by their merge key.

use serde_json::{Map, Value};

use super::{Merger, PATCH, bad, order};
use crate::{Error, typeinfo::Field};

impl Merger<'_> {
    pub(super) fn list(
        &self,
        old: Vec<Value>,
        change: &[Value],
        field: &Field,
    ) -> Result<Vec<Value>, Error> {
        let key = field.strategy.key.as_deref();
        let has_maps = old.iter().chain(change).any(Value::is_object);
        match key {
            Some(key) => self.maps(&old, change, key, field),
            None if has_maps => Err(bad("cannot merge lists without merge key")),
            None => Ok(scalars(old, change)),
        }
    }

    fn maps(
        &self,
        old: &[Value],
        change: &[Value],
        key: &str,
        field: &Field,
    ) -> Result<Vec<Value>, Error> {
        let element = match &self.ty.node(field.node).list {
            Some(list) => list.element,
            None => return Err(bad("the patched field is not a list")),
        };
        let mut sorted = Directives::read(change, key)?;
        if sorted.replace {
            let fresh = sorted.plain.drain(..);
            return fresh
                .map(|item| Ok(Value::Object(self.map(Map::new(), item, element)?)))
                .collect();
        }
        let mut merged = old.to_vec();
        merged.retain(|item| !sorted.delete.iter().any(|gone| item.get(key) == Some(gone)));
        for item in &sorted.plain {
            let id = item.get(key).expect("Directives::read checked the key");
            match merged.iter_mut().find(|known| known.get(key) == Some(id)) {
                Some(known) => {
                    let before = known.as_object().cloned().unwrap_or_default();
                    *known = Value::Object(self.map(before, item, element)?);
                }
                None => merged.push(Value::Object(self.map(Map::new(), item, element)?)),
            }
        }
        let wanted: Vec<Value> =
            sorted.plain.iter().map(|item| Value::Object((*item).clone())).collect();
        Ok(order::arrange(merged, &wanted, old, Some(key)))
    }
}

/// The items of a list patch, sorted by what they ask for.
struct Directives<'a> {
    replace: bool,
    delete: Vec<&'a Value>,
    plain: Vec<&'a Map<String, Value>>,
}

impl<'a> Directives<'a> {
    fn read(change: &'a [Value], key: &str) -> Result<Self, Error> {
        let mut out = Self { replace: false, delete: Vec::new(), plain: Vec::new() };
        for item in change {
            let Value::Object(item) = item else {
                return Err(bad("the items of the patched list must be maps"));
            };
            match item.get(PATCH).map(Value::as_str) {
                Some(Some("replace")) => {
                    out.replace = true;
                    continue;
                }
                Some(Some("delete")) => {
                    let id = item.get(key).ok_or_else(|| no_key(key))?;
                    out.delete.push(id);
                    continue;
                }
                None | Some(Some("merge")) => {}
                Some(other) => {
                    let directive = other.unwrap_or("not a string");
                    return Err(bad(format!("unknown patch type {directive:?} in list")));
                }
            }
            if item.get(key).is_none() {
                return Err(no_key(key));
            }
            out.plain.push(item);
        }
        Ok(out)
    }
}

fn no_key(key: &str) -> Error {
    bad(format!("map in the patch does not contain declared merge key: {key}"))
}

fn scalars(old: Vec<Value>, change: &[Value]) -> Vec<Value> {
    let before = old.clone();
    let mut merged = Vec::new();
    for item in old.into_iter().chain(change.iter().cloned()) {
        if !merged.contains(&item) {
            merged.push(item);
        }
    }
    order::arrange(merged, change, &before, None)
}
