//! The workload's certificate: made, kept, renewed in time.
//!
//! In: a CA to ask, or files that somebody else keeps; out: a channel that always holds the newest
//! certificate and the roots to check others by. The key is made here and leaves this process only to
//! the proxy beside it, over a socket, and to files if the user asks for them.

mod file;
mod output;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ironsail_identity::client::CaClient;
use ironsail_identity::{Credential, KeyKind, RenewalPolicy, RootBundle, backoff};
use ironsail_names::SpiffeId;
use ironsail_sys::clock::Clock;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub(crate) use file::{FilePair, Folder, Watch, read_roots};
pub(crate) use output::Output;

use super::root::RootFile;
use super::trust::Trust;

/// Never renew more often than this.
const SOONEST: Duration = Duration::from_secs(1);
/// Over which agents renew when the root changes.
const SPREAD: Duration = Duration::from_secs(5);

/// A certificate and the roots that go with it.
#[derive(Clone, Debug)]
pub(crate) struct Bundle {
    pub(crate) credential: Credential,
    pub(crate) roots: RootBundle,
}

/// The newest bundle, once there is one.
pub(crate) type Newest = watch::Receiver<Option<Arc<Bundle>>>;

/// Where certificates come from.
pub(crate) enum Issuer {
    Ca {
        client: CaClient,
        identity: SpiffeId,
        kind: KeyKind,
        lifetime: Duration,
        root: Option<RootFile>,
    },
    /// Somebody else writes these files.
    Files(Folder),
}

/// Keeps a certificate fresh until told to stop.
pub(crate) struct Keeper {
    pub(crate) issuer: Issuer,
    pub(crate) policy: RenewalPolicy,
    pub(crate) clock: Clock,
    /// Where the user wants copies.
    pub(crate) output: Option<PathBuf>,
    pub(crate) trust: Trust,
}

impl Keeper {
    pub(crate) async fn run(
        self,
        newest: watch::Sender<Option<Arc<Bundle>>>,
        stop: CancellationToken,
    ) -> anyhow::Result<()> {
        let _ = stop.run_until_cancelled(self.keep(&newest)).await;
        Ok(())
    }

    async fn keep(&self, newest: &watch::Sender<Option<Arc<Bundle>>>) {
        let output = self.output.as_deref().map(Output::new);
        let (mut failures, mut urged) = (0, 0);
        loop {
            let files = match &self.issuer {
                Issuer::Files(folder) => Some(folder.watch()),
                Issuer::Ca { .. } => None,
            };
            let wait = match self.obtain().await {
                Ok(bundle) => {
                    failures = 0;
                    let wait = self.rest(&bundle);
                    let leaf = bundle.credential.leaf();
                    let left = leaf.not_after().duration_since(self.clock.now());
                    info!(
                        target: "cache",
                        ttl = ?left.unwrap_or_default(),
                        renewed_in = ?wait,
                        "generated new workload certificate"
                    );
                    if let Some(output) = &output {
                        output.write(&bundle);
                    }
                    self.trust.ready(&bundle);
                    newest.send_replace(Some(Arc::new(bundle)));
                    wait
                }
                Err(error) => {
                    let wait =
                        backoff(failures, Duration::from_millis(500), Duration::from_secs(10));
                    failures += 1;
                    warn!(target: "cache", "no workload certificate: {error:#}; trying again in {wait:?}");
                    wait
                }
            };
            match files {
                None => {
                    tokio::select! {
                        () = tokio::time::sleep(wait) => urged = 0,
                        () = self.superseded(newest, urged) => urged += 1,
                    }
                }
                Some(files) => files.changed().await,
            }
        }
    }

    /// Waits until the CA signs with another root than that of the certificate, and then for a moment
    /// that differs from agent to agent. A CA that goes on with the old root is asked ever less often.
    async fn superseded(&self, newest: &watch::Sender<Option<Arc<Bundle>>>, urged: u32) {
        let mut announced = self.trust.announced();
        loop {
            announced.mark_unchanged();
            let held = newest.borrow().clone();
            if held.is_some_and(|bundle| self.trust.is_superseded(&bundle)) {
                let random = f64::midpoint(RenewalPolicy::random(), 1.0);
                let most = SPREAD * 2_u32.saturating_pow(urged.min(6));
                tokio::time::sleep(SOONEST + most.mul_f64(random.clamp(0.0, 1.0))).await;
                info!(target: "cache", "the CA signs with another root now");
                return;
            }
            if announced.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Counted from now: a CA dates certificates back a little, for clocks that are late, which would
    /// make short ones old from the start.
    fn rest(&self, bundle: &Bundle) -> Duration {
        let (now, end) = (self.clock.now(), bundle.credential.leaf().not_after());
        let due = self.policy.renew_at(now, end, RenewalPolicy::random());
        due.duration_since(now).unwrap_or_default().max(SOONEST)
    }

    async fn obtain(&self) -> anyhow::Result<Bundle> {
        match &self.issuer {
            Issuer::Files(folder) => folder.read(),
            Issuer::Ca { client, identity, kind, lifetime, root } => {
                if let Some(root) = root {
                    root.refresh();
                }
                let obtained = client.obtain(*kind, identity, *lifetime, false).await?;
                Ok(Bundle { credential: obtained.credential, roots: obtained.roots })
            }
        }
    }
}
