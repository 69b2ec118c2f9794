//! The status of a pod, from its spec and where its containers stand.
//!
//! In come the pod, the machine, addresses and the last status; out goes the next `PodStatus` with
//! the phases, conditions, reasons and messages that kubelets report. Pure.

use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, HostIP, Pod, PodCondition, PodIP, PodStatus, VolumeMountStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::time::Instant;

use super::machine::{Ended, FaultKind, Machine, Role, Stage, Unit};
use super::phase::phase;
use crate::field::containers;

/// Everything a status is made from.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub pod: &'a Pod,
    pub machine: &'a Machine,
    pub sandbox: bool,
    pub pod_ips: &'a [IpAddr],
    pub host_ips: &'a [IpAddr],
    /// A reason and message that fail the pod whatever its containers did.
    pub failure: Option<(&'a str, &'a str)>,
    pub now: Instant,
    pub wall: Timestamp,
}

/// The next status; `old` is the last one, whose times are kept where nothing changed.
pub fn build(view: &View<'_>, old: &PodStatus) -> PodStatus {
    let has_init = view.machine.units.iter().any(|u| u.role != Role::Main);
    let mut statuses: Vec<ContainerStatus> = Vec::new();
    for (unit, container) in view.machine.units.iter().zip(containers(view.pod)) {
        let mut status = container_status(view, unit, has_init);
        status.image = container.image.clone().unwrap_or_default();
        status.image_id =
            if unit.container_id.is_some() { status.image.clone() } else { String::new() };
        status.volume_mounts = mounts(container);
        statuses.push(status);
    }
    let mut phase = phase(view.machine, &statuses, view.machine.is_finished());
    if view.failure.is_some() {
        phase = "Failed";
    }
    // A pod never leaves a terminal phase.
    for terminal in ["Succeeded", "Failed"] {
        if old.phase.as_deref() == Some(terminal) {
            phase = terminal;
        }
    }
    let init_count = view.machine.units.iter().filter(|u| u.role != Role::Main).count();
    let mut main = statuses.split_off(init_count);
    main.sort_by(|a, b| a.name.cmp(&b.name));
    let keep = |old_value: &Option<String>| {
        (old.phase.as_deref() == Some(phase)).then(|| old_value.clone()).flatten()
    };
    let mut status = PodStatus {
        phase: Some(phase.to_owned()),
        reason: view.failure.map(|f| f.0.to_owned()).or_else(|| keep(&old.reason)),
        message: view.failure.map(|f| f.1.to_owned()).or_else(|| keep(&old.message)),
        host_ip: view.host_ips.first().map(IpAddr::to_string),
        host_ips: Some(view.host_ips.iter().map(|ip| HostIP { ip: ip.to_string() }).collect()),
        start_time: old.start_time.clone().or(Some(Time(seconds(view.wall)))),
        init_container_statuses: (!statuses.is_empty()).then_some(statuses),
        container_statuses: Some(main),
        qos_class: old
            .qos_class
            .clone()
            .or_else(|| Some(crate::pod::qos::class(view.pod).to_owned())),
        observed_generation: view.pod.metadata.generation,
        ..PodStatus::default()
    };
    if view.pod_ips.is_empty() {
        // A pod that is down keeps telling the address it had.
        status.pod_ip = old.pod_ip.clone();
        status.pod_ips = old.pod_ips.clone();
    } else {
        status.pod_ip = view.pod_ips.first().map(IpAddr::to_string);
        status.pod_ips = Some(view.pod_ips.iter().map(|ip| PodIP { ip: ip.to_string() }).collect());
    }
    status.conditions = Some(conditions(view, &status, old));
    status
}

fn mounts(container: &k8s_openapi::api::core::v1::Container) -> Option<Vec<VolumeMountStatus>> {
    let mounts: Vec<_> = container
        .volume_mounts
        .iter()
        .flatten()
        .map(|m| VolumeMountStatus {
            name: m.name.clone(),
            mount_path: m.mount_path.clone(),
            read_only: m.read_only.filter(|r| *r),
            recursive_read_only: (m.read_only == Some(true)).then(|| "Disabled".to_owned()),
            ..VolumeMountStatus::default()
        })
        .collect();
    (!mounts.is_empty()).then_some(mounts)
}

