//! What a Job must do next: (Job, pods, now) → pods to make and delete, and the status. Pure.
//!
//! A Job ends in two steps, as Kubernetes 1.31 and later write it: the verdict first
//! (`SuccessCriteriaMet` or `FailureTarget`), the end (`Complete` or `Failed`) when no pod runs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::Pod;

use super::index;
use crate::batch;
use crate::event::Fact;
use crate::owner;
use crate::podstate::{
    from_template, is_active, is_finished, is_ready, is_terminating, number, phase, prefix,
};
use crate::store::{name, time, until};

const FIRST_PAUSE: i64 = 10;
const LONGEST_PAUSE: i64 = 600;

pub(super) struct Plan {
    pub(super) create: Vec<Pod>,
    pub(super) delete: Vec<Arc<Pod>>,
    pub(super) status: JobStatus,
    pub(super) facts: Vec<Fact>,
    pub(super) again: Option<Duration>,
}

/// A field of the Job that we cannot honour.
pub(super) fn unsupported(spec: &JobSpec) -> Option<&'static str> {
    if spec.pod_failure_policy.is_some() {
        Some("spec.podFailurePolicy")
    } else if spec.success_policy.is_some() {
        Some("spec.successPolicy")
    } else if spec.backoff_limit_per_index.is_some() {
        Some("spec.backoffLimitPerIndex")
    } else {
        None
    }
}

#[derive(Debug, PartialEq)]
pub(super) enum Expiry {
    Running,
    /// Ended; to be looked at again after this time, if ever.
    Kept(Option<Duration>),
    /// Its time to live is over.
    Over,
}

pub(super) fn expiry(job: &Job, now: Timestamp) -> Expiry {
    let Some(end) = job
        .status
        .iter()
        .flat_map(|s| s.conditions.iter().flatten())
        .find(|c| matches!(c.type_.as_str(), "Complete" | "Failed") && c.status == "True")
    else {
        return Expiry::Running;
    };
    let Some(ttl) = job.spec.as_ref().and_then(|s| s.ttl_seconds_after_finished) else {
        return Expiry::Kept(None);
    };
    let ended = end.last_transition_time.as_ref().map_or(now, |t| t.0);
    match ended.checked_add(SignedDuration::from_secs(i64::from(ttl))) {
        Ok(at) if at > now => Expiry::Kept(Some(until(now, at))),
        _ => Expiry::Over,
    }
}

struct Tally {
    active: Vec<Arc<Pod>>,
    succeeded: i32,
    failed: i32,
    terminating: i32,
    ready: i32,
    /// Indexes done, and indexes with an active pod.
    done: BTreeSet<i32>,
    busy: BTreeSet<i32>,
}

fn tally(spec: &JobSpec, pods: &[Arc<Pod>]) -> Tally {
    let completions = spec.completions.unwrap_or(0);
    let indexed = is_indexed(spec);
    let of = |wanted: &'static str| pods.iter().filter(move |p| phase(p) == wanted);
    let indexes = |pods: Vec<&Arc<Pod>>| -> BTreeSet<i32> {
        pods.iter().filter_map(|p| index::of(p)).filter(|n| *n < completions).collect()
    };
    let active: Vec<Arc<Pod>> = pods.iter().filter(|p| is_active(p)).cloned().collect();
    let done = indexes(of("Succeeded").collect());
    let succeeded = if indexed { number(done.len()) } else { number(of("Succeeded").count()) };
    Tally {
        succeeded,
        done,
        // A pod on its way out still holds its index and its place.
        busy: indexes(pods.iter().filter(|p| !is_finished(p)).collect()),
        failed: number(of("Failed").count()),
        terminating: number(pods.iter().filter(|p| is_terminating(p)).count()),
        ready: number(active.iter().filter(|p| is_ready(p)).count()),
        active,
    }
}

fn is_indexed(spec: &JobSpec) -> bool {
    spec.completion_mode.as_deref() == Some("Indexed")
}

pub(super) fn plan(job: &Job, pods: &[Arc<Pod>], now: Timestamp) -> Plan {
    let spec = job.spec.clone().unwrap_or_default();
    let tally = tally(&spec, pods);
    let mut work = Work { job, spec: &spec, now, status: job.status.clone().unwrap_or_default() };
    let mut plan = Plan {
        create: Vec::new(),
        delete: Vec::new(),
        status: JobStatus::default(),
        facts: Vec::new(),
        again: None,
    };
    work.suspend(&mut plan, !tally.active.is_empty());
    let suspended = spec.suspend == Some(true);
    if !suspended && work.status.start_time.is_none() {
        work.status.start_time = time(now);
    }
    if let Some((kind, reason, message)) = work.verdict(&tally, pods) {
        work.end(&tally, kind, reason, message, &mut plan);
    } else if suspended {
        plan.delete.clone_from(&tally.active);
    } else {
        work.work(&tally, pods, &mut plan);
        plan.again =
            [plan.again, work.deadline().map(|at| until(now, at))].into_iter().flatten().min();
    }
    work.count(&tally, &plan);
    plan.status = work.status;
    plan
}

