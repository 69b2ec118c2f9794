//! Key material in a mounted directory: read, and watched for changes.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use ironsail_identity::{Certificate, RootBundle};
use notify::{RecursiveMode, Watcher as _};
use tokio::sync::mpsc;
use tracing::debug;
use zeroize::Zeroizing;

use super::GENERATED;
use crate::material::{
    CA_CERT, CA_KEY, CERT_CHAIN, Error, Files, Origin, ROOT_CERT, TLS_CERT, TLS_KEY, TLS_ROOT,
};

/// The files that mean something here.
const KNOWN: [&str; 8] =
    [CA_CERT, CA_KEY, ROOT_CERT, CERT_CHAIN, TLS_CERT, TLS_KEY, TLS_ROOT, GENERATED];
/// More than any of them takes.
const MAX_FILE: u64 = 4 << 20;
/// A Secret is swapped in several steps; this much later it is done.
const SETTLE: Duration = Duration::from_millis(100);
/// Looked at again this often even when the system does not tell of changes.
const ANYWAY: Duration = Duration::from_secs(60);

/// What is there; nothing when the directory is not there.
pub(super) fn read(directory: &Path) -> std::io::Result<Files> {
    let mut files = Files::new();
    for name in KNOWN {
        let path = directory.join(name);
        match std::fs::metadata(&path) {
            Ok(facts) if facts.len() > MAX_FILE => {
                let why = format!("{name} is longer than {MAX_FILE} bytes");
                return Err(std::io::Error::new(ErrorKind::FileTooLarge, why));
            }
            Ok(_) => {
                files.insert(name.to_owned(), Zeroizing::new(std::fs::read(&path)?));
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(files)
}

/// Roots that are to be trusted beside those of a self-signed CA.
pub(super) fn extra_roots(files: &Files, origin: &Origin) -> Result<Option<RootBundle>, Error> {
    let Some(text) = files.get(ROOT_CERT).filter(|text| !text.is_empty()) else { return Ok(None) };
    let failed =
        |source| Error::Certificates { file: ROOT_CERT, origin: origin.to_string(), source };
    Ok(Some(RootBundle::new(Certificate::read_pem(text).map_err(failed)?)))
}

/// Says when the directory may have changed. Never ends.
pub(super) fn changes(directory: Option<PathBuf>) -> BoxStream<'static, ()> {
    let Some(directory) = directory else { return stream::pending().boxed() };
    let (tell, told) = mpsc::channel::<()>(1);
    let watcher = notify::recommended_watcher(move |_| {
        // One that waits stands for all.
        let _ = tell.try_send(());
    });
    let watcher = watcher.and_then(|mut watcher| {
        watcher.watch(&directory, RecursiveMode::NonRecursive)?;
        Ok(watcher)
    });
    if let Err(error) = &watcher {
        debug!(%error, directory = %directory.display(), "not told of changes; looking now and then");
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