fn container_status(view: &View<'_>, unit: &Unit, has_init: bool) -> ContainerStatus {
    let (state, shows_ended) = container_state(view, unit, has_init);
    let last = if shows_ended {
        unit.previous.as_ref()
    } else {
        unit.ended.as_ref().or(unit.previous.as_ref())
    };
    ContainerStatus {
        name: unit.name.clone(),
        container_id: unit.container_id.clone(),
        restart_count: i32::try_from(unit.restarts).unwrap_or(i32::MAX),
        ready: unit.is_ready(),
        started: Some(unit.role != Role::Init && unit.started),
        state: Some(state),
        last_state: Some(last.map(terminated).unwrap_or_default()),
        ..ContainerStatus::default()
    }
}

/// The state, and whether it is the end of the last instance.
fn container_state(view: &View<'_>, unit: &Unit, has_init: bool) -> (ContainerState, bool) {
    if matches!(unit.stage, Stage::Running | Stage::Stopping) && unit.running_since.is_some() {
        let started_at = unit.running_since.map(|t| Time(seconds(t)));
        let running = ContainerStateRunning { started_at };
        return (ContainerState { running: Some(running), ..ContainerState::default() }, false);
    }
    let stopping = view.machine.stopping().is_some();
    if let (Some(fault), false) = (&unit.fault, stopping && unit.ended.is_some()) {
        let (reason, message) = fault_words(view, unit, fault.kind, &fault.message);
        return (waiting(reason, Some(message)), false);
    }
    if let Some(ended) = &unit.ended {
        if let (Some(delay), false) = (unit.held_back(view.machine.limits()), stopping) {
            let meta = &view.pod.metadata;
            let message = format!(
                "back-off {} restarting failed container={} pod={}_{}({})",
                go_duration(delay),
                unit.name,
                meta.name.as_deref().unwrap_or_default(),
                meta.namespace.as_deref().unwrap_or_default(),
                meta.uid.as_deref().unwrap_or_default()
            );
            return (waiting("CrashLoopBackOff", Some(message)), false);
        }
        return (terminated(ended), true);
    }
    (waiting(if has_init { "PodInitializing" } else { "ContainerCreating" }, None), false)
}

/// How long a fresh pull error is told before the back-off is.
pub const PULL_ERROR_SHOWN: std::time::Duration = std::time::Duration::from_secs(2);

fn fault_words(
    view: &View<'_>,
    unit: &Unit,
    kind: FaultKind,
    message: &str,
) -> (&'static str, String) {
    match kind {
        FaultKind::Config => ("CreateContainerConfigError", message.to_owned()),
        FaultKind::Create => ("CreateContainerError", message.to_owned()),
        FaultKind::Image => {
            let fresh = unit.fault_at.is_some_and(|at| view.now < at + PULL_ERROR_SHOWN);
            if fresh {
                return ("ErrImagePull", message.to_owned());
            }
            let container = containers(view.pod).find(|c| c.name == unit.name);
            let image = container.and_then(|c| c.image.as_deref()).unwrap_or_default();
            (
                "ImagePullBackOff",
                format!("Back-off pulling image \"{image}\": ErrImagePull: {message}"),
            )
        }
    }
}

fn waiting(reason: &str, message: Option<String>) -> ContainerState {
    let waiting = ContainerStateWaiting { reason: Some(reason.to_owned()), message };
    ContainerState { waiting: Some(waiting), ..ContainerState::default() }
}

fn terminated(ended: &Ended) -> ContainerState {
    let terminated = ContainerStateTerminated {
        exit_code: ended.code,
        signal: ended.signal,
        reason: Some(ended.reason.clone()),
        message: ended.message.clone(),
        container_id: ended.container_id.clone(),
        started_at: ended.started_at.map(|t| Time(seconds(t))),
        finished_at: ended.finished_at.map(|t| Time(seconds(t))),
    };
    ContainerState { terminated: Some(terminated), ..ContainerState::default() }
}

/// Kubernetes' time stamps have no fractions; with them a status would never equal its echo.
pub fn seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// "10s", "1m20s", "5m0s": the way Go prints what the message has always held.
fn go_duration(delay: std::time::Duration) -> String {
    let millis = delay.as_millis();
    if millis < 1000 {
        return format!("{millis}ms");
    }
    let (minutes, seconds) = (delay.as_secs() / 60, delay.as_secs() % 60);
    if minutes == 0 { format!("{seconds}s") } else { format!("{minutes}m{seconds}s") }
}

