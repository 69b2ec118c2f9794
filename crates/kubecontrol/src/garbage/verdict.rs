//! What happens to one object, given its metadata, the state of its owners and its dependents.
//! Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::PropagationPolicy;

use super::graph::Uid;
use super::{FOREGROUND, ORPHAN};

/// The state of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// It is there.
    Solid,
    /// It waits for its dependents to be deleted first.
    Leaving,
    /// It does not exist.
    Gone,
}

#[derive(Debug, Clone)]
pub(super) struct Dependent {
    pub(super) uid: Uid,
    /// Its owner may not go before it.
    pub(super) blocks: bool,
    pub(super) foreground: bool,
}

#[derive(Debug, Default)]
pub(super) struct Family {
    pub(super) dependents: Vec<Dependent>,
}

#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    Nothing,
    /// It may not go before these, which must be looked at.
    Wait(Vec<Uid>),
    /// Nothing blocks it any more: its foreground finalizer goes.
    Finalize,
    /// It has other owners: only these references stay.
    Disown(Vec<OwnerReference>),
    /// It stands in a circle of objects that wait for one another: its references stop blocking,
    /// then it is deleted.
    Unblock(Vec<OwnerReference>),
    Delete(PropagationPolicy),
}

pub(super) fn is_foreground(meta: &ObjectMeta) -> bool {
    meta.deletion_timestamp.is_some() && has(meta, FOREGROUND)
}

fn has(meta: &ObjectMeta, finalizer: &str) -> bool {
    meta.finalizers.iter().flatten().any(|f| f == finalizer)
}

pub(super) fn decide(
    meta: &ObjectMeta,
    owners: &[(OwnerReference, Owner)],
    family: &Family,
) -> Verdict {
    if is_foreground(meta) {
        let mut blocking = family.dependents.iter().filter(|d| d.blocks).peekable();
        if blocking.peek().is_none() {
            return Verdict::Finalize;
        }
        let waiting = blocking.filter(|d| !d.foreground).map(|d| d.uid.clone());
        return Verdict::Wait(waiting.collect());
    }
    if meta.deletion_timestamp.is_some() || owners.is_empty() {
        return Verdict::Nothing;
    }
    let of = |wanted: Owner| owners.iter().filter(move |(_, state)| *state == wanted);
    if of(Owner::Solid).next().is_some() {
        let kept: Vec<OwnerReference> = of(Owner::Solid).map(|(o, _)| o.clone()).collect();
        return if kept.len() == owners.len() { Verdict::Nothing } else { Verdict::Disown(kept) };
    }
    if of(Owner::Leaving).next().is_some() && !family.dependents.is_empty() {
        if family.dependents.iter().any(|d| d.foreground) {
            let mut changed: Vec<OwnerReference> = owners.iter().map(|(o, _)| o.clone()).collect();
            changed.iter_mut().for_each(|o| o.block_owner_deletion = Some(false));
            return Verdict::Unblock(changed);
        }
        return Verdict::Delete(PropagationPolicy::Foreground);
    }
    Verdict::Delete(if has(meta, ORPHAN) {
        PropagationPolicy::Orphan
    } else if has(meta, FOREGROUND) {
        PropagationPolicy::Foreground
    } else {
        PropagationPolicy::Background
    })
}
