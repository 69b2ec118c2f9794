//! A control plane as small as can be: a CA that keeps what it was asked with, and discovery that has
//! what a test puts there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::future::BoxFuture;
use ironsail_identity::tls::{ClientCertificates, Shown, incoming, server_config};
use ironsail_identity::{
    Certificate, CertificateRequest, Credential, Issuer, KeyKind, PrivateKey, Profile, San,
    Template, empty_name, organization, serial,
};
use ironsail_proto::istio::v1::auth::istio_certificate_service_server::{
    IstioCertificateService, IstioCertificateServiceServer,
};
use ironsail_proto::istio::v1::auth::{IstioCertificateRequest, IstioCertificateResponse};
use ironsail_xds::server::{
    Caller, Connections, Dirty, Discovery, Drain, Feed, Report, Settings, Source, serve,
};
use ironsail_xds::{Interest, Resource, Set, TypeUrl};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tonic::{Request, Response, Status};

/// The name that agents know it by.
const NAME: &str = "localhost";

/// Cheap to clone; all clones are one.
#[derive(Clone)]
pub(crate) struct Control(Arc<Parts>);

struct Parts {
    root: Certificate,
    key: PrivateKey,
    lifetime: Duration,
    /// What the CA says to a token; None: it signs.
    refuse: Mutex<BTreeMap<String, Status>>,
    asked: Mutex<Vec<String>>,
    health: Mutex<Vec<Option<String>>>,
    sets: Mutex<BTreeMap<String, Arc<Set>>>,
}

impl Control {
    /// Certificates live that long.
    pub(crate) fn new(lifetime: Duration) -> Self {
        let key = PrivateKey::generate(KeyKind::EcdsaP256).unwrap();
        let name = organization("test");
        let template = Template {
            serial: serial().unwrap(),
            subject: &name,
            public_key: key.public_der(),
            sans: &[],
            not_before: SystemTime::UNIX_EPOCH + Duration::from_secs(1_600_000_000),
            not_after: SystemTime::UNIX_EPOCH + Duration::from_secs(3_155_760_000),
            profile: Profile::Authority { path: None },
        };
        let issuer = Issuer { name: &name, key: &key, key_id: None };
        let root = Certificate::from_der(&template.sign(&issuer).unwrap()).unwrap();
        Self(Arc::new(Parts {
            root,
            key,
            lifetime,
            refuse: Mutex::default(),
            asked: Mutex::default(),
            health: Mutex::default(),
            sets: Mutex::default(),
        }))
    }

    pub(crate) fn root(&self) -> String {
        self.0.root.to_pem()
    }

    /// What it was asked with so far.
    pub(crate) fn tokens(&self) -> Vec<String> {
        self.0.asked.lock().clone()
    }

    pub(crate) fn health(&self) -> Vec<Option<String>> {
        self.0.health.lock().clone()
    }

    pub(crate) fn refuse(&self, token: &str, status: Status) {
        self.0.refuse.lock().insert(token.to_owned(), status);
    }

    /// Before anybody connects.
    pub(crate) fn put(&self, type_url: &str, name: &str, body: impl Into<bytes::Bytes>) {
        let mut sets = self.0.sets.lock();
        let set = sets.entry(type_url.to_owned()).or_default();
        *set = Set::with(set, [Resource::new(name.to_owned(), body)], &[]);
    }

    /// A certificate and its key as PEM.
    pub(crate) fn pair(&self, san: San, lifetime: Duration) -> (String, String) {
        let key = Arc::new(PrivateKey::generate(KeyKind::EcdsaP256).unwrap());
        let leaf = self.issue(key.public_der(), &[san], lifetime);
        (leaf.to_pem(), key.to_pem().to_string())
    }

    fn issue(&self, public_key: &[u8], sans: &[San], lifetime: Duration) -> Certificate {
        let now = ironsail_sys::clock::Clock::system().now();
        let template = Template {
            serial: serial().unwrap(),
            subject: empty_name(),
            public_key,
            sans,
            not_before: now - Duration::from_secs(60),
            not_after: now + lifetime,
            profile: Profile::Leaf,
        };
        let (root, key) = (&self.0.root, &self.0.key);
        let issuer = Issuer { name: root.subject_der(), key, key_id: root.key_id() };
        Certificate::from_der(&template.sign(&issuer).unwrap()).unwrap()
    }

    /// Serves until the runtime ends.
    pub(crate) fn start(&self, listener: TcpListener) {
        let key = Arc::new(PrivateKey::generate(KeyKind::EcdsaP256).unwrap());
        let name = [San::Dns(NAME.to_owned())];
        let leaf = self.issue(key.public_der(), &name, Duration::from_secs(3600));
        let shown = Shown::new(Credential::new(key, vec![leaf]).unwrap());
        let tls = server_config(&shown, ClientCertificates::Ignored, &["h2"]).unwrap();
        let connections = incoming(listener, Arc::new(tls));
        let ca = IstioCertificateServiceServer::new(self.clone());
        let discovery = Discovery::new(self.clone(), Settings::default());
        let routes = tonic::service::Routes::new(ca).add_service(discovery);
        tokio::spawn(async move {
            serve(connections, routes, Connections::default(), &Drain::new()).await;
        });
    }
}

#[tonic::async_trait]
impl IstioCertificateService for Control {
    async fn create_certificate(
        &self,
        request: Request<IstioCertificateRequest>,
    ) -> Result<Response<IstioCertificateResponse>, Status> {
        let token = request.metadata().get("authorization").and_then(|value| value.to_str().ok());
        let token = token.unwrap_or_default().trim_start_matches("Bearer ").to_owned();
        self.0.asked.lock().push(token.clone());
        if let Some(status) = self.0.refuse.lock().get(&token) {
            return Err(status.clone());
        }
        let csr = CertificateRequest::from_pem(request.into_inner().csr.as_bytes()).unwrap();
        let leaf = self.issue(&csr.public_key, &csr.sans, self.0.lifetime);
        let cert_chain = vec![leaf.to_pem(), self.0.root.to_pem()];
        Ok(Response::new(IstioCertificateResponse { cert_chain }))
    }
}

impl Source for Control {
    fn open(&self, _: Caller) -> BoxFuture<'_, Result<Box<dyn Feed>, Status>> {
        let feed: Box<dyn Feed> = Box::new(One(self.clone()));
        Box::pin(std::future::ready(Ok(feed)))
    }
}

struct One(Control);

impl Feed for One {
    fn set<'a>(&'a mut self, type_url: &'a TypeUrl, _: &'a Interest) -> BoxFuture<'a, Arc<Set>> {
        let set = self.0.0.sets.lock().get(&**type_url).cloned().unwrap_or_default();
        Box::pin(std::future::ready(set))
    }

    fn changed(&mut self) -> BoxFuture<'_, Option<Dirty>> {
        Box::pin(std::future::pending())
    }

    fn report(&mut self, report: Report<'_>) {
        if let Report::Health { trouble } = report {
            self.0.0.health.lock().push(trouble.map(str::to_owned));
        }
    }
}
