//! Certificates in files that somebody else writes and renews.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use ironsail_identity::{Credential, RootBundle};

use super::Bundle;

/// How often files are looked at. A kubelet changes them by renaming a folder above them, which a
/// watch on the file itself does not see.
const LOOK: Duration = Duration::from_secs(1);
/// Longest certificate or key file.
const MAX_FILE: u64 = 1 << 20;

/// A certificate, its key, and the roots, each in a file.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    pub(crate) chain: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) roots: PathBuf,
}

impl Folder {
    /// The three files as they are named in a workload's folder of credentials.
    pub(crate) fn standard(folder: &Path) -> Self {
        Self {
            chain: folder.join("cert-chain.pem"),
            key: folder.join("key.pem"),
            roots: folder.join("root-cert.pem"),
        }
    }

    pub(crate) fn exists(&self) -> bool {
        self.chain.exists() && self.key.exists() && self.roots.exists()
    }

    pub(crate) fn read(&self) -> anyhow::Result<Bundle> {
        let pair = FilePair { chain: self.chain.clone(), key: self.key.clone() };
        Ok(Bundle { credential: pair.read()?, roots: read_roots(&self.roots)? })
    }

    /// How the files are now, to wait for what is newer.
    pub(crate) fn watch(&self) -> Watch {
        let mut watch = Watch::default();
        for path in [&self.chain, &self.key, &self.roots] {
            watch.add(path.clone());
        }
        watch
    }
}

/// A certificate and its key.
#[derive(Clone, Debug)]
pub(crate) struct FilePair {
    pub(crate) chain: PathBuf,
    pub(crate) key: PathBuf,
}

impl FilePair {
    pub(crate) fn read(&self) -> anyhow::Result<Credential> {
        let (chain, key) = (read(&self.chain)?, read(&self.key)?);
        Credential::from_pem(&chain, &key).with_context(|| {
            format!("certificate {} with key {}", self.chain.display(), self.key.display())
        })
    }
}

pub(crate) fn read_roots(path: &Path) -> anyhow::Result<RootBundle> {
    let text = read(path)?;
    RootBundle::from_pem(&text).with_context(|| format!("root certificates {}", path.display()))
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let what = || format!("reading {}", path.display());
    let size = std::fs::metadata(path).with_context(what)?.len();
    anyhow::ensure!(size <= MAX_FILE, "{} is larger than {MAX_FILE} bytes", path.display());
    std::fs::read(path).with_context(what)
}

/// Files and when they were last written: added before they are read, so that nothing written since
/// is missed.
#[derive(Debug, Default)]
pub(crate) struct Watch(BTreeMap<PathBuf, Option<Look>>);

/// When a file was written, its size and its number: one that is replaced within a tick of the
/// kernel's clock has another number.
type Look = (SystemTime, u64, u64);

impl Watch {
    pub(crate) fn add(&mut self, path: PathBuf) {
        let seen = look(&path);
        self.0.insert(path, seen);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Waits until one of the files was written, or appeared, or went away. May be dropped and called
    /// again; without files it never returns.
    pub(crate) async fn changed(&self) {
        if self.0.is_empty() {
            std::future::pending::<()>().await;
        }
        while self.0.iter().all(|(path, before)| look(path) == *before) {
            tokio::time::sleep(LOOK).await;
        }
    }
}

fn look(path: &Path) -> Option<Look> {
    use std::os::unix::fs::MetadataExt;
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.modified().ok()?, meta.size(), meta.ino()))
}
