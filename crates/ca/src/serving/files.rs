//! A serving certificate that somebody else makes and renews: three files, read again when they change.
//!
//! New files that do not hold together are told of and not taken; a mount may be half written.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use futures::StreamExt;
use ironsail_identity::tls::Shown;
use ironsail_identity::{CertificateError, Credential, CredentialError, RootBundle};
use tokio::sync::watch;
use tracing::{info, warn};
use zeroize::Zeroizing;

use crate::authority::chain;
use crate::folder;

/// More than any of them takes.
const MAX_FILE: u64 = 4 << 20;

/// Where the files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServingFiles {
    /// The certificate with its chain (`--tlsCertFile`).
    pub certificate: PathBuf,
    /// Its key (`--tlsKeyFile`).
    pub key: PathBuf,
    /// The roots by which others know it (`--caCertFile`).
    pub roots: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("reading {path}", path = .path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{certificate} and {key} are no certificate with its key", certificate = .certificate.display(), key = .key.display())]
    Credential { certificate: PathBuf, key: PathBuf, source: CredentialError },
    #[error("{path} holds no root certificates", path = .path.display())]
    Roots { path: PathBuf, source: CertificateError },
}

/// Files that were read once.
pub(super) struct Kept {
    files: ServingFiles,
    roots: watch::Sender<RootBundle>,
}

impl Kept {
    pub(super) fn open(files: ServingFiles, shown: &Shown) -> Result<Self, Error> {
        let (credential, roots) = files.read()?;
        info!(certificate = ?credential.leaf(), "istiod's certificate, from files");
        shown.set(credential);
        Ok(Self { files, roots: watch::Sender::new(roots) })
    }

    pub(super) fn roots(&self) -> watch::Receiver<RootBundle> {
        self.roots.subscribe()
    }

    pub(super) async fn run(&self, shown: &Shown) {
        let mut changes = folder::changes(&self.files.folders());
        loop {
            changes.next().await;
            match self.files.read() {
                Ok((credential, roots)) => {
                    // Trust first: whoever sees the new certificate should know its root.
                    self.roots.send_if_modified(|known| {
                        let changed = *known != roots;
                        *known = roots;
                        changed
                    });
                    let known = shown.current();
                    if known.is_none_or(|known| known.chain() != credential.chain()) {
                        info!(certificate = ?credential.leaf(), "istiod's certificate changed");
                        shown.set(credential);
                    }
                }
                Err(error) => warn!("{}; going on with what was there", chain(&error)),
            }
        }
    }
}

impl ServingFiles {
    fn read(&self) -> Result<(Credential, RootBundle), Error> {
        let (certificate, key) = (read(&self.certificate)?, Zeroizing::new(read(&self.key)?));
        let credential = Credential::from_pem(&certificate, &key).map_err(|source| {
            let (certificate, key) = (self.certificate.clone(), self.key.clone());
            Error::Credential { certificate, key, source }
        })?;
        let roots = RootBundle::from_pem(&read(&self.roots)?)
            .map_err(|source| Error::Roots { path: self.roots.clone(), source })?;
        Ok((credential, roots))
    }

    /// Where they lie, each once.
    fn folders(&self) -> Vec<PathBuf> {
        let files = [&self.certificate, &self.key, &self.roots];
        let mut folders: Vec<PathBuf> = files.iter().map(|file| folder_of(file)).collect();
        folders.sort();
        folders.dedup();
        folders
    }
}

fn folder_of(file: &Path) -> PathBuf {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new(".")).to_path_buf()
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let failed = |source| Error::Read { path: path.to_path_buf(), source };
    if std::fs::metadata(path).map_err(failed)?.len() > MAX_FILE {
        let why = format!("it is longer than {MAX_FILE} bytes");
        return Err(failed(std::io::Error::new(ErrorKind::FileTooLarge, why)));
    }
    std::fs::read(path).map_err(failed)
}
