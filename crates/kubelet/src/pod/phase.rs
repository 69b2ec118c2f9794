//! The phase of a pod from the statuses of its containers, by the kubelet's rules.

use k8s_openapi::api::core::v1::ContainerStatus;

use super::machine::{Machine, Role, Unit};

/// Counts of the pod's containers by what their statuses say.
#[derive(Default)]
struct Count {
    pending_init: u32,
    pending_sidecars: u32,
    running: u32,
    waiting: u32,
    stopped: u32,
    stopped_for_good: u32,
    succeeded: u32,
    init_failed_for_good: bool,
}

/// `statuses` in the order of the machine's units; `terminal` once nothing will be started again.
pub fn phase(machine: &Machine, statuses: &[ContainerStatus], terminal: bool) -> &'static str {
    let mut count = Count::default();
    for (unit, status) in machine.units.iter().zip(statuses) {
        tally(&mut count, unit, status);
    }
    if count.init_failed_for_good {
        return "Failed";
    }
    if count.pending_init > 0
        || (count.pending_sidecars > 0 && !machine.initialized)
        || count.waiting > 0
    {
        return "Pending";
    }
    if count.running > 0 {
        return "Running";
    }
    if count.stopped == 0 {
        return "Pending";
    }
    if !terminal && count.stopped != count.stopped_for_good {
        return "Running";
    }
    if count.stopped == count.succeeded { "Succeeded" } else { "Failed" }
}

fn tally(count: &mut Count, unit: &Unit, status: &ContainerStatus) {
    let state = status.state.clone().unwrap_or_default();
    let last = status.last_state.as_ref().and_then(|s| s.terminated.as_ref());
    let code = state.terminated.as_ref().or(last).map(|t| t.exit_code);
    let running = state.running.is_some();
    match (unit.role, running, code) {
        (Role::Init, true, _) | (Role::Init, false, None) => count.pending_init += 1,
        (Role::Init, false, Some(0)) => {}
        (Role::Init, false, Some(code)) => {
            count.init_failed_for_good |= !unit.restart.wanted_after(code);
        }
        (Role::Sidecar, true, _) => {
            count.running += 1;
            count.pending_sidecars += u32::from(status.started != Some(true));
        }
        (Role::Sidecar, false, None) => {
            count.pending_sidecars += 1;
            count.waiting += 1;
        }
        // Sidecars that ended do not count.
        (Role::Sidecar, false, Some(_)) => {}
        (Role::Main, true, _) => count.running += 1,
        (Role::Main, false, None) => count.waiting += 1,
        (Role::Main, false, Some(code)) => {
            count.stopped += 1;
            count.stopped_for_good += u32::from(!unit.restart.wanted_after(code));
            count.succeeded += u32::from(code == 0 && state.terminated.is_some());
        }
    }
}
