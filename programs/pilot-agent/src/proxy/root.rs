//! The roots that the control plane is trusted by, from a file that may change.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::Context;
use ironsail_identity::tls::Trusted;
use ironsail_identity::{RootBundle, TrustBundles};
use parking_lot::Mutex;
use tracing::warn;

/// A file of root certificates and what is trusted because of it. Cheap to clone.
#[derive(Clone)]
pub(crate) struct RootFile(Arc<Inner>);

struct Inner {
    path: PathBuf,
    trusted: Trusted,
    read: Mutex<Option<SystemTime>>,
}

impl RootFile {
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let (bundle, written) = read(path)?;
        let trusted = Trusted::new(TrustBundles::of(bundle));
        let read = Mutex::new(Some(written));
        Ok(Self(Arc::new(Inner { path: path.to_owned(), trusted, read })))
    }

    pub(crate) fn trusted(&self) -> &Trusted {
        &self.0.trusted
    }

    /// Reads the file again if it was written since. A file that cannot be read changes nothing.
    pub(crate) fn refresh(&self) {
        let written = std::fs::metadata(&self.0.path).and_then(|meta| meta.modified()).ok();
        let mut last = self.0.read.lock();
        if written.is_none() || *last == written {
            return;
        }
        match read(&self.0.path) {
            Ok((bundle, written)) => {
                self.0.trusted.set(TrustBundles::of(bundle));
                *last = Some(written);
            }
            Err(error) => warn!(target: "ca", "the roots stay as they are: {error:#}"),
        }
    }
}

fn read(path: &Path) -> anyhow::Result<(RootBundle, SystemTime)> {
    let what = || format!("reading the root certificates {}", path.display());
    let written = std::fs::metadata(path).and_then(|meta| meta.modified()).with_context(what)?;
    let text = std::fs::read(path).with_context(what)?;
    Ok((RootBundle::from_pem(&text).with_context(what)?, written))
}
