//! The task that runs one pod.
//!
//! In come orders from the node (the pod changed, is gone, the node goes down) and words from the
//! pod's containers and probes; the machine says what to do, and this does it: starts, stops,
//! statuses, events. It waits for nothing but the next message.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Container, Pod, PodStatus};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::context::{Context, Shown};
use crate::event::{self, Severity};
use crate::field::containers;
use crate::probe::{Kind, Report, Subject};

use super::adopt::{adopt, is_over};
use super::container::Stop;
use super::drive::Word;
use super::machine::{self, Machine, Stage, Step};
use super::report::Written;
use super::sandbox::{self, Sandbox};
use super::status::{self};

mod finish;
#[cfg(test)]
mod tests;
mod unit;

/// What the node tells a pod's worker.
#[derive(Debug)]
pub enum Order {
    Update(Arc<Pod>),
    /// The object is gone from the API: stop at once, there is nobody to report to.
    Gone,
    /// The node goes down: stop gracefully and leave the object alone.
    Shutdown,
}

enum Message {
    Sandbox(Option<Arc<Sandbox>>),
    Word { unit: usize, instance: u64, word: Word },
    Probe { unit: usize, instance: u64, kind: Kind, report: Report },
    Refreshed { due: Option<Instant> },
}

/// The live side of a container: what must end with its instance.
#[derive(Default)]
struct Live {
    instance: u64,
    stop: Option<watch::Sender<Option<Stop>>>,
    task: Option<AbortOnDropHandle<()>>,
    probes: Vec<AbortOnDropHandle<()>>,
    subject: Option<Subject>,
}

pub struct Worker {
    ctx: Arc<Context>,
    pod: Arc<Pod>,
    shown: Arc<Shown>,
    containers: Vec<Arc<Container>>,
    machine: Machine,
    live: Vec<Live>,
    tx: mpsc::UnboundedSender<Message>,
    rx: mpsc::UnboundedReceiver<Message>,
    setup: CancellationToken,
    setting_up: bool,
    sandbox: Option<Arc<Sandbox>>,
    refreshing: bool,
    refresh_wanted: bool,
    token_due: Option<Instant>,
    /// What the API has, and what it is to have.
    acknowledged: PodStatus,
    built: PodStatus,
    writing: Option<BoxFuture<'static, (PodStatus, Written)>>,
    write_after: Option<Instant>,
    failure: Option<(&'static str, &'static str)>,
    gone: bool,
    /// It was over before this node first saw it: its status is its last.
    over: bool,
    shutting_down: bool,
    torn_down: bool,
}

/// A failed status write is tried again after this.
const WRITE_RETRY: Duration = Duration::from_secs(1);
const DEADLINE: (&str, &str) =
    ("DeadlineExceeded", "Pod was active on the node longer than the specified deadline");

impl Worker {
    pub fn new(ctx: Arc<Context>, pod: Arc<Pod>, shown: Arc<Shown>) -> Self {
        let spec = pod.spec.clone().unwrap_or_default();
        let mut machine = Machine::new(&spec, ctx.config.backoff);
        adopt(&mut machine, &pod);
        let containers: Vec<Arc<Container>> = containers(&pod).cloned().map(Arc::new).collect();
        let (tx, rx) = mpsc::unbounded_channel();
        let acknowledged = pod.status.clone().unwrap_or_default();
        Self {
            live: containers.iter().map(|_| Live::default()).collect(),
            containers,
            machine,
            tx,
            rx,
            setup: CancellationToken::new(),
            setting_up: false,
            sandbox: None,
            refreshing: false,
            refresh_wanted: false,
            token_due: None,
            built: acknowledged.clone(),
            acknowledged,
            writing: None,
            write_after: None,
            failure: None,
            gone: false,
            over: is_over(&pod),
            shutting_down: false,
            torn_down: false,
            ctx,
            pod,
            shown,
        }
    }

