//! Kinds of one family; their rules follow.

use super::*;

pub(super) const KINDS: &[Kind] = &[
    Kind {
        kind: "Pod",
        plural: "pods",
        singular: "pod",
        short_names: &["po"],
        categories: &["all"],
        subresources: &[
            "attach",
            "binding",
            "ephemeralcontainers",
            "eviction",
            "exec",
            "log",
            "portforward",
            "resize",
            "status",
        ],
        generation: Generation::Content,
        ..STORED
    },
    Kind { kind: "Binding", plural: "bindings", singular: "binding", namespaced: true, ..VIRTUAL },
];
