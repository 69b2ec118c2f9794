//! TLS between members of the mesh: what to show and whom to trust may change at any time, and
//! configurations made from them follow.
//!
//! Sessions are not resumed where clients are authenticated: a resumed session would outlive the roots
//! that were trusted when it began.

mod anyone;
mod client;
mod listen;
mod server;
mod suite;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, LazyLock};

use arc_swap::ArcSwapOption;
use ironsail_names::SpiffeId;
use rustls::crypto::CryptoProvider;
use rustls_pki_types::CertificateDer;

pub use anyone::to_anyone;
pub use client::{to_dns_name, to_workloads};
pub use listen::incoming;
pub use server::{ClientCertificates, server_config, server_config_with};
pub use suite::{Suites, UnknownSuite};

use crate::certificate::{self, Certificate};
use crate::credential::Credential;
use crate::trust::TrustBundles;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("setting up TLS")]
    Config(#[source] rustls::Error),
}

/// The one provider of cryptography. Keys are exchanged so that whoever records a connection today
/// cannot read it with a quantum computer later, wherever the other side can do that too.
pub fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| {
        let mut provider = rustls::crypto::aws_lc_rs::default_provider();
        let hybrid = rustls::crypto::aws_lc_rs::kx_group::X25519MLKEM768;
        provider.kx_groups.retain(|group| group.name() != hybrid.name());
        provider.kx_groups.insert(0, hybrid);
        Arc::new(provider)
    });
    PROVIDER.clone()
}

/// What this side shows. Clones share what is set; nothing is shown before something is.
#[derive(Clone, Default)]
pub struct Shown(Arc<ArcSwapOption<Credential>>);

impl Shown {
    pub fn new(credential: Credential) -> Self {
        let shown = Self::default();
        shown.set(credential);
        shown
    }

    /// From now on new connections show this.
    pub fn set(&self, credential: Credential) {
        self.0.store(Some(Arc::new(credential)));
    }

    pub fn current(&self) -> Option<Arc<Credential>> {
        self.0.load_full()
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shown").field(&self.0.load()).finish()
    }
}

/// Whom this side trusts. Clones share what is set; nobody is trusted before something is.
#[derive(Clone, Default)]
pub struct Trusted(Arc<ArcSwapOption<TrustBundles>>);

impl Trusted {
    pub fn new(bundles: TrustBundles) -> Self {
        let trusted = Self::default();
        trusted.set(bundles);
        trusted
    }

    /// From now on new connections are held against these.
    pub fn set(&self, bundles: TrustBundles) {
        self.0.store(Some(Arc::new(bundles)));
    }

    pub fn current(&self) -> Option<Arc<TrustBundles>> {
        self.0.load_full()
    }
}

impl fmt::Debug for Trusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Trusted").field(&self.0.load()).finish()
    }
}

/// The certificates that the other side showed and that were found good, leaf first. Stands in the
/// extensions of requests whose client showed any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerCertificates(Arc<[CertificateDer<'static>]>);

impl PeerCertificates {
    /// Of a connection whose handshake is done; the configuration has checked them.
    pub fn of(connection: &rustls::CommonState) -> Option<Self> {
        let certificates = connection.peer_certificates().filter(|chain| !chain.is_empty())?;
        Some(Self(certificates.iter().map(|c| c.clone().into_owned()).collect()))
    }

    pub fn leaf(&self) -> Result<Certificate, certificate::Error> {
        Certificate::from_der(self.0.first().ok_or(certificate::Error::Empty)?)
    }

    pub fn identity(&self) -> Result<SpiffeId, certificate::Error> {
        self.leaf()?.spiffe()
    }
}

/// How faults of certificates are told to rustls, which tells the peer by alert and us by error.
fn refuse(why: impl std::error::Error + Send + Sync + 'static) -> rustls::Error {
    let why = rustls::OtherError(Arc::new(why));
    rustls::Error::InvalidCertificate(rustls::CertificateError::Other(why))
}

fn no_roots() -> rustls::Error {
    rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer)
}
