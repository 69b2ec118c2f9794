//! What a DaemonSet must do next: (set, nodes, pods, revision, now) → pods to make and delete, and
//! the status. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetStatus};
use k8s_openapi::api::core::v1::{
    Affinity, Node, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod,
    PodSpec, Toleration,
};

use crate::placement::{NOT_READY, UNREACHABLE, UNSCHEDULABLE, accepts, taints, untolerated};
use crate::podstate::{
    from_template, is_available, is_finished, is_ready, next_available, node as node_of, phase,
    prefix,
};
use crate::revision::HASH;
use crate::store::{is_deleted, label, name, until};
use crate::{fraction, owner};

/// A pod that failed is replaced only after this time, so that a broken one does not spin.
const FAILED_PAUSE: SignedDuration = SignedDuration::from_secs(5);

pub(super) struct Plan {
    pub(super) create: Vec<Pod>,
    pub(super) delete: Vec<Arc<Pod>>,
    pub(super) status: DaemonSetStatus,
    pub(super) again: Option<Duration>,
}

/// The pods of one node, apart by revision, oldest first.
#[derive(Default, Clone)]
struct OnNode {
    new: Vec<Arc<Pod>>,
    old: Vec<Arc<Pod>>,
}

struct Work<'a> {
    set: &'a DaemonSet,
    hash: &'a str,
    now: Timestamp,
    min_ready: i32,
    surge: i32,
    create: Vec<String>,
    delete: Vec<Arc<Pod>>,
    again: Option<Timestamp>,
}

pub(super) fn plan(
    set: &DaemonSet,
    nodes: &[Arc<Node>],
    pods: &[Arc<Pod>],
    hash: &str,
    now: Timestamp,
) -> Plan {
    let spec = set.spec.clone().unwrap_or_default();
    let sample = daemon_spec(set);
    let verdicts: BTreeMap<&str, Verdict> =
        nodes.iter().map(|n| (name(&n.metadata), verdict(&sample, n))).collect();
    let wanted = verdicts.values().filter(|v| **v == Verdict::Run).count();
    let (surge, unavailable) = bounds(set, i32::try_from(wanted).unwrap_or(i32::MAX));
    let min_ready = spec.min_ready_seconds.unwrap_or(0);
    let mut work = Work {
        set,
        hash,
        now,
        min_ready,
        surge,
        create: Vec::new(),
        delete: Vec::new(),
        again: next_available(pods.iter().map(|p| &**p), min_ready, now),
    };
    let mut by_node: BTreeMap<String, OnNode> = BTreeMap::new();
    for pod in pods {
        let Some(target) = target(pod) else { continue };
        let here = by_node.entry(target.to_string()).or_default();
        let is_new = label(&pod.metadata, HASH) == Some(hash);
        if is_new { here.new.push(pod.clone()) } else { here.old.push(pod.clone()) }
    }
    for here in by_node.values_mut() {
        here.new.sort_by_cached_key(|p| born(p));
        here.old.sort_by_cached_key(|p| born(p));
    }
    for (node, verdict) in &verdicts {
        let here = by_node.get(*node).cloned().unwrap_or_default();
        work.keep_one(node, *verdict, here);
    }
    let strategy = spec.update_strategy.as_ref().and_then(|s| s.type_.as_deref());
    if strategy != Some("OnDelete") {
        work.update(&verdicts, &by_node, unavailable);
    }
    let status = status(&work, &verdicts, &by_node);
    let create = work.create.iter().map(|node| make(set, node, hash)).collect();
    let again = work.again.map(|at| until(now, at));
    Plan { create, delete: work.delete, status, again }
}

