//! What changed between two values of one type, as sets of paths.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{path::Step, set::FieldSet};
use crate::typeinfo::{DEDUCED, ListKind, ListShape, MapShape, NodeId, Shape, TypeInfo};

#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) added: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) removed: FieldSet,
}

impl Changes {
    /// Forgets changes at and below the given paths.
    pub(super) fn without(self, ignored: &FieldSet) -> Self {
        Self {
            added: self.added.recursive_difference(ignored),
            modified: self.modified.recursive_difference(ignored),
            removed: self.removed.recursive_difference(ignored),
        }
    }
}

pub(super) fn compare(ty: &TypeInfo, old: &Value, new: &Value) -> Changes {
    let mut walk = Walk { ty, path: Vec::new(), out: Changes::default() };
    walk.visit(ty.root, Some(old), Some(new));
    walk.out
}

struct Walk<'a> {
    ty: &'a TypeInfo,
    path: Vec<Step>,
    out: Changes,
}

impl Walk<'_> {
    fn visit(&mut self, node: NodeId, old: Option<&Value>, new: Option<&Value>) {
        let node = self.ty.node(node).clone();
        let (first, second) = match (old, new) {
            (None, None) => return,
            (Some(old), None) => (node.shape_of(old), None),
            (None, Some(new)) => (node.shape_of(new), None),
            (Some(old), Some(new)) => {
                let (a, b) = (node.shape_of(old), node.shape_of(new));
                if a.same_kind(&b) { (b, None) } else { (a, Some(b)) }
            }
        };
        // A value that changed its shape is looked at in both shapes.
        let mut leaf = self.shape(first, old, new);
        if let Some(second) = second {
            leaf = self.shape(second, old, new);
        }
        if !leaf && old.is_none() {
            self.out.added.insert(&self.path);
        } else if !leaf && new.is_none() {
            self.out.removed.insert(&self.path);
        }
    }

    /// Answers whether the value was taken as one leaf.
    fn shape(&mut self, shape: Shape<'_>, old: Option<&Value>, new: Option<&Value>) -> bool {
        match shape {
            Shape::Scalar => self.leaf(old, new),
            Shape::Map(map) => {
                let old_map = old.and_then(Value::as_object);
                let new_map = new.and_then(Value::as_object);
                let hollow = old_map.is_none_or(Map::is_empty) && new_map.is_none_or(Map::is_empty);
                if map.atomic || hollow {
                    return self.leaf(old, new);
                }
                self.members(map, old_map, new_map);
                false
            }
            Shape::List(list) => {
                let old_list = old.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                let new_list = new.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                if list.kind == ListKind::Atomic || (old_list.is_empty() && new_list.is_empty()) {
                    return self.leaf(old, new);
                }
                self.items(list, old_list, new_list);
                false
            }
        }
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) -> bool {
        match (old, new) {
            (None, _) => self.out.added.insert(&self.path),
            (_, None) => self.out.removed.insert(&self.path),
            (Some(old), Some(new)) if old != new => self.out.modified.insert(&self.path),
            _ => {}
        }
        true
    }

    fn members(
        &mut self,
        shape: &MapShape,
        old: Option<&Map<String, Value>>,
        new: Option<&Map<String, Value>>,
    ) {
        let mut names: Vec<&String> = old.into_iter().chain(new).flat_map(Map::keys).collect();
        names.sort();
        names.dedup();
        for name in names {
            let node = shape.member(name).unwrap_or(DEDUCED);
            let empty = shape.fields.get(name).and_then(|field| field.empty.as_ref());
            self.path.push(Step::field(name));
            self.visit(
                node,
                old.and_then(|map| map.get(name).or(empty)),
                new.and_then(|map| map.get(name).or(empty)),
            );
            self.path.pop();
        }
    }

    fn items(&mut self, list: &ListShape, old: &[Value], new: &[Value]) {
        let mut all: BTreeMap<Step, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for item in old {
            if let Ok(step) = Step::to_item(self.ty, list, item) {
                all.entry(step).or_default().0.push(item);
            }
        }
        for item in new {
            if let Ok(step) = Step::to_item(self.ty, list, item) {
                all.entry(step).or_default().1.push(item);
            }
        }
        for (step, (old, new)) in all {
            self.path.push(step);
            match (old.as_slice(), new.as_slice()) {
                ([] | [_], [] | [_]) => {
                    self.visit(list.element, old.first().copied(), new.first().copied());
                }
                // Items that stand twice are one leaf together.
                ([_, _, ..], [_, _, ..]) if old != new => self.out.modified.insert(&self.path),
                ([_, _, ..], [_, _, ..]) => {}
                ([_, _, ..], _) => {
                    if let Some(new) = new.first() {
                        self.visit(list.element, None, Some(new));
                    }
                    self.out.removed.insert(&self.path);
                }
                (_, [_, _, ..]) => {
                    if let Some(old) = old.first() {
                        self.visit(list.element, Some(old), None);
                    }
                    self.out.added.insert(&self.path);
                }
            }
            self.path.pop();
        }
    }
}
