//! What is to be done next with the containers of one pod.
//!
//! In come facts (a container runs, ended, passed its start-up probe; the pod is to stop) with the
//! time they happened; out come [`Step`]s. Pure and sync: no clock, no IO, so that the whole life
//! cycle is tested as tables. Order is Kubernetes': init containers one after the other, sidecars
//! among them kept running, then the main containers; on the way down sidecars go last, in reverse.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, PodSpec};
use tokio::time::Instant;

use super::backoff::{Backoff, Limits};

/// What a container is in its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Init,
    /// An init container that keeps running.
    Sidecar,
    Main,
}

/// When a container that ended is started again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restart {
    policy: Policy,
    /// `(listed codes, restart when listed)`; the first that fits wins over the policy.
    rules: Vec<(Vec<i32>, bool)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    Always,
    OnFailure,
    Never,
}

impl Restart {
    fn of(container: &Container, role: Role, pod_policy: Option<&str>) -> Self {
        let own = container.restart_policy.as_deref();
        let policy = match own.or(pod_policy).unwrap_or("Always") {
            "Never" => Policy::Never,
            "OnFailure" => Policy::OnFailure,
            // An init container that succeeded is done under every policy.
            _ if role == Role::Init => Policy::OnFailure,
            _ => Policy::Always,
        };
        let rules = container.restart_policy_rules.iter().flatten().filter_map(|rule| {
            let codes = rule.exit_codes.as_ref()?;
            let listed = codes.operator == "In";
            (rule.action == "Restart").then(|| (codes.values.clone().unwrap_or_default(), listed))
        });
        Self { policy, rules: rules.collect() }
    }

    pub fn wanted_after(&self, code: i32) -> bool {
        if self.rules.iter().any(|(codes, when_listed)| codes.contains(&code) == *when_listed) {
            return true;
        }
        match self.policy {
            Policy::Always => true,
            Policy::OnFailure => code != 0,
            Policy::Never => false,
        }
    }
}

/// How an instance of a container ended, as its status tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub code: i32,
    pub signal: Option<i32>,
    pub reason: String,
    pub message: Option<String>,
    pub container_id: Option<String>,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
}

/// Why a container is not even created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub kind: FaultKind,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The image is not known.
    Image,
    /// Something its environment or mounts need is missing.
    Config,
    /// It could not be created for another reason.
    Create,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Not running; `Unit::ended` tells whether it ever did.
    Idle,
    /// A start was ordered and its postStart hook may still run.
    Starting,
    Running,
    /// A stop was ordered.
    Stopping,
}

/// A container of the pod and where it stands.
#[derive(Clone, Debug)]
pub struct Unit {
    pub name: String,
    pub role: Role,
    pub restart: Restart,
    pub stage: Stage,
    pub has_startup_probe: bool,
    pub has_readiness_probe: bool,
    /// The start-up probe passed (or there is none) and it runs.
    pub started: bool,
    pub probed_ready: bool,
    pub restarts: u32,
    pub container_id: Option<String>,
    pub running_since: Option<Timestamp>,
    pub ended: Option<Ended>,
    pub previous: Option<Ended>,
    pub fault: Option<Fault>,
    pub fault_at: Option<Instant>,
    faults: u32,
    ended_at: Option<Instant>,
    backoff: Backoff,
}

impl Unit {
    fn new(container: &Container, role: Role, pod_policy: Option<&str>) -> Self {
        Self {
            name: container.name.clone(),
            role,
            restart: Restart::of(container, role, pod_policy),
            stage: Stage::Idle,
            has_startup_probe: container.startup_probe.is_some(),
            has_readiness_probe: container.readiness_probe.is_some(),
            started: false,
            probed_ready: false,
            restarts: 0,
            container_id: None,
            running_since: None,
            ended: None,
            previous: None,
            fault: None,
            fault_at: None,
            faults: 0,
            ended_at: None,
            backoff: Backoff::default(),
        }
    }

    pub fn is_live(&self) -> bool {
        self.stage != Stage::Idle
    }

    /// It ended and will not be started again, whatever happens.
    pub fn is_done(&self) -> bool {
        self.stage == Stage::Idle
            && self.ended.as_ref().is_some_and(|e| !self.restart.wanted_after(e.code))
    }

    pub fn is_ready(&self) -> bool {
        match self.role {
            Role::Init => {
                self.stage == Stage::Idle && self.ended.as_ref().is_some_and(|e| e.code == 0)
            }
            _ => {
                self.stage == Stage::Running
                    && self.started
                    && (!self.has_readiness_probe || self.probed_ready)
            }
        }
    }

    /// The delay it sits out now, if it is held back after a crash.
    pub fn held_back(&self, limits: Limits) -> Option<Duration> {
        let ended_at = self.ended_at.filter(|_| self.stage == Stage::Idle)?;
        let delay = self.backoff.delay(ended_at, limits);
        let waits = !delay.is_zero()
            && self.ended.as_ref().is_some_and(|e| self.restart.wanted_after(e.code));
        waits.then_some(delay)
    }

    /// From when on it may be started.
    fn startable_at(&self, limits: Limits) -> Option<Instant> {
        if self.fault.is_some() {
            // Nothing is pulled here, so a long wait would only delay the answer to an edited file.
            let delay = limits.base.saturating_mul(1 << self.faults.saturating_sub(1).min(5));
            return self.fault_at.map(|at| at + delay.min(limits.base * 3).min(limits.max));
        }
        self.ended_at.map(|at| at + self.backoff.delay(at, limits))
    }
}

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
        if let Some(ended_at) = unit.ended_at {
            if unit.fault.is_none() {
                unit.backoff.restarted(ended_at, now, limits);
                unit.restarts += 1;
            }
        }
        unit.stage = Stage::Starting;
        Some(Step::Start(index))
    }
}

#[cfg(test)]
mod tests;
