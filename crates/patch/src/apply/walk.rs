//! Walks of one typed value: does it fit its type, which paths does it set, and the value without
//! some paths.

use serde_json::{Map, Value};

use super::{path::Step, set::FieldSet};
use crate::typeinfo::{ListKind, NodeId, Scalar, Shape, TypeInfo};

/// Does the value fit the type? The first thing that does not is told as `.path: what`.
pub(super) fn check(
    ty: &TypeInfo,
    node: NodeId,
    value: &Value,
    duplicates: bool,
) -> Result<(), String> {
    let shape = ty.node(node);
    match (value, shape.shape_of(value)) {
        (Value::Null, _) => Ok(()),
        (Value::Object(map), Shape::Map(fields)) => {
            for (name, value) in map {
                let Some(member) = fields.member(name) else {
                    return Err(format!(".{name}: field not declared in schema"));
                };
                check(ty, member, value, duplicates)
                    .map_err(|e| within(&format!(".{name}"), &e))?;
            }
            Ok(())
        }
        (Value::Array(items), Shape::List(list)) => {
            let mut seen: Vec<Step> = Vec::new();
            for (at, item) in items.iter().enumerate() {
                let step = if list.kind == ListKind::Atomic {
                    Step::Index(i64::try_from(at).unwrap_or(i64::MAX))
                } else {
                    let step = Step::to_item(ty, list, item)
                        .map_err(|e| format!(": element {at}: {e}"))?;
                    if !duplicates && seen.contains(&step) {
                        return Err(format!(": duplicate entries for key {step}"));
                    }
                    seen.push(step.clone());
                    step
                };
                check(ty, list.element, item, duplicates)
                    .map_err(|e| within(&step.to_string(), &e))?;
            }
            Ok(())
        }
        (value, Shape::Scalar) => match (shape.scalar, value) {
            (Some(Scalar::Any), Value::Object(_) | Value::Array(_)) => {
                Err(format!(": expected any scalar, got {value}"))
            }
            (Some(Scalar::Any), _)
            | (Some(Scalar::Bool), Value::Bool(_))
            | (Some(Scalar::Number), Value::Number(_))
            | (Some(Scalar::Text), Value::String(_)) => Ok(()),
            (Some(Scalar::Number), _) => {
                Err(format!(": expected numeric (int or float), got {}", go_type(value)))
            }
            (Some(Scalar::Bool), _) => Err(format!(": expected boolean, got {}", go_value(value))),
            _ => Err(format!(": expected string, got &value.valueUnstructured{{Value:{value}}}")),
        },
        (value, Shape::Map(_)) => Err(format!(": expected map, got {}", go_value(value))),
        (value, Shape::List(_)) => Err(format!(": expected list, got {}", go_value(value))),
    }
}

fn within(prefix: &str, error: &str) -> String {
    format!("{prefix}{error}")
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "bool",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
        Value::Number(_) | Value::Null => "nil",
    }
}

fn go_value(value: &Value) -> String {
    format!("&{{{}}}", value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

/// The paths that a value sets.
pub(super) fn field_set(ty: &TypeInfo, node: NodeId, value: &Value) -> FieldSet {
    let mut walk = Paths { ty, path: Vec::new(), set: FieldSet::default() };
    walk.visit(node, value);
    walk.set
}

struct Paths<'a> {
    ty: &'a TypeInfo,
    path: Vec<Step>,
    set: FieldSet,
}

impl Paths<'_> {
    fn visit(&mut self, node: NodeId, value: &Value) {
        match self.ty.node(node).shape_of(value) {
            Shape::Scalar => self.set.insert(&self.path),
            Shape::Map(map) if map.atomic => self.set.insert(&self.path),
            Shape::List(list) if list.kind == ListKind::Atomic => self.set.insert(&self.path),
            Shape::Map(shape) => {
                for (name, member) in value.as_object().into_iter().flatten() {
                    let node = shape.member(name).unwrap_or(crate::typeinfo::DEDUCED);
                    self.path.push(Step::field(name));
                    self.visit(node, member);
                    let hollow = member.is_null() || member.as_object().is_some_and(Map::is_empty);
                    if hollow || !shape.fields.contains_key(name) {
                        self.set.insert(&self.path);
                    }
                    self.path.pop();
                }
            }
            Shape::List(list) => {
                let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
                let steps: Vec<Option<Step>> =
                    items.iter().map(|item| Step::to_item(self.ty, list, item).ok()).collect();
                for (at, (step, item)) in steps.iter().zip(items).enumerate() {
                    let Some(step) = step else { continue };
                    let twice =
                        steps.iter().enumerate().any(|(o, s)| o != at && s.as_ref() == Some(step));
                    self.path.push(step.clone());
                    if !twice {
                        self.visit(list.element, item);
                    }
                    self.set.insert(&self.path);
                    self.path.pop();
                }
            }
        }
    }
}

/// The value without the members of a set. `None` when nothing is left of it.
pub(super) fn remove(ty: &TypeInfo, node: NodeId, value: &Value, gone: &FieldSet) -> Option<Value> {
    match (ty.node(node).shape_of(value), value) {
        (Shape::Map(map), Value::Object(members)) => {
            if map.atomic || members.is_empty() {
                return None;
            }
            let mut out = Map::new();
            for (name, member) in members {
                let step = Step::field(name);
                if gone.has(&step) {
                    continue;
                }
                let node = map.member(name).unwrap_or(crate::typeinfo::DEDUCED);
                let kept = match gone.below(&step) {
                    Some(below) => {
                        remove(ty, node, member, below).unwrap_or_else(|| hollow(member))
                    }
                    None => member.clone(),
                };
                out.insert(name.clone(), kept);
            }
            (!out.is_empty()).then_some(Value::Object(out))
        }
        (Shape::List(list), Value::Array(items)) => {
            if list.kind == ListKind::Atomic {
                return None;
            }
            let mut out = Vec::new();
            for item in items {
                let step = Step::to_item(ty, list, item).ok();
                if step.as_ref().is_some_and(|step| gone.has(step)) {
                    continue;
                }
                let below = step.as_ref().and_then(|step| gone.below(step));
                out.push(match below {
                    Some(below) => {
                        remove(ty, list.element, item, below).unwrap_or_else(|| hollow(item))
                    }
                    None => item.clone(),
                });
            }
            (!out.is_empty()).then_some(Value::Array(out))
        }
        (Shape::Scalar, value) => Some(value.clone()),
        _ => None,
    }
}

/// What is left of a container when all in it was removed, but not itself.
fn hollow(value: &Value) -> Value {
    match value {
        Value::Object(_) => Value::Object(Map::new()),
        Value::Array(_) => Value::Array(Vec::new()),
        _ => Value::Null,
    }
}
