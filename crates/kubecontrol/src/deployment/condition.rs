//! The status of a Deployment: counts, and the conditions that `kubectl rollout status` and
//! `kubectl wait` look at. Pure.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{
    Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet, ReplicaSetCondition,
};
use k8s_openapi::api::core::v1::Pod;
use std::sync::Arc;

use super::replicas::{Set, bounds, reported, spec, total, wanted};
use crate::podstate::is_terminating;
use crate::podstate::number;
use crate::store::{name, time};

pub(super) const NEW_AVAILABLE: &str = "NewReplicaSetAvailable";
const PROGRESSING: &str = "Progressing";

/// A condition that does not change keeps its times.
pub(super) struct Conditions {
    list: Vec<DeploymentCondition>,
    now: Timestamp,
}

impl Conditions {
    pub(super) fn of(deployment: &Deployment, now: Timestamp) -> Self {
        let list = deployment.status.clone().and_then(|s| s.conditions).unwrap_or_default();
        Self { list, now }
    }

    pub(super) fn get(&self, kind: &str) -> Option<&DeploymentCondition> {
        self.list.iter().find(|c| c.type_ == kind)
    }

    pub(super) fn reason(&self) -> Option<&str> {
        self.get(PROGRESSING).and_then(|c| c.reason.as_deref())
    }

    pub(super) fn set(&mut self, kind: &str, status: &str, reason: &str, message: &str) {
        let same =
            |c: &DeploymentCondition| c.status == status && c.reason.as_deref() == Some(reason);
        if !self.get(kind).is_some_and(same) {
            self.touch(kind, status, reason, message);
        }
    }

    /// Sets the condition and its update time, even if nothing else about it changes.
    fn touch(&mut self, kind: &str, status: &str, reason: &str, message: &str) {
        let since = self
            .get(kind)
            .filter(|c| c.status == status)
            .and_then(|c| c.last_transition_time.clone())
            .or(time(self.now));
        self.list.retain(|c| c.type_ != kind);
        self.list.push(DeploymentCondition {
            type_: kind.into(),
            status: status.into(),
            reason: Some(reason.into()),
            message: Some(message.into()),
            last_update_time: time(self.now),
            last_transition_time: since,
        });
    }

    pub(super) fn progressing(&mut self, status: &str, reason: &str, message: &str) {
        self.set(PROGRESSING, status, reason, message);
    }

    fn drop(&mut self, kind: &str) {
        self.list.retain(|c| c.type_ != kind);
    }
}

/// Counts only; conditions are added by [`finish`].
pub(super) fn counts(
    deployment: &Deployment,
    new: Option<&Set>,
    sets: &[Set],
    pods: &[Arc<Pod>],
) -> DeploymentStatus {
    let replicas = total(sets, |s| reported(s, |s| Some(s.replicas)));
    let available = total(sets, |s| reported(s, |s| s.available_replicas));
    let some = |count: i32| (count != 0).then_some(count);
    DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: some(replicas),
        updated_replicas: some(new.map_or(0, |s| reported(s, |s| Some(s.replicas)))),
        ready_replicas: some(total(sets, |s| reported(s, |s| s.ready_replicas))),
        available_replicas: some(available),
        unavailable_replicas: some((replicas - available).max(0)),
        terminating_replicas: Some(number(pods.iter().filter(|p| is_terminating(p)).count())),
        collision_count: deployment.status.as_ref().and_then(|s| s.collision_count),
        conditions: None,
    }
}

pub(super) fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let wanted = wanted(deployment);
    let count = |n: Option<i32>| n.unwrap_or(0);
    count(status.updated_replicas) == wanted
        && count(status.replicas) == wanted
        && count(status.available_replicas) == wanted
}