impl Work<'_> {
    fn drop(&mut self, pod: &Arc<Pod>) {
        let known = self.delete.iter().any(|d| d.metadata.uid == pod.metadata.uid);
        if !known && !is_deleted(&pod.metadata) {
            self.delete.push(pod.clone());
        }
    }

    /// Exactly one pod where it belongs (a second one only while an update surges), none elsewhere.
    fn keep_one(&mut self, node: &str, verdict: Verdict, here: OnNode) {
        let all: Vec<Arc<Pod>> = here.old.iter().chain(&here.new).cloned().collect();
        if verdict == Verdict::Leave {
            all.iter().for_each(|pod| self.drop(pod));
            return;
        }
        let mut failed = false;
        for pod in all.iter().filter(|p| is_finished(p)) {
            failed = true;
            let at = born_at(pod).checked_add(FAILED_PAUSE).unwrap_or(self.now);
            if phase(pod) == "Succeeded" || at <= self.now {
                self.drop(pod);
            } else {
                self.again = Some(self.again.map_or(at, |other| other.min(at)));
            }
        }
        let alive = |pods: Vec<Arc<Pod>>| -> Vec<Arc<Pod>> {
            pods.into_iter().filter(|p| !is_finished(p) && !is_deleted(&p.metadata)).collect()
        };
        let (old, new) = (alive(here.old), alive(here.new));
        if self.surge > 0 {
            old.iter().skip(1).chain(new.iter().skip(1)).for_each(|pod| self.drop(pod));
        } else {
            let mut both: Vec<Arc<Pod>> = old.iter().chain(&new).cloned().collect();
            both.sort_by_cached_key(|p| born(p));
            both.iter().skip(1).for_each(|pod| self.drop(pod));
        }
        // While the old pod is on its way out, its place is not free yet.
        let leaving = all.iter().any(|p| is_deleted(&p.metadata) && !is_finished(p));
        if verdict == Verdict::Run && old.is_empty() && new.is_empty() && !failed && !leaving {
            self.create.push(node.to_string());
        }
    }

    fn update(
        &mut self,
        verdicts: &BTreeMap<&str, Verdict>,
        by_node: &BTreeMap<String, OnNode>,
        unavailable: i32,
    ) {
        let usable = |pods: &[Arc<Pod>]| -> Option<Arc<Pod>> {
            pods.iter().find(|p| !is_finished(p) && !is_deleted(&p.metadata)).cloned()
        };
        let (mut missing, mut surging) = (0, 0);
        let (mut healthy, mut waiting) = (Vec::new(), Vec::new());
        for node in verdicts.iter().filter(|(_, v)| **v == Verdict::Run).map(|(n, _)| *n) {
            let here = by_node.get(node).cloned().unwrap_or_default();
            let ready = |pod: &Pod| is_available(pod, self.min_ready, self.now);
            match (usable(&here.old), usable(&here.new)) {
                (None, Some(new)) if ready(&new) => {}
                (Some(old), Some(new)) if ready(&new) => self.drop(&old),
                (Some(_), Some(_)) => surging += 1,
                (Some(old), None) if !ready(&old) && self.surge == 0 => {
                    // It serves nobody as it is, so nothing is lost by replacing it now.
                    missing += 1;
                    self.drop(&old);
                }
                (Some(old), None) if !ready(&old) => waiting.insert(0, (node, old)),
                (Some(old), None) => {
                    healthy.push(old.clone());
                    waiting.push((node, old));
                }
                _ => missing += 1,
            }
        }
        if self.surge > 0 {
            let room = usize::try_from(self.surge - surging).unwrap_or(0);
            let nodes = waiting.iter().take(room).map(|(node, _)| (*node).to_string());
            self.create.extend(nodes);
        } else {
            let room = usize::try_from(unavailable - missing).unwrap_or(0);
            healthy.iter().take(room).for_each(|pod| self.drop(pod));
        }
    }
}

/// (surge, unavailable) of the rolling update.
fn bounds(set: &DaemonSet, wanted: i32) -> (i32, i32) {
    let rolling = set
        .spec
        .as_ref()
        .and_then(|s| s.update_strategy.as_ref())
        .and_then(|s| s.rolling_update.as_ref());
    let surge = rolling.and_then(|r| r.max_surge.as_ref());
    let surge = surge.map_or(0, |s| fraction::resolve(s, wanted, true));
    let unavailable = rolling.and_then(|r| r.max_unavailable.as_ref());
    let unavailable = unavailable.map_or(1, |u| fraction::resolve(u, wanted, true));
    if surge > 0 { (surge, 0) } else { (0, unavailable.max(1)) }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Run,
    /// No new pod here, but one that is there may stay.
    Stay,
    Leave,
}

fn verdict(pod: &PodSpec, node: &Node) -> Verdict {
    if pod.node_name.as_deref().is_some_and(|n| n != name(&node.metadata)) || !accepts(pod, node) {
        return Verdict::Leave;
    }
    let tolerations = pod.tolerations.as_deref().unwrap_or_default();
    let all = taints(node);
    if untolerated(tolerations, &all, &["NoExecute"]).is_some() {
        Verdict::Leave
    } else if untolerated(tolerations, &all, &["NoSchedule"]).is_some() {
        Verdict::Stay
    } else {
        Verdict::Run
    }
}

