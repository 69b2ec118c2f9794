//! Reading the numbers of a Deployment and its ReplicaSets. Pure.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, ReplicaSet};

use crate::fraction;
use crate::store::annotation;

pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
pub(super) const HISTORY: &str = "deployment.kubernetes.io/revision-history";
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
pub(super) const MAXIMUM: &str = "deployment.kubernetes.io/max-replicas";
pub(super) const HASH: &str = "pod-template-hash";

pub(super) type Set = Arc<ReplicaSet>;

pub(super) fn spec(deployment: &Deployment) -> DeploymentSpec {
    deployment.spec.clone().unwrap_or_default()
}

/// How many pods the Deployment asks for.
pub(super) fn wanted(deployment: &Deployment) -> i32 {
    deployment.spec.as_ref().and_then(|s| s.replicas).unwrap_or(1)
}

pub(super) fn is_rolling(deployment: &Deployment) -> bool {
    let strategy = deployment.spec.as_ref().and_then(|s| s.strategy.as_ref());
    strategy.and_then(|s| s.type_.as_deref()) != Some("Recreate")
}

/// (surge, unavailable): how far above and below the wanted number a rollout may go.
pub(super) fn bounds(deployment: &Deployment) -> (i32, i32) {
    if !is_rolling(deployment) {
        return (0, 0);
    }
    let rolling = deployment
        .spec
        .as_ref()
        .and_then(|s| s.strategy.as_ref())
        .and_then(|s| s.rolling_update.as_ref());
    let surge = rolling.and_then(|r| r.max_surge.as_ref());
    let unavailable = rolling.and_then(|r| r.max_unavailable.as_ref());
    fraction::bounds(surge, unavailable, wanted(deployment))
}

/// The number of pods a set is told to have.
pub(super) fn size(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|s| s.replicas).unwrap_or(1)
}

/// The number of pods a set has or will have, whichever is more.
pub(super) fn held(set: &ReplicaSet) -> i32 {
    reported(set, |s| Some(s.replicas)).max(size(set))
}

/// Pods of the set that are available and stay so: while a set shrinks, its status lags behind,
/// and pods it is about to delete must not be counted.
pub(super) fn available(set: &ReplicaSet) -> i32 {
    reported(set, |s| s.available_replicas).min(size(set))
}

pub(super) fn reported(
    set: &ReplicaSet,
    field: fn(&k8s_openapi::api::apps::v1::ReplicaSetStatus) -> Option<i32>,
) -> i32 {
    set.status.as_ref().and_then(field).unwrap_or(0)
}

pub(super) fn total(sets: &[Set], count: impl Fn(&ReplicaSet) -> i32) -> i32 {
    sets.iter().map(|set| count(set)).sum()
}

pub(super) fn revision(set: &ReplicaSet) -> i64 {
    annotation(&set.metadata, REVISION).and_then(|r| r.parse().ok()).unwrap_or(0)
}

pub(super) fn desired(set: &ReplicaSet) -> Option<i32> {
    annotation(&set.metadata, DESIRED)?.parse().ok()
}

pub(super) fn born(set: &ReplicaSet) -> (i64, String) {
    let meta = &set.metadata;
    let at = meta.creation_timestamp.as_ref().map_or(0, |t| t.0.as_second());
    (at, meta.name.clone().unwrap_or_default())
}
