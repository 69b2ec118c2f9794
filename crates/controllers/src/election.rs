//! One of many replicas leads: whoever holds a Lease runs the work, the others wait.
//!
//! In: a client, a name, who we are. Out: the work is started when the lease is ours and cancelled
//! when it is not. What to do about a lease as it was found is decided in [`decide`], without IO.
//!
//! A lease counts as abandoned when *this* replica has seen it unchanged for its whole duration, so
//! clocks of different machines need not agree. On a graceful end the lease is given back at once.
//! Two replicas can believe to lead for a moment (a paused machine); the work must bear that.

mod decide;
#[cfg(test)]
mod tests;

use std::time::Duration;

use ironsail_sys::clock::Clock;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use rand::Rng;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::revision::or_default;

use decide::{Record, Step, decide};

/// The leases of Istio's control plane.
pub mod name {
    pub const NAMESPACE: &str = "istio-namespace-controller-election";
    pub const INGRESS: &str = "istio-leader";
    pub const GATEWAY_STATUS: &str = "istio-gateway-status-leader";
    pub const GATEWAY_DEPLOYMENT: &str = "istio-gateway-deployment-leader";
    pub const STATUS: &str = "istio-status-leader";
    pub const ANALYZE: &str = "istio-analyze-leader";
    pub const ADDRESS: &str = "istio-ip-autoallocate";
}

/// Which revision holds a lease; kept beside it because a Lease has no field for it.
const REVISION: &str = "istio.io/rev";

