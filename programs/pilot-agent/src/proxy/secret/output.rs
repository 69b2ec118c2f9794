//! Copies of the certificate for programs beside the proxy (`OUTPUT_CERTS`).

use std::path::{Path, PathBuf};

use anyhow::Context;
use tracing::warn;

use super::Bundle;

/// A folder that gets the three files, each replaced as a whole.
pub(crate) struct Output(PathBuf);

impl Output {
    pub(crate) fn new(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    pub(crate) fn write(&self, bundle: &Bundle) {
        let written = self
            .put("key.pem", bundle.credential.key().to_pem().as_bytes(), 0o600)
            .and_then(|()| {
                self.put("cert-chain.pem", bundle.credential.chain_pem().as_bytes(), 0o644)
            })
            .and_then(|()| self.put("root-cert.pem", bundle.roots.pem().as_bytes(), 0o644));
        if let Err(error) = written {
            warn!(target: "cache", "writing certificates to {}: {error:#}", self.0.display());
        }
    }

    fn put(&self, name: &str, content: &[u8], mode: u32) -> anyhow::Result<()> {
        use std::io::Write;
        use std::os::unix::fs::OpenOptionsExt;
        let path = self.0.join(name);
        let what = |path: &Path| format!("writing {}", path.display());
        std::fs::create_dir_all(&self.0).with_context(|| what(&self.0))?;
        let part = self.0.join(format!(".{name}.part"));
        let _ = std::fs::remove_file(&part);
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&part)
            .with_context(|| what(&part))?;
        file.write_all(content).with_context(|| what(&part))?;
        std::fs::rename(&part, &path).with_context(|| what(&path))
    }
}
