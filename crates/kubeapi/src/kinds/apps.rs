//! Kinds of one family; their rules follow.

use super::*;

pub(super) const KINDS: &[Kind] = &[
    Kind {
        group: "apps",
        kind: "ControllerRevision",
        plural: "controllerrevisions",
        singular: "controllerrevision",
        package: "apps.v1",
        ..STORED
    },
    Kind {
        group: "apps",
        kind: "DaemonSet",
        plural: "daemonsets",
        singular: "daemonset",
        short_names: &["ds"],
        categories: &["all"],
        subresources: &["status"],
        package: "apps.v1",
        generation: Generation::Content,
        ..STORED
    },
    Kind {
        group: "apps",
        kind: "Deployment",
        plural: "deployments",
        singular: "deployment",
        short_names: &["deploy"],
        categories: &["all"],
        subresources: &["scale", "status"],
        package: "apps.v1",
        generation: Generation::Content,
        ..STORED
    },
    Kind {
        group: "apps",
        kind: "ReplicaSet",
        plural: "replicasets",
        singular: "replicaset",
        short_names: &["rs"],
        categories: &["all"],
        subresources: &["scale", "status"],
        package: "apps.v1",
        generation: Generation::Content,
        ..STORED
    },
    Kind {
        group: "apps",
        kind: "StatefulSet",
        plural: "statefulsets",
        singular: "statefulset",
        short_names: &["sts"],
        categories: &["all"],
        subresources: &["scale", "status"],
        package: "apps.v1",
        generation: Generation::Content,
        ..STORED
    },
];
