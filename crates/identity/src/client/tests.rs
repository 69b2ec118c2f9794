//! The client against small CAs over real sockets, good and bad.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use ironsail_proto::istio::v1::auth::istio_certificate_service_server::{
    IstioCertificateService, IstioCertificateServiceServer,
};
use ironsail_proto::istio::v1::auth::{IstioCertificateRequest, IstioCertificateResponse};
use ironsail_sys::clock::Clock;
use ironsail_xds::server::{Connections, Drain, serve};
use tonic::{Request, Response, Status};

use super::{CaClient, Config, Error, IMPERSONATED, Security, Token};
use crate::issue::tests::{at, root};
use crate::tls::{ClientCertificates, Shown, Trusted, incoming, server_config};
use crate::{
    Certificate, CertificateRequest, Credential, Issuer, KeyKind, PrivateKey, Profile, RootBundle,
    San, Template, TrustBundles, empty_name, serial,
};

/// What the toy does with a request.
#[derive(Clone, Copy, PartialEq)]
enum Mood {
    Good,
    /// Answers twice that it is away, then well.
    Away,
    Denies,
    OtherIdentity,
    OtherKey,
    NoRoot,
}

struct Toy {
    certificate: Certificate,
    key: PrivateKey,
    mood: Mood,
    calls: Arc<AtomicU32>,
}

impl Toy {
    fn issue(&self, public_key: &[u8], sans: &[San]) -> Certificate {
        let template = Template {
            serial: serial().unwrap(),
            subject: empty_name(),
            public_key,
            sans,
            not_before: at(1_600_000_000),
            not_after: at(1_900_000_000),
            profile: Profile::Leaf,
        };
        let issuer = Issuer {
            name: self.certificate.subject_der(),
            key: &self.key,
            key_id: self.certificate.key_id(),
        };
        Certificate::from_der(&template.sign(&issuer).unwrap()).unwrap()
    }
}

#[tonic::async_trait]
impl IstioCertificateService for Toy {
    async fn create_certificate(
        &self,
        request: Request<IstioCertificateRequest>,
    ) -> Result<Response<IstioCertificateResponse>, Status> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        assert_eq!(request.metadata().get("authorization").unwrap(), "Bearer secret");
        assert_eq!(request.metadata().get("clusterid").unwrap(), "c1");
        match self.mood {
            Mood::Away if call < 2 => return Err(Status::unavailable("not now")),
            Mood::Denies => return Err(Status::unauthenticated("no")),
            _ => {}
        }
        let request = request.into_inner();
        assert_eq!(request.validity_duration, 3600);
        assert!(request.metadata.is_none_or(|m| m.fields.contains_key(IMPERSONATED)));
        let csr = CertificateRequest::from_pem(request.csr.as_bytes()).unwrap();
        let leaf = match self.mood {
            Mood::OtherIdentity => {
                let other = [San::Uri("spiffe://td/ns/a/sa/other".to_owned())];
                self.issue(&csr.public_key, &other)
            }
            Mood::OtherKey => self.issue(self.key.public_der(), &csr.sans),
            _ => self.issue(&csr.public_key, &csr.sans),
        };
        let mut cert_chain = vec![leaf.to_pem()];
        if self.mood != Mood::NoRoot {
            cert_chain.push(self.certificate.to_pem());
        }
        Ok(Response::new(IstioCertificateResponse { cert_chain }))
    }
}

struct Server {
    config: Config,
    trusted: Trusted,
    calls: Arc<AtomicU32>,
}

