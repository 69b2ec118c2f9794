//! Strategic merge patch of built-in kinds: maps merge by member, lists by their merge key, and
//! directives inside the patch say what to remove, replace, keep and how to order.
//!
//! Nulls and directives never reach the outcome.

use serde_json::{Map, Value};

use crate::{
    Error,
    typeinfo::{DEDUCED, Field, NodeId, TypeInfo},
};

mod list;
mod order;

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ELEMENT_ORDER: &str = "$setElementOrder/";
const DELETE_FROM_PRIMITIVE_LIST: &str = "$deleteFromPrimitiveList/";

/// Applies `patch` to `doc`, both objects of the kind that `ty` describes.
pub fn strategic_merge(doc: &Value, patch: &Value, ty: &TypeInfo) -> Result<Value, Error> {
    let Value::Object(patch) = patch else {
        return Err(Error::Malformed("a strategic merge patch is a JSON object".to_owned()));
    };
    let doc = doc.as_object().cloned().unwrap_or_default();
    Merger { ty }.map(doc, patch, ty.root).map(Value::Object)
}

fn bad(text: impl Into<String>) -> Error {
    Error::BadStrategicPatch(text.into())
}

struct Merger<'a> {
    ty: &'a TypeInfo,
}

impl Merger<'_> {
    fn map(
        &self,
        mut doc: Map<String, Value>,
        patch: &Map<String, Value>,
        node: NodeId,
    ) -> Result<Map<String, Value>, Error> {
        match patch.get(PATCH).map(Value::as_str) {
            None => {}
            Some(Some("replace")) => {
                let rest = patch.iter().filter(|(key, _)| *key != PATCH);
                return self.map(
                    Map::new(),
                    &rest.map(|(k, v)| (k.clone(), v.clone())).collect(),
                    node,
                );
            }
            Some(Some("delete")) => return Ok(Map::new()),
            Some(Some("merge")) => {}
            Some(other) => {
                let directive = other.unwrap_or("not a string");
                return Err(bad(format!("unknown patch type {directive:?} in map")));
            }
        }
        retain_keys(&mut doc, patch)?;
        let ordered = self.ordered_lists(&mut doc, patch, node)?;
        for (key, change) in patch {
            if ordered.contains(&key.as_str()) || is_directive(key) {
                continue;
            }
            if change.is_null() {
                doc.remove(key);
                continue;
            }
            let field = self.field(node, key);
            let old = doc.remove(key).unwrap_or(Value::Null);
            let had_items = old.as_array().is_some_and(|items| !items.is_empty());
            let new = self.member(old, change, &field)?;
            // A list of which everything was deleted is gone.
            if !had_items
                || new.as_array().is_none_or(|items| !items.is_empty())
                || !field.strategy.merge
            {
                doc.insert(key.clone(), new);
            }
        }
        Ok(doc)
    }

    fn member(&self, old: Value, change: &Value, field: &Field) -> Result<Value, Error> {
        match (old, change) {
            (Value::Object(old), Value::Object(change)) => {
                self.map(old, change, field.node).map(Value::Object)
            }
            (_, Value::Object(change)) => {
                self.map(Map::new(), change, field.node).map(Value::Object)
            }
            (Value::Array(old), Value::Array(change)) if field.strategy.merge => {
                self.list(old, change, field).map(Value::Array)
            }
            (_, Value::Array(change)) if field.strategy.merge => {
                self.list(Vec::new(), change, field).map(Value::Array)
            }
            (_, Value::Array(change)) => Ok(Value::Array(without_directives(change))),
            (_, change) => Ok(change.clone()),
        }
    }

    /// Handles `$deleteFromPrimitiveList/x` and `$setElementOrder/x`, the latter together with the
    /// patch of `x` itself. Answers which members of the patch are done with.
    fn ordered_lists<'p>(
        &self,
        doc: &mut Map<String, Value>,
        patch: &'p Map<String, Value>,
        node: NodeId,
    ) -> Result<Vec<&'p str>, Error> {
        for (key, change) in patch {
            let Some(name) = key.strip_prefix(DELETE_FROM_PRIMITIVE_LIST) else { continue };
            let Value::Array(gone) = change else {
                return Err(bad("invalid patch format of primitive list"));
            };
            if let Some(Value::Array(items)) = doc.get_mut(name) {
                items.retain(|item| !gone.contains(item));
            }
        }
        let mut done = Vec::new();
        for (key, order) in patch {
            let Some(name) = key.strip_prefix(SET_ELEMENT_ORDER) else { continue };
            let Value::Array(order) = order else {
                return Err(bad("invalid patch format of setElementOrder list"));
            };
            let field = self.field(node, name);
            let old = match doc.remove(name) {
                Some(Value::Array(old)) => old,
                _ => Vec::new(),
            };
            let merged = match patch.get(name) {
                Some(Value::Array(change)) => {
                    order::check(change, order, field.strategy.key.as_deref())?;
                    self.list(old.clone(), change, &field)?
                }
                Some(Value::Null) => {
                    done.push(name);
                    continue;
                }
                Some(_) => return Err(bad(format!("the patch of list {name:?} is not a list"))),
                None => old.clone(),
            };
            done.push(name);
            if !merged.is_empty() {
                let ordered = order::arrange(merged, order, &old, field.strategy.key.as_deref());
                doc.insert(name.to_owned(), Value::Array(ordered));
            }
        }
        Ok(done)
    }

    fn field(&self, node: NodeId, name: &str) -> Field {
        let map = self.ty.node(node).map.as_ref();
        let declared = map.and_then(|map| map.fields.get(name));
        declared.cloned().unwrap_or_else(|| {
            let node = map.and_then(|map| map.element).unwrap_or(DEDUCED);
            Field::plain(node)
        })
    }
}

fn is_directive(key: &str) -> bool {
    key == PATCH
        || key == RETAIN_KEYS
        || key.starts_with(SET_ELEMENT_ORDER)
        || key.starts_with(DELETE_FROM_PRIMITIVE_LIST)
}

/// `$retainKeys` lists all members that may stay; the patch may not set others.
fn retain_keys(doc: &mut Map<String, Value>, patch: &Map<String, Value>) -> Result<(), Error> {
    let Some(keys) = patch.get(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(keys) = keys else {
        return Err(bad("invalid patch format of retainKeys"));
    };
    let kept = |key: &str| keys.iter().any(|kept| kept.as_str() == Some(key));
    if patch.iter().any(|(key, value)| !is_directive(key) && !value.is_null() && !kept(key)) {
        return Err(bad("patch content doesn't match retainKeys list"));
    }
    doc.retain(|key, _| kept(key));
    Ok(())
}

/// Items of a list that is replaced as a whole.
fn without_directives(items: &[Value]) -> Vec<Value> {
    let is_mark = |item: &Value| {
        item.as_object().is_some_and(|map| map.len() == 1 && map.contains_key(PATCH))
    };
    items.iter().filter(|item| !is_mark(item)).cloned().collect()
}

#[cfg(test)]
mod tests;
