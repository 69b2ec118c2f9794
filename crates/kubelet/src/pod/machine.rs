//! What is to be done next with the containers of one pod.
//!
//! In come facts (a container runs, ended, passed its start-up probe; the pod is to stop) with the
//! time they happened; out come [`Step`]s. Pure and sync: no clock, no IO, so that the whole life
//! cycle is tested as tables. Order is Kubernetes': init containers one after the other, sidecars
//! among them kept running, then the main containers; on the way down sidecars go last, in reverse.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodSpec;
use tokio::time::Instant;

use super::backoff::Limits;

mod unit;

pub use unit::{Ended, Fault, FaultKind, Restart, Role, Stage, Unit};

/// Why a whole pod stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Its containers are done, or initialisation failed for good.
    Finished,
    Deleted,
    DeadlineExceeded,
    /// The node goes down; the pod will run again.
    Shutdown,
}

/// What the worker is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Start(usize),
    /// Stop this container, at the latest after `grace`.
    Stop {
        unit: usize,
        grace: Duration,
    },
    /// Nothing runs any more and nothing will.
    Finish,
}

/// What is left of a grace that ran out while others ended, as Kubernetes leaves it.
const LEAST_GRACE: Duration = Duration::from_secs(2);

#[derive(Clone, Debug)]
pub struct Machine {
    pub units: Vec<Unit>,
    limits: Limits,
    /// Volumes and network are there.
    sandbox: bool,
    /// A main container has been started, so that initialisation is over.
    pub initialized: bool,
    stop: Option<(Stop, Instant)>,
    finished: bool,
    own_grace: Duration,
}

impl Machine {
    pub fn new(spec: &PodSpec, limits: Limits) -> Self {
        let policy = spec.restart_policy.as_deref();
        let init = spec.init_containers.iter().flatten().map(|c| {
            let sidecar = c.restart_policy.as_deref() == Some("Always");
            Unit::new(c, if sidecar { Role::Sidecar } else { Role::Init }, policy)
        });
        let units =
            init.chain(spec.containers.iter().map(|c| Unit::new(c, Role::Main, policy))).collect();
        let grace = spec.termination_grace_period_seconds.unwrap_or(30);
        Self {
            units,
            limits,
            sandbox: false,
            initialized: false,
            stop: None,
            finished: false,
            own_grace: Duration::from_secs(u64::try_from(grace).unwrap_or(1).max(1)),
        }
    }

    pub fn limits(&self) -> Limits {
        self.limits
    }

    pub fn stopping(&self) -> Option<Stop> {
        self.stop.map(|(stop, _)| stop)
    }

    pub fn is_finished(&self) -> bool {
        self.finished
    }

    pub fn sandbox_ready(&mut self) {
        self.sandbox = true;
    }

    /// The instance runs and its postStart hook is over.
    pub fn running(&mut self, unit: usize) {
        let u = &mut self.units[unit];
        if u.stage != Stage::Starting {
            return;
        }
        u.stage = Stage::Running;
        u.started = !u.has_startup_probe;
        u.fault = None;
        u.faults = 0;
    }

    /// The process exists; its postStart hook may still run.
    pub fn created(&mut self, unit: usize, container_id: String, at: Timestamp) {
        let u = &mut self.units[unit];
        u.container_id = Some(container_id);
        u.running_since = Some(at);
        u.fault = None;
        u.faults = 0;
        if u.role == Role::Main {
            self.initialized = true;
        }
    }

    pub fn faulted(&mut self, unit: usize, fault: Fault, now: Instant) {
        let u = &mut self.units[unit];
        u.stage = Stage::Idle;
        u.fault = Some(fault);
        u.fault_at = Some(now);
        u.faults = u.faults.saturating_add(1);
    }

    /// A start that was ordered did not happen, because a stop was faster.
    pub fn not_started(&mut self, unit: usize) {
        self.units[unit].stage = Stage::Idle;
    }

    /// The pod was over before this node ever looked at it.
    pub fn already_over(&mut self) {
        self.finished = true;
    }

    /// Something a faulted container may have waited for has changed.
    pub fn retry_faults(&mut self) {
        for u in &mut self.units {
            u.fault_at = None;
        }
    }

    pub fn ended(&mut self, unit: usize, ended: Ended, now: Instant) {
        let u = &mut self.units[unit];
        u.stage = Stage::Idle;
        u.started = false;
        u.probed_ready = false;
        u.running_since = None;
        u.previous = u.ended.replace(ended);
        u.ended_at = Some(now);
    }

    pub fn startup_passed(&mut self, unit: usize) {
        let u = &mut self.units[unit];
        u.started = u.stage == Stage::Running;
    }

    pub fn probed(&mut self, unit: usize, ready: bool) {
        self.units[unit].probed_ready = ready;
    }

    /// Orders one container to stop; it is started again as its policy says.
    pub fn stop_unit(&mut self, unit: usize) {
        let u = &mut self.units[unit];
        if matches!(u.stage, Stage::Starting | Stage::Running) {
            u.stage = Stage::Stopping;
            u.started = false;
        }
    }

