//! What a Deployment must do next: (Deployment, ReplicaSets, pods, now) → steps and status. Pure.
//!
//! The rule of a rolling update: never more pods than wanted + surge, never fewer available pods
//! than wanted − unavailable by our doing. Sizes count as what sets were told, availability as
//! what they reported, so a late report can only make the plan more careful.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::condition::{Conditions, counts, finish, is_complete};
use super::replicas::{
    DESIRED, HASH, HISTORY, MAXIMUM, REVISION, Set, available, born, bounds, desired, held,
    is_rolling, revision, size, spec, total, wanted,
};
use super::scale;
use crate::event::Fact;
use crate::podstate::is_finished;
use crate::store::{annotation, is_deleted, name};
use crate::{hash, owner};

pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    pub(super) status: DeploymentStatus,
    pub(super) again: Option<Duration>,
    pub(super) facts: Vec<Fact>,
}

#[derive(Debug)]
pub(super) enum Step {
    Create(Box<ReplicaSet>),
    /// A merge patch of a set; it carries the version it was decided on.
    Patch {
        set: Set,
        body: Value,
    },
    Delete(Set),
    /// A merge patch of the Deployment itself.
    Annotate(Value),
}

pub(super) fn plan(
    deployment: &Deployment,
    sets: &[Set],
    pods: &[Arc<Pod>],
    now: Timestamp,
) -> Plan {
    let new = newest(deployment, sets);
    let old: Vec<Set> = sets
        .iter()
        .filter(|set| new.as_ref().is_none_or(|new| new.metadata.uid != set.metadata.uid))
        .cloned()
        .collect();
    let mut work = Work {
        deployment,
        conditions: Conditions::of(deployment, now),
        steps: Vec::new(),
        facts: Vec::new(),
    };
    let mut status = counts(deployment, new.as_ref(), sets, pods);
    if !is_deleted(&deployment.metadata) {
        work.note_pause();
        let paused = spec(deployment).paused == Some(true);
        if paused || scale::is_asked(deployment, sets) {
            for (set, size) in scale::spread(deployment, new.as_ref(), &old) {
                work.resize(&set, size);
            }
        }
        if !paused && work.steps.is_empty() {
            if is_rolling(deployment) {
                work.roll(new.as_ref(), &old);
            } else {
                work.recreate(new.as_ref(), &old, pods);
            }
        }
        if work.steps.is_empty() && is_complete(deployment, &status) {
            work.forget_history(&old);
        }
    }
    let new = new.as_deref();
    let again = finish(deployment, new, sets, &mut status, work.conditions);
    Plan { steps: work.steps, status, again, facts: work.facts }
}

/// The set of the current template; the oldest, if there are several.
fn newest(deployment: &Deployment, sets: &[Set]) -> Option<Set> {
    let same = sets.iter().filter(|set| same_template(deployment, set));
    same.min_by_key(|set| born(set)).cloned()
}

pub(super) fn same_template(deployment: &Deployment, set: &ReplicaSet) -> bool {
    let plain = |template: Option<&PodTemplateSpec>| {
        let mut template = template.cloned().unwrap_or_default();
        let mut meta = template.metadata.take().unwrap_or_default();
        if let Some(labels) = &mut meta.labels {
            labels.remove(HASH);
        }
        meta.labels = meta.labels.filter(|l| !l.is_empty());
        meta.creation_timestamp = None;
        template.metadata = Some(meta);
        template
    };
    let ours = deployment.spec.as_ref().map(|s| &s.template);
    plain(ours) == plain(set.spec.as_ref().and_then(|s| s.template.as_ref()))
}

struct Work<'a> {
    deployment: &'a Deployment,
    conditions: Conditions,
    steps: Vec<Step>,
    facts: Vec<Fact>,
}

