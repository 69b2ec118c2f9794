//! Says when files in folders may have changed. It reads nothing of them.

use std::path::PathBuf;
use std::time::Duration;

use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use notify::{RecursiveMode, Watcher as _};
use tokio::sync::mpsc;
use tracing::debug;

/// A Secret is swapped in several steps; this much later it is done.
const SETTLE: Duration = Duration::from_millis(100);
/// Looked at again this often even when the system does not tell of changes.
const ANYWAY: Duration = Duration::from_secs(60);

/// An item for each time that something may have changed. Never ends.
pub(crate) fn changes(folders: &[PathBuf]) -> BoxStream<'static, ()> {
    if folders.is_empty() {
        return stream::pending().boxed();
    }
    let (tell, told) = mpsc::channel::<()>(1);
    let watcher = notify::recommended_watcher(move |_| {
        // One that waits stands for all.
        let _ = tell.try_send(());
    });
    let watcher = watcher.and_then(|mut watcher| {
        for folder in folders {
            watcher.watch(folder, RecursiveMode::NonRecursive)?;
        }
        Ok(watcher)
    });
    if let Err(error) = &watcher {
        debug!(%error, ?folders, "not told of changes; looking now and then");
    }
    // The watcher goes along, for it ends when it is dropped.
    stream::unfold((told, watcher.ok()), |(mut told, watcher)| async move {
        let heard = async {
            match told.recv().await {
                Some(()) => tokio::time::sleep(SETTLE).await,
                None => std::future::pending().await,
            }
        };
        let _ = tokio::time::timeout(ANYWAY, heard).await;
        let _ = told.recv().now_or_never();
        Some(((), (told, watcher)))
    })
    .boxed()
}
