//! Who calls.

use std::sync::Arc;

use arc_swap::ArcSwap;
use ironsail_names::{Namespace, ServiceAccount, SpiffeId, TrustDomains};

/// A caller whose identity was proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// In the mesh's own trust domain, whichever alias the proof was of.
    pub identity: SpiffeId,
    pub proof: Proof,
    /// The cluster that the caller says it is in and where its token was checked; empty for the own one.
    pub cluster: String,
}

/// How a caller proved its identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// A service-account token, and what it is bound to.
    Token { pod: Option<BoundObject>, node: Option<BoundObject> },
    /// A certificate of the mesh.
    Certificate,
}

/// A pod or node that a token is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundObject {
    pub name: String,
    pub uid: String,
}

impl Caller {
    pub fn namespace(&self) -> &Namespace {
        &self.identity.namespace
    }

    pub fn service_account(&self) -> &ServiceAccount {
        &self.identity.service_account
    }
}

/// The mesh's trust domains as they are now; the mesh configuration may change them. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Domains(Arc<ArcSwap<TrustDomains>>);

impl Domains {
    pub fn new(domains: TrustDomains) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(domains)))
    }

    pub fn set(&self, domains: TrustDomains) {
        self.0.store(Arc::new(domains));
    }

    pub fn current(&self) -> Arc<TrustDomains> {
        self.0.load_full()
    }

    /// The identity of an account in the mesh's own domain.
    pub fn identity(
        &self,
        namespace: &str,
        account: &str,
    ) -> Result<SpiffeId, ironsail_names::Error> {
        Ok(SpiffeId {
            trust_domain: self.current().own().clone(),
            namespace: namespace.parse()?,
            service_account: account.parse()?,
        })
    }
}
