//! Where the workload's certificate comes from, and who gets it.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use futures::StreamExt;
use ironsail_identity::{Certificate, San};
use ironsail_proto::Message;
use ironsail_proto::envoy::config::core::v3::{Node, data_source::Specifier};
use ironsail_proto::envoy::extensions::transport_sockets::tls::v3::{Secret, secret};
use ironsail_proto::envoy::service::discovery::v3::DiscoveryRequest;
use ironsail_proto::envoy::service::secret::v3::secret_discovery_service_client::SecretDiscoveryServiceClient;
use ironsail_xds::SDS;
use tokio::net::{UnixListener, UnixStream};
use tonic::transport::Endpoint;

use crate::stage::{Stage, read, until};

const SOCKET: &str = "var/run/secrets/workload-spiffe-uds/socket";
const HOUR: Duration = Duration::from_secs(3600);

fn me() -> San {
    San::Uri("spiffe://cluster.local/ns/shop/sa/default".to_owned())
}

/// The certificate that the agent's socket serves as the workload's.
async fn served(socket: &Path) -> String {
    until("the socket", || socket.exists().then_some(())).await;
    let path = socket.to_owned();
    let connect = tower::service_fn(move |_: tonic::transport::Uri| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(hyper_util::rt::TokioIo::new) }
    });
    let channel = Endpoint::from_static("http://sds").connect_with_connector_lazy(connect);
    let request = DiscoveryRequest {
        type_url: SDS.into(),
        resource_names: vec!["default".into()],
        node: Some(Node { id: "sidecar~127.0.0.1~a.shop~shop.svc".into(), ..Node::default() }),
        ..DiscoveryRequest::default()
    };
    // The stream stays open until the answer is there.
    let requests = futures::stream::iter([request]).chain(futures::stream::pending());
    let came = async {
        let mut client = SecretDiscoveryServiceClient::new(channel);
        let mut answers = client.stream_secrets(requests).await.unwrap().into_inner();
        loop {
            let answer = answers.message().await.unwrap().unwrap();
            if let Some(resource) = answer.resources.first() {
                return Secret::decode(resource.value.clone()).unwrap();
            }
        }
    };
    let secret = tokio::time::timeout(Duration::from_secs(60), came).await.expect("in time");
    match secret.r#type {
        Some(secret::Type::TlsCertificate(pair)) => {
            match pair.certificate_chain.and_then(|chain| chain.specifier) {
                Some(Specifier::InlineBytes(bytes)) => String::from_utf8(bytes).unwrap(),
                other => panic!("{other:?}"),
            }
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ca_is_asked_and_copies_are_written_and_renewed_with_the_newest_token() {
    // A lifetime of 6 s is renewed after 3.
    let stage = Stage::with_lifetime(Duration::from_secs(6));
    let _agent = stage.start_alone("", &[("OUTPUT_CERTS", "./out")]);
    let chain = stage.path("out/cert-chain.pem");
    let first = until("a certificate", || Some(read(&chain)).filter(|text| !text.is_empty())).await;
    let leaf = &Certificate::read_pem(first.as_bytes()).unwrap()[0];
    assert_eq!(leaf.sans(), [me()]);
    assert_eq!(read(&stage.path("out/root-cert.pem")), stage.control.root());
    let mode = |name: &str| stage.path(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("out/key.pem"), mode("out/cert-chain.pem")), (0o600, 0o644));
    stage.write("var/run/secrets/tokens/istio-token", "second");
    let next = until("another", || Some(read(&chain)).filter(|text| *text != first)).await;
    assert!(next.starts_with("-----BEGIN"), "{next}");
    until("the new token", || {
        stage.control.tokens().last().filter(|token| *token == "second").cloned()
    })
    .await;
    assert_eq!(stage.control.tokens()[0], "first");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_are_mounted_are_served_and_no_ca_is_asked() {
    for folder in ["etc/certs", "var/run/secrets/workload-spiffe-credentials"] {
        let stage = Stage::new();
        let (chain, key) = stage.control.pair(me(), HOUR);
        stage.write(&format!("{folder}/cert-chain.pem"), &chain);
        stage.write(&format!("{folder}/key.pem"), &key);
        stage.write(&format!("{folder}/root-cert.pem"), &stage.control.root());
        let agent = stage.start_alone("", &[("FILE_MOUNTED_CERTS", "true")]);
        assert_eq!(served(&stage.path(SOCKET)).await, chain, "{}", agent.log());
        assert_eq!(stage.control.tokens(), [""; 0]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_come_late_are_waited_for() {
    let stage = Stage::new();
    let agent = stage.start_alone("", &[("FILE_MOUNTED_CERTS", "true")]);
    let line = agent.says("no workload certificate").await;
    assert!(line.contains("etc/certs/cert-chain.pem"), "{line}");
    let (chain, key) = stage.control.pair(me(), HOUR);
    stage.write("etc/certs/root-cert.pem", &stage.control.root());
    stage.write("etc/certs/key.pem", &key);
    stage.write("etc/certs/cert-chain.pem", &chain);
    assert_eq!(served(&stage.path(SOCKET)).await, chain, "{}", agent.log());
    assert_eq!(stage.control.tokens(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_that_somebody_else_serves_is_left_to_them() {
    let stage = Stage::new();
    let socket = stage.path(SOCKET);
    std::fs::create_dir_all(socket.parent().unwrap()).unwrap();
    let theirs = UnixListener::bind(&socket).unwrap();
    let before = socket.metadata().unwrap().ino();
    let agent = stage.start_alone("", &[]);
    agent.says("is served by somebody else").await;
    agent.is_ready().await;
    assert_eq!(socket.metadata().unwrap().ino(), before);
    assert_eq!(stage.control.tokens(), [""; 0]);
    drop(theirs);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_without_a_token_shows_the_certificate_that_it_was_given() {
    let stage = Stage::new();
    std::fs::remove_file(stage.path("var/run/secrets/tokens/istio-token")).unwrap();
    let (chain, key) = stage.control.pair(me(), HOUR);
    stage.write("given/cert-chain.pem", &chain);
    stage.write("given/key.pem", &key);
    let agent = stage.start_alone("", &[("PROV_CERT", "./given")]);
    agent.says("generated new workload certificate").await;
    assert_eq!(stage.control.tokens(), [""], "it was asked once, without a token");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_applications_health_reaches_the_control_plane() {
    let stage = Stage::new();
    stage.write("well", "");
    let probe = "readinessProbe: {periodSeconds: 1, timeoutSeconds: 30, \
                 exec: {command: [test, -e, well]}}";
    let _agent = stage.start(probe, &[]);
    let said = async |wanted: usize| {
        until("health", || Some(stage.control.health()).filter(|said| said.len() >= wanted)).await
    };
    assert_eq!(said(1).await, [None]);
    std::fs::remove_file(stage.path("well")).unwrap();
    let words = said(2).await;
    assert!(words[1].as_ref().is_some_and(|why| why.contains("test: exit status: 1")), "{words:?}");
    stage.write("well", "");
    assert_eq!(said(3).await[2], None);
}
