//! Kinds of one family; their rules follow.

use super::*;

pub(super) const KINDS: &[Kind] = &[Kind {
    group: "scheduling.k8s.io",
    kind: "PriorityClass",
    plural: "priorityclasses",
    singular: "priorityclass",
    short_names: &["pc"],
    namespaced: false,
    package: "scheduling.v1",
    generation: Generation::Content,
    ..STORED
}];
