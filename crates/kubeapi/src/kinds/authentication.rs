//! Kinds of one family; their rules follow.

use super::*;

pub(super) const KINDS: &[Kind] = &[
    Kind {
        group: "authentication.k8s.io",
        kind: "SelfSubjectReview",
        plural: "selfsubjectreviews",
        singular: "selfsubjectreview",
        package: "authentication.v1",
        ..VIRTUAL
    },
    Kind {
        group: "authentication.k8s.io",
        kind: "TokenReview",
        plural: "tokenreviews",
        singular: "tokenreview",
        package: "authentication.v1",
        ..VIRTUAL
    },
];

pub(super) const TOKEN_REQUEST: Behaviour = BEHAVIOUR;
