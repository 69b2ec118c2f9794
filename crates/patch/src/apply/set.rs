//! A set of paths into an object: what one manager owns. Read from and written as `fieldsV1`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::path::Step;
use crate::typeinfo::{DEDUCED, NodeId, TypeInfo};

/// Deeper ones are not read: no object is that deep.
const MAX_DEPTH: usize = 128;

/// Paths as a tree. Every entry is a member, or leads to one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSet {
    entries: BTreeMap<Step, Entry>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Entry {
    member: bool,
    below: FieldSet,
}

impl Entry {
    fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }
}

impl FieldSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn insert(&mut self, path: &[Step]) {
        let Some((first, rest)) = path.split_first() else { return };
        let entry = self.entries.entry(first.clone()).or_default();
        if rest.is_empty() {
            entry.member = true;
        } else {
            entry.below.insert(rest);
        }
    }

    /// Is the path of this single step a member?
    pub(crate) fn has(&self, step: &Step) -> bool {
        self.entries.get(step).is_some_and(|entry| entry.member)
    }

    pub(crate) fn contains(&self, path: &[Step]) -> bool {
        match path.split_first() {
            None => false,
            Some((step, [])) => self.has(step),
            Some((step, rest)) => self.below(step).is_some_and(|below| below.contains(rest)),
        }
    }

    /// What lies below a step, if anything does.
    pub(crate) fn below(&self, step: &Step) -> Option<&Self> {
        self.entries.get(step).map(|entry| &entry.below).filter(|below| !below.is_empty())
    }

    pub(crate) fn union(mut self, other: &Self) -> Self {
        for (step, theirs) in &other.entries {
            let entry = self.entries.entry(step.clone()).or_default();
            entry.member |= theirs.member;
            entry.below = std::mem::take(&mut entry.below).union(&theirs.below);
        }
        self
    }

    pub(crate) fn intersection(&self, other: &Self) -> Self {
        self.combine(|step, entry| {
            let theirs = other.entries.get(step)?;
            Some(Entry {
                member: entry.member && theirs.member,
                below: entry.below.intersection(&theirs.below),
            })
        })
    }

    /// Without the members of `other`; what lies below them stays.
    pub(crate) fn difference(&self, other: &Self) -> Self {
        self.combine(|step, entry| match other.entries.get(step) {
            None => Some(entry.clone()),
            Some(theirs) => Some(Entry {
                member: entry.member && !theirs.member,
                below: entry.below.difference(&theirs.below),
            }),
        })
    }

    /// Without the members of `other` and all below them.
    pub(crate) fn recursive_difference(&self, other: &Self) -> Self {
        self.combine(|step, entry| match other.entries.get(step) {
            None => Some(entry.clone()),
            Some(theirs) if theirs.member => None,
            Some(theirs) => Some(Entry {
                member: entry.member,
                below: entry.below.recursive_difference(&theirs.below),
            }),
        })
    }

    fn combine(&self, entry: impl Fn(&Step, &Entry) -> Option<Entry>) -> Self {
        let entries = self.entries.iter().filter_map(|(step, old)| {
            let new = entry(step, old).filter(|new| !new.is_empty())?;
            Some((step.clone(), new))
        });
        Self { entries: entries.collect() }
    }

    /// Adds declared fields that lead to members, so that removing all below removes them too.
    pub(crate) fn with_declared_parents(&self, ty: &TypeInfo, node: NodeId) -> Self {
        let shape = ty.node(node);
        self.combine(|step, entry| {
            let (declared, child) = match step {
                Step::Field(name) => {
                    let map = shape.map.as_ref();
                    let declared = map.is_some_and(|map| map.fields.contains_key(name));
                    (declared, map.and_then(|map| map.member(name)))
                }
                _ => (false, shape.list.as_ref().map(|list| list.element)),
            };
            let below = entry.below.with_declared_parents(ty, child.unwrap_or(DEDUCED));
            Some(Entry { member: entry.member || (declared && !below.is_empty()), below })
        })
    }

    /// All members, those of one level before those below.
    pub(crate) fn paths(&self) -> Vec<Vec<Step>> {
        let mut out = Vec::new();
        self.collect(&mut Vec::new(), &mut out);
        out
    }

    fn collect(&self, prefix: &mut Vec<Step>, out: &mut Vec<Vec<Step>>) {
        for (step, _) in self.entries.iter().filter(|(_, entry)| entry.member) {
            let mut path = prefix.clone();
            path.push(step.clone());
            out.push(path);
        }
        for (step, entry) in &self.entries {
            prefix.push(step.clone());
            entry.below.collect(prefix, out);
            prefix.pop();
        }
    }

    pub(crate) fn encode(&self) -> Value {
        let mut out = Map::new();
        for (step, entry) in &self.entries {
            let mut below = match entry.below.encode() {
                Value::Object(below) => below,
                _ => Map::new(),
            };
            if entry.member && !below.is_empty() {
                below.insert(".".to_owned(), Value::Object(Map::new()));
            }
            out.insert(step.encode(), Value::Object(below));
        }
        Value::Object(out)
    }

    /// Reads `fieldsV1`; unknown steps are left out. `None` when it is not an object.
    pub(crate) fn decode(value: &Value) -> Option<Self> {
        Self::decode_below(value, 0).map(|(set, _)| set)
    }

    fn decode_below(value: &Value, depth: usize) -> Option<(Self, bool)> {
        let map = value.as_object()?;
        let mut set = Self::default();
        let mut itself = false;
        for (key, value) in map {
            if key == "." {
                itself = true;
                continue;
            }
            let Some(step) = Step::parse(key) else { continue };
            if depth > MAX_DEPTH {
                return None;
            }
            let (below, member) = Self::decode_below(value, depth + 1)?;
            set.entries.insert(step, Entry { member, below });
        }
        let member = itself || set.is_empty();
        Some((set, member))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_v1_round_trips() {
        let text = json!({
            "f:metadata": {"f:labels": {".": {}, "f:app": {}}, "f:finalizers": {"v:\"x\"": {}}},
            "f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:image": {}, "f:ports": {
                "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}
            }}}},
        });
        let set = FieldSet::decode(&text).expect("an object");
        assert_eq!(set.encode(), text);
        let paths: Vec<String> = set
            .paths()
            .iter()
            .map(|path| path.iter().map(Step::to_string).collect::<String>())
            .collect();
        assert!(paths.contains(
            &".spec.containers[name=\"a\"].ports[containerPort=80,protocol=\"TCP\"]".to_owned()
        ));
        assert!(!paths.contains(&".spec".to_owned()));
    }

    #[test]
    fn difference_keeps_what_lies_below() {
        let set = FieldSet::decode(&json!({"f:a": {".": {}, "f:b": {}}})).expect("an object");
        let gone = FieldSet::decode(&json!({"f:a": {}})).expect("an object");
        assert_eq!(set.difference(&gone).encode(), json!({"f:a": {"f:b": {}}}));
        assert!(set.recursive_difference(&gone).is_empty());
    }
}
