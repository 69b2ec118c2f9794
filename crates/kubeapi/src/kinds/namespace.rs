//! Kinds of one family; their rules follow.

use super::*;

pub(super) const KINDS: &[Kind] = &[Kind {
    kind: "Namespace",
    plural: "namespaces",
    singular: "namespace",
    short_names: &["ns"],
    namespaced: false,
    subresources: &["finalize", "status"],
    verbs: &["create", "delete", "get", "list", "patch", "update", "watch"],
    names: NameRule::Label,
    ..STORED
}];
