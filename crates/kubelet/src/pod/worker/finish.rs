//! What a pod tells the API while it lives, and what is done once its containers are over.

use k8s_openapi::api::core::v1::PodStatus;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{Live, Order, WRITE_RETRY, Worker, next_write};
use crate::pod::machine;
use crate::pod::report::{self, Written};
use crate::pod::sandbox;
use crate::pod::status::{self, View};

impl Worker {
    pub(super) fn view(&self, now: Instant) -> View<'_> {
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

    pub(super) fn sync_status(&mut self, now: Instant) {
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
    pub(super) fn show_waiting(&self) {
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

    pub(super) fn written(&mut self, status: PodStatus, outcome: &Written) {
        self.writing = None;
        match outcome {
            Written::Done => self.acknowledged = status,
            // The watch will tell; until then nothing is to be written.
            Written::Gone => self.write_after = Some(Instant::now() + WRITE_RETRY),
            Written::Failed => self.write_after = Some(Instant::now() + WRITE_RETRY),
        }
    }

    /// All containers are done. Returns whether the worker is, too.
    pub(super) async fn settle(&mut self, orders: &mut mpsc::UnboundedReceiver<Order>) -> bool {
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

    pub(super) async fn tear_down(&mut self) {
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
    pub(super) async fn flush(&mut self, orders: &mut mpsc::UnboundedReceiver<Order>) -> bool {
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
}
