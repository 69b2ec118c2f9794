//! Kinds of one family; their rules follow.

use super::*;

pub(super) const KINDS: &[Kind] = &[
    Kind {
        group: "admissionregistration.k8s.io",
        kind: "MutatingWebhookConfiguration",
        plural: "mutatingwebhookconfigurations",
        singular: "mutatingwebhookconfiguration",
        categories: &["api-extensions"],
        namespaced: false,
        package: "admissionregistration.v1",
        generation: Generation::Content,
        ..STORED
    },
    Kind {
        group: "admissionregistration.k8s.io",
        kind: "ValidatingAdmissionPolicy",
        plural: "validatingadmissionpolicies",
        singular: "validatingadmissionpolicy",
        categories: &["api-extensions"],
        namespaced: false,
        subresources: &["status"],
        package: "admissionregistration.v1",
        generation: Generation::Content,
        ..STORED
    },
    Kind {
        group: "admissionregistration.k8s.io",
        kind: "ValidatingAdmissionPolicyBinding",
        plural: "validatingadmissionpolicybindings",
        singular: "validatingadmissionpolicybinding",
        categories: &["api-extensions"],
        namespaced: false,
        package: "admissionregistration.v1",
        generation: Generation::Content,
        ..STORED
    },
    Kind {
        group: "admissionregistration.k8s.io",
        kind: "ValidatingWebhookConfiguration",
        plural: "validatingwebhookconfigurations",
        singular: "validatingwebhookconfiguration",
        categories: &["api-extensions"],
        namespaced: false,
        package: "admissionregistration.v1",
        generation: Generation::Content,
        ..STORED
    },
];
