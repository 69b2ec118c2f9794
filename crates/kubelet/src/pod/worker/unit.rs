//! The containers of a pod: starting and stopping them, hearing of them, asking their probes.

use std::time::Duration;

use k8s_openapi::api::core::v1::Probe;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::{Message, Worker};
use crate::event::Severity;
use crate::pod::container::{Notice, Stop};
use crate::pod::drive::{Drive, Word};
use crate::pod::machine::{self, FaultKind, Stage};
use crate::probe::{self, Kind, Report};

impl Worker {
    pub(super) fn start(&mut self, unit: usize) {
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

    pub(super) fn stop(&mut self, unit: usize, grace: Duration, message: Option<String>) {
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

    pub(super) fn word(&mut self, unit: usize, word: Word) {
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

    pub(super) fn tell_back_off(&self, unit: usize) {
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

    pub(super) fn begin_probes(&mut self, unit: usize, kinds: &[Kind]) {
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

    pub(super) fn probe(&self, unit: usize, kind: Kind) -> Option<&Probe> {
        let container = &self.containers[unit];
        match kind {
            Kind::Startup => container.startup_probe.as_ref(),
            Kind::Liveness => container.liveness_probe.as_ref(),
            Kind::Readiness => container.readiness_probe.as_ref(),
        }
    }

    pub(super) fn probed(&mut self, unit: usize, kind: Kind, report: Report) {
        match (report, kind) {
            (Report::Unhealthy(message), _) => {
                self.note(unit, Severity::Warning, "Unhealthy", message);
            }
            (Report::Warning(message), _) => {
                self.note(unit, Severity::Warning, "ProbeWarning", message);
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

    pub(super) fn kill_unhealthy(&mut self, unit: usize, kind: Kind) {
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
}
