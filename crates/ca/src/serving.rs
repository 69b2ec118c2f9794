//! istiod's own certificate: for the DNS names that proxies and the API server call it by. Either signed
//! by the CA it runs, renewed at half of its life and whenever the CA signs with something else; or
//! somebody else's, in files, taken up again whenever they change.

mod files;

use std::sync::Arc;
use std::time::Duration;

use ironsail_identity::tls::Shown;
use ironsail_identity::{KeyKind, RenewalPolicy, RootBundle, San};
use ironsail_names::Namespace;
use tokio::sync::watch;
use tracing::{info, warn};

pub use files::ServingFiles;

use crate::authority::{Authority, IssueServerError, chain};

/// How long it lives, if the CA lives as long.
const LIFETIME: Duration = Duration::from_secs(90 * 24 * 60 * 60);
/// The clock is looked at again this often: a machine may sleep.
const LOOK: Duration = Duration::from_secs(60 * 60);
const RETRY: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("making istiod's own certificate for {names:?}")]
    Issue { names: Vec<String>, source: IssueServerError },
    #[error("taking istiod's certificate from files")]
    Files(#[source] files::Error),
}

/// Keeps a server's certificate fresh.
pub struct Serving {
    shown: Shown,
    source: Source,
}

enum Source {
    Issued(Issued),
    Files(files::Kept),
}

/// Made by the mesh's own CA.
struct Issued {
    authority: Arc<Authority>,
    names: Vec<String>,
    kind: KeyKind,
    policy: RenewalPolicy,
}

impl Serving {
    /// Issues the first one.
    pub fn start(
        authority: Arc<Authority>,
        names: Vec<String>,
        kind: KeyKind,
    ) -> Result<Self, Error> {
        let issued = Issued { authority, names, kind, policy: RenewalPolicy::default() };
        let shown = Shown::default();
        issued.renew(&shown)?;
        Ok(Self { shown, source: Source::Issued(issued) })
    }

    /// Reads the first one; files that do not hold are an error.
    pub fn of_files(files: ServingFiles) -> Result<Self, Error> {
        let shown = Shown::default();
        let kept = files::Kept::open(files, &shown).map_err(Error::Files)?;
        Ok(Self { shown, source: Source::Files(kept) })
    }

    /// What servers show; it follows every renewal.
    pub fn shown(&self) -> &Shown {
        &self.shown
    }

    /// The roots by which clients know the certificate, if they are not the mesh's own.
    pub fn roots(&self) -> Option<watch::Receiver<RootBundle>> {
        match &self.source {
            Source::Issued(_) => None,
            Source::Files(kept) => Some(kept.roots()),
        }
    }

    /// Renews until it is dropped.
    pub async fn run(&self) {
        match &self.source {
            Source::Issued(issued) => issued.run(&self.shown).await,
            Source::Files(kept) => kept.run(&self.shown).await,
        }
    }
}

impl Issued {
    fn renew(&self, shown: &Shown) -> Result<(), Error> {
        let names: Vec<San> = self.names.iter().cloned().map(San::Dns).collect();
        let credential = self
            .authority
            .issue_server(&names, self.kind, LIFETIME)
            .map_err(|source| Error::Issue { names: self.names.clone(), source })?;
        info!(names = ?self.names, certificate = ?credential.leaf(), "istiod's certificate");
        shown.set(credential);
        Ok(())
    }

    async fn run(&self, shown: &Shown) {
        let mut changed = self.authority.generation();
        loop {
            let random = RenewalPolicy::random();
            let due = async {
                // When the CA itself is about to end, every certificate is due at once.
                tokio::time::sleep(RETRY).await;
                loop {
                    let now = self.authority.clock().now();
                    let wait = shown.current().map_or(Duration::ZERO, |credential| {
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
            while let Err(error) = self.renew(shown) {
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