struct Work<'a> {
    job: &'a Job,
    spec: &'a JobSpec,
    now: Timestamp,
    status: JobStatus,
}

impl Work<'_> {
    fn has(&self, kind: &str) -> Option<&JobCondition> {
        let conditions = self.status.conditions.iter().flatten();
        conditions.into_iter().find(|c| c.type_ == kind && c.status == "True")
    }

    fn set(&mut self, kind: &str, status: &str, reason: &str, message: &str) {
        let conditions = self.status.conditions.get_or_insert_default();
        if conditions.iter().any(|c| c.type_ == kind && c.status == status) {
            return;
        }
        conditions.retain(|c| c.type_ != kind);
        conditions.push(JobCondition {
            type_: kind.into(),
            status: status.into(),
            reason: Some(reason.into()),
            message: Some(message.into()),
            last_probe_time: time(self.now),
            last_transition_time: time(self.now),
        });
    }

    fn suspend(&mut self, plan: &mut Plan, active: bool) {
        match (self.spec.suspend == Some(true), self.has("Suspended").is_some()) {
            (true, false) => {
                self.set("Suspended", "True", "JobSuspended", "Job suspended");
                self.status.start_time = None;
                plan.facts.push(Fact::normal("Suspended", "Job suspended"));
            }
            (false, true) if !active => {
                self.set("Suspended", "False", "JobResumed", "Job resumed");
                self.status.start_time = time(self.now);
                plan.facts.push(Fact::normal("Resumed", "Job resumed"));
            }
            (false, true) => self.set("Suspended", "False", "JobResumed", "Job resumed"),
            _ => {}
        }
    }

    fn deadline(&self) -> Option<Timestamp> {
        let seconds = self.spec.active_deadline_seconds?;
        let start = self.status.start_time.as_ref()?.0;
        start.checked_add(SignedDuration::from_secs(seconds)).ok()
    }

    /// Whether the Job has succeeded or failed: (condition, reason, message).
    fn verdict(
        &self,
        tally: &Tally,
        pods: &[Arc<Pod>],
    ) -> Option<(&'static str, &'static str, String)> {
        for kind in ["SuccessCriteriaMet", "FailureTarget"] {
            if let Some(known) = self.has(kind) {
                let message = known.message.clone().unwrap_or_default();
                return Some((kind, reason_of(known.reason.as_deref()), message));
            }
        }
        let limit = self.spec.backoff_limit.unwrap_or(6);
        if tally.failed > limit || self.restarts_exceed(limit, pods) {
            let message = "Job has reached the specified backoff limit".to_string();
            return Some(("FailureTarget", "BackoffLimitExceeded", message));
        }
        let suspended = self.spec.suspend == Some(true);
        if !suspended && self.deadline().is_some_and(|at| at <= self.now) {
            let message = "Job was active longer than specified deadline".to_string();
            return Some(("FailureTarget", "DeadlineExceeded", message));
        }
        let done = match self.spec.completions {
            Some(completions) => tally.succeeded >= completions,
            None => tally.succeeded > 0 && tally.active.is_empty() && tally.terminating == 0,
        };
        let message = "Reached expected number of succeeded pods".to_string();
        done.then_some(("SuccessCriteriaMet", "CompletionsReached", message))
    }

    /// With `restartPolicy: OnFailure` it is the restarts of containers that count as failures.
    fn restarts_exceed(&self, limit: i32, pods: &[Arc<Pod>]) -> bool {
        let template = self.spec.template.spec.as_ref();
        if template.and_then(|s| s.restart_policy.as_deref()) != Some("OnFailure") {
            return false;
        }
        let restarts: i32 = pods
            .iter()
            .filter(|p| !is_finished(p))
            .filter_map(|p| p.status.as_ref())
            .flat_map(|s| {
                let init = s.init_container_statuses.iter().flatten();
                init.chain(s.container_statuses.iter().flatten())
            })
            .map(|c| c.restart_count)
            .sum();
        if limit == 0 { restarts > 0 } else { restarts >= limit }
    }

    fn end(
        &mut self,
        tally: &Tally,
        kind: &str,
        reason: &'static str,
        message: String,
        plan: &mut Plan,
    ) {
        self.set(kind, "True", reason, &message);
        plan.delete.clone_from(&tally.active);
        if !tally.active.is_empty() || tally.terminating > 0 {
            return;
        }
        if kind == "SuccessCriteriaMet" {
            self.set("Complete", "True", reason, &message);
            self.status.completion_time = time(self.now);
            plan.facts.push(Fact::normal("Completed", "Job completed"));
        } else {
            self.set("Failed", "True", reason, &message);
            plan.facts.push(Fact::warning(reason, message));
        }
    }

    /// Makes or deletes pods so that as many run as should.
    fn work(&self, tally: &Tally, pods: &[Arc<Pod>], plan: &mut Plan) {
        let parallelism = self.spec.parallelism.unwrap_or(1).max(0);
        let active = number(tally.active.len());
        let wanted = match self.spec.completions {
            None if tally.succeeded > 0 => active.min(parallelism),
            None => parallelism,
            Some(completions) => parallelism.min((completions - tally.succeeded).max(0)),
        };
        if active > wanted {
            let mut doomed = tally.active.clone();
            doomed.sort_by_cached_key(|p| (is_ready(p), phase(p) == "Running", index_last(p)));
            doomed.truncate(usize::try_from(active - wanted).unwrap_or(0));
            plan.delete = doomed;
            return;
        }
        let missing = (wanted - active - tally.terminating).max(0);
        let count = usize::try_from(missing).unwrap_or(0).min(batch::MOST);
        if count == 0 {
            return;
        }
        if let Some(at) = self.pause(pods).filter(|at| *at > self.now) {
            plan.again = Some(until(self.now, at));
            return;
        }
        if is_indexed(self.spec) {
            let completions = self.spec.completions.unwrap_or(0);
            let free = index::free(completions, &tally.done, &tally.busy, count);
            plan.create = free.into_iter().map(|n| self.make(Some(n))).collect();
        } else {
            plan.create = (0..count).map(|_| self.make(None)).collect();
        }
    }

    /// When the next pod may be made: failures since the last success double the wait.
    fn pause(&self, pods: &[Arc<Pod>]) -> Option<Timestamp> {
        let ends = |wanted: &'static str| {
            pods.iter().filter(move |p| phase(p) == wanted).map(|p| ended(p, self.now))
        };
        let success = ends("Succeeded").max();
        let failures: Vec<Timestamp> =
            ends("Failed").filter(|at| success.is_none_or(|s| *at > s)).collect();
        let last = failures.iter().max()?;
        let doublings = u32::try_from(failures.len() - 1).unwrap_or(u32::MAX).min(10);
        let wait = (FIRST_PAUSE << doublings).min(LONGEST_PAUSE);
        last.checked_add(SignedDuration::from_secs(wait)).ok()
    }

    fn make(&self, index: Option<i32>) -> Pod {
        let meta = &self.job.metadata;
        let ns = meta.namespace.as_deref().unwrap_or("");
        let mut pod = from_template(&self.spec.template, ns, owner::reference(self.job));
        pod.metadata.generate_name = Some(prefix(name(meta)));
        let labels = pod.metadata.labels.get_or_insert_default();
        let uid = meta.uid.as_deref().unwrap_or("");
        for (key, value) in [
            ("job-name", name(meta)),
            ("batch.kubernetes.io/job-name", name(meta)),
            ("controller-uid", uid),
            ("batch.kubernetes.io/controller-uid", uid),
        ] {
            labels.entry(key.into()).or_insert_with(|| value.into());
        }
        if let Some(index) = index {
            index::mark(&mut pod, name(meta), index);
        }
        pod
    }

    fn count(&mut self, tally: &Tally, plan: &Plan) {
        let some = |n: i32| (n > 0).then_some(n);
        let deleted = number(plan.delete.len());
        let made = number(plan.create.len());
        let status = &mut self.status;
        status.active = some(number(tally.active.len()) - deleted + made);
        status.terminating = Some(tally.terminating + deleted);
        status.ready = Some(if deleted > 0 { 0 } else { tally.ready });
        status.succeeded = some(tally.succeeded);
        status.failed = some(tally.failed);
        status.completed_indexes = is_indexed(self.spec)
            .then(|| index::compress(&tally.done))
            .filter(|text| !text.is_empty());
    }
}

fn index_last(pod: &Pod) -> std::cmp::Reverse<i32> {
    std::cmp::Reverse(index::of(pod).unwrap_or(0))
}

/// The reason of a verdict that is already written, as one of ours.
fn reason_of(text: Option<&str>) -> &'static str {
    match text {
        Some("CompletionsReached") => "CompletionsReached",
        Some("DeadlineExceeded") => "DeadlineExceeded",
        _ => "BackoffLimitExceeded",
    }
}

/// When the last container of an ended pod ended.
fn ended(pod: &Pod, now: Timestamp) -> Timestamp {
    let containers = pod.status.iter().flat_map(|s| s.container_statuses.iter().flatten());
    containers
        .filter_map(|c| c.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref())
        .map(|t| t.0)
        .max()
        .or_else(|| {
            crate::podstate::condition(pod, "Ready")?.last_transition_time.as_ref().map(|t| t.0)
        })
        .or_else(|| pod.metadata.creation_timestamp.as_ref().map(|t| t.0))
        .unwrap_or(now)
}

#[cfg(test)]
mod tests;
