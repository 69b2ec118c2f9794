//! istiod's own certificate: for the DNS names that proxies and the API server call it by, signed by
//! the CA it runs, renewed at half of its life and whenever the CA signs with something else.

use std::sync::Arc;
use std::time::Duration;

use ironsail_identity::tls::Shown;
use ironsail_identity::{KeyKind, RenewalPolicy, San};
use ironsail_names::Namespace;
use tracing::{info, warn};

use crate::authority::{Authority, IssueServerError, chain};

/// How long it lives, if the CA lives as long.
const LIFETIME: Duration = Duration::from_secs(90 * 24 * 60 * 60);
/// The clock is looked at again this often: a machine may sleep.
const LOOK: Duration = Duration::from_secs(60 * 60);
const RETRY: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
#[error("making istiod's own certificate for {names:?}")]
pub struct Error {
    names: Vec<String>,
    source: IssueServerError,
}

/// Keeps a server's certificate fresh.
pub struct Serving {
    authority: Arc<Authority>,
    names: Vec<String>,
    kind: KeyKind,
    shown: Shown,
    policy: RenewalPolicy,
}

impl Serving {
    /// Issues the first one.
    pub fn start(
        authority: Arc<Authority>,
        names: Vec<String>,
        kind: KeyKind,
    ) -> Result<Self, Error> {
        let (shown, policy) = (Shown::default(), RenewalPolicy::default());
        let serving = Self { authority, names, kind, shown, policy };
        serving.renew()?;
        Ok(serving)
    }

    /// What servers show; it follows every renewal.
    pub fn shown(&self) -> &Shown {
        &self.shown
    }

    pub fn names(&self) -> &[String] {
        &self.names
    }

    fn renew(&self) -> Result<(), Error> {
        let names: Vec<San> = self.names.iter().cloned().map(San::Dns).collect();
        let credential = self
            .authority
            .issue_server(&names, self.kind, LIFETIME)
            .map_err(|source| Error { names: self.names.clone(), source })?;
        info!(names = ?self.names, certificate = ?credential.leaf(), "istiod's certificate");
        self.shown.set(credential);
        Ok(())
    }

    /// Renews until it is dropped.
    pub async fn run(&self) {
        let mut changed = self.authority.generation();
        loop {
            let random = RenewalPolicy::random();
            let due = async {
                // When the CA itself is about to end, every certificate is due at once.
                tokio::time::sleep(RETRY).await;
                loop {
                    let now = self.authority.clock().now();
                    let wait = self.shown.current().map_or(Duration::ZERO, |credential| {
                        self.policy.wait(credential.leaf(), now, random)
                    });
                    if wait.is_zero() {
                        return;
                    }
                    tokio::time::sleep(wait.min(LOOK)).await;
                }
            };
            tokio::select! {
                () = due => {}
                // The sender lives in the authority, which is held here.
                _ = changed.changed() => {}
            }
            while let Err(error) = self.renew() {
                warn!("{}", chain(&error));
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

/// The names that istiod is called by: those of its Services, of its revision, and what `custom`
/// (`ISTIOD_CUSTOM_HOST`, with commas between) adds. Sorted, each once.
pub fn serving_names(namespace: &Namespace, revision: &str, custom: &str) -> Vec<String> {
    let mut services = vec!["istiod".to_owned(), "istiod-remote".into(), "istio-pilot".into()];
    if !revision.is_empty() && revision != "default" {
        services.push(format!("istiod-{revision}"));
    }
    let mut names: Vec<String> =
        services.iter().map(|service| format!("{service}.{namespace}.svc")).collect();
    names.extend(custom.split(',').map(str::trim).filter(|h| !h.is_empty()).map(str::to_owned));
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests;