fn conditions(view: &View<'_>, status: &PodStatus, old: &PodStatus) -> Vec<PodCondition> {
    const OWN: [&str; 5] =
        ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];
    let given = view.pod.status.as_ref().and_then(|s| s.conditions.clone()).unwrap_or_default();
    let foreign: Vec<PodCondition> =
        given.into_iter().filter(|c| !OWN.contains(&c.type_.as_str())).collect();
    let phase = status.phase.as_deref().unwrap_or_default();
    let containers_ready = containers_ready(view, phase);
    let ready =
        if containers_ready.is_ok() { gates(view.pod, &foreign) } else { containers_ready.clone() };
    let sandbox = if view.sandbox { Ok("") } else { Err(("", String::new())) };
    let own = [
        ("PodReadyToStartContainers", sandbox),
        ("Initialized", initialized(view, phase)),
        ("Ready", ready),
        ("ContainersReady", containers_ready),
        ("PodScheduled", Ok("")),
    ];
    let mut out = foreign;
    for (kind, verdict) in own {
        let before = old.conditions.iter().flatten().find(|c| c.type_ == kind);
        out.push(condition(view, kind, verdict, before));
    }
    out
}

/// `Ok(reason)` is True, `Err((reason, message))` False.
type Verdict = Result<&'static str, (&'static str, String)>;

fn condition(
    view: &View<'_>,
    kind: &str,
    verdict: Verdict,
    before: Option<&PodCondition>,
) -> PodCondition {
    let (status, reason, message) = match verdict {
        Ok(reason) => ("True", reason, String::new()),
        Err((reason, message)) => ("False", reason, message),
    };
    let same = before.filter(|c| c.status == status).and_then(|c| c.last_transition_time.clone());
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    PodCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: some(reason),
        message: some(&message),
        observed_generation: view.pod.metadata.generation,
        last_transition_time: same.or(Some(Time(seconds(view.wall)))),
        last_probe_time: None,
    }
}

fn containers_ready(view: &View<'_>, phase: &str) -> Verdict {
    match phase {
        "Succeeded" => return Err(("PodCompleted", String::new())),
        "Failed" => return Err(("PodFailed", String::new())),
        _ => {}
    }
    let unready = names(view.machine, |u| u.role != Role::Init && !u.is_ready());
    match unready {
        None => Ok(""),
        Some(names) => {
            Err(("ContainersNotReady", format!("containers with unready status: [{names}]")))
        }
    }
}

fn gates(pod: &Pod, foreign: &[PodCondition]) -> Verdict {
    let gates = pod.spec.as_ref().and_then(|s| s.readiness_gates.as_deref()).unwrap_or_default();
    let unmet = gates.iter().filter_map(|gate| {
        let kind = &gate.condition_type;
        match foreign.iter().find(|c| c.type_ == *kind) {
            None => Some(format!(
                "corresponding condition of pod readiness gate \"{kind}\" does not exist."
            )),
            Some(c) if c.status != "True" => Some(format!(
                "the status of pod readiness gate \"{kind}\" is not \"True\", but {}",
                c.status
            )),
            Some(_) => None,
        }
    });
    let unmet: Vec<String> = unmet.collect();
    if unmet.is_empty() { Ok("") } else { Err(("ReadinessGatesNotReady", unmet.join(", "))) }
}

fn initialized(view: &View<'_>, phase: &str) -> Verdict {
    if phase == "Succeeded" {
        return Ok("PodCompleted");
    }
    if view.machine.initialized {
        return Ok("");
    }
    let incomplete = names(view.machine, |u| match u.role {
        Role::Init => !u.is_ready(),
        Role::Sidecar => !u.started,
        Role::Main => false,
    });
    match incomplete {
        None => Ok(""),
        Some(names) => Err((
            "ContainersNotInitialized",
            format!("containers with incomplete status: [{names}]"),
        )),
    }
}

/// The names of the units that `want` picks, with spaces between; `None` if it picks none.
fn names(machine: &Machine, want: impl Fn(&Unit) -> bool) -> Option<String> {
    let names: Vec<&str> =
        machine.units.iter().filter(|u| want(u)).map(|u| u.name.as_str()).collect();
    (!names.is_empty()).then(|| names.join(" "))
}

#[cfg(test)]
mod tests;
