//! Statuses as tables: where the containers stand, what the API shows.

use super::*;
use crate::pod::backoff::Limits;
use crate::pod::machine::{Fault, Stop};
use serde_json::{Value, json};
use std::time::Duration;

struct Case {
    pod: Pod,
    machine: Machine,
    now: Instant,
    failure: Option<(&'static str, &'static str)>,
}

fn end(code: i32) -> Ended {
    Ended {
        code,
        signal: None,
        reason: if code == 0 { "Completed" } else { "Error" }.into(),
        message: None,
        container_id: Some("podlet://1".into()),
        started_at: Some(Timestamp::UNIX_EPOCH),
        finished_at: Some(Timestamp::UNIX_EPOCH),
    }
}

impl Case {
    fn new(spec: Value) -> Self {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "generation": 3}, "spec": spec
        }))
        .unwrap();
        let mut machine = Machine::new(pod.spec.as_ref().unwrap(), Limits::KUBERNETES);
        machine.sandbox_ready();
        Self { pod, machine, now: Instant::now(), failure: None }
    }

    fn run(mut self, unit: usize) -> Self {
        while self.machine.units[unit].stage == Stage::Idle {
            assert!(!self.machine.steps(self.now).is_empty(), "unit {unit} is never started");
        }
        self.machine.created(unit, format!("podlet://{unit}"), Timestamp::UNIX_EPOCH);
        self.machine.running(unit);
        self
    }

    fn end(mut self, unit: usize, code: i32) -> Self {
        self.machine.ended(unit, end(code), self.now);
        self
    }

    fn settle(mut self) -> Self {
        while !self.machine.steps(self.now).is_empty() {}
        self
    }

    fn status(&self) -> Value {
        let ip = ["10.0.0.1".parse().unwrap()];
        let view = View {
            pod: &self.pod,
            machine: &self.machine,
            sandbox: true,
            pod_ips: &ip,
            host_ips: &ip,
            failure: self.failure,
            now: self.now,
            wall: Timestamp::UNIX_EPOCH,
        };
        serde_json::to_value(build(&view, &PodStatus::default())).unwrap()
    }
}

fn condition_of(status: &Value, kind: &str) -> (String, String, String) {
    let found =
        status["conditions"].as_array().unwrap().iter().find(|c| c["type"] == kind).unwrap();
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"), text("message"))
}

fn two() -> Value {
    json!({"restartPolicy": "Never", "containers": [{"name": "b", "image": "x"}, {"name": "a", "image": "y"}]})
}

fn triple(a: &str, b: &str, c: &str) -> (String, String, String) {
    (a.into(), b.into(), c.into())
}

#[test]
fn a_pod_that_has_not_started_is_pending_and_creating() {
    let status = Case::new(two()).status();
    assert_eq!(status["phase"], "Pending");
    assert_eq!(status["containerStatuses"][0]["name"], "a");
    assert_eq!(
        status["containerStatuses"][0]["state"],
        json!({"waiting": {"reason": "ContainerCreating"}})
    );
    assert_eq!(condition_of(&status, "Initialized"), triple("True", "", ""));
    assert_eq!(condition_of(&status, "PodScheduled"), triple("True", "", ""));
    assert_eq!(
        condition_of(&status, "Ready"),
        triple("False", "ContainersNotReady", "containers with unready status: [b a]")
    );
    assert_eq!(status["observedGeneration"], 3);
}

#[test]
fn running_ready_and_finished_pods_tell_so() {
    let status = Case::new(two()).run(0).run(1).status();
    assert_eq!((&status["phase"], &status["podIP"]), (&json!("Running"), &json!("10.0.0.1")));
    assert_eq!(condition_of(&status, "Ready"), triple("True", "", ""));
    let status = Case::new(two()).run(0).run(1).end(0, 0).status();
    assert_eq!(status["phase"], "Running");
    assert_eq!(
        condition_of(&status, "ContainersReady"),
        triple("False", "ContainersNotReady", "containers with unready status: [b]")
    );
    let status = Case::new(two()).run(0).run(1).end(0, 0).end(1, 0).settle().status();
    assert_eq!(status["phase"], "Succeeded");
    assert_eq!(condition_of(&status, "Ready"), triple("False", "PodCompleted", ""));
    assert_eq!(condition_of(&status, "Initialized"), triple("True", "PodCompleted", ""));
    let status = Case::new(two()).run(0).run(1).end(0, 0).end(1, 2).settle().status();
    assert_eq!(status["phase"], "Failed");
    assert_eq!(condition_of(&status, "Ready"), triple("False", "PodFailed", ""));
}

