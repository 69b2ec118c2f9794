//! One container of a pod as the machine sees it: what it is, where it stands, when it comes back.
//!
//! Pure data and questions about it; the machine alone changes it.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Container;
use tokio::time::Instant;

use crate::pod::backoff::{Backoff, Limits};

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
    pub(super) faults: u32,
    pub(super) ended_at: Option<Instant>,
    pub(super) backoff: Backoff,
}

impl Unit {
    pub(super) fn new(container: &Container, role: Role, pod_policy: Option<&str>) -> Self {
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
    pub(super) fn startable_at(&self, limits: Limits) -> Option<Instant> {
        if self.fault.is_some() {
            // Nothing is pulled here, so a long wait would only delay the answer to an edited file.
            let delay = limits.base.saturating_mul(1 << self.faults.saturating_sub(1).min(5));
            return self.fault_at.map(|at| at + delay.min(limits.base * 3).min(limits.max));
        }
        self.ended_at.map(|at| at + self.backoff.delay(at, limits))
    }
}