/// How long a lease lasts unless said otherwise; the same as Istio's.
pub const TTL: Duration = Duration::from_secs(30);
/// How long the work may take to end after it was told to.
const WIND_DOWN: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub struct Config {
    pub namespace: String,
    /// Of the Lease; one of [`name`].
    pub name: String,
    /// Who we are: the pod's name. Two replicas must not share it.
    pub identity: String,
    /// Empty for the default one.
    pub revision: String,
    /// Replicas of this revision take the lease from replicas of any other.
    pub default_revision: watch::Receiver<String>,
    pub ttl: Duration,
    pub clock: Clock,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("reading the lease")]
    Read(#[source] kube::Error),
    #[error("writing the lease")]
    Write(#[source] kube::Error),
    #[error("the lease was not renewed in time")]
    Late,
    #[error("another replica has taken the lease")]
    Taken,
}

/// A candidate for one lease.
pub struct Election {
    config: Config,
    api: Api<Lease>,
    leading: watch::Sender<bool>,
    /// The lease as last seen, and since when it has been so.
    seen: Option<(Record, Instant)>,
}

impl Election {
    pub fn new(client: Client, mut config: Config) -> Self {
        config.revision = or_default(&config.revision).to_owned();
        let api = Api::namespaced(client, &config.namespace);
        Self { config, api, leading: watch::Sender::new(false), seen: None }
    }

    /// Whether this replica leads.
    pub fn leading(&self) -> watch::Receiver<bool> {
        self.leading.subscribe()
    }

    /// Until `stop`: waits for the lease, runs `work` while it is ours, waits again when it was
    /// lost. `work` must end soon after its token is cancelled.
    pub async fn run<F>(
        mut self,
        stop: CancellationToken,
        mut work: impl FnMut(CancellationToken) -> F,
    ) where
        F: Future<Output = ()>,
    {
        let lease = self.config.name.clone();
        while self.win(&stop).await {
            tracing::info!(%lease, identity = %self.config.identity, "leading");
            self.leading.send_replace(true);
            let hold = stop.child_token();
            let lost = {
                let mut work = std::pin::pin!(work(hold.clone()));
                let mut working = true;
                let mut keeping = std::pin::pin!(self.keep());
                let lost = loop {
                    tokio::select! {
                        () = stop.cancelled() => break None,
                        error = &mut keeping => break Some(error),
                        () = &mut work, if working => working = false,
                    }
                };
                hold.cancel();
                if working && tokio::time::timeout(WIND_DOWN, work).await.is_err() {
                    tracing::warn!(%lease, "the leader's work did not end in time");
                }
                lost
            };
            self.leading.send_replace(false);
            match lost {
                Some(error) => tracing::warn!(%lease, error = %Chain(&error), "no longer leading"),
                None => self.release().await,
            }
        }
    }

    /// Waits until the lease is ours; false when told to stop before.
    async fn win(&mut self, stop: &CancellationToken) -> bool {
        loop {
            if stop.is_cancelled() {
                return false;
            }
            match self.advance().await {
                Ok(true) => return true,
                Ok(false) => {}
                Err(error) => {
                    let lease = &self.config.name;
                    tracing::debug!(%lease, error = %Chain(&error), "the lease cannot be had");
                }
            }
            tokio::select! {
                () = stop.cancelled() => return false,
                () = tokio::time::sleep(self.pause()) => {}
            }
        }
    }

    /// Renews the lease until it is lost, and says why.
    async fn keep(&mut self) -> Error {
        let mut renewed = Instant::now();
        loop {
            tokio::time::sleep(self.pause()).await;
            let deadline = renewed + self.config.ttl / 2;
            let renewal = async {
                // A conflict may come from anybody's write: only a second look tells.
                Ok(self.advance().await? || self.advance().await?)
            };
            match tokio::time::timeout_at(deadline, renewal).await {
                Ok(Ok(true)) => renewed = Instant::now(),
                Ok(Ok(false)) => return Error::Taken,
                Ok(Err(error)) if Instant::now() >= deadline => return error,
                Ok(Err(error)) => {
                    tracing::debug!(error = %Chain(&error), "the lease was not renewed yet");
                }
                Err(_) => return Error::Late,
            }
        }
    }

    fn pause(&self) -> Duration {
        self.config.ttl.mul_f64(rand::rng().random_range(0.08..0.12)).min(Duration::from_secs(4))
    }

    /// Looks at the lease and does what is right about it; whether it is ours then.
    async fn advance(&mut self) -> Result<bool, Error> {
        let lease = self.api.get_opt(&self.config.name).await.map_err(Error::Read)?;
        let record = lease.as_ref().map(Record::of);
        let unchanged = self.observe(record.as_ref());
        let default = self.config.default_revision.borrow().clone();
        let step = decide(
            &self.config.identity,
            &self.config.revision,
            &default,
            record.as_ref(),
            unchanged,
        );
        let params = PostParams::default();
        let written = match (step, lease) {
            (Step::Wait, _) => return Ok(false),
            (Step::Create, _) | (_, None) => {
                let lease = self.claim(&Lease::default(), true);
                self.api.create(&params, &lease).await
            }
            (Step::Take, Some(old)) => {
                self.api.replace(&self.config.name, &params, &self.claim(&old, true)).await
            }
            (Step::Renew, Some(old)) => {
                self.api.replace(&self.config.name, &params, &self.claim(&old, false)).await
            }
        };
        match written {
            Ok(lease) => {
                self.observe(Some(&Record::of(&lease)));
                Ok(true)
            }
            // Somebody was quicker: look again at the next turn.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(error) => Err(Error::Write(error)),
        }
    }

    /// Notes what the lease looks like; for how long it has looked so.
    fn observe(&mut self, record: Option<&Record>) -> Duration {
        match (record, &self.seen) {
            (Some(new), Some((old, since))) if new == old => since.elapsed(),
            (Some(new), _) => {
                self.seen = Some((new.clone(), Instant::now()));
                Duration::ZERO
            }
            (None, _) => {
                self.seen = None;
                Duration::ZERO
            }
        }
    }

    /// The lease as ours; `fresh` when it was not ours before.
    fn claim(&self, old: &Lease, fresh: bool) -> Lease {
        let now = MicroTime(jiff::Timestamp::try_from(self.config.clock.now()).unwrap_or_default());
        let before = old.spec.clone().unwrap_or_default();
        let mut metadata = ObjectMeta {
            name: Some(self.config.name.clone()),
            namespace: Some(self.config.namespace.clone()),
            managed_fields: None,
            ..old.metadata.clone()
        };
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.insert(REVISION.to_owned(), self.config.revision.clone());
        let transitions = before.lease_transitions.unwrap_or(0);
        let first = old.metadata.resource_version.is_none();
        let spec = LeaseSpec {
            holder_identity: Some(self.config.identity.clone()),
            lease_duration_seconds: i32::try_from(self.config.ttl.as_secs().max(1)).ok(),
            acquire_time: if fresh { Some(now.clone()) } else { before.acquire_time },
            renew_time: Some(now),
            lease_transitions: Some(if fresh && !first { transitions + 1 } else { transitions }),
            ..LeaseSpec::default()
        };
        Lease { metadata, spec: Some(spec) }
    }

    /// Gives the lease back, so that another replica need not wait for it to expire.
    async fn release(&mut self) {
        let released = async {
            let Some(old) = self.api.get_opt(&self.config.name).await.map_err(Error::Read)? else {
                return Ok(());
            };
            if Record::of(&old).holder != self.config.identity {
                return Ok(());
            }
            let mut lease = self.claim(&old, false);
            if let Some(spec) = &mut lease.spec {
                spec.holder_identity = None;
                spec.lease_duration_seconds = Some(1);
            }
            let params = PostParams::default();
            self.api.replace(&self.config.name, &params, &lease).await.map_err(Error::Write)?;
            tracing::info!(lease = %self.config.name, "lease given back");
            Ok(())
        };
        match tokio::time::timeout(self.config.ttl / 2, released).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                let error: Error = error;
                tracing::warn!(error = %Chain(&error), "the lease was not given back");
            }
            Err(_) => tracing::warn!("the lease was not given back in time"),
        }
    }
}

/// An error with its causes, in one line.
pub(crate) struct Chain<'a>(pub(crate) &'a dyn std::error::Error);

impl std::fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}
