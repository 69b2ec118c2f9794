//! Signs that a tree of files changes.
//!
//! In: what the kernel tells of a path and everything below it. Out: wake-ups. What changed is not
//! looked at here: signs can be lost or merged, the tree itself cannot.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::time::Instant;

pub(crate) struct Watch {
    path: PathBuf,
    signs: Arc<Notify>,
    /// With the identity of the folder that it watches: another one may take its place.
    watcher: Option<((u64, u64), RecommendedWatcher)>,
}

impl Watch {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, signs: Arc::default(), watcher: None }
    }

    /// Begins to listen, or listens anew where the folder was replaced. Call it before every look
    /// at the tree, so that no change falls between.
    pub(crate) fn arm(&mut self) {
        // A file's replacement is seen only from its folder.
        let watched = match std::fs::metadata(&self.path) {
            Ok(metadata) if metadata.is_file() => {
                self.path.parent().unwrap_or(&self.path).to_owned()
            }
            _ => self.path.clone(),
        };
        let Ok(metadata) = std::fs::metadata(&watched) else {
            self.watcher = None;
            return;
        };
        let identity = (metadata.dev(), metadata.ino());
        if self.watcher.as_ref().is_some_and(|(armed, _)| *armed == identity) {
            return;
        }
        let signs = self.signs.clone();
        let made = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.is_ok_and(|event| is_reading(&event.kind)) {
                return;
            }
            signs.notify_one();
        });
        let armed = made.and_then(|mut watcher| {
            watcher.watch(&watched, RecursiveMode::Recursive)?;
            Ok(watcher)
        });
        match armed {
            Ok(watcher) => self.watcher = Some((identity, watcher)),
            Err(error) => {
                tracing::warn!(path = %watched.display(), %error, "files cannot be watched; looking now and then");
                self.watcher = None;
            }
        }
    }

    /// Something happened since the last call.
    pub(crate) async fn stirred(&self) {
        self.signs.notified().await;
    }

    /// Waits until nothing happens for `quiet`, but not longer than `patience`.
    pub(crate) async fn quiet(&self, quiet: Duration, patience: Duration) {
        let end = Instant::now() + patience;
        loop {
            let until = (Instant::now() + quiet).min(end);
            if tokio::time::timeout_at(until, self.signs.notified()).await.is_err() {
                return;
            }
        }
    }
}

/// Our own reading must not wake us.
fn is_reading(kind: &EventKind) -> bool {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => false,
        EventKind::Access(_) => true,
        _ => false,
    }
}
