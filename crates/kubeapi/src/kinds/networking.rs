//! Kinds of one family; their rules follow.

use super::*;

pub(super) const KINDS: &[Kind] = &[
    Kind {
        group: "networking.k8s.io",
        kind: "Ingress",
        plural: "ingresses",
        singular: "ingress",
        short_names: &["ing"],
        subresources: &["status"],
        package: "networking.v1",
        generation: Generation::Content,
        ..STORED
    },
    Kind {
        group: "networking.k8s.io",
        kind: "IngressClass",
        plural: "ingressclasses",
        singular: "ingressclass",
        namespaced: false,
        package: "networking.v1",
        generation: Generation::Content,
        ..STORED
    },
    Kind {
        group: "networking.k8s.io",
        kind: "NetworkPolicy",
        plural: "networkpolicies",
        singular: "networkpolicy",
        short_names: &["netpol"],
        package: "networking.v1",
        generation: Generation::Content,
        ..STORED
    },
];