#[test]
fn init_containers_show_in_phase_and_conditions() {
    let spec = json!({"restartPolicy": "Never", "initContainers": [{"name": "i"}], "containers": [{"name": "a"}]});
    let status = Case::new(spec.clone()).run(0).status();
    assert_eq!(status["phase"], "Pending");
    assert_eq!(status["containerStatuses"][0]["state"]["waiting"]["reason"], "PodInitializing");
    assert_eq!(
        condition_of(&status, "Initialized"),
        triple("False", "ContainersNotInitialized", "containers with incomplete status: [i]")
    );
    let status = Case::new(spec.clone()).run(0).end(0, 0).status();
    assert_eq!(status["initContainerStatuses"][0]["ready"], true);
    let status = Case::new(spec).run(0).end(0, 1).settle().status();
    assert_eq!(status["phase"], "Failed");
    assert_eq!(status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"], 1);
}

#[test]
fn a_crash_loop_is_told_with_its_delay_and_last_end() {
    let spec = json!({"containers": [{"name": "a"}]});
    let status = Case::new(spec).run(0).end(0, 7).run(0).end(0, 7).settle().status();
    let a = &status["containerStatuses"][0];
    assert_eq!(status["phase"], "Running");
    assert_eq!(a["restartCount"], 1);
    assert_eq!(
        a["state"],
        json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container=a pod=p_n(u)"}})
    );
    assert_eq!(a["lastState"]["terminated"]["exitCode"], 7);
}

#[test]
fn an_image_error_becomes_a_back_off() {
    let mut case = Case::new(json!({"containers": [{"name": "a", "image": "ghost:1"}]})).settle();
    let fault = Fault { kind: FaultKind::Image, message: "no such image".into() };
    case.machine.faulted(0, fault, case.now);
    let state = |case: &Case| case.status()["containerStatuses"][0]["state"]["waiting"].clone();
    assert_eq!(state(&case), json!({"reason": "ErrImagePull", "message": "no such image"}));
    case.now += Duration::from_secs(3);
    let message = "Back-off pulling image \"ghost:1\": ErrImagePull: no such image";
    assert_eq!(state(&case), json!({"reason": "ImagePullBackOff", "message": message}));
    assert_eq!(case.status()["phase"], "Pending");
}

#[test]
fn readiness_gates_hold_back_ready_alone() {
    let mut spec = two();
    spec["readinessGates"] = json!([{"conditionType": "x/y"}]);
    let mut case = Case::new(spec).run(0).run(1);
    assert_eq!(
        condition_of(&case.status(), "Ready"),
        triple(
            "False",
            "ReadinessGatesNotReady",
            "corresponding condition of pod readiness gate \"x/y\" does not exist."
        )
    );
    assert_eq!(condition_of(&case.status(), "ContainersReady"), triple("True", "", ""));
    case.pod.status =
        serde_json::from_value(json!({"conditions": [{"type": "x/y", "status": "True"}]})).unwrap();
    assert_eq!(condition_of(&case.status(), "Ready"), triple("True", "", ""));
    assert_eq!(condition_of(&case.status(), "x/y"), triple("True", "", ""));
}

#[test]
fn a_deadline_fails_the_pod_with_its_reason() {
    let mut case = Case::new(two()).run(0).run(1);
    case.machine.stop_pod(Stop::DeadlineExceeded, Duration::from_secs(1), case.now);
    case.failure = Some(("DeadlineExceeded", "too long"));
    let status = case.status();
    assert_eq!(
        (&status["phase"], &status["reason"], &status["message"]),
        (&json!("Failed"), &json!("DeadlineExceeded"), &json!("too long"))
    );
}

#[test]
fn a_pod_stopped_by_deletion_ends_terminal() {
    let mut case = Case::new(json!({"containers": [{"name": "a"}]})).run(0);
    case.machine.stop_pod(Stop::Deleted, Duration::from_secs(1), case.now);
    let case = case.settle().end(0, 0).settle();
    assert_eq!(case.status()["phase"], "Succeeded");
    let mut case = Case::new(json!({"containers": [{"name": "a"}]})).run(0);
    case.machine.stop_pod(Stop::Deleted, Duration::from_secs(1), case.now);
    let case = case.settle().end(0, 143).settle();
    assert_eq!(case.status()["phase"], "Failed");
}

#[test]
fn transition_times_stay_while_the_status_stays() {
    let case = Case::new(two()).run(0).run(1);
    let later = Timestamp::from_second(100).unwrap();
    let ip = ["10.0.0.1".parse().unwrap()];
    let view = |wall| View {
        pod: &case.pod,
        machine: &case.machine,
        sandbox: true,
        pod_ips: &ip,
        host_ips: &ip,
        failure: None,
        now: case.now,
        wall,
    };
    let first = build(&view(Timestamp::UNIX_EPOCH), &PodStatus::default());
    assert_eq!(build(&view(later), &first), first);
}
