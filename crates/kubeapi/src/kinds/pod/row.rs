//! The row of a pod in `kubectl get pods`: one word for its state, out of many places.

use std::time::SystemTime;

use serde_json::{Value, json};

use super::super::age;
use super::super::at::At;
use super::super::table::{created, name, or_none};

/// All cells, those of `-o wide` last.
pub(super) fn cells(pod: &Value, now: SystemTime) -> Vec<Value> {
    let state = State::of(&At::root(pod));
    let restarts = match super::ago(state.last_restart, now) {
        Some(ago) if state.restarts > 0 => format!("{} ({ago} ago)", state.restarts),
        _ => state.restarts.to_string(),
    };
    vec![
        name(pod),
        json!(format!("{}/{}", state.ready, state.total)),
        json!(state.reason),
        json!(restarts),
        created(pod, now),
        or_none(&pod["status"]["podIPs"][0]["ip"]),
        or_none(&pod["spec"]["nodeName"]),
        or_none(&pod["status"]["nominatedNodeName"]),
        json!(gates(pod)),
    ]
}

#[derive(Default)]
struct State {
    ready: usize,
    total: usize,
    reason: String,
    restarts: i64,
    last_restart: Option<SystemTime>,
}

impl State {
    fn of(pod: &At<'_>) -> Self {
        let status = pod.get("status");
        let phase = status.get("phase").str();
        let mut state = Self { reason: phase.to_owned(), ..Self::default() };
        if !status.get("reason").is_empty() {
            status.get("reason").str().clone_into(&mut state.reason);
        }
        let gated = |c: &At<'_>| {
            c.get("type").str() == "PodScheduled" && c.get("reason").str() == "SchedulingGated"
        };
        if status.get("conditions").items().any(|c| gated(&c)) {
            "SchedulingGated".clone_into(&mut state.reason);
        }
        let spec = pod.get("spec");
        let sidecars = spec.get("initContainers").items().filter(is_sidecar).count();
        state.total = spec.get("containers").len() + sidecars;
        let initializing = state.init_containers(&spec, &status);
        if !initializing || condition(&status, "Initialized") {
            state.containers(&spec, &status);
        }
        if pod.get("metadata").get("deletionTimestamp").is_set() {
            if status.get("reason").str() == "NodeLost" {
                "Unknown".clone_into(&mut state.reason);
            } else if !matches!(phase, "Succeeded" | "Failed") {
                "Terminating".clone_into(&mut state.reason);
            }
        }
        state
    }

    /// Goes through the init containers up to the first that is not done; says if there is one.
    fn init_containers(&mut self, spec: &At<'_>, status: &At<'_>) -> bool {
        let total = spec.get("initContainers").len();
        for (index, container) in status.get("initContainerStatuses").items().enumerate() {
            self.count_restarts(&container);
            let sidecar = sidecar_named(spec, container.get("name").str());
            let (ended, waiting) =
                (container.dig("state.terminated"), container.dig("state.waiting.reason"));
            if ended.is_set() && ended.get("exitCode").int() == 0 {
                continue;
            }
            if sidecar && container.get("started").bool() {
                self.ready += usize::from(container.get("ready").bool());
                continue;
            }
            self.reason = if ended.is_set() {
                format!("Init:{}", exit_word(&ended))
            } else if !waiting.is_empty() && waiting.str() != "PodInitializing" {
                format!("Init:{}", waiting.str())
            } else {
                format!("Init:{index}/{total}")
            };
            return true;
        }
        false
    }

    fn containers(&mut self, spec: &At<'_>, status: &At<'_>) {
        (self.restarts, self.last_restart) = (0, None);
        for container in status.get("initContainerStatuses").items() {
            if sidecar_named(spec, container.get("name").str()) {
                self.count_restarts(&container);
            }
        }
        let (mut running, mut failure) = (false, None);
        let all: Vec<_> = status.get("containerStatuses").items().collect();
        for container in all.iter().rev() {
            self.count_restarts(container);
            let (ended, waiting) =
                (container.dig("state.terminated"), container.dig("state.waiting.reason"));
            if !waiting.is_empty() {
                waiting.str().clone_into(&mut self.reason);
            } else if ended.is_set() {
                self.reason = exit_word(&ended);
                if ended.get("exitCode").int() != 0 {
                    failure = Some(self.reason.clone());
                }
            } else if container.get("ready").bool() && container.dig("state.running").is_set() {
                running = true;
                self.ready += 1;
            }
        }
        // One container is done, but the pod is not.
        if self.reason == "Completed" {
            if running && condition(status, "Ready") {
                "Running".clone_into(&mut self.reason);
            } else if let Some(failure) = failure {
                self.reason = failure;
            } else if running {
                "NotReady".clone_into(&mut self.reason);
            }
        }
    }

    fn count_restarts(&mut self, container: &At<'_>) {
        self.restarts += container.get("restartCount").int();
        let ended = age::time(container.value.pointer("/lastState/terminated/finishedAt"));
        self.last_restart = self.last_restart.max(ended);
    }
}

fn is_sidecar(container: &At<'_>) -> bool {
    container.get("restartPolicy").str() == "Always"
}

fn sidecar_named(spec: &At<'_>, name: &str) -> bool {
    spec.get("initContainers").items().any(|c| c.get("name").str() == name && is_sidecar(&c))
}

fn exit_word(ended: &At<'_>) -> String {
    if !ended.get("reason").is_empty() {
        ended.get("reason").str().to_owned()
    } else if ended.get("signal").int() != 0 {
        format!("Signal:{}", ended.get("signal").int())
    } else {
        format!("ExitCode:{}", ended.get("exitCode").int())
    }
}

fn condition(status: &At<'_>, kind: &str) -> bool {
    status
        .get("conditions")
        .items()
        .any(|c| c.get("type").str() == kind && c.get("status").str() == "True")
}

fn gates(pod: &Value) -> String {
    let pod = At::root(pod);
    let gates = pod.dig("spec.readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let status = pod.get("status");
    let open = gates.items().filter(|g| condition(&status, g.get("conditionType").str())).count();
    format!("{open}/{}", gates.len())
}