    /// Runs until the pod is gone from this node.
    pub async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        self.observe_deletion();
        if !self.machine.is_finished() && self.machine.stopping().is_none() {
            self.begin_setup();
        }
        loop {
            self.advance();
            if self.machine.is_finished() && self.settle(&mut orders).await {
                return;
            }
            let now = Instant::now();
            let wake = self.next_wake(now);
            let changed = self.sandbox.as_ref().map(|s| s.objects.changed.clone());
            tokio::select! {
                order = orders.recv() => match order {
                    Some(order) => self.obey(order),
                    None => self.obey(Order::Shutdown),
                },
                Some(message) = self.rx.recv() => self.hear(message),
                (status, outcome) = next_write(&mut self.writing) => self.written(status, &outcome),
                () = notified(changed) => self.objects_changed(),
                () = sleep_until(wake) => {}
            }
        }
    }

    fn obey(&mut self, order: Order) {
        let now = Instant::now();
        match order {
            Order::Update(pod) => {
                let labels = (&self.pod.metadata.labels, &self.pod.metadata.annotations);
                self.refresh_wanted |= labels != (&pod.metadata.labels, &pod.metadata.annotations);
                *self.shown.pod.lock() = pod.clone();
                self.pod = pod;
                self.observe_deletion();
            }
            Order::Gone => {
                self.gone = true;
                self.machine.stop_pod(machine::Stop::Deleted, Duration::ZERO, now);
            }
            Order::Shutdown => {
                self.shutting_down = true;
                if !self.machine.is_finished() {
                    self.machine.stop_pod(machine::Stop::Shutdown, self.grace(), now);
                }
            }
        }
        self.bring_deadlines_forward();
    }

    fn observe_deletion(&mut self) {
        let meta = &self.pod.metadata;
        if meta.deletion_timestamp.is_some() {
            let grace = meta.deletion_grace_period_seconds.unwrap_or(30);
            let grace = Duration::from_secs(u64::try_from(grace).unwrap_or(0));
            self.machine.stop_pod(machine::Stop::Deleted, grace, Instant::now());
        }
    }

    fn grace(&self) -> Duration {
        let seconds =
            self.pod.spec.as_ref().and_then(|s| s.termination_grace_period_seconds).unwrap_or(30);
        Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
    }

    /// Containers that are stopping already learn of an earlier deadline.
    fn bring_deadlines_forward(&self) {
        let Some(deadline) = self.machine.stop_deadline() else { return };
        for (unit, live) in self.machine.units.iter().zip(&self.live) {
            if let (Stage::Stopping, Some(stop)) = (&unit.stage, &live.stop) {
                stop.send_if_modified(|order| match order {
                    Some(order) if order.deadline > deadline => {
                        order.deadline = deadline;
                        true
                    }
                    _ => false,
                });
            }
        }
    }

    fn begin_setup(&mut self) {
        self.setting_up = true;
        let (ctx, pod, cancel, tx) =
            (self.ctx.clone(), self.pod.clone(), self.setup.clone(), self.tx.clone());
        tokio::spawn(async move {
            let sandbox = sandbox::prepare(ctx, pod, cancel).await;
            let _ = tx.send(Message::Sandbox(sandbox));
        });
    }

    /// Does all that can be done now.
    fn advance(&mut self) {
        let now = Instant::now();
        self.check_deadline();
        if self.machine.stopping().is_some() {
            self.setup.cancel();
        }
        loop {
            let steps = self.machine.steps(now);
            if steps.is_empty() {
                break;
            }
            for step in steps {
                match step {
                    Step::Start(unit) => self.start(unit),
                    Step::Stop { unit, grace } => self.stop(unit, grace, None),
                    Step::Finish => {}
                }
            }
        }
        self.refresh_if_due(now);
        self.sync_status(now);
    }

    fn hear(&mut self, message: Message) {
        match message {
            Message::Sandbox(sandbox) => {
                self.setting_up = false;
                if let Some(sandbox) = sandbox {
                    *self.shown.link.lock() = Some(sandbox.link.clone());
                    self.token_due = sandbox.volumes.try_lock().ok().and_then(|v| v.due());
                    self.sandbox = Some(sandbox);
                    self.machine.sandbox_ready();
                }
            }
            Message::Word { unit, instance, word } if self.live[unit].instance == instance => {
                self.word(unit, word);
            }
            Message::Probe { unit, instance, kind, report }
                if self.live[unit].instance == instance =>
            {
                self.probed(unit, kind, report);
            }
            Message::Refreshed { due } => {
                self.refreshing = false;
                self.token_due = due;
            }
            Message::Word { .. } | Message::Probe { .. } => {}
        }
    }

    fn objects_changed(&mut self) {
        self.refresh_wanted = true;
        self.machine.retry_faults();
    }

    fn refresh_if_due(&mut self, now: Instant) {
        let due = self.token_due.is_some_and(|at| at <= now);
        if self.refreshing || !(due || self.refresh_wanted) || self.machine.stopping().is_some() {
            return;
        }
        let Some(sandbox) = self.sandbox.clone() else { return };
        self.refreshing = true;
        self.refresh_wanted = false;
        self.token_due = None;
        let (ctx, pod, tx) = (self.ctx.clone(), self.pod.clone(), self.tx.clone());
        tokio::spawn(async move {
            if let Err(error) = sandbox.refresh(&ctx, &pod).await {
                ctx.recorder.note(
                    event::about(&pod, None),
                    Severity::Warning,
                    "FailedMount",
                    error,
                );
            }
            let due = sandbox.volumes.lock().await.due();
            let _ = tx.send(Message::Refreshed { due });
        });
    }

    fn check_deadline(&mut self) {
        if let Some(at) = self.active_deadline()
            && at <= self.ctx.now()
            && self.machine.stopping().is_none()
            && !self.machine.is_finished()
        {
            self.failure = Some(DEADLINE);
            self.ctx.recorder.note(
                event::about(&self.pod, None),
                Severity::Normal,
                DEADLINE.0,
                DEADLINE.1,
            );
            self.machine.stop_pod(machine::Stop::DeadlineExceeded, self.grace(), Instant::now());
        }
    }

    fn active_deadline(&self) -> Option<jiff::Timestamp> {
        let seconds = self.pod.spec.as_ref()?.active_deadline_seconds?;
        let start = self.built.start_time.as_ref()?.0;
        jiff::Timestamp::from_second(start.as_second().checked_add(seconds)?).ok()
    }

    fn next_wake(&self, now: Instant) -> Instant {
        let flips =
            self.machine.units.iter().filter(|u| u.fault.is_some()).filter_map(|u| u.fault_at);
        let flips = flips.map(|at| at + status::PULL_ERROR_SHOWN).filter(|at| *at > now).min();
        let deadline =
            self.active_deadline().filter(|_| self.machine.stopping().is_none()).map(|at| {
                let left = at.as_millisecond() - self.ctx.now().as_millisecond();
                now + Duration::from_millis(u64::try_from(left).unwrap_or(0).max(10))
            });
        let refresh =
            self.token_due.filter(|_| !self.refreshing && self.machine.stopping().is_none());
        let all = [self.machine.wake(now), flips, deadline, refresh, self.write_after];
        all.into_iter().flatten().min().unwrap_or(now + Duration::from_secs(3600))
    }

    fn note(
        &self,
        unit: usize,
        severity: Severity,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        let about = event::about(&self.pod, Some(&self.containers[unit].name));
        self.ctx.recorder.note(about, severity, reason, message);
    }
}

async fn next_write(
    writing: &mut Option<BoxFuture<'static, (PodStatus, Written)>>,
) -> (PodStatus, Written) {
    match writing {
        Some(write) => write.await,
        None => std::future::pending().await,
    }
}

async fn notified(changed: Option<Arc<tokio::sync::Notify>>) {
    match changed {
        Some(changed) => changed.notified().await,
        None => std::future::pending().await,
    }
}