/// The pod's spec with what every daemon puts up with.
fn daemon_spec(set: &DaemonSet) -> PodSpec {
    let template = set.spec.as_ref().map(|s| s.template.clone()).unwrap_or_default();
    let mut spec = template.spec.unwrap_or_default();
    let tolerations = spec.tolerations.get_or_insert_default();
    let mut put_up_with = vec![
        (NOT_READY, "NoExecute"),
        (UNREACHABLE, "NoExecute"),
        ("node.kubernetes.io/disk-pressure", "NoSchedule"),
        ("node.kubernetes.io/memory-pressure", "NoSchedule"),
        ("node.kubernetes.io/pid-pressure", "NoSchedule"),
        (UNSCHEDULABLE, "NoSchedule"),
    ];
    if spec.host_network == Some(true) {
        put_up_with.push(("node.kubernetes.io/network-unavailable", "NoSchedule"));
    }
    for (key, effect) in put_up_with {
        let added = Toleration {
            key: Some(key.into()),
            operator: Some("Exists".into()),
            effect: Some(effect.into()),
            ..Toleration::default()
        };
        if !tolerations.contains(&added) {
            tolerations.push(added);
        }
    }
    spec
}

fn make(set: &DaemonSet, node: &str, hash: &str) -> Pod {
    let template = set.spec.as_ref().map(|s| s.template.clone()).unwrap_or_default();
    let ns = set.metadata.namespace.as_deref().unwrap_or("");
    let mut pod = from_template(&template, ns, owner::reference(set));
    pod.metadata.generate_name = Some(prefix(name(&set.metadata)));
    pod.metadata.labels.get_or_insert_default().insert(HASH.into(), hash.into());
    let mut spec = daemon_spec(set);
    pin(&mut spec, node);
    pod.spec = Some(spec);
    pod
}

/// Adds to every required term that the node is this one.
fn pin(spec: &mut PodSpec, node: &str) {
    let here = NodeSelectorRequirement {
        key: "metadata.name".into(),
        operator: "In".into(),
        values: Some(vec![node.into()]),
    };
    let affinity: &mut Affinity = spec.affinity.get_or_insert_default();
    let affinity: &mut NodeAffinity = affinity.node_affinity.get_or_insert_default();
    // The set has already chosen the node, so its own terms have been weighed and may go.
    affinity.required_during_scheduling_ignored_during_execution = Some(NodeSelector {
        node_selector_terms: vec![NodeSelectorTerm {
            match_expressions: None,
            match_fields: Some(vec![here]),
        }],
    });
}

/// The node a daemon pod is on or meant for.
fn target(pod: &Pod) -> Option<&str> {
    node_of(pod).or_else(|| {
        let affinity = pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()?;
        let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
        let mut fields =
            required.node_selector_terms.iter().flat_map(|t| t.match_fields.iter().flatten());
        let name = fields.find(|f| f.key == "metadata.name" && f.operator == "In")?;
        name.values.as_ref()?.first().map(String::as_str)
    })
}

fn born_at(pod: &Pod) -> Timestamp {
    pod.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |t| t.0)
}

fn born(pod: &Pod) -> (Timestamp, String) {
    (born_at(pod), pod.metadata.name.clone().unwrap_or_default())
}

fn status(
    work: &Work<'_>,
    verdicts: &BTreeMap<&str, Verdict>,
    by_node: &BTreeMap<String, OnNode>,
) -> DaemonSetStatus {
    let old = work.set.status.as_ref();
    let mut status = DaemonSetStatus {
        observed_generation: work.set.metadata.generation,
        collision_count: old.and_then(|s| s.collision_count),
        conditions: old.and_then(|s| s.conditions.clone()),
        ..DaemonSetStatus::default()
    };
    let (mut updated, mut available) = (0, 0);
    for (node, verdict) in verdicts {
        let here = by_node.get(*node).cloned().unwrap_or_default();
        let alive = |p: &&Arc<Pod>| !is_finished(p) && !is_deleted(&p.metadata);
        let pods: Vec<&Arc<Pod>> = here.new.iter().chain(&here.old).filter(alive).collect();
        if *verdict != Verdict::Run {
            status.number_misscheduled += i32::from(!pods.is_empty());
            continue;
        }
        status.desired_number_scheduled += 1;
        status.current_number_scheduled += i32::from(!pods.is_empty());
        let ready = |p: &&&Arc<Pod>| is_available(p, work.min_ready, work.now);
        status.number_ready += i32::from(pods.iter().any(|p| is_ready(p)));
        available += i32::from(pods.iter().any(|p| ready(&p)));
        updated += i32::from(pods.iter().any(|p| label(&p.metadata, HASH) == Some(work.hash)));
    }
    status.updated_number_scheduled = Some(updated);
    status.number_available = Some(available);
    status.number_unavailable = Some(status.desired_number_scheduled - available);
    status
}

#[cfg(test)]
mod tests;
