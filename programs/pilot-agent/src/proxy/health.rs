//! How the application is, where no kubelet asks: on virtual machines.
//!
//! In: the readiness probe of the proxy's configuration; out: a channel that holds the application's
//! health once it is known and changes only when that does, after as many equal results in a row as
//! the probe wants. An application whose proxy is not ready is not healthy.

mod look;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::time::Duration;

use ironsail_api::istio::networking::{HealthCheckMethod, ReadinessProbe};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

use super::admin::Admin;
use super::status::ready;
use look::Look;

/// What the control plane is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Good,
    /// Why not.
    Bad(String),
}

/// Looks at the application again and again.
pub(crate) struct Checker {
    look: Look,
    /// None: there is no proxy to ask.
    proxy: Option<Admin>,
    delay: Duration,
    patience: Duration,
    period: Duration,
    /// Equal results in a row before they count.
    good: u32,
    bad: u32,
}

impl Checker {
    /// None if the probe does not say how to look. `own` are the workload's addresses.
    pub(crate) fn new(
        probe: &ReadinessProbe,
        proxy: Option<Admin>,
        own: &[IpAddr],
    ) -> anyhow::Result<Option<Self>> {
        if matches!(probe.method, HealthCheckMethod::Unset) {
            return Ok(None);
        }
        let number = |number: i32, otherwise: u32| match u32::try_from(number) {
            Ok(0) | Err(_) => otherwise,
            Ok(number) => number,
        };
        let seconds = |seconds, otherwise| Duration::from_secs(number(seconds, otherwise).into());
        Ok(Some(Self {
            look: Look::new(&probe.method, own)?,
            proxy,
            delay: seconds(probe.initial_delay_seconds, 0),
            patience: seconds(probe.timeout_seconds, 1),
            period: seconds(probe.period_seconds, 10),
            good: number(probe.success_threshold, 1),
            bad: number(probe.failure_threshold, 1),
        }))
    }

    pub(crate) async fn run(
        self,
        health: watch::Sender<Option<Health>>,
        stop: CancellationToken,
    ) -> anyhow::Result<()> {
        let _ = stop.run_until_cancelled(self.check(&health)).await;
        Ok(())
    }

    async fn check(&self, health: &watch::Sender<Option<Health>>) {
        info!(target: "healthcheck", "starting health check of the application in {:?}", self.delay);
        tokio::time::sleep(self.delay).await;
        let mut ticks = tokio::time::interval(self.period);
        let mut results = Results::default();
        loop {
            ticks.tick().await;
            let result = self.once().await;
            debug!(target: "healthcheck", "probe completed: {result:?}");
            if let Some(news) = results.take(result, self.good, self.bad) {
                match &news {
                    Health::Good => info!(target: "healthcheck", "the application is healthy"),
                    Health::Bad(why) => {
                        info!(target: "healthcheck", "the application is not healthy: {why}");
                    }
                }
                health.send_replace(Some(news));
            }
        }
    }

    async fn once(&self) -> Result<(), String> {
        if let Some(proxy) = &self.proxy {
            ready::check(proxy).await.map_err(|error| format!("the proxy: {error:#}"))?;
        }
        match tokio::time::timeout(self.patience, self.look.once()).await {
            Ok(result) => result.map_err(|error| format!("{error:#}")),
            Err(_) => Err(format!("no answer in {:?}", self.patience)),
        }
    }
}

/// Results in a row, and what was said last.
#[derive(Debug, Default)]
struct Results {
    good: u32,
    bad: u32,
    healthy: bool,
}

impl Results {
    /// What is to be said now. Before the first good result there is nothing to take back.
    fn take(&mut self, result: Result<(), String>, good: u32, bad: u32) -> Option<Health> {
        match result {
            Ok(()) => {
                (self.good, self.bad) = (self.good.saturating_add(1), 0);
                let news = self.good >= good && !self.healthy;
                self.healthy |= news;
                news.then_some(Health::Good)
            }
            Err(why) => {
                (self.good, self.bad) = (0, self.bad.saturating_add(1));
                let news = self.bad >= bad && self.healthy;
                self.healthy &= !news;
                news.then_some(Health::Bad(why))
            }
        }
    }
}
