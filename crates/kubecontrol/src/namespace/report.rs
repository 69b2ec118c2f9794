//! What the conditions of an ending namespace say. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, NamespaceCondition, NamespaceStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::store::time;

/// What is still in a namespace, and what could not be found out.
#[derive(Debug, Default)]
pub(super) struct Remains {
    undiscovered: Vec<String>,
    pub(super) failed: Vec<String>,
    objects: BTreeMap<String, usize>,
    finalizers: BTreeMap<String, usize>,
}

impl Remains {
    pub(super) fn new(undiscovered: Vec<String>) -> Self {
        Self { undiscovered, ..Self::default() }
    }

    pub(super) fn note<'a>(&mut self, kind: &str, objects: impl Iterator<Item = &'a ObjectMeta>) {
        for object in objects {
            *self.objects.entry(kind.to_string()).or_insert(0) += 1;
            for finalizer in object.finalizers.iter().flatten() {
                *self.finalizers.entry(finalizer.clone()).or_insert(0) += 1;
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.undiscovered.is_empty() && self.failed.is_empty() && self.objects.is_empty()
    }
}

pub(super) fn status(namespace: &Namespace, remains: &Remains, now: Timestamp) -> NamespaceStatus {
    let mut status = namespace.status.clone().unwrap_or_default();
    status.phase = Some("Terminating".into());
    let old = status.conditions.take().unwrap_or_default();
    let mut conditions = Vec::new();
    for (kind, bad, reason, message) in sentences(remains) {
        let value = if bad { "True" } else { "False" };
        let known = old.iter().find(|c| c.type_ == kind);
        let since = known
            .filter(|c| c.status == value)
            .and_then(|c| c.last_transition_time.clone())
            .or(time(now));
        conditions.push(NamespaceCondition {
            type_: kind.into(),
            status: value.into(),
            reason: Some(reason.into()),
            message: Some(message),
            last_transition_time: since,
        });
    }
    let foreign = |c: &NamespaceCondition| conditions.iter().all(|n| n.type_ != c.type_);
    let mut all: Vec<NamespaceCondition> = old.iter().filter(|c| foreign(c)).cloned().collect();
    all.extend(conditions);
    status.conditions = Some(all);
    status
}

/// (condition, whether it is bad, reason, message)
fn sentences(remains: &Remains) -> [(&'static str, bool, &'static str, String); 4] {
    let counted = |counts: &BTreeMap<String, usize>, word: &str| {
        let one =
            |(name, count): (&String, &usize)| format!("{name} {word} {count} resource instances");
        counts.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    let pick = |bad: bool, yes: (&'static str, String), no: (&'static str, &str)| {
        if bad { (true, yes.0, yes.1) } else { (false, no.0, no.1.to_string()) }
    };
    let discovery = pick(
        !remains.undiscovered.is_empty(),
        (
            "DiscoveryFailed",
            format!("Discovery failed for some groups: {}", remains.undiscovered.join(", ")),
        ),
        ("ResourcesDiscovered", "All resources successfully discovered"),
    );
    let content = pick(
        !remains.failed.is_empty(),
        (
            "ContentDeletionFailed",
            format!("Failed to delete all resource types: {}", remains.failed.join(", ")),
        ),
        ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
    );
    let objects = pick(
        !remains.objects.is_empty(),
        (
            "SomeResourcesRemain",
            format!("Some resources are remaining: {}", counted(&remains.objects, "has")),
        ),
        ("ContentRemoved", "All content successfully removed"),
    );
    let finalizers = pick(
        !remains.finalizers.is_empty(),
        (
            "SomeFinalizersRemain",
            format!(
                "Some content in the namespace has finalizers remaining: {}",
                counted(&remains.finalizers, "in")
            ),
        ),
        ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
    );
    [
        ("NamespaceDeletionDiscoveryFailure", discovery.0, discovery.1, discovery.2),
        ("NamespaceDeletionContentFailure", content.0, content.1, content.2),
        ("NamespaceContentRemaining", objects.0, objects.1, objects.2),
        ("NamespaceFinalizersRemaining", finalizers.0, finalizers.1, finalizers.2),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_remains_is_named_and_times_move_only_with_the_verdict() {
        let mut remains = Remains::default();
        let held = ObjectMeta { finalizers: Some(vec!["a/b".into()]), ..ObjectMeta::default() };
        remains.note("pods.", [&held, &ObjectMeta::default()].into_iter());
        assert!(!remains.is_empty());
        let first: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let later: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let mut namespace = Namespace::default();
        namespace.status = Some(status(&namespace, &remains, first));
        let by = |status: &NamespaceStatus, kind: &str| {
            let all = status.conditions.clone().unwrap();
            let one = all.into_iter().find(|c| c.type_ == kind).unwrap();
            (one.status, one.message.unwrap(), one.last_transition_time.unwrap().0)
        };
        let now = status(&namespace, &remains, later);
        assert_eq!(
            by(&now, "NamespaceContentRemaining"),
            (
                "True".into(),
                "Some resources are remaining: pods. has 2 resource instances".into(),
                first
            )
        );
        assert_eq!(
            by(&now, "NamespaceFinalizersRemaining").1,
            "Some content in the namespace has finalizers remaining: a/b in 1 resource instances"
        );
        let empty = status(&namespace, &Remains::default(), later);
        assert_eq!(by(&empty, "NamespaceContentRemaining").0, "False");
        assert_eq!(by(&empty, "NamespaceContentRemaining").2, later);
        assert_eq!(by(&empty, "NamespaceDeletionContentFailure").2, first);
        assert_eq!(empty.phase.as_deref(), Some("Terminating"));
    }
}
