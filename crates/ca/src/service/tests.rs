//! The service over TLS and HTTP/2, asked by our own client and by a plain one.

use std::sync::Arc;
use std::time::Duration;

use ironsail_identity::client::{CaClient, Config, Error as ClientError, Security, Token};
use ironsail_identity::tls::{
    ClientCertificates as Clients, Shown, Trusted, incoming, server_config,
};
use ironsail_identity::{CertificateRequest, KeyKind, PrivateKey, RootBundle, San, TrustBundles};
use ironsail_names::{Namespace, ServiceAccount, SpiffeId, TrustDomains};
use ironsail_sys::clock::Clock;
use ironsail_sys::exec::command;
use ironsail_xds::server::{Connections, Drain, serve};
use tonic::Code;

use crate::authenticate::{Authenticator, ClientCertificates, Method, TokenReviews};
use crate::authority::{Authority, CACERTS_SECRET, Settings};
use crate::caller::Domains;
use crate::impersonate::{NodeAgents, PodFacts, PodLookup};
use crate::service::CertificateService;
use crate::serving::{Serving, serving_names};
use crate::strongbox::MemoryStrongbox;
use crate::testing::Cluster;

const SLEEP: &str = "spiffe://cluster.local/ns/foo/sa/sleep";
const HOUR: Duration = Duration::from_secs(3600);

/// Every pod is on one node, and so is an instance of every account in `foo`.
struct OneNode {
    uid: String,
}

impl PodLookup for OneNode {
    fn pod(&self, _: &str, _: &Namespace, _: &str) -> Option<PodFacts> {
        let (uid, node) = (self.uid.clone(), "n".to_owned());
        Some(PodFacts { uid, service_account: "ztunnel".to_owned(), node })
    }

    fn runs_on(&self, _: &str, _: &str, namespace: &Namespace, _: &ServiceAccount) -> bool {
        namespace.as_str() == "foo"
    }
}

