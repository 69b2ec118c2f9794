//! What a StatefulSet must do next: (set, pods, revisions, now) → pods to make, delete, relabel,
//! and the status. Pure.
//!
//! OrderedReady takes one step at a time: the first pod in order that is not available stops all
//! that come after it. Parallel makes and removes all at once, but still updates one by one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec, StatefulSetStatus};
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};

use crate::podstate::{
    from_template, is_available, is_finished, is_ready, next_available, number, phase,
};
use crate::revision::HASH;
use crate::store::{is_deleted, label, name, until};
use crate::{owner, revision};

const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";

pub(super) struct Input<'a> {
    pub(super) set: &'a StatefulSet,
    pub(super) pods: &'a [Arc<Pod>],
    /// Name and template of the revision that pods roll away from, and of the one they roll to.
    pub(super) current: (&'a str, &'a PodTemplateSpec),
    pub(super) update: (&'a str, &'a PodTemplateSpec),
    pub(super) now: Timestamp,
}

#[derive(Default)]
pub(super) struct Plan {
    pub(super) create: Vec<Pod>,
    pub(super) delete: Vec<Arc<Pod>>,
    pub(super) relabel: Vec<(Arc<Pod>, BTreeMap<String, String>)>,
    pub(super) status: StatefulSetStatus,
    pub(super) again: Option<Duration>,
}

/// The number in the name of a pod of this set.
pub(super) fn ordinal(set: &str, pod: &str) -> Option<i32> {
    let digits = pod.strip_prefix(set)?.strip_prefix('-')?;
    let canonical = digits == "0" || !digits.starts_with('0');
    digits.parse().ok().filter(|n: &i32| *n >= 0 && canonical && !digits.starts_with('+'))
}

pub(super) fn plan(input: &Input<'_>) -> Plan {
    let mut plan = Plan::default();
    if !is_deleted(&input.set.metadata) {
        walk(input, &mut plan);
    }
    plan.status = status(input, &plan);
    let pods = input.pods.iter().map(|p| &**p);
    plan.again = next_available(pods, min_ready(input), input.now).map(|at| until(input.now, at));
    plan
}

fn spec<'a>(input: &Input<'a>) -> Option<&'a StatefulSetSpec> {
    input.set.spec.as_ref()
}

fn min_ready(input: &Input<'_>) -> i32 {
    spec(input).and_then(|s| s.min_ready_seconds).unwrap_or(0)
}

fn replicas(input: &Input<'_>) -> i32 {
    spec(input).and_then(|s| s.replicas).unwrap_or(1)
}

fn partition(input: &Input<'_>) -> i32 {
    spec(input)
        .and_then(|s| s.update_strategy.as_ref()?.rolling_update.as_ref()?.partition)
        .unwrap_or(0)
}

fn is_on_delete(input: &Input<'_>) -> bool {
    let strategy = spec(input).and_then(|s| s.update_strategy.as_ref());
    strategy.and_then(|s| s.type_.as_deref()) == Some("OnDelete")
}

/// Running, ready long enough, and to stay.
fn is_healthy(input: &Input<'_>, pod: &Pod) -> bool {
    phase(pod) == "Running"
        && is_available(pod, min_ready(input), input.now)
        && !is_deleted(&pod.metadata)
}

fn walk(input: &Input<'_>, plan: &mut Plan) {
    let set = name(&input.set.metadata);
    let ordered = spec(input).and_then(|s| s.pod_management_policy.as_deref()) != Some("Parallel");
    let start = spec(input).and_then(|s| s.ordinals.as_ref()).and_then(|o| o.start).unwrap_or(0);
    let mut pods: BTreeMap<i32, Arc<Pod>> = input
        .pods
        .iter()
        .filter_map(|pod| Some((ordinal(set, name(&pod.metadata))?, pod.clone())))
        .collect();
    let wanted: Vec<(i32, Option<Arc<Pod>>)> =
        (start..start.saturating_add(replicas(input))).map(|n| (n, pods.remove(&n))).collect();

    for (number, pod) in &wanted {
        let pause = match pod {
            None => {
                plan.create.push(make(input, *number, *number < start + partition(input)));
                true
            }
            Some(pod) if is_finished(pod) => {
                if !is_deleted(&pod.metadata) {
                    plan.delete.push(pod.clone());
                }
                true
            }
            Some(pod) => {
                if let Some(labels) = missing_labels(*number, pod) {
                    plan.relabel.push((pod.clone(), labels));
                }
                !is_healthy(input, pod)
            }
        };
        if pause && ordered {
            return;
        }
    }
    // What is left is beyond the wanted number: the highest goes first.
    for pod in pods.values().rev() {
        if !is_deleted(&pod.metadata) {
            plan.delete.push(pod.clone());
        }
        if ordered {
            return;
        }
    }
    if !is_on_delete(input) {
        update(input, &wanted, plan);
    }
}