    /// Orders the whole pod to stop within `grace`. A later order can only shorten the time; one
    /// that says more about the why (deleted over finished) replaces it.
    pub fn stop_pod(&mut self, why: Stop, grace: Duration, now: Instant) {
        let deadline = now + grace;
        self.stop = Some(match self.stop {
            None => (why, deadline),
            Some((Stop::Finished, at)) if why == Stop::Shutdown => {
                (Stop::Finished, at.min(deadline))
            }
            Some((Stop::Finished | Stop::Shutdown, at)) => (why, at.min(deadline)),
            Some((old, at)) => (old, at.min(deadline)),
        });
    }

    pub fn stop_deadline(&self) -> Option<Instant> {
        self.stop.map(|(_, at)| at)
    }

    /// A fresh start after the process that ran the pod was lost. `last` is what the API remembers
    /// of the container, `ran` whether it was running or had ended then.
    ///
    /// What must not run twice stays ended; everything else starts anew and counts as restarted.
    pub fn adopt(&mut self, unit: usize, restarts: u32, last: Option<Ended>, ran: bool) {
        let u = &mut self.units[unit];
        let done = ran
            && u.role != Role::Init
            && last.as_ref().is_some_and(|e| !u.restart.wanted_after(e.code));
        if done {
            u.restarts = restarts;
            u.ended = last;
        } else {
            u.restarts = restarts + u32::from(ran);
            u.previous = last;
        }
    }

    /// What to do now. Call until it returns nothing; state changes with each step handed out.
    pub fn steps(&mut self, now: Instant) -> Vec<Step> {
        if self.finished {
            return Vec::new();
        }
        if self.stop.is_none() {
            self.finish_if_done(now);
        }
        match self.stop {
            Some((_, deadline)) => self.stopping_steps(deadline, now),
            None if self.sandbox => self.next_start(now).into_iter().collect(),
            None => Vec::new(),
        }
    }

    /// When to ask again though nothing happened; always later than `now`.
    pub fn wake(&self, now: Instant) -> Option<Instant> {
        if self.finished {
            return None;
        }
        if let Some((_, deadline)) = self.stop {
            let waiting =
                self.units.iter().any(|u| matches!(u.stage, Stage::Starting | Stage::Running));
            return waiting.then_some(deadline).filter(|at| *at > now);
        }
        let idle = self.units.iter().filter(|u| !u.is_live() && !u.is_done());
        idle.filter_map(|u| u.startable_at(self.limits)).filter(|at| *at > now).min()
    }

    fn finish_if_done(&mut self, now: Instant) {
        let mains_done = self.units.iter().filter(|u| u.role == Role::Main).all(Unit::is_done);
        let init_failed = !self.initialized
            && self.units.iter().any(|u| {
                u.role == Role::Init && u.is_done() && u.ended.as_ref().is_some_and(|e| e.code != 0)
            });
        if mains_done || init_failed {
            self.stop_pod(Stop::Finished, self.own_grace, now);
        }
    }

    fn stopping_steps(&mut self, deadline: Instant, now: Instant) -> Vec<Step> {
        if !self.units.iter().any(Unit::is_live) {
            self.finished = true;
            return vec![Step::Finish];
        }
        let left = deadline.saturating_duration_since(now);
        let out_of_time = left.is_zero();
        let mut steps = Vec::new();
        for index in (0..self.units.len()).rev() {
            let waits =
                self.units[index].role == Role::Sidecar
                    && !out_of_time
                    && self.units.iter().enumerate().any(|(other, u)| {
                        u.is_live() && (u.role != Role::Sidecar || other > index)
                    });
            let unit = &mut self.units[index];
            if !waits && matches!(unit.stage, Stage::Starting | Stage::Running) {
                let least = if unit.role == Role::Sidecar { LEAST_GRACE } else { Duration::ZERO };
                unit.stage = Stage::Stopping;
                unit.started = false;
                steps.push(Step::Stop { unit: index, grace: left.max(least) });
            }
        }
        steps
    }

    /// One start at a time: a postStart hook holds up the containers after it.
    fn next_start(&mut self, now: Instant) -> Option<Step> {
        if self.units.iter().any(|u| u.stage == Stage::Starting) {
            return None;
        }
        let limits = self.limits;
        let due = |u: &Unit| u.startable_at(limits).is_none_or(|at| at <= now);
        let mut chosen = None;
        for (index, unit) in self.units.iter().enumerate() {
            match unit.role {
                Role::Init if self.initialized => {}
                Role::Init => {
                    if unit.is_ready() {
                        continue;
                    }
                    if !unit.is_live() && due(unit) {
                        chosen = chosen.or(Some(index));
                    }
                    // Nothing after an unfinished init container may start.
                    break;
                }
                Role::Sidecar => {
                    if !unit.is_live() && due(unit) {
                        chosen = chosen.or(Some(index));
                    }
                    if !unit.started && !self.initialized {
                        break;
                    }
                }
                Role::Main => {
                    if !unit.is_live() && !unit.is_done() && due(unit) {
                        chosen = chosen.or(Some(index));
                    }
                }
            }
        }
        let index = chosen?;
        let unit = &mut self.units[index];
        if let Some(ended_at) = unit.ended_at
            && unit.fault.is_none()
        {
            unit.backoff.restarted(ended_at, now, limits);
            unit.restarts += 1;
        }
        unit.stage = Stage::Starting;
        Some(Step::Start(index))
    }
}

#[cfg(test)]
mod tests;