/// Judges the rollout and writes the conditions; returns when to look again.
pub(super) fn finish(
    deployment: &Deployment,
    new: Option<&ReplicaSet>,
    sets: &[Set],
    status: &mut DeploymentStatus,
    mut conditions: Conditions,
) -> Option<std::time::Duration> {
    let now = conditions.now;
    judge_progress(deployment, new, status, &mut conditions);
    let least = wanted(deployment) - bounds(deployment).1;
    if status.available_replicas.unwrap_or(0) >= least {
        let message = "Deployment has minimum availability.";
        conditions.set("Available", "True", "MinimumReplicasAvailable", message);
    } else {
        let message = "Deployment does not have minimum availability.";
        conditions.set("Available", "False", "MinimumReplicasUnavailable", message);
    }
    match replica_failure(new, sets) {
        Some(failure) => {
            let reason = failure.reason.unwrap_or_default();
            let message = failure.message.unwrap_or_default();
            conditions.set("ReplicaFailure", &failure.status, &reason, &message);
        }
        None => conditions.drop("ReplicaFailure"),
    }
    let again = deadline(deployment, &conditions)
        .filter(|_| !is_complete(deployment, status))
        .map(|at| crate::store::until(now, at) + std::time::Duration::from_secs(1));
    conditions.list.sort_by(|a, b| a.type_.cmp(&b.type_));
    status.conditions = (!conditions.list.is_empty()).then_some(conditions.list);
    again
}

fn replica_failure(new: Option<&ReplicaSet>, sets: &[Set]) -> Option<ReplicaSetCondition> {
    let failure = |set: &ReplicaSet| {
        let conditions = set.status.clone()?.conditions?;
        conditions.into_iter().find(|c| c.type_ == "ReplicaFailure")
    };
    new.and_then(failure).or_else(|| sets.iter().find_map(|set| failure(set)))
}

/// When a rollout that is still going on counts as stuck.
fn deadline(deployment: &Deployment, conditions: &Conditions) -> Option<Timestamp> {
    let seconds = spec(deployment).progress_deadline_seconds.filter(|s| *s != i32::MAX)?;
    let current = conditions.get(PROGRESSING)?;
    if current.status != "True" || current.reason.as_deref() == Some(NEW_AVAILABLE) {
        return None;
    }
    let since = current.last_update_time.as_ref()?.0;
    since.checked_add(SignedDuration::from_secs(i64::from(seconds))).ok()
}

fn judge_progress(
    deployment: &Deployment,
    new: Option<&ReplicaSet>,
    status: &DeploymentStatus,
    conditions: &mut Conditions,
) {
    let spec = spec(deployment);
    let paused = spec.paused == Some(true);
    let count = |n: Option<i32>| n.unwrap_or(0);
    let settled = count(status.replicas) == count(status.updated_replicas)
        && conditions.reason() == Some(NEW_AVAILABLE);
    if paused || spec.progress_deadline_seconds == Some(i32::MAX) || settled {
        return;
    }
    let subject = new.map_or_else(
        || format!("Deployment {:?}", name(&deployment.metadata)),
        |set| format!("ReplicaSet {:?}", name(&set.metadata)),
    );
    let old = deployment.status.clone().unwrap_or_default();
    let pending = |s: &DeploymentStatus| count(s.replicas) - count(s.updated_replicas);
    let moved = count(status.updated_replicas) > count(old.updated_replicas)
        || pending(status) < pending(&old)
        || count(status.ready_replicas) > count(old.ready_replicas)
        || count(status.available_replicas) > count(old.available_replicas);
    if is_complete(deployment, status) && new.is_some() {
        let message = format!("{subject} has successfully progressed.");
        conditions.progressing("True", NEW_AVAILABLE, &message);
    } else if moved {
        let message = format!("{subject} is progressing.");
        conditions.touch(PROGRESSING, "True", "ReplicaSetUpdated", &message);
    } else if deadline(deployment, conditions).is_some_and(|at| at <= conditions.now) {
        let message = format!("{subject} has timed out progressing.");
        conditions.progressing("False", "ProgressDeadlineExceeded", &message);
    }
}
