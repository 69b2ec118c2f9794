//! Whom HTTPS servers must be vouched for by.

use std::path::Path;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

/// Roots of HTTPS servers.
#[derive(Clone, Debug)]
pub struct Trust(Arc<RootCertStore>);

impl Trust {
    /// All certificates in those of the files that are there.
    pub fn read<P: AsRef<Path>>(files: impl IntoIterator<Item = P>) -> Self {
        let mut roots = RootCertStore::empty();
        for file in files {
            let path = file.as_ref();
            // Most systems have one of them.
            let Ok(text) = std::fs::read(path) else { continue };
            let certificates = CertificateDer::pem_slice_iter(&text).filter_map(Result::ok);
            let (good, bad) = roots.add_parsable_certificates(certificates);
            tracing::debug!("{}: {good} roots, {bad} that cannot be used", path.display());
        }
        Self(Arc::new(roots))
    }

    pub(crate) fn roots(&self) -> Arc<RootCertStore> {
        self.0.clone()
    }
}
