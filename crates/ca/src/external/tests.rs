//! Signers that do what they should, and others.

use std::sync::Arc;
use std::time::Duration;

use ironsail_identity::{KeyKind, PrivateKey};
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::api::{Api, ListParams, PostParams};
use rcgen::{CertificateParams, CertificateSigningRequestParams, CertifiedIssuer, IsCa, KeyPair};

use super::*;
use crate::sign::Limits;
use crate::testing::Cluster;

const ID: &str = "spiffe://cluster.local/ns/foo/sa/sleep";

fn issuer(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn csr(name: &str) -> String {
    let key = PrivateKey::generate(KeyKind::EcdsaP256).unwrap();
    CertificateRequest::make(&key, &[San::Uri(name.to_owned())]).unwrap()
}

/// Answers always the same, or signs with an issuer.
enum Toy {
    Says(String),
    Signs(Box<CertifiedIssuer<'static, KeyPair>>),
}

impl ExternalSigner for Toy {
    fn name(&self, _: &Wanted<'_>) -> String {
        "toy".to_owned()
    }

    fn sign<'a>(&'a self, wanted: Wanted<'a>) -> BoxFuture<'a, Result<String, Error>> {
        Box::pin(async move {
            Ok(match self {
                Self::Says(text) => text.clone(),
                Self::Signs(issuer) => {
                    let params = CertificateSigningRequestParams::from_pem(wanted.csr).unwrap();
                    params.signed_by(issuer).unwrap().pem() + &issuer.pem()
                }
            })
        })
    }
}

async fn issued(toy: Toy, roots: Option<RootBundle>, csr: &str) -> Result<Vec<String>, String> {
    let registration =
        Registration::new(Box::new(toy), Box::new(move |_| roots.clone()), Limits::default());
    let subject = ID.parse().unwrap();
    let wanted = Wanted { csr, subject: &subject, ttl: Duration::ZERO, signer: None };
    let domains = TrustDomains::new("cluster.local".parse().unwrap(), []);
    let now = ironsail_sys::clock::Clock::system().now();
    registration.issue(wanted, &domains, now).await.map_err(|error| error.to_string())
}

#[tokio::test]
async fn what_a_signer_gives_is_held_against_what_was_asked() {
    let (one, other) = (issuer("one"), issuer("other"));
    let root = |issuer: &CertifiedIssuer<'static, KeyPair>| {
        RootBundle::from_pem(issuer.pem().as_bytes()).unwrap()
    };
    let (good, known) = (csr(ID), root(&one));
    let answer = issued(Toy::Signs(Box::new(one)), Some(known.clone()), &good).await.unwrap();
    assert_eq!((answer.len(), &*answer[1]), (2, known.pem()));
    let own = issuer("own");
    let pem = own.pem();
    let answer = issued(Toy::Signs(Box::new(own)), None, &good).await.unwrap();
    assert!(pem.contains(answer[1].trim()), "its own root, if nobody names another");
    let error = issued(Toy::Signs(Box::new(other)), Some(known), &good).await.unwrap_err();
    assert!(error.contains("caCertificates"), "{error}");
    let stranger = issued(Toy::Says(pem), None, &good).await.unwrap_err();
    assert!(stranger.contains("not for spiffe"), "{stranger}");
    assert!(issued(Toy::Says("x".to_owned()), None, &good).await.is_err());
    let greedy = csr("spiffe://cluster.local/ns/bar/sa/sleep");
    let error = issued(Toy::Says(String::new()), None, &greedy).await.unwrap_err();
    assert!(error.contains("asks for"), "the signer is not asked: {error}");
}

#[tokio::test]
async fn a_signer_of_kubernetes_signs_what_was_approved() {
    let cluster = Cluster::new().await;
    let issuer = Arc::new(issuer("signer"));
    let (client, signing) = (cluster.client(), issuer.clone());
    // Plays the signer: whatever is approved gets a certificate.
    let task = tokio::spawn(async move {
        let api: Api<CertificateSigningRequest> = Api::all(client);
        loop {
            for mut one in api.list(&ListParams::default()).await.unwrap() {
                let status = one.status.get_or_insert_default();
                let approved = status.conditions.iter().flatten().any(|c| c.type_ == "Approved");
                if !approved || status.certificate.is_some() {
                    continue;
                }
                assert_eq!(one.spec.signer_name, "example.com/mesh");
                let pem = String::from_utf8(one.spec.request.0.clone()).unwrap();
                let params = CertificateSigningRequestParams::from_pem(&pem).unwrap();
                let leaf = params.signed_by(&*signing).unwrap().pem();
                status.certificate = Some(ByteString(leaf.into_bytes()));
                let name = one.metadata.name.clone().unwrap();
                let _ = api.replace_status(&name, &PostParams::default(), &one).await;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let signer = KubernetesSigner::new(cluster.client(), "example.com/other", "example.com");
    let known = RootBundle::from_pem(issuer.pem().as_bytes()).unwrap();
    let roots = move |name: &str| (name == "example.com/mesh").then(|| known.clone());
    let registration = Registration::new(Box::new(signer), Box::new(roots), Limits::default());
    let (subject, csr) = (ID.parse().unwrap(), csr(ID));
    let wanted = Wanted { csr: &csr, subject: &subject, ttl: Duration::ZERO, signer: Some("mesh") };
    let domains = TrustDomains::new("cluster.local".parse().unwrap(), []);
    let now = ironsail_sys::clock::Clock::system().now();
    let answer = registration.issue(wanted, &domains, now).await.unwrap();
    assert_eq!(answer.len(), 2);
    let api: Api<CertificateSigningRequest> = Api::all(cluster.client());
    assert!(api.list(&ListParams::default()).await.unwrap().items.is_empty(), "it is tidied up");
    task.abort();
}
