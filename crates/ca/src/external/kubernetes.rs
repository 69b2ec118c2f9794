//! Kubernetes' own way to have something signed: a CertificateSigningRequest is made and approved here,
//! signed by whoever plays the signer, and deleted when its certificate was read.

use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition, CertificateSigningRequestSpec,
};
use kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::wait::{Condition, await_condition};
use serde_json::json;
use tracing::debug;

use super::{Error, ExternalSigner, Wanted};
use crate::authority::chain;

/// A signer that takes longer is given up; the workload asks again.
const PATIENCE: Duration = Duration::from_secs(30);
const USAGES: [&str; 4] = ["digital signature", "key encipherment", "server auth", "client auth"];
/// Kubernetes refuses shorter ones.
const SHORTEST: Duration = Duration::from_secs(600);

/// Has certificates signed by a signer of Kubernetes.
pub struct KubernetesSigner {
    client: kube::Client,
    /// For workloads that name none (`K8S_SIGNER`).
    default: String,
    /// What stands before the names that workloads give (`CERT_SIGNER_DOMAIN`).
    domain: String,
}

impl KubernetesSigner {
    pub fn new(client: kube::Client, default: &str, domain: &str) -> Self {
        Self { client, default: default.to_owned(), domain: domain.to_owned() }
    }

    async fn ask(&self, wanted: Wanted<'_>, signer: &str) -> Result<String, kube::Error> {
        let api: Api<CertificateSigningRequest> = Api::all(self.client.clone());
        let how = PostParams::default();
        let seconds = wanted.ttl.max(SHORTEST).as_secs();
        let request = CertificateSigningRequest {
            metadata: ObjectMeta {
                generate_name: Some("csr-workload-".to_owned()),
                ..ObjectMeta::default()
            },
            spec: CertificateSigningRequestSpec {
                request: ByteString(wanted.csr.as_bytes().to_vec()),
                signer_name: signer.to_owned(),
                usages: Some(USAGES.map(str::to_owned).into()),
                expiration_seconds: Some(i32::try_from(seconds).unwrap_or(i32::MAX)),
                ..CertificateSigningRequestSpec::default()
            },
            status: None,
        };
        let made = api.create(&how, &request).await?;
        let name = made.metadata.name.clone().unwrap_or_default();
        let approval = CertificateSigningRequestCondition {
            type_: "Approved".to_owned(),
            status: "True".to_owned(),
            reason: Some("IstiodApproved".to_owned()),
            message: Some(format!("{} proved who it is", wanted.subject)),
            ..CertificateSigningRequestCondition::default()
        };
        let patch = Patch::Merge(json!({"status": {"conditions": [approval]}}));
        let approved = api.patch_approval(&name, &PatchParams::default(), &patch).await;
        let signed = match approved {
            Ok(_) => self.wait(&api, &name).await,
            Err(error) => Err(error),
        };
        // Nobody needs it any more; Kubernetes would delete it after an hour.
        if let Err(error) = api.delete(&name, &DeleteParams::default()).await {
            debug!(%error, "deleting CertificateSigningRequest {name}");
        }
        signed
    }

    async fn wait(
        &self,
        api: &Api<CertificateSigningRequest>,
        name: &str,
    ) -> Result<String, kube::Error> {
        let done = await_condition(api.clone(), name, Decided);
        let found = tokio::time::timeout(PATIENCE, done).await;
        let found = match found {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => return Err(other(&chain(&error))),
            Err(_) => return Err(other(&format!("no answer within {PATIENCE:?}"))),
        };
        let status = found.and_then(|request| request.status).unwrap_or_default();
        match status.certificate {
            Some(certificate) => Ok(String::from_utf8_lossy(&certificate.0).into_owned()),
            None => {
                let reasons = status.conditions.unwrap_or_default();
                let said = reasons.into_iter().find(|one| one.type_ != "Approved");
                let said = said.and_then(|one| one.message).unwrap_or_default();
                Err(other(&format!("it was refused: {said}")))
            }
        }
    }
}

fn other(why: &str) -> kube::Error {
    kube::Error::Service(why.to_owned().into())
}

/// Signed, or never to be signed.
struct Decided;

impl Condition<CertificateSigningRequest> for Decided {
    fn matches_object(&self, object: Option<&CertificateSigningRequest>) -> bool {
        let Some(status) = object.and_then(|object| object.status.as_ref()) else { return false };
        let is_final = |one: &CertificateSigningRequestCondition| {
            matches!(one.type_.as_str(), "Denied" | "Failed")
        };
        status.certificate.as_ref().is_some_and(|bytes| !bytes.0.is_empty())
            || status.conditions.iter().flatten().any(is_final)
    }
}

impl ExternalSigner for KubernetesSigner {
    fn name(&self, wanted: &Wanted<'_>) -> String {
        match (wanted.signer, self.domain.as_str()) {
            (None, _) => self.default.clone(),
            (Some(signer), "") => signer.to_owned(),
            (Some(signer), domain) => format!("{domain}/{signer}"),
        }
    }

    fn sign<'a>(&'a self, wanted: Wanted<'a>) -> BoxFuture<'a, Result<String, Error>> {
        Box::pin(async move {
            let signer = self.name(&wanted);
            self.ask(wanted, &signer).await.map_err(|error| match error {
                kube::Error::Api(status) if (400..500).contains(&status.code) => {
                    Error::Refused { signer, why: status.message.clone() }
                }
                error => Error::Unavailable { signer, why: chain(&error) },
            })
        })
    }
}