impl Work<'_> {
    fn note_pause(&mut self) {
        let reason = self.conditions.reason();
        match (spec(self.deployment).paused == Some(true), reason) {
            // A rollout that already failed keeps saying so.
            (_, Some("ProgressDeadlineExceeded")) => {}
            (true, reason) if reason != Some("DeploymentPaused") => {
                let message = "Deployment is paused";
                self.conditions.progressing("Unknown", "DeploymentPaused", message);
            }
            (false, Some("DeploymentPaused")) => {
                let message = "Deployment is resumed";
                self.conditions.progressing("Unknown", "DeploymentResumed", message);
            }
            _ => {}
        }
    }

    fn roll(&mut self, new: Option<&Set>, old: &[Set]) {
        // Pods that a set was told to delete but still has take up room, too.
        let has = total(old, held);
        let Some(new) = new else {
            return self.make(old, self.room(has, 0));
        };
        self.refresh(new, old);
        let goal = if size(new) > wanted(self.deployment) {
            wanted(self.deployment)
        } else {
            size(new) + self.room(has + held(new), size(new))
        };
        if goal != size(new) {
            return self.resize(new, goal);
        }
        self.shrink_old(new, old);
    }

    /// How many pods the new set may have on top of `has`, when all sets together have `all`.
    fn room(&self, all: i32, has: i32) -> i32 {
        let wanted = wanted(self.deployment);
        let limit = wanted + bounds(self.deployment).0;
        (limit - all).min(wanted - has).max(0)
    }

    fn shrink_old(&mut self, new: &Set, old: &[Set]) {
        let least = wanted(self.deployment) - bounds(self.deployment).1;
        let told = total(old, size) + size(new);
        let late = size(new) - available(new);
        let mut may = told - least - late;
        let mut old: Vec<Set> = old.iter().filter(|set| size(set) > 0).cloned().collect();
        old.sort_by_cached_key(|set| born(set));
        let mut sizes: Vec<i32> = old.iter().map(|set| size(set)).collect();
        // Pods that are not available go first: they serve nobody.
        for (set, size) in old.iter().zip(&mut sizes) {
            let broken = (*size - available(set)).clamp(0, may.max(0));
            *size -= broken;
            may -= broken;
        }
        let serving = total(&old, available) + available(new);
        let mut may = may.min(serving - least);
        for (set, size) in old.iter().zip(&mut sizes) {
            let healthy = (*size).min(available(set)).clamp(0, may.max(0));
            *size -= healthy;
            may -= healthy;
        }
        for (set, size) in old.iter().zip(sizes) {
            self.resize_if_changed(set, size);
        }
    }

    fn recreate(&mut self, new: Option<&Set>, old: &[Set], pods: &[Arc<Pod>]) {
        for set in old {
            self.resize_if_changed(set, 0);
        }
        // Every old pod must be gone, also those that are just terminating.
        let running = pods.iter().any(|pod| {
            !is_finished(pod)
                && old.iter().any(|set| owner::is_controlled_by(&pod.metadata, &set.metadata))
        });
        if !self.steps.is_empty() || running {
            return;
        }
        let wanted = wanted(self.deployment);
        match new {
            None => self.make(old, wanted),
            Some(new) => {
                self.refresh(new, old);
                self.resize_if_changed(new, wanted);
            }
        }
    }

    fn resize_if_changed(&mut self, set: &Set, goal: i32) {
        if size(set) != goal {
            self.resize(set, goal);
        }
    }

    /// Tells a set its size, and of which wanted number that size is a part.
    fn resize(&mut self, set: &Set, goal: i32) {
        let wanted = wanted(self.deployment);
        if size(set) == goal && desired(set) == Some(wanted) {
            return;
        }
        let body = json!({
            "metadata": {
                "resourceVersion": set.metadata.resource_version,
                "annotations": {
                    DESIRED: wanted.to_string(),
                    MAXIMUM: (wanted + bounds(self.deployment).0).to_string(),
                },
            },
            "spec": { "replicas": goal },
        });
        self.note_scaling(name(&set.metadata), size(set), goal);
        // Only one patch per set and reconcile: a second one would carry a stale version.
        self.steps.retain(|step| match step {
            Step::Patch { set: other, .. } => other.metadata.uid != set.metadata.uid,
            _ => true,
        });
        self.steps.push(Step::Patch { set: set.clone(), body });
    }

    fn note_scaling(&mut self, set: &str, from: i32, to: i32) {
        if from != to {
            let way = if to > from { "up" } else { "down" };
            let message = format!("Scaled {way} replica set {set} from {from} to {to}");
            self.facts.push(Fact::normal("ScalingReplicaSet", message));
        }
    }

    fn make(&mut self, old: &[Set], size: i32) {
        let set = new_set(self.deployment, next_revision(old), size);
        let message = format!("Created new replica set {:?}", name(&set.metadata));
        self.conditions.progressing("True", "NewReplicaSetCreated", &message);
        self.note_scaling(name(&set.metadata), 0, size);
        self.annotate_revision(next_revision(old));
        self.steps.push(Step::Create(Box::new(set)));
    }

    /// Keeps revision, annotations and `minReadySeconds` of the new set true.
    fn refresh(&mut self, new: &Set, old: &[Set]) {
        let next = next_revision(old).max(revision(new));
        let mut changes = BTreeMap::new();
        for (key, value) in inherited(self.deployment) {
            if annotation(&new.metadata, &key) != Some(value.as_str()) {
                changes.insert(key, value);
            }
        }
        if revision(new) < next {
            if revision(new) > 0 {
                let mut history = annotation(&new.metadata, HISTORY).unwrap_or("").to_string();
                if !history.is_empty() {
                    history.push(',');
                }
                history.push_str(&revision(new).to_string());
                changes.insert(HISTORY.into(), history);
            }
            changes.insert(REVISION.into(), next.to_string());
        }
        let min_ready = spec(self.deployment).min_ready_seconds.unwrap_or(0);
        let stale = new.spec.as_ref().and_then(|s| s.min_ready_seconds).unwrap_or(0) != min_ready;
        if !changes.is_empty() || stale {
            let body = json!({
                "metadata": {
                    "resourceVersion": new.metadata.resource_version,
                    "annotations": changes,
                },
                "spec": { "minReadySeconds": min_ready },
            });
            self.steps.push(Step::Patch { set: new.clone(), body });
        }
        if self.conditions.get("Progressing").is_none() {
            let message = format!("Found new replica set {:?}", name(&new.metadata));
            self.conditions.progressing("True", "FoundNewReplicaSet", &message);
        }
        self.annotate_revision(next);
    }

    fn annotate_revision(&mut self, revision: i64) {
        let revision = revision.to_string();
        if annotation(&self.deployment.metadata, REVISION) != Some(revision.as_str()) {
            let body = json!({ "metadata": { "annotations": { REVISION: revision } } });
            self.steps.push(Step::Annotate(body));
        }
    }

    /// Deletes the oldest revisions beyond `revisionHistoryLimit`.
    fn forget_history(&mut self, old: &[Set]) {
        let limit = spec(self.deployment).revision_history_limit.unwrap_or(10);
        let mut empty: Vec<&Set> = old
            .iter()
            .filter(|set| !is_deleted(&set.metadata) && size(set) == 0)
            .filter(|set| set.status.as_ref().is_none_or(|s| s.replicas == 0))
            .collect();
        empty.sort_by_cached_key(|set| (revision(set), born(set)));
        let extra = empty.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        self.steps.extend(empty[..extra].iter().map(|set| Step::Delete((*set).clone())));
    }
}

