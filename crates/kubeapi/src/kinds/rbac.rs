//! Kinds of one family; their rules follow.

use super::*;

pub(super) const KINDS: &[Kind] = &[
    Kind {
        group: "rbac.authorization.k8s.io",
        kind: "ClusterRole",
        plural: "clusterroles",
        singular: "clusterrole",
        namespaced: false,
        names: NameRule::PathSegment,
        package: "rbac.v1",
        ..STORED
    },
    Kind {
        group: "rbac.authorization.k8s.io",
        kind: "ClusterRoleBinding",
        plural: "clusterrolebindings",
        singular: "clusterrolebinding",
        namespaced: false,
        names: NameRule::PathSegment,
        package: "rbac.v1",
        ..STORED
    },
    Kind {
        group: "rbac.authorization.k8s.io",
        kind: "Role",
        plural: "roles",
        singular: "role",
        names: NameRule::PathSegment,
        package: "rbac.v1",
        ..STORED
    },
    Kind {
        group: "rbac.authorization.k8s.io",
        kind: "RoleBinding",
        plural: "rolebindings",
        singular: "rolebinding",
        names: NameRule::PathSegment,
        package: "rbac.v1",
        ..STORED
    },
];
