//! Somebody else signs: the seam behind which Kubernetes' signers, Vault and the like stand.
//!
//! In: a request that was held against the caller already, so that a signer need not judge names. Out:
//! the chain, leaf first. What comes back is checked before anybody gets it: it must be for the key that
//! was asked for and for the caller's name only.

mod kubernetes;

use std::time::{Duration, SystemTime};

use futures::future::BoxFuture;
use ironsail_identity::{
    Certificate, CertificateError, CertificateRequest, RequestError, RootBundle, San, verify_chain,
};
use ironsail_names::{SpiffeId, TrustDomains};

pub use kubernetes::KubernetesSigner;

use crate::sign;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Request(#[source] RequestError),
    #[error("{0}")]
    Names(#[source] sign::Error),
    #[error("{signer} did not sign: {why}")]
    Refused { signer: String, why: String },
    /// The same may work later.
    #[error("{signer} cannot be asked: {why}")]
    Unavailable { signer: String, why: String },
    #[error("{signer} answered with something that is no list of certificates")]
    Unreadable { signer: String, source: CertificateError },
    #[error("{signer} answered with a certificate for {found}, not for {wanted} and its key")]
    Mismatch { signer: String, found: String, wanted: SpiffeId },
    #[error(
        "nobody knows the root of {signer}: name it in caCertificates of the mesh configuration"
    )]
    NoRoot { signer: String },
}

/// What is to be signed.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// PEM of the request, as the workload made it.
    pub csr: &'a str,
    /// Whom it is for; nothing else is in the request.
    pub subject: &'a SpiffeId,
    pub ttl: Duration,
    /// The signer that the workload names (`CertSigner`), if any.
    pub signer: Option<&'a str>,
}

/// Signs elsewhere.
pub trait ExternalSigner: Send + Sync + 'static {
    /// Full name of the signer that answers for `wanted`, for messages and to find its root.
    fn name(&self, wanted: &Wanted<'_>) -> String;

    /// The chain in PEM, leaf first; with its root at the end if the signer gives it.
    fn sign<'a>(&'a self, wanted: Wanted<'a>) -> BoxFuture<'a, Result<String, Error>>;
}

/// The roots by which leaves of a signer are known, by its name.
pub type RootsOf = Box<dyn Fn(&str) -> Option<RootBundle> + Send + Sync>;

/// A registration authority: judges requests and has them signed.
pub struct Registration {
    signer: Box<dyn ExternalSigner>,
    roots: RootsOf,
    limits: sign::Limits,
}

impl Registration {
    pub fn new(signer: Box<dyn ExternalSigner>, roots: RootsOf, limits: sign::Limits) -> Self {
        Self { signer, roots, limits }
    }

    /// The answer to a workload, as the own CA would give it: leaf first, roots last.
    pub(crate) async fn issue(
        &self,
        wanted: Wanted<'_>,
        domains: &TrustDomains,
        now: SystemTime,
    ) -> Result<Vec<String>, Error> {
        let request =
            CertificateRequest::from_pem(wanted.csr.as_bytes()).map_err(Error::Request)?;
        sign::check_names(&request.sans, wanted.subject, domains).map_err(Error::Names)?;
        let ttl = sign::lifetime(self.limits, wanted.ttl).map_err(Error::Names)?;
        let wanted = Wanted { ttl, ..wanted };
        let signer = self.signer.name(&wanted);
        let text = self.signer.sign(wanted).await?;
        let chain = Certificate::read_pem(text.as_bytes());
        let chain = chain.map_err(|source| Error::Unreadable { signer: signer.clone(), source })?;
        let names = [San::Uri(wanted.subject.to_string())];
        if chain[0].sans() != names || chain[0].public_key_der() != request.public_key {
            let found = chain[0].subject().to_owned();
            return Err(Error::Mismatch { signer, found, wanted: wanted.subject.clone() });
        }
        self.with_roots(&chain, signer, now)
    }

    /// Roots are those that are known of the signer; else the last one of its chain, if that is a root.
    fn with_roots(
        &self,
        chain: &[Certificate],
        signer: String,
        now: SystemTime,
    ) -> Result<Vec<String>, Error> {
        let own: Vec<_> = chain.iter().filter(|one| one.is_self_issued()).cloned().collect();
        let roots = (self.roots)(&signer).unwrap_or_else(|| RootBundle::new(own));
        let rest: Vec<_> = chain.iter().filter(|one| !one.is_self_issued()).cloned().collect();
        let anchor = rest.first().and_then(|leaf| {
            verify_chain(leaf, &rest[1..], roots.certificates(), now).ok().cloned()
        });
        let Some(anchor) = anchor else { return Err(Error::NoRoot { signer }) };
        let others = roots.certificates().iter().filter(|root| **root != anchor);
        Ok(rest.iter().chain(others).chain([&anchor]).map(Certificate::to_pem).collect())
    }
}

#[cfg(test)]
mod tests;
