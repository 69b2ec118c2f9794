//! Callers known by a certificate of the mesh, which the listener has checked.

use futures::FutureExt;
use futures::future::BoxFuture;

use super::{Evidence, Method, Refusal};
use crate::authority::chain;
use crate::caller::{Caller, Domains, Proof};

/// Knows callers by the certificate they showed in the TLS handshake.
#[derive(Clone, Debug)]
pub struct ClientCertificates {
    domains: Domains,
}

impl ClientCertificates {
    pub fn new(domains: Domains) -> Self {
        Self { domains }
    }

    fn check(&self, evidence: Evidence<'_>) -> Result<Caller, Refusal> {
        let Some(certificates) = evidence.certificates else {
            return Err(Refusal::NothingShown("no client certificate is presented"));
        };
        let identity = certificates.identity().map_err(|error| Refusal::Rejected(chain(&error)))?;
        let domains = self.domains.current();
        if !domains.contains(&identity.trust_domain) {
            let why = format!("{identity} is of another trust domain than {}", domains.own());
            return Err(Refusal::Rejected(why));
        }
        let identity = identity.in_domain(domains.own());
        Ok(Caller { identity, proof: Proof::Certificate, cluster: evidence.cluster.to_owned() })
    }
}

impl Method for ClientCertificates {
    fn name(&self) -> &'static str {
        "ClientCertAuthenticator"
    }

    fn authenticate<'a>(
        &'a self,
        evidence: Evidence<'a>,
    ) -> BoxFuture<'a, Result<Caller, Refusal>> {
        let result = self.check(evidence);
        async move { result }.boxed()
    }
}
