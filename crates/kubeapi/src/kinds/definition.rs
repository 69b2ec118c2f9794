//! Kinds of one family; their rules follow.

use super::*;

pub(super) const KINDS: &[Kind] = &[Kind {
    group: "apiextensions.k8s.io",
    kind: "CustomResourceDefinition",
    plural: "customresourcedefinitions",
    singular: "customresourcedefinition",
    short_names: &["crd", "crds"],
    categories: &["api-extensions"],
    namespaced: false,
    subresources: &["status"],
    package: "apiextensions.v1",
    generation: Generation::Content,
    ..STORED
}];
