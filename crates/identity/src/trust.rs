//! Whom to trust: root certificates, and which of them speak for which trust domain.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use ironsail_names::TrustDomain;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;

use crate::certificate::{Certificate, Error};
use crate::tls::provider;

/// Root certificates and their PEM. Cheap to clone; equal when the PEM is.
#[derive(Clone)]
pub struct RootBundle(Arc<Bundle>);

struct Bundle {
    pem: String,
    certificates: Vec<Certificate>,
    store: Arc<RootCertStore>,
    /// Made when first needed; None when there is no usable root.
    of_clients: OnceLock<Option<Arc<dyn ClientCertVerifier>>>,
    of_servers: OnceLock<Option<Arc<dyn ServerCertVerifier>>>,
}

impl RootBundle {
    pub fn from_pem(text: &[u8]) -> Result<Self, Error> {
        Ok(Self::new(Certificate::read_pem(text)?))
    }

    /// The same certificate twice counts once.
    pub fn new(certificates: impl IntoIterator<Item = Certificate>) -> Self {
        let mut distinct: Vec<Certificate> = Vec::new();
        for certificate in certificates {
            if !distinct.contains(&certificate) {
                distinct.push(certificate);
            }
        }
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(distinct.iter().map(|c| c.der().clone()));
        let pem = distinct.iter().map(Certificate::to_pem).collect();
        Self(Arc::new(Bundle {
            pem,
            certificates: distinct,
            store: Arc::new(store),
            of_clients: OnceLock::new(),
            of_servers: OnceLock::new(),
        }))
    }

    pub fn pem(&self) -> &str {
        &self.0.pem
    }

    pub fn certificates(&self) -> &[Certificate] {
        &self.0.certificates
    }

    /// Of both, this one's certificates first.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self::new(self.0.certificates.iter().chain(&other.0.certificates).cloned())
    }

    pub(crate) fn store(&self) -> &RootCertStore {
        &self.0.store
    }

    /// Checks chains of clients.
    pub(crate) fn of_clients(&self) -> Option<&Arc<dyn ClientCertVerifier>> {
        let make = || {
            let store = self.0.store.clone();
            WebPkiClientVerifier::builder_with_provider(store, provider()).build().ok()
        };
        self.0.of_clients.get_or_init(make).as_ref()
    }

    /// Checks chains and DNS names of servers.
    pub(crate) fn of_servers(&self) -> Option<&Arc<dyn ServerCertVerifier>> {
        let make = || {
            let store = self.0.store.clone();
            let built = WebPkiServerVerifier::builder_with_provider(store, provider()).build();
            built.ok().map(|verifier| verifier as Arc<dyn ServerCertVerifier>)
        };
        self.0.of_servers.get_or_init(make).as_ref()
    }
}

impl PartialEq for RootBundle {
    fn eq(&self, other: &Self) -> bool {
        self.0.pem == other.0.pem
    }
}

impl Eq for RootBundle {}

impl fmt::Debug for RootBundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RootBundle").field(&self.0.certificates).finish()
    }
}

/// The roots of each trust domain. A domain without an entry is held against the mesh's own roots, as
/// Istio does for aliases of the mesh's own domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustBundles {
    pub own: RootBundle,
    pub by_domain: BTreeMap<TrustDomain, RootBundle>,
}

impl TrustBundles {
    pub fn of(own: RootBundle) -> Self {
        Self { own, by_domain: BTreeMap::new() }
    }

    pub(crate) fn roots_for(&self, domain: &TrustDomain) -> &RootBundle {
        self.by_domain.get(domain).unwrap_or(&self.own)
    }
}
