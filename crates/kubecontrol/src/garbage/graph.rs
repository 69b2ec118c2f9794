//! Who owns whom, over all kinds. In: metadata as watches show it; out: which objects must be
//! looked at. It does no requests and decides nothing for good: an owner that is not in the graph
//! may still exist.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use rustc_hash::{FxHashMap, FxHashSet};

use super::verdict::{Dependent, Family, Owner};
use super::{FOREGROUND, ORPHAN};
use crate::discovery::Served;

pub(super) type Uid = Arc<str>;

/// How many deleted objects are remembered, so that their dependents need not ask for them.
const REMEMBERED: usize = 1024;

#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) served: Arc<Served>,
    pub(super) ns: Arc<str>,
    pub(super) name: Arc<str>,
    owners: Vec<OwnerReference>,
    foreground: bool,
    orphan: bool,
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.served.title(), self.ns, self.name)
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Work {
    /// Look whether this object must go.
    Delete(Uid),
    /// The same, but its owner may only be late.
    Doubt(Uid),
    /// Set this object's dependents free.
    Orphan(Uid),
}

#[derive(Default)]
pub(super) struct Graph {
    nodes: FxHashMap<Uid, Node>,
    dependents: FxHashMap<Uid, BTreeSet<Uid>>,
    gone: FxHashSet<Uid>,
    order: VecDeque<Uid>,
}

impl Graph {
    pub(super) fn node(&self, uid: &str) -> Option<Node> {
        self.nodes.get(uid).cloned()
    }

    pub(super) fn apply(&mut self, served: &Arc<Served>, meta: &ObjectMeta) -> Vec<Work> {
        let Some(uid) = meta.uid.as_deref() else { return Vec::new() };
        let uid: Uid = uid.into();
        let has = |f: &str| meta.finalizers.iter().flatten().any(|x| x == f);
        let deleted = meta.deletion_timestamp.is_some();
        let node = Node {
            served: served.clone(),
            ns: meta.namespace.as_deref().unwrap_or("").into(),
            name: meta.name.as_deref().unwrap_or("").into(),
            owners: meta.owner_references.clone().unwrap_or_default(),
            foreground: deleted && has(FOREGROUND),
            orphan: deleted && has(ORPHAN),
        };
        let old = self.nodes.insert(uid.clone(), node.clone());
        let mut work = Vec::new();
        let old_owners = old.as_ref().map_or(&[][..], |o| &o.owners);
        if old_owners != node.owners.as_slice() {
            for owner in old_owners {
                self.unlink(&owner.uid, &uid);
                // An owner that waits for its dependents may have one less to wait for.
                work.extend(self.if_leaving(&owner.uid));
            }
            for owner in &node.owners {
                self.dependents.entry(owner.uid.as_str().into()).or_default().insert(uid.clone());
            }
            if !self.is_settled(&uid) {
                let late = node.owners.iter().any(|o| {
                    !self.nodes.contains_key(o.uid.as_str()) && !self.gone.contains(o.uid.as_str())
                });
                work.push(if late { Work::Doubt(uid.clone()) } else { Work::Delete(uid.clone()) });
            }
        }
        if node.foreground && old.as_ref().is_none_or(|o| !o.foreground) {
            work.push(Work::Delete(uid.clone()));
            work.extend(self.children(&uid).map(Work::Delete));
        }
        if node.orphan && old.as_ref().is_none_or(|o| !o.orphan) {
            work.push(Work::Orphan(uid.clone()));
        }
        work.sort_unstable();
        work.dedup();
        work
    }

    pub(super) fn remove(&mut self, uid: &str) -> Vec<Work> {
        self.note_gone(uid);
        let Some((uid, node)) = self.nodes.remove_entry(uid) else { return Vec::new() };
        let mut work: Vec<Work> = self.children(&uid).map(Work::Delete).collect();
        for owner in &node.owners {
            self.unlink(&owner.uid, &uid);
            work.extend(self.if_leaving(&owner.uid));
        }
        work
    }

    /// Remembers that no object of this uid exists any more.
    pub(super) fn note_gone(&mut self, uid: &str) {
        let uid: Uid = uid.into();
        if self.gone.insert(uid.clone()) {
            self.order.push_back(uid);
        }
        while self.order.len() > REMEMBERED {
            if let Some(oldest) = self.order.pop_front() {
                self.gone.remove(&oldest);
            }
        }
    }

    fn unlink(&mut self, owner: &str, dependent: &Uid) {
        if let Some(set) = self.dependents.get_mut(owner) {
            set.remove(dependent);
            if set.is_empty() {
                self.dependents.remove(owner);
            }
        }
    }

    fn if_leaving(&self, owner: &str) -> Option<Work> {
        let (uid, node) = self.nodes.get_key_value(owner)?;
        node.foreground.then(|| Work::Delete(uid.clone()))
    }

    fn children(&self, uid: &str) -> impl Iterator<Item = Uid> {
        self.dependents.get(uid).into_iter().flatten().cloned()
    }

    /// Whether there is nothing to do about this object: all owners known and staying.
    pub(super) fn is_settled(&self, uid: &str) -> bool {
        let Some(node) = self.nodes.get(uid) else { return true };
        !node.foreground
            && node.owners.iter().all(|owner| self.owner(node, owner) == Some(Owner::Solid))
    }

    /// What the graph knows of an owner; nothing, if it was never seen.
    pub(super) fn owner(&self, node: &Node, owner: &OwnerReference) -> Option<Owner> {
        match self.nodes.get(owner.uid.as_str()) {
            // A reference into another namespace refers to nothing.
            Some(found) if !found.ns.is_empty() && !node.ns.is_empty() && found.ns != node.ns => {
                Some(Owner::Gone)
            }
            Some(found) if found.foreground => Some(Owner::Leaving),
            Some(_) => Some(Owner::Solid),
            None if self.gone.contains(owner.uid.as_str()) => Some(Owner::Gone),
            None => None,
        }
    }

    pub(super) fn family(&self, uid: &str) -> Family {
        let dependents = self
            .children(uid)
            .filter_map(|child| {
                let node = self.nodes.get(&child)?;
                let blocks = node
                    .owners
                    .iter()
                    .any(|o| o.uid == uid && o.block_owner_deletion == Some(true));
                Some(Dependent { uid: child, blocks, foreground: node.foreground })
            })
            .collect();
        Family { dependents }
    }

    /// The uids of all objects of one kind.
    pub(super) fn of_kind(&self, served: &Served) -> Vec<Uid> {
        let same = |n: &Node| {
            n.served.resource.group == served.resource.group
                && n.served.resource.plural == served.resource.plural
        };
        self.nodes.iter().filter(|(_, n)| same(n)).map(|(uid, _)| uid.clone()).collect()
    }
}

#[cfg(test)]
mod tests;