fn next_revision(old: &[Set]) -> i64 {
    old.iter().map(|set| revision(set)).max().unwrap_or(0) + 1
}

/// Annotations that a set takes over from its Deployment.
fn inherited(deployment: &Deployment) -> BTreeMap<String, String> {
    let own = [
        "kubectl.kubernetes.io/last-applied-configuration",
        "deprecated.deployment.rollback.to",
        REVISION,
        HISTORY,
        DESIRED,
        MAXIMUM,
    ];
    let mut annotations = deployment.metadata.annotations.clone().unwrap_or_default();
    annotations.retain(|key, _| !own.contains(&key.as_str()));
    annotations
}

fn new_set(deployment: &Deployment, revision: i64, size: i32) -> ReplicaSet {
    let spec = spec(deployment);
    let salt = deployment.status.as_ref().and_then(|s| s.collision_count);
    let hash = hash::of(&spec.template, salt);
    let mut template = spec.template;
    let meta = template.metadata.get_or_insert_default();
    meta.labels.get_or_insert_default().insert(HASH.into(), hash.clone());
    let labels = meta.labels.clone();
    let mut selector = spec.selector;
    selector.match_labels.get_or_insert_default().insert(HASH.into(), hash.clone());
    let mut annotations = inherited(deployment);
    let wanted = wanted(deployment);
    annotations.insert(REVISION.into(), revision.to_string());
    annotations.insert(DESIRED.into(), wanted.to_string());
    annotations.insert(MAXIMUM.into(), (wanted + bounds(deployment).0).to_string());
    ReplicaSet {
        metadata: ObjectMeta {
            name: Some(format!("{}-{hash}", name(&deployment.metadata))),
            namespace: deployment.metadata.namespace.clone(),
            labels,
            annotations: Some(annotations),
            owner_references: Some(vec![owner::reference(deployment)]),
            ..ObjectMeta::default()
        },
        spec: Some(ReplicaSetSpec {
            replicas: Some(size),
            min_ready_seconds: spec.min_ready_seconds,
            selector,
            template: Some(template),
        }),
        status: None,
    }
}
