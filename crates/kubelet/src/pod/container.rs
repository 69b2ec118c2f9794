//! One instance of a container, from its start to its end, as a task of its own.
//!
//! In comes a launched process and, at some time, an order to stop; out go [`Notice`]s to the pod's
//! worker. The order of the end is Kubernetes': preStop hook, stop signal, wait, kill.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ironsail_container::ExitStatus;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{LifecycleHandler, ObjectReference};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::task::AbortOnDropHandle;

use crate::event::{Recorder, Severity};
use crate::log::writer::Log;
use crate::probe::Subject;
use crate::runtime::{Process, Started};

use super::ending;
use super::hook;
use super::machine::Ended;

/// What others may do with a running container.
pub struct Instance {
    pub id: String,
    pub process: Arc<dyn Process>,
    pub log: Arc<Log>,
    pub tty: bool,
    pub stdin: Mutex<Option<ironsail_container::Writer>>,
}

/// What becomes of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Its postStart hook is over.
    Running,
    Ended(Ended),
}

/// An order to stop. A later order can only bring the deadline forward.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    pub deadline: Instant,
    /// What the Killing event says; `None` for the usual.
    pub message: Option<String>,
}

/// Everything an instance needs besides its process.
pub struct Task {
    pub subject: Subject,
    pub started: Started,
    pub instance: Arc<Instance>,
    pub started_at: Timestamp,
    pub about: ObjectReference,
    pub recorder: Recorder,
    pub stop: watch::Receiver<Option<Stop>>,
    pub grace: Duration,
    pub termination_file: PathBuf,
    pub now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

/// The last output of a container that is gone is waited for no longer than this.
const DRAIN: Duration = Duration::from_secs(5);
/// A hook that used up the grace leaves the program this much, as kubelets do.
const LEAST_AFTER_HOOK: Duration = Duration::from_secs(2);
const SIGTERM: i32 = 15;

impl Task {
    /// Runs to the end of the instance.
    pub async fn run(mut self, tell: impl Fn(Notice)) {
        let stdio = &mut self.started.stdio;
        let (stdout, stderr) = (stdio.stdout.take(), stdio.stderr.take());
        let log = self.instance.log.clone();
        let pump =
            AbortOnDropHandle::new(tokio::spawn(async move { log.pump(stdout, stderr).await }));
        let process = self.started.process.clone();
        let exit = tokio::select! {
            exit = process.wait() => exit,
            exit = self.live(&tell) => exit,
        };
        if timeout(DRAIN, pump).await.is_err() {
            self.instance.log.close();
        }
        let container = &self.subject.container;
        let message =
            ending::message(container, exit, &self.termination_file, self.instance.log.path());
        tell(Notice::Ended(Ended {
            code: exit.code,
            signal: None,
            reason: ending::reason(exit).to_owned(),
            message,
            container_id: Some(self.instance.id.clone()),
            started_at: Some(self.started_at),
            finished_at: Some((self.now)()),
        }));
    }

    /// Hooks and orders, for as long as the process runs.
    async fn live(&mut self, tell: &impl Fn(Notice)) -> ExitStatus {
        let lifecycle = self.subject.container.lifecycle.clone().unwrap_or_default();
        if let Some(handler) = &lifecycle.post_start {
            let mut stop = self.stop.clone();
            let outcome = tokio::select! {
                outcome = hook::run(handler, &self.subject) => Some(outcome),
                _ = stop.wait_for(Option::is_some) => None,
            };
            if let Some(Err(error)) = outcome {
                tracing::debug!(
                    container = self.subject.container.name,
                    error,
                    "postStart hook failed"
                );
                self.note(Severity::Warning, "FailedPostStartHook", "PostStartHook failed");
                let order = Stop {
                    deadline: Instant::now() + self.grace,
                    message: Some("FailedPostStartHook".into()),
                };
                return self.end(order, lifecycle.pre_stop.as_ref()).await;
            }
        }
        tell(Notice::Running);
        let order = match self.stop.wait_for(Option::is_some).await {
            Ok(order) => order.clone(),
            Err(_) => None,
        };
        // A worker that is gone without an order has nobody left to wait for.
        let order = order.unwrap_or(Stop { deadline: Instant::now(), message: None });
        self.end(order, lifecycle.pre_stop.as_ref()).await
    }

    async fn end(&mut self, order: Stop, pre_stop: Option<&LifecycleHandler>) -> ExitStatus {
        let name = &self.subject.container.name;
        let message = order.message.clone().unwrap_or_else(|| format!("Stopping container {name}"));
        self.note(Severity::Normal, "Killing", message);
        let process = self.started.process.clone();
        let force = order.deadline <= Instant::now();
        if let (Some(handler), false) = (pre_stop, force) {
            let outcome = tokio::select! {
                outcome = hook::run(handler, &self.subject) => outcome,
                () = past_deadline(self.stop.clone(), order.deadline) => Err("grace period is over".to_owned()),
            };
            if let Err(error) = outcome {
                tracing::debug!(container = name, error, "preStop hook failed");
                self.note(Severity::Warning, "FailedPreStopHook", "PreStopHook failed");
            }
        }
        if !force {
            process.signal(self.stop_signal());
            let least = if pre_stop.is_some() { LEAST_AFTER_HOOK } else { Duration::ZERO };
            let deadline = order.deadline.max(Instant::now() + least);
            tokio::select! {
                exit = process.wait() => return exit,
                () = past_deadline(self.stop.clone(), deadline) => {}
            }
        }
        process.kill();
        process.wait().await
    }

    fn stop_signal(&self) -> i32 {
        let named =
            self.subject.container.lifecycle.as_ref().and_then(|l| l.stop_signal.as_deref());
        named.and_then(signal_number).unwrap_or(SIGTERM)
    }

    fn note(&self, severity: Severity, reason: &'static str, message: impl Into<String>) {
        self.recorder.note(self.about.clone(), severity, reason, message);
    }
}

/// Returns at `deadline`, or earlier if an order brings it forward.
async fn past_deadline(mut orders: watch::Receiver<Option<Stop>>, deadline: Instant) {
    let mut until = deadline;
    orders.mark_unchanged();
    loop {
        tokio::select! {
            () = sleep_until(until) => return,
            changed = orders.changed() => {
                if changed.is_err() {
                    return sleep_until(until).await;
                }
                if let Some(order) = &*orders.borrow_and_update() {
                    until = until.min(order.deadline);
                }
            }
        }
    }
}

/// The number of a signal that manifests may name as a container's stop signal.
pub fn signal_number(name: &str) -> Option<i32> {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
        "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
        "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
    ];
    let bare = name.strip_prefix("SIG").unwrap_or(name);
    let at = NAMES.iter().position(|n| *n == bare)?;
    i32::try_from(at + 1).ok()
}

#[cfg(test)]
mod tests;
