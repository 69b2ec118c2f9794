//! The task that runs one pod.
//!
//! In come orders from the node (the pod changed, is gone, the node goes down) and words from the
//! pod's containers and probes; the machine says what to do, and this does it: starts, stops,
//! statuses, events. It waits for nothing but the next message.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Container, Pod, PodStatus, Probe};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::context::{Context, Shown};
use crate::event::{self, Severity};
use crate::field::containers;
use crate::probe::{self, Kind, Report, Subject};

use super::adopt::{adopt, is_over};
use super::container::{Notice, Stop};
use super::drive::{Drive, Word};
use super::machine::{self, FaultKind, Machine, Stage, Step};
use super::report::{self, Written};
use super::sandbox::{self, Sandbox};
use super::status::{self, View};

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

    fn start(&mut self, unit: usize) {
        let Some(sandbox) = self.sandbox.clone() else { return };
        let live = &mut self.live[unit];
        let (stop, stop_rx) = watch::channel(None);
        live.instance += 1;
        live.stop = Some(stop);
        let drive = Drive {
            ctx: self.ctx.clone(),
            pod: self.pod.clone(),
            container: self.containers[unit].clone(),
            sandbox,
            restart: self.machine.units[unit].restarts,
            stop: stop_rx,
            grace: self
                .pod
                .spec
                .as_ref()
                .and_then(|s| s.termination_grace_period_seconds)
                .map_or(Duration::from_secs(30), |s| {
                    Duration::from_secs(u64::try_from(s).unwrap_or(0))
                }),
        };
        let (tx, instance) = (self.tx.clone(), live.instance);
        let task = tokio::spawn(async move {
            drive.run(|word| drop(tx.send(Message::Word { unit, instance, word }))).await;
        });
        live.task = Some(AbortOnDropHandle::new(task));
    }

    fn stop(&mut self, unit: usize, grace: Duration, message: Option<String>) {
        let live = &mut self.live[unit];
        live.probes.clear();
        if let Some(stop) = &live.stop {
            let deadline = Instant::now() + grace;
            stop.send_modify(|order| {
                let earliest = order.as_ref().map_or(deadline, |o| o.deadline.min(deadline));
                *order = Some(Stop { deadline: earliest, message });
            });
        }
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
                self.word(unit, word)
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

    fn word(&mut self, unit: usize, word: Word) {
        let now = Instant::now();
        match word {
            Word::NotStarted => self.machine.not_started(unit),
            Word::Faulted(fault) => {
                if fault.kind == FaultKind::Image {
                    let image = self.containers[unit].image.clone().unwrap_or_default();
                    self.note(
                        unit,
                        Severity::Normal,
                        "BackOff",
                        format!("Back-off pulling image \"{image}\""),
                    );
                }
                self.machine.faulted(unit, fault, now);
            }
            Word::Created { instance, subject, at } => {
                self.machine.created(unit, instance.id.clone(), at);
                self.live[unit].subject = Some(subject);
                let mut shown = self.shown.containers.lock();
                let entry = shown.entry(self.containers[unit].name.clone()).or_default();
                entry.restarts = self.machine.units[unit].restarts;
                entry.ever_started = true;
                entry.instance = Some(instance);
            }
            Word::Notice(Notice::Running) => {
                self.machine.running(unit);
                let has_startup = self.machine.units[unit].has_startup_probe;
                if self.machine.units[unit].stage == Stage::Running {
                    self.begin_probes(
                        unit,
                        if has_startup {
                            &[Kind::Startup]
                        } else {
                            &[Kind::Liveness, Kind::Readiness]
                        },
                    );
                }
            }
            Word::Notice(Notice::Ended(ended)) => {
                let live = &mut self.live[unit];
                live.probes.clear();
                live.stop = None;
                live.subject = None;
                if let Some(shown) =
                    self.shown.containers.lock().get_mut(&self.containers[unit].name)
                {
                    shown.instance = None;
                }
                self.machine.ended(unit, ended, now);
                self.tell_back_off(unit);
            }
        }
    }

    fn tell_back_off(&self, unit: usize) {
        let held = self.machine.units[unit].held_back(self.machine.limits()).is_some();
        if held && self.machine.stopping().is_none() {
            let meta = &self.pod.metadata;
            let text = |v: &Option<String>| v.clone().unwrap_or_default();
            let message = format!(
                "Back-off restarting failed container {} in pod {}_{}({})",
                self.containers[unit].name,
                text(&meta.name),
                text(&meta.namespace),
                text(&meta.uid)
            );
            self.note(unit, Severity::Warning, "BackOff", message);
        }
    }

    fn begin_probes(&mut self, unit: usize, kinds: &[Kind]) {
        let Some(subject) = self.live[unit].subject.clone() else { return };
        for kind in kinds {
            let Some(probe) = self.probe(unit, *kind).cloned() else { continue };
            let (tx, kind, instance) = (self.tx.clone(), *kind, self.live[unit].instance);
            let asking = probe::run(kind, probe, subject.clone(), move |report| {
                let _ = tx.send(Message::Probe { unit, instance, kind, report });
            });
            self.live[unit].probes.push(AbortOnDropHandle::new(tokio::spawn(asking)));
        }
    }

    fn probe(&self, unit: usize, kind: Kind) -> Option<&Probe> {
        let container = &self.containers[unit];
        match kind {
            Kind::Startup => container.startup_probe.as_ref(),
            Kind::Liveness => container.liveness_probe.as_ref(),
            Kind::Readiness => container.readiness_probe.as_ref(),
        }
    }

    fn probed(&mut self, unit: usize, kind: Kind, report: Report) {
        match (report, kind) {
            (Report::Unhealthy(message), _) => {
                self.note(unit, Severity::Warning, "Unhealthy", message)
            }
            (Report::Warning(message), _) => {
                self.note(unit, Severity::Warning, "ProbeWarning", message)
            }
            (Report::Changed(ready), Kind::Readiness) => self.machine.probed(unit, ready),
            (Report::Changed(true), Kind::Startup) => {
                self.machine.startup_passed(unit);
                self.live[unit].probes.clear();
                self.begin_probes(unit, &[Kind::Liveness, Kind::Readiness]);
            }
            (Report::Changed(true), Kind::Liveness) => {}
            (Report::Changed(false), kind) => self.kill_unhealthy(unit, kind),
        }
    }

    fn kill_unhealthy(&mut self, unit: usize, kind: Kind) {
        if self.machine.units[unit].stage != Stage::Running {
            return;
        }
        let own = self.probe(unit, kind).and_then(|p| p.termination_grace_period_seconds);
        let grace =
            own.map_or(self.grace(), |s| Duration::from_secs(u64::try_from(s).unwrap_or(0)));
        let what = match self.machine.units[unit].role {
            machine::Role::Main => "Container",
            _ => "Init container",
        };
        let mut message = format!(
            "{what} {} failed {} probe",
            self.containers[unit].name,
            kind.name().to_lowercase()
        );
        if self.machine.units[unit].restart.wanted_after(137) {
            message.push_str(", will be restarted");
        }
        self.machine.stop_unit(unit);
        self.stop(unit, grace, Some(message));
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
        if let Some(at) = self.active_deadline() {
            if at <= self.ctx.now()
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
                self.machine.stop_pod(
                    machine::Stop::DeadlineExceeded,
                    self.grace(),
                    Instant::now(),
                );
            }
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

    fn view(&self, now: Instant) -> View<'_> {
        View {
            pod: &self.pod,
            machine: &self.machine,
            sandbox: self.sandbox.is_some() && !self.torn_down,
            pod_ips: self.sandbox.as_ref().map_or(&[], |s| &s.link.addresses),
            host_ips: &self.ctx.host_ips,
            failure: self.failure,
            now,
            wall: self.ctx.now(),
        }
    }

    fn sync_status(&mut self, now: Instant) {
        // A pod that will run again on the next start keeps the status it had.
        if self.gone || self.over || self.machine.stopping() == Some(machine::Stop::Shutdown) {
            return;
        }
        self.built = status::build(&self.view(now), &self.built);
        self.show_waiting();
        if self.writing.is_some() || self.write_after.is_some_and(|at| at > now) {
            return;
        }
        let uid = self.pod.metadata.uid.clone().unwrap_or_default();
        let Some(patch) = report::patch(&uid, &self.acknowledged, &self.built) else { return };
        let (client, pod, status) = (self.ctx.client.clone(), self.pod.clone(), self.built.clone());
        self.write_after = None;
        self.writing = Some(Box::pin(async move {
            let outcome = report::write(client, &pod, patch).await;
            (status, outcome)
        }));
    }

    /// Why containers do not run, for those who ask for their logs.
    fn show_waiting(&self) {
        let lists = [&self.built.init_container_statuses, &self.built.container_statuses];
        let mut shown = self.shown.containers.lock();
        for status in lists.into_iter().flatten().flatten() {
            let waiting = status
                .state
                .as_ref()
                .and_then(|s| s.waiting.as_ref())
                .and_then(|w| w.reason.clone());
            let entry = shown.entry(status.name.clone()).or_default();
            entry.waiting = waiting;
        }
    }

    fn written(&mut self, status: PodStatus, outcome: &Written) {
        self.writing = None;
        match outcome {
            Written::Done => self.acknowledged = status,
            // The watch will tell; until then nothing is to be written.
            Written::Gone => self.write_after = Some(Instant::now() + WRITE_RETRY),
            Written::Failed => self.write_after = Some(Instant::now() + WRITE_RETRY),
        }
    }

    /// All containers are done. Returns whether the worker is, too.
    async fn settle(&mut self, orders: &mut mpsc::UnboundedReceiver<Order>) -> bool {
        if !self.torn_down {
            self.tear_down().await;
        }
        let stop = self.machine.stopping();
        if stop == Some(machine::Stop::Shutdown) {
            return true;
        }
        if !self.gone && !self.flush(orders).await {
            return self.shutting_down;
        }
        let deleted = self.pod.metadata.deletion_timestamp.is_some();
        if deleted && !self.gone {
            self.gone = report::delete(self.ctx.client.clone(), &self.pod).await != Written::Failed;
            self.write_after = Some(Instant::now() + WRITE_RETRY);
        }
        if self.gone {
            let _ = std::fs::remove_dir_all(&self.shown.log_directory);
        }
        self.gone || self.shutting_down
    }

    async fn tear_down(&mut self) {
        self.setup.cancel();
        while self.setting_up {
            match self.rx.recv().await {
                Some(message) => self.hear(message),
                None => break,
            }
        }
        *self.shown.link.lock() = None;
        for live in &mut self.live {
            *live = Live { instance: live.instance, ..Live::default() };
        }
        sandbox::remove(&self.ctx, &self.pod, self.sandbox.clone()).await;
        self.torn_down = true;
    }

    /// Writes the last status; returns whether the API has it (or needs it no more).
    async fn flush(&mut self, orders: &mut mpsc::UnboundedReceiver<Order>) -> bool {
        let now = Instant::now();
        self.sync_status(now);
        while self.writing.is_some() {
            tokio::select! {
                (status, outcome) = next_write(&mut self.writing) => {
                    let is_gone = outcome == Written::Gone;
                    self.written(status, &outcome);
                    if is_gone {
                        return self.pod.metadata.deletion_timestamp.is_some();
                    }
                    self.sync_status(Instant::now());
                }
                Some(order) = orders.recv() => {
                    self.obey(order);
                    if self.gone {
                        return true;
                    }
                }
            }
        }
        let uid = self.pod.metadata.uid.clone().unwrap_or_default();
        report::patch(&uid, &self.acknowledged, &self.built).is_none()
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

#[cfg(test)]
mod tests;
