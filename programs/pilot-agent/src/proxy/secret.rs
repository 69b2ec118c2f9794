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

/// Never renew more often than this.
const SOONEST: Duration = Duration::from_secs(1);

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
        let mut failures = 0;
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
                None => tokio::time::sleep(wait).await,
                Some(files) => files.changed().await,
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
