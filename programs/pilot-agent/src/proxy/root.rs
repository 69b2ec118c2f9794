//! The roots that the control plane is trusted by: those of a file that may change, and those that the
//! control plane announced since, for the file comes late.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::Context;
use ironsail_identity::tls::Trusted;
use ironsail_identity::{RootBundle, TrustBundles};
use parking_lot::Mutex;
use tracing::warn;

use super::trust::Trust;

/// A file of root certificates and what is trusted because of it. Cheap to clone.
#[derive(Clone)]
pub(crate) struct RootFile(Arc<Inner>);

struct Inner {
    path: PathBuf,
    trusted: Trusted,
    trust: Trust,
    read: Mutex<(RootBundle, SystemTime)>,
}

impl RootFile {
    pub(crate) fn open(path: &Path, trust: Trust) -> anyhow::Result<Self> {
        let (bundle, written) = read(path)?;
        let trusted = Trusted::new(TrustBundles::of(bundle.clone()));
        let read = Mutex::new((bundle, written));
        Ok(Self(Arc::new(Inner { path: path.to_owned(), trusted, trust, read })))
    }

    pub(crate) fn trusted(&self) -> &Trusted {
        &self.0.trusted
    }

    /// Reads the file again if it was written since. A file that cannot be read changes nothing.
    pub(crate) fn refresh(&self) {
        let written = std::fs::metadata(&self.0.path).and_then(|meta| meta.modified()).ok();
        let mut last = self.0.read.lock();
        if written.is_some_and(|written| written != last.1) {
            match read(&self.0.path) {
                Ok(now) => *last = now,
                Err(error) => warn!(target: "ca", "the roots stay as they are: {error:#}"),
            }
        }
        let all = last.0.and(&self.0.trust.roots(&last.0).own);
        self.0.trusted.set(TrustBundles::of(all));
    }

    /// Follows announcements for ever.
    pub(crate) async fn follow(self) {
        let mut announced = self.0.trust.announced();
        while announced.changed().await.is_ok() {
            self.refresh();
        }
        std::future::pending::<()>().await;
    }
}

fn read(path: &Path) -> anyhow::Result<(RootBundle, SystemTime)> {
    let what = || format!("reading the root certificates {}", path.display());
    let written = std::fs::metadata(path).and_then(|meta| meta.modified()).with_context(what)?;
    let text = std::fs::read(path).with_context(what)?;
    Ok((RootBundle::from_pem(&text).with_context(what)?, written))
}
