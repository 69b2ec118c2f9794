//! Modules on disk: each fetched once, checked, and kept within bounds.
//!
//! In: what is wanted; out: a file. Two that want the same wait for one fetch. The oldest go when there
//! are too many; Envoy has read a file before it serves with it, so a file may go while it runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::Wanted;
use super::fetch::{Error, Fetcher};

/// Modules that are kept.
const MAX_MODULES: usize = 64;
/// Bytes that are kept of all of them together.
const MAX_BYTES: u64 = 2 << 30;

/// Modules by what was asked for.
pub(crate) struct Cache {
    folder: PathBuf,
    fetcher: Fetcher,
    known: Mutex<Known>,
    /// One fetch at a time for each address.
    busy: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

#[derive(Default)]
struct Known {
    /// By address and checksum, or version where there is none.
    entries: BTreeMap<(String, String), Entry>,
    clock: u64,
}

struct Entry {
    file: PathBuf,
    bytes: u64,
    used: u64,
    /// Of the object that it was fetched for.
    version: String,
}

impl Cache {
    pub(crate) fn new(folder: &Path, fetcher: Fetcher) -> Self {
        let folder = folder.join("wasm");
        Self { folder, fetcher, known: Mutex::default(), busy: Mutex::default() }
    }

    /// The file with the module.
    pub(super) async fn get(&self, wanted: &Wanted) -> Result<PathBuf, Error> {
        let lock = self.busy.lock().entry(wanted.url.clone()).or_default().clone();
        let _one = lock.lock().await;
        if let Some(file) = self.known(wanted) {
            return Ok(file);
        }
        let module = self.fetcher.fetch(wanted).await?;
        let name = format!("{:x}.wasm", Sha256::digest(&module));
        let file = self.folder.join(name);
        self.store(&file, &module).await?;
        self.remember(wanted, &file, module.len() as u64);
        Ok(file)
    }

    fn known(&self, wanted: &Wanted) -> Option<PathBuf> {
        let mut known = self.known.lock();
        known.clock += 1;
        let now = known.clock;
        let entry = known.entries.get_mut(&(wanted.url.clone(), wanted.sha256.clone()))?;
        // Without a checksum an address may lead to something else tomorrow.
        let stale = wanted.sha256.is_empty() && wanted.always && entry.version != wanted.version;
        if stale || !entry.file.exists() {
            return None;
        }
        entry.used = now;
        Some(entry.file.clone())
    }

    fn remember(&self, wanted: &Wanted, file: &Path, bytes: u64) {
        let mut known = self.known.lock();
        known.clock += 1;
        let entry = Entry {
            file: file.to_owned(),
            bytes,
            used: known.clock,
            version: wanted.version.clone(),
        };
        known.entries.insert((wanted.url.clone(), wanted.sha256.clone()), entry);
        loop {
            let total: u64 = known.entries.values().map(|entry| entry.bytes).sum();
            if known.entries.len() <= MAX_MODULES && total <= MAX_BYTES {
                break;
            }
            let oldest = known.entries.iter().min_by_key(|(_, entry)| entry.used);
            let Some(key) = oldest.map(|(key, _)| key.clone()) else { break };
            let Some(gone) = known.entries.remove(&key) else { break };
            if known.entries.values().all(|entry| entry.file != gone.file) {
                let _ = std::fs::remove_file(&gone.file);
            }
        }
    }

    /// Written beside and renamed, so that a file that is there is whole.
    async fn store(&self, file: &Path, module: &[u8]) -> Result<(), Error> {
        let said = |source| Error::Disk { file: file.to_owned(), source };
        tokio::fs::create_dir_all(&self.folder).await.map_err(said)?;
        let beside = file.with_extension("part");
        tokio::fs::write(&beside, module).await.map_err(said)?;
        tokio::fs::rename(&beside, file).await.map_err(said)
    }
}
