//! Kinds of one family; their rules follow.

use super::*;

pub(super) const KINDS: &[Kind] = &[
    Kind {
        group: "batch",
        kind: "CronJob",
        plural: "cronjobs",
        singular: "cronjob",
        short_names: &["cj"],
        categories: &["all"],
        subresources: &["status"],
        package: "batch.v1",
        generation: Generation::Content,
        ..STORED
    },
    Kind {
        group: "batch",
        kind: "Job",
        plural: "jobs",
        singular: "job",
        categories: &["all"],
        subresources: &["status"],
        package: "batch.v1",
        generation: Generation::Content,
        ..STORED
    },
];