async fn start(mood: Mood) -> Server {
    let key = PrivateKey::generate(KeyKind::EcdsaP256).unwrap();
    let certificate = root("toy", &key);
    let trusted = Trusted::new(TrustBundles::of(RootBundle::new([certificate.clone()])));
    let calls = Arc::new(AtomicU32::new(0));
    let toy = Toy { certificate, key, mood, calls: calls.clone() };
    let own = Arc::new(PrivateKey::generate(KeyKind::EcdsaP256).unwrap());
    let leaf = toy.issue(own.public_der(), &[San::Dns("istiod.istio-system.svc".to_owned())]);
    let shown = Shown::new(Credential::new(own, vec![leaf]).unwrap());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let tls = server_config(&shown, ClientCertificates::Ignored, &["h2"]).unwrap();
    let connections = incoming(listener, Arc::new(tls));
    let services = tonic::service::Routes::new(IstioCertificateServiceServer::new(toy));
    tokio::spawn(async move {
        serve(connections, services, Connections::default(), &Drain::new()).await;
    });
    let security = Security::Tls {
        server_name: Some("istiod.istio-system.svc".to_owned()),
        trusted: trusted.clone(),
        shown: Shown::default(),
    };
    let mut config = Config::new(address, security, Token::Fixed("secret".to_owned().into()));
    config.cluster = "c1".to_owned();
    config.backoff = Duration::from_millis(1);
    Server { config, trusted, calls }
}

async fn obtain(config: Config) -> Result<super::Obtained, Error> {
    let clock = Clock::fixed(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000));
    let client = CaClient::new(config, clock)?;
    let id = "spiffe://td/ns/a/sa/a".parse().unwrap();
    client.obtain(KeyKind::EcdsaP256, &id, Duration::from_secs(3600), false).await
}

#[tokio::test]
async fn a_credential_comes_with_its_root() {
    let server = start(Mood::Good).await;
    let obtained = obtain(server.config).await.unwrap();
    assert_eq!(obtained.credential.spiffe().unwrap().to_string(), "spiffe://td/ns/a/sa/a");
    assert_eq!(obtained.credential.chain().len(), 1);
    assert_eq!(obtained.roots, server.trusted.current().unwrap().own);
}

#[tokio::test]
async fn a_token_is_read_from_its_file_each_time() {
    let server = start(Mood::Good).await;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("token");
    let config = Config { token: Token::File(path.clone()), ..server.config };
    let error = obtain(config.clone()).await.unwrap_err();
    assert!(matches!(error, Error::ReadToken { .. }) && error.is_retryable());
    std::fs::write(&path, "secret\n").unwrap();
    assert!(obtain(config).await.is_ok());
}

#[tokio::test]
async fn a_ca_that_is_away_is_asked_again_and_one_that_denies_is_not() {
    let server = start(Mood::Away).await;
    assert!(obtain(server.config).await.is_ok());
    assert_eq!(server.calls.load(Ordering::Relaxed), 3);

    let server = start(Mood::Denies).await;
    let error = obtain(server.config).await.unwrap_err();
    assert!(matches!(error, Error::Refused { attempts: 1, .. }), "{error}");
    assert!(!error.is_retryable());
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_not_taken() {
    for mood in [Mood::OtherIdentity, Mood::OtherKey, Mood::NoRoot] {
        let error = obtain(start(mood).await.config).await.unwrap_err();
        let fits = match mood {
            Mood::OtherIdentity => matches!(error, Error::WrongIdentity { .. }),
            Mood::OtherKey => matches!(error, Error::Mismatch { .. }),
            _ => matches!(error, Error::Short { .. }),
        };
        assert!(fits, "{error}");
    }
}

#[tokio::test]
async fn a_ca_of_another_root_is_not_even_asked() {
    let server = start(Mood::Good).await;
    let key = PrivateKey::generate(KeyKind::EcdsaP256).unwrap();
    server.trusted.set(TrustBundles::of(RootBundle::new([root("other", &key)])));
    let config = Config { attempts: 2, ..server.config };
    let error = obtain(config).await.unwrap_err();
    assert!(matches!(error, Error::Refused { attempts: 2, .. }), "{error}");
    assert_eq!(server.calls.load(Ordering::Relaxed), 0);
}

#[test]
fn tokens_are_not_shown() {
    assert_eq!(format!("{:?}", Token::Fixed("secret".to_owned().into())), "Fixed");
}
