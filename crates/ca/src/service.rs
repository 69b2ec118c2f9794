//! `istio.v1.auth.IstioCertificateService` over gRPC, with the codes and messages of Istio's CA.
//!
//! Callers learn that they are not known, not why; the reason is in the log.

use std::sync::Arc;
use std::time::Duration;

use ironsail_identity::client::{CERT_SIGNER, IMPERSONATED};
use ironsail_names::SpiffeId;
use ironsail_proto::google::protobuf::{Struct, value};
use ironsail_proto::istio::v1::auth::istio_certificate_service_server::{
    IstioCertificateService, IstioCertificateServiceServer,
};
use ironsail_proto::istio::v1::auth::{IstioCertificateRequest, IstioCertificateResponse};
use tonic::{Request, Response, Status};
use tracing::{debug, warn};

use crate::authenticate::{self, Authenticator};
use crate::authority::{Authority, chain};
use crate::caller::Caller;
use crate::external::{self, Registration, Wanted};
use crate::impersonate::NodeAgents;
use crate::sign;

/// Longest request: a CSR with a very large key.
const MAX_REQUEST: usize = 256 << 10;

/// Signs for whoever proves who it is.
pub struct CertificateService {
    authority: Arc<Authority>,
    authenticator: Arc<Authenticator>,
    agents: Option<NodeAgents>,
    registration: Option<Arc<Registration>>,
}

impl CertificateService {
    /// `agents` None: nobody may ask in the name of another.
    pub fn new(
        authority: Arc<Authority>,
        authenticator: Arc<Authenticator>,
        agents: Option<NodeAgents>,
    ) -> Self {
        Self { authority, authenticator, agents, registration: None }
    }

    /// Somebody else signs for workloads.
    #[must_use]
    pub fn with_registration(self, registration: Option<Arc<Registration>>) -> Self {
        Self { registration, ..self }
    }

    /// To mount in a gRPC server that leaves `PeerCertificates` in the extensions of requests.
    pub fn into_server(self) -> IstioCertificateServiceServer<Self> {
        IstioCertificateServiceServer::new(self).max_decoding_message_size(MAX_REQUEST)
    }

    async fn authenticate<T>(&self, request: &Request<T>) -> Result<Caller, Status> {
        let headers = request.metadata().as_ref();
        let caller = self.authenticator.authenticate(headers, request.extensions()).await;
        caller.map_err(|error| {
            self.authority.metrics().count_authentication_failure();
            warn!(client = ?client(request), "authenticating a caller: {}", chain(&error));
            match error {
                authenticate::Error::Unavailable { .. } => {
                    Status::unavailable("request authentication is not possible now")
                }
                _ => Status::unauthenticated("request authenticate failure"),
            }
        })
    }

    /// Whom the certificate is for: the caller, or the workload that a node proxy asks for.
    fn subject(&self, caller: &Caller, impersonated: Option<&str>) -> Result<SpiffeId, Status> {
        let Some(text) = impersonated else { return Ok(caller.identity.clone()) };
        let refuse = |why: String| {
            self.authority.metrics().count_authentication_failure();
            let text: String = text.chars().take(300).collect();
            warn!(caller = %caller.identity, "impersonation failed for identity {text:?}: {why}");
            Status::unauthenticated("request impersonation authentication failure")
        };
        let Some(agents) = &self.agents else {
            return Err(refuse("CA_TRUSTED_NODE_ACCOUNTS is not set".to_owned()));
        };
        let wanted: SpiffeId = text.parse().map_err(|error| refuse(chain(&error)))?;
        if wanted.trust_domain != caller.identity.trust_domain {
            return Err(refuse(format!(
                "it is not of the domain {}",
                caller.identity.trust_domain
            )));
        }
        agents.check(caller, &wanted).map_err(|error| refuse(chain(&error)))?;
        Ok(wanted)
    }
}

#[tonic::async_trait]
impl IstioCertificateService for CertificateService {
    async fn create_certificate(
        &self,
        request: Request<IstioCertificateRequest>,
    ) -> Result<Response<IstioCertificateResponse>, Status> {
        let metrics = self.authority.metrics();
        metrics.count_request();
        let caller = self.authenticate(&request).await?;
        let request = request.into_inner();
        let subject = self.subject(&caller, text(request.metadata.as_ref(), IMPERSONATED))?;
        let signer = text(request.metadata.as_ref(), CERT_SIGNER);
        // Zero and less mean the default.
        let ttl = Duration::from_secs(u64::try_from(request.validity_duration).unwrap_or(0));
        if let Some(registration) = &self.registration {
            let wanted = Wanted { csr: &request.csr, subject: &subject, ttl, signer };
            return self.have_signed(registration, wanted).await;
        }
        if let Some(signer) = signer {
            let signer: String = signer.chars().take(300).collect();
            let message = format!("CertSigner {signer:?}: no external CA is set (EXTERNAL_CA)");
            return Err(Status::failed_precondition(message));
        }
        match self.authority.issue(request.csr.as_bytes(), &subject, ttl) {
            Ok(cert_chain) => {
                metrics.count_issued();
                debug!(%subject, "CSR signed");
                Ok(Response::new(IstioCertificateResponse { cert_chain }))
            }
            Err(error) => {
                metrics.count_sign_failure(&error);
                warn!(%subject, "CSR signing error: {}", chain(&error));
                Err(status(&error))
            }
        }
    }
}

impl CertificateService {
    async fn have_signed(
        &self,
        registration: &Registration,
        wanted: Wanted<'_>,
    ) -> Result<Response<IstioCertificateResponse>, Status> {
        let (metrics, domains) = (self.authority.metrics(), self.authority.domains());
        let now = self.authority.clock().now();
        match registration.issue(wanted, &domains, now).await {
            Ok(cert_chain) => {
                metrics.count_issued();
                debug!(subject = %wanted.subject, "CSR signed elsewhere");
                Ok(Response::new(IstioCertificateResponse { cert_chain }))
            }
            Err(error) => {
                warn!(subject = %wanted.subject, "CSR signing error: {}", chain(&error));
                Err(external_status(&error))
            }
        }
    }
}

fn external_status(error: &external::Error) -> Status {
    let message = format!("CSR signing error ({error})");
    match error {
        external::Error::Names(error) => status(error),
        external::Error::Request(_) => Status::invalid_argument(message),
        external::Error::Unavailable { .. } => Status::unavailable(message),
        external::Error::NoRoot { .. } => Status::failed_precondition(message),
        _ => Status::internal(message),
    }
}

fn status(error: &sign::Error) -> Status {
    let message = format!("CSR signing error ({error})");
    match error {
        sign::Error::Request(_) | sign::Error::Ttl { .. } => Status::invalid_argument(message),
        sign::Error::Identity { .. } => Status::permission_denied(message),
        sign::Error::Expired { .. } | sign::Error::Issue(_) => Status::internal(message),
    }
}

fn text<'a>(metadata: Option<&'a Struct>, field: &str) -> Option<&'a str> {
    match metadata?.fields.get(field)?.kind.as_ref()? {
        value::Kind::StringValue(text) if !text.is_empty() => Some(text),
        _ => None,
    }
}

fn client<T>(request: &Request<T>) -> Option<std::net::SocketAddr> {
    request.extensions().get().copied()
}

#[cfg(test)]
mod tests;