/// istiod's CA on a port of loopback, with a cluster behind it.
struct Bench {
    cluster: Cluster,
    authority: Arc<Authority>,
    strongbox: MemoryStrongbox,
    trusted: Trusted,
    address: String,
    server: tokio::task::JoinHandle<()>,
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Bench {
    async fn new() -> Self {
        let cluster = Cluster::new().await;
        let clock = Clock::system();
        let domains = Domains::new(TrustDomains::new("cluster.local".parse().unwrap(), []));
        let strongbox = MemoryStrongbox::default();
        let kept = Arc::new(strongbox.clone());
        let authority = Authority::open(Settings::default(), kept, domains.clone(), clock.clone());
        let authority = authority.await.unwrap();
        let reviews = TokenReviews::new(
            cluster.client(),
            "Kubernetes",
            vec!["istio-ca".to_owned()],
            domains.clone(),
            clock,
        );
        let methods: [Arc<dyn Method>; 2] =
            [Arc::new(reviews), Arc::new(ClientCertificates::new(domains))];
        let uid = cluster.pod("istio-system", "zt", "ztunnel").await;
        let agents = NodeAgents::new("istio-system/ztunnel", Arc::new(OneNode { uid })).unwrap();
        let authenticator = Arc::new(Authenticator::new(methods));
        let service = CertificateService::new(authority.clone(), authenticator, Some(agents));
        let names = serving_names(&"istio-system".parse().unwrap(), "", "");
        let serving = Serving::start(authority.clone(), names, KeyKind::EcdsaP256).unwrap();
        let trusted = Trusted::new(TrustBundles::of(authority.roots().borrow().clone()));
        let clients = Clients::Optional(trusted.clone());
        let tls = server_config(serving.shown(), clients, &["h2"]).unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let services = tonic::service::Routes::new(service.into_server());
        let server = tokio::spawn(async move {
            let connections = incoming(listener, Arc::new(tls));
            serve(connections, services, Connections::default(), &Drain::new()).await;
        });
        Self { cluster, authority, strongbox, trusted, address, server }
    }

    fn client(&self, token: Token, shown: Shown) -> CaClient {
        let server_name = Some("istiod.istio-system.svc".to_owned());
        let security = Security::Tls { server_name, trusted: self.trusted.clone(), shown };
        let mut config = Config::new(self.address.clone(), security, token);
        config.attempts = 1;
        config.timeout = Duration::from_secs(60);
        CaClient::new(config, Clock::system()).unwrap()
    }

    async fn with_token(&self, account: (&str, &str), pod: Option<&str>) -> CaClient {
        let token = self.cluster.token(account, "istio-ca", pod).await;
        self.client(Token::Fixed(token.into()), Shown::default())
    }

    fn count(&self, name: &str) -> u64 {
        let samples = self.authority.metrics().samples(Clock::system().now());
        samples.iter().filter(|s| s.name == name).map(|s| s.value as u64).sum()
    }
}

fn id(text: &str) -> SpiffeId {
    text.parse().unwrap()
}

fn csr(names: &[&str]) -> String {
    let key = PrivateKey::generate(KeyKind::EcdsaP256).unwrap();
    let names: Vec<San> = names.iter().map(|name| San::Uri((*name).to_owned())).collect();
    CertificateRequest::make(&key, &names).unwrap()
}

fn status(result: Result<impl std::fmt::Debug, ClientError>) -> (Code, String) {
    match result {
        Err(ClientError::Refused { status, .. }) => (status.code(), status.message().to_owned()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_workload_gets_a_certificate_by_token_and_renews_it_by_certificate() {
    let bench = Bench::new().await;
    let client = bench.with_token(("foo", "sleep"), None).await;
    let first = client.obtain(KeyKind::EcdsaP256, &id(SLEEP), HOUR, false).await.unwrap();
    assert_eq!(first.credential.spiffe().unwrap(), id(SLEEP));

    let shown = Shown::new(first.credential.clone());
    let client = bench.client(Token::None, shown);
    let second = client.obtain(KeyKind::Rsa2048, &id(SLEEP), HOUR, false).await.unwrap();
    assert_ne!(second.credential.leaf().serial(), first.credential.leaf().serial());
    assert_eq!(bench.count("citadel_server_success_cert_issuance_count"), 2);
    assert_eq!(bench.count("citadel_server_csr_count"), 2);
}

#[tokio::test]
async fn openssl_verifies_what_the_service_answers() {
    let bench = Bench::new().await;
    let client = bench.with_token(("foo", "sleep"), None).await;
    let chain = client.sign(&csr(&[SLEEP]), HOUR, None).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| std::fs::write(dir.path().join(name), text).unwrap();
    write("leaf", chain[0].to_pem());
    write("root", chain.last().unwrap().to_pem());
    let verify = "openssl verify -x509_strict -purpose sslserver -CAfile root leaf";
    let run = command("sh").args(["-ec", verify]).current_dir(dir.path()).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}

#[tokio::test]
async fn a_plugged_in_chain_is_answered_from_leaf_to_root() {
    use crate::material::tests::{Party, plugged};
    let bench = Bench::new().await;
    let (root, middle, signer);
    root = Party::root("root");
    middle = root.below("middle");
    signer = middle.below("signer");
    bench.strongbox.put(CACERTS_SECRET, plugged(&signer, &[&middle], &[&root]));
    bench.authority.reload().await.unwrap();
    let client = bench.with_token(("foo", "sleep"), None).await;
    let chain = client.sign(&csr(&[SLEEP]), HOUR, None).await.unwrap();
    let above: Vec<_> = [&signer, &middle, &root].map(|party| party.certificate.clone()).into();
    assert_eq!(chain[1..], above);
}

#[tokio::test]
async fn who_proves_nothing_gets_nothing() {
    let bench = Bench::new().await;
    for token in [Token::None, Token::Fixed("words".to_owned().into())] {
        let client = bench.client(token, Shown::default());
        let answer = status(client.sign(&csr(&[SLEEP]), HOUR, None).await);
        assert_eq!(answer, (Code::Unauthenticated, "request authenticate failure".to_owned()));
    }
    assert_eq!(bench.count("citadel_server_authentication_failure_count"), 2);
}

#[tokio::test]
async fn another_identity_is_refused() {
    let bench = Bench::new().await;
    let client = bench.with_token(("foo", "sleep"), None).await;
    let other = "spiffe://cluster.local/ns/foo/sa/httpbin";
    let (code, message) = status(client.sign(&csr(&[other]), HOUR, None).await);
    assert_eq!(code, Code::PermissionDenied);
    assert!(message.starts_with("CSR signing error ("), "{message}");
    assert_eq!(bench.count("citadel_server_id_extraction_err_count"), 1);
    // A workload is no node proxy.
    let (code, message) = status(client.sign(&csr(&[other]), HOUR, Some(&id(other))).await);
    assert_eq!(code, Code::Unauthenticated);
    assert_eq!(message, "request impersonation authentication failure");
}

#[tokio::test]
async fn faults_of_the_request_are_told() {
    let bench = Bench::new().await;
    let client = bench.with_token(("foo", "sleep"), None).await;
    let (code, message) = status(client.sign("dumb CSR", HOUR, None).await);
    assert_eq!(code, Code::InvalidArgument);
    assert!(message.starts_with("CSR signing error (certificate signing request"), "{message}");
    let (code, message) = status(client.sign(&csr(&[SLEEP]), 3000 * HOUR, None).await);
    assert_eq!(code, Code::InvalidArgument);
    assert_eq!(
        message,
        "CSR signing error (requested TTL 3000h0m0s is greater than the max allowed TTL 2160h0m0s)"
    );
    assert_eq!(bench.count("citadel_server_csr_sign_err_count"), 2);
    assert_eq!(bench.count("citadel_server_csr_parsing_err_count"), 1);
}

#[tokio::test]
async fn a_node_proxy_asks_for_workloads_of_its_node() {
    let bench = Bench::new().await;
    let client = bench.with_token(("istio-system", "ztunnel"), Some("zt")).await;
    let obtained = client.obtain(KeyKind::EcdsaP256, &id(SLEEP), HOUR, true).await.unwrap();
    assert_eq!(obtained.credential.spiffe().unwrap(), id(SLEEP));
    for other in ["spiffe://cluster.local/ns/bar/sa/x", "spiffe://other/ns/foo/sa/sleep"] {
        let (code, message) = status(client.sign(&csr(&[other]), HOUR, Some(&id(other))).await);
        assert_eq!(code, Code::Unauthenticated);
        assert_eq!(message, "request impersonation authentication failure");
    }
    // The request must be for whom it says it is.
    let other = csr(&["spiffe://cluster.local/ns/foo/sa/x"]);
    let mixed = client.sign(&other, HOUR, Some(&id(SLEEP))).await;
    assert_eq!(status(mixed).0, Code::PermissionDenied);
}

#[tokio::test]
async fn a_certificate_of_another_ca_does_not_even_connect() {
    let bench = Bench::new().await;
    let other = Bench::new().await;
    let client = other.with_token(("foo", "sleep"), None).await;
    let foreign = client.obtain(KeyKind::EcdsaP256, &id(SLEEP), HOUR, false).await.unwrap();
    let client = bench.client(Token::None, Shown::new(foreign.credential));
    let (code, _) = status(client.sign(&csr(&[SLEEP]), HOUR, None).await);
    assert!(matches!(code, Code::Unavailable | Code::Unknown), "{code:?}");
    assert_eq!(bench.count("citadel_server_csr_count"), 0);
    assert_ne!(*other.authority.roots().borrow(), RootBundle::new([]));
}
