//! Kinds of one family; their rules follow.

use super::*;

pub(super) const KINDS: &[Kind] = &[Kind {
    group: "coordination.k8s.io",
    kind: "Lease",
    plural: "leases",
    singular: "lease",
    package: "coordination.v1",
    ..STORED
}];