/// Replaces the highest pod that is not of the new revision, once all above it are healthy.
fn update(input: &Input<'_>, wanted: &[(i32, Option<Arc<Pod>>)], plan: &mut Plan) {
    let first = usize::try_from(partition(input)).unwrap_or(0);
    for (_, pod) in wanted.iter().skip(first).rev() {
        let Some(pod) = pod else { return };
        let stale = label(&pod.metadata, HASH) != Some(input.update.0);
        if stale && !is_deleted(&pod.metadata) {
            if !plan.delete.iter().any(|p| p.metadata.uid == pod.metadata.uid) {
                plan.delete.push(pod.clone());
            }
            return;
        }
        if !is_healthy(input, pod) {
            return;
        }
    }
}

fn missing_labels(number: i32, pod: &Pod) -> Option<BTreeMap<String, String>> {
    let wanted = [
        (POD_NAME.to_string(), name(&pod.metadata).to_string()),
        (POD_INDEX.to_string(), number.to_string()),
    ];
    let missing: BTreeMap<String, String> = wanted
        .into_iter()
        .filter(|(key, value)| label(&pod.metadata, key) != Some(value.as_str()))
        .collect();
    (!missing.is_empty() && !is_deleted(&pod.metadata)).then_some(missing)
}

fn make(input: &Input<'_>, number: i32, keep_current: bool) -> Pod {
    let rolling = !is_on_delete(input);
    let (revision, template) = if rolling && keep_current { input.current } else { input.update };
    let ns = input.set.metadata.namespace.as_deref().unwrap_or("");
    let mut pod = from_template(template, ns, owner::reference(input.set));
    let own_name = format!("{}-{number}", name(&input.set.metadata));
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(POD_NAME.into(), own_name.clone());
    labels.insert(POD_INDEX.into(), number.to_string());
    labels.insert(revision::HASH.into(), revision.into());
    let spec_of_pod = pod.spec.get_or_insert_default();
    spec_of_pod.hostname = Some(own_name.clone());
    spec_of_pod.subdomain = spec(input).and_then(|s| s.service_name.clone());
    pod.metadata.name = Some(own_name);
    pod
}

fn status(input: &Input<'_>, plan: &Plan) -> StatefulSetStatus {
    let old = input.set.status.as_ref();
    let live: Vec<&Pod> = input.pods.iter().map(|p| &**p).filter(|p| !is_finished(p)).collect();
    let count = |keep: &dyn Fn(&Pod) -> bool| number(live.iter().filter(|p| keep(p)).count());
    let of = |revision: &str| {
        let stays = |p: &Pod| {
            !is_deleted(&p.metadata)
                && !plan.delete.iter().any(|d| d.metadata.uid == p.metadata.uid)
        };
        let made = plan.create.iter().filter(|p| label(&p.metadata, HASH) == Some(revision));
        count(&|p| label(&p.metadata, HASH) == Some(revision) && stays(p)) + number(made.count())
    };
    let running = |p: &Pod| phase(p) == "Running" && is_ready(p);
    let mut status = StatefulSetStatus {
        replicas: count(&|_| true) + number(plan.create.len()),
        ready_replicas: Some(count(&running)),
        available_replicas: Some(count(&|p| {
            running(p) && is_available(p, min_ready(input), input.now)
        })),
        current_replicas: Some(of(input.current.0)),
        updated_replicas: Some(of(input.update.0)),
        current_revision: Some(input.current.0.to_string()),
        update_revision: Some(input.update.0.to_string()),
        observed_generation: input.set.metadata.generation,
        collision_count: Some(old.and_then(|s| s.collision_count).unwrap_or(0)),
        conditions: old.and_then(|s| s.conditions.clone()),
    };
    let wanted = Some(replicas(input));
    let done = !is_on_delete(input)
        && status.updated_replicas == wanted
        && status.ready_replicas == wanted
        && Some(status.replicas) == wanted;
    if done {
        status.current_replicas = status.updated_replicas;
        status.current_revision = status.update_revision.clone();
    }
    status
}

#[cfg(test)]
mod tests;
