//! Takes over a pod that another run of this node had: what its status remembers goes into the
//! machine.
//!
//! Processes never outlive the program that started them, so whatever the API shows as running has
//! ended; nobody saw how.

use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, Pod};

use super::machine::{Ended, Machine};

/// What is told of a container whose end nobody saw.
const UNKNOWN: &str = "The container could not be located when the pod was restarted.  The container used to be Running";

pub fn adopt(machine: &mut Machine, pod: &Pod) {
    let Some(status) = &pod.status else { return };
    if is_over(pod) {
        return machine.already_over();
    }
    let lists = [&status.init_container_statuses, &status.container_statuses];
    let statuses: Vec<&ContainerStatus> = lists.into_iter().flatten().flatten().collect();
    for index in 0..machine.units.len() {
        let name = machine.units[index].name.clone();
        if let Some(status) = statuses.iter().find(|s| s.name == name) {
            adopt_unit(machine, index, status);
        }
    }
}

/// Whether the pod has come to its end, so that nothing about it changes any more.
pub fn is_over(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

fn adopt_unit(machine: &mut Machine, index: usize, status: &ContainerStatus) {
    let restarts = u32::try_from(status.restart_count).unwrap_or(0);
    let state = status.state.clone().unwrap_or_default();
    let last = status.last_state.clone().unwrap_or_default();
    if let Some(terminated) = &state.terminated {
        machine.adopt(index, restarts, Some(ended(terminated)), true);
    } else if let Some(running) = state.running {
        let unknown = Ended {
            code: 137,
            signal: None,
            reason: "ContainerStatusUnknown".to_owned(),
            message: Some(UNKNOWN.to_owned()),
            container_id: status.container_id.clone(),
            started_at: running.started_at.map(|t| t.0),
            finished_at: None,
        };
        machine.adopt(index, restarts, Some(unknown), true);
    } else {
        machine.adopt(index, restarts, last.terminated.as_ref().map(ended), false);
    }
}

fn ended(terminated: &ContainerStateTerminated) -> Ended {
    Ended {
        code: terminated.exit_code,
        signal: terminated.signal,
        reason: terminated.reason.clone().unwrap_or_default(),
        message: terminated.message.clone(),
        container_id: terminated.container_id.clone(),
        started_at: terminated.started_at.as_ref().map(|t| t.0),
        finished_at: terminated.finished_at.as_ref().map(|t| t.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::backoff::Limits;
    use crate::pod::machine::{Step, Stop};
    use serde_json::{Value, json};
    use tokio::time::Instant;

    fn adopted(policy: &str, state: Value, phase: &str) -> Machine {
        let pod: Pod = serde_json::from_value(json!({
            "spec": {"restartPolicy": policy, "containers": [{"name": "a"}]},
            "status": {"phase": phase, "containerStatuses": [
                {"name": "a", "image": "", "imageID": "", "ready": true, "restartCount": 2, "state": state}]}
        }))
        .unwrap();
        let mut machine = Machine::new(pod.spec.as_ref().unwrap(), Limits::KUBERNETES);
        adopt(&mut machine, &pod);
        machine.sandbox_ready();
        machine
    }

    #[test]
    fn what_ran_is_started_anew_and_told_as_lost() {
        let mut machine = adopted("Always", json!({"running": {}}), "Running");
        assert_eq!(machine.steps(Instant::now()), [Step::Start(0)]);
        let unit = &machine.units[0];
        assert_eq!(unit.restarts, 3);
        let last = unit.previous.as_ref().unwrap();
        assert_eq!((last.code, last.reason.as_str()), (137, "ContainerStatusUnknown"));
    }

    #[test]
    fn a_pod_that_must_run_once_is_not_run_twice() {
        let mut machine = adopted("Never", json!({"running": {}}), "Running");
        assert_eq!(machine.steps(Instant::now()), [Step::Finish]);
        assert_eq!(machine.stopping(), Some(Stop::Finished));
        assert_eq!(machine.units[0].ended.as_ref().unwrap().code, 137);
    }

    #[test]
    fn a_finished_container_stays_finished() {
        let done = json!({"terminated": {"exitCode": 0, "reason": "Completed"}});
        let mut machine = adopted("OnFailure", done, "Running");
        assert_eq!(machine.steps(Instant::now()), [Step::Finish]);
        assert_eq!(machine.units[0].restarts, 2);
    }

    #[test]
    fn a_waiting_container_is_not_counted_as_restarted() {
        let machine =
            adopted("Always", json!({"waiting": {"reason": "ContainerCreating"}}), "Pending");
        assert_eq!(machine.units[0].restarts, 2);
    }

    #[test]
    fn a_pod_that_is_over_stays_over() {
        let done = json!({"terminated": {"exitCode": 1}});
        let mut machine = adopted("Never", done, "Failed");
        assert!(machine.steps(Instant::now()).is_empty() && machine.is_finished());
    }
}
