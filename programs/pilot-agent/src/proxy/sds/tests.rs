//! Secrets as a proxy fetches them, over the socket.

use std::time::Duration;

use ironsail_identity::Anchors;
use ironsail_proto::Message;
use ironsail_proto::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse};
use ironsail_proto::envoy::service::secret::v3::secret_discovery_service_client::SecretDiscoveryServiceClient;
use ironsail_sys::clock::Clock;
use tokio::net::UnixStream;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Endpoint;

use super::*;
use crate::proxy::tests::Mint;

const PATIENCE: Duration = Duration::from_secs(20);

struct Proxy {
    requests: mpsc::Sender<DiscoveryRequest>,
    responses: Streaming<DiscoveryResponse>,
}

impl Proxy {
    async fn connect(socket: &Path) -> Self {
        let path = socket.to_owned();
        let connect = tower::service_fn(move |_: tonic::transport::Uri| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(hyper_util::rt::TokioIo::new) }
        });
        let channel = Endpoint::from_static("http://sds").connect_with_connector_lazy(connect);
        let (requests, queue) = mpsc::channel(4);
        let responses = SecretDiscoveryServiceClient::new(channel)
            .stream_secrets(ReceiverStream::new(queue))
            .await
            .unwrap()
            .into_inner();
        Self { requests, responses }
    }

    async fn ask(&self, name: &str, seen: Option<&DiscoveryResponse>) {
        let node = ironsail_proto::envoy::config::core::v3::Node {
            id: "sidecar~1.1.1.1~a.b~c".into(),
            ..Default::default()
        };
        let request = DiscoveryRequest {
            type_url: SDS.into(),
            resource_names: vec![name.to_owned()],
            node: Some(node),
            response_nonce: seen.map(|seen| seen.nonce.clone()).unwrap_or_default(),
            version_info: seen.map(|seen| seen.version_info.clone()).unwrap_or_default(),
            ..DiscoveryRequest::default()
        };
        self.requests.send(request).await.unwrap();
    }

    /// The next secret, in words: its PEM texts. It is acknowledged.
    async fn next(&mut self, name: &str) -> String {
        let response = tokio::time::timeout(PATIENCE, self.responses.message());
        let response = response.await.expect("in time").unwrap().unwrap();
        self.ask(name, Some(&response)).await;
        let secret = Secret::decode(response.resources[0].value.clone()).unwrap();
        assert_eq!(secret.name, name);
        let text = |source: Option<DataSource>| match source.and_then(|source| source.specifier) {
            Some(Specifier::InlineBytes(bytes)) => String::from_utf8(bytes).unwrap(),
            other => panic!("{other:?}"),
        };
        match secret.r#type.unwrap() {
            secret::Type::TlsCertificate(pair) => {
                text(pair.certificate_chain) + &text(pair.private_key)
            }
            secret::Type::ValidationContext(context) => {
                text(context.trusted_ca)
                    + &context.crl.map(|crl| text(Some(crl))).unwrap_or_default()
            }
            other => panic!("{other:?}"),
        }
    }
}

struct Serving {
    folder: tempfile::TempDir,
    newest: watch::Sender<Option<Arc<Bundle>>>,
    trust: Trust,
    stop: CancellationToken,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Serving {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (newest, follow) = watch::channel(None);
        let stop = CancellationToken::new();
        let (socket, stopped) = (folder.path().join("socket"), stop.clone());
        let crl = folder.path().join("ca-crl.pem");
        let trust = Trust::new("cluster.local".parse().unwrap(), Clock::system());
        let served = trust.clone();
        tokio::spawn(async move { serve(&socket, follow, crl, served, stopped).await.unwrap() });
        Self { folder, newest, trust, stop }
    }

    async fn proxy(&self) -> Proxy {
        let socket = self.folder.path().join("socket");
        while !socket.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Proxy::connect(&socket).await
    }

    fn renew(&self, mint: &Mint) -> Arc<Bundle> {
        let credential = mint.credential("spiffe://cluster.local/ns/a/sa/b");
        let bundle = Arc::new(Bundle { credential, roots: mint.bundle() });
        self.newest.send_replace(Some(bundle.clone()));
        bundle
    }
}

#[tokio::test]
async fn the_workloads_certificate_is_served_once_there_is_one_and_again_when_it_is_renewed() {
    let (serving, mint) = (Serving::start(), Mint::new("m"));
    let mut proxy = serving.proxy().await;
    proxy.ask(DEFAULT, None).await;
    for _ in 0..2 {
        let bundle = serving.renew(&mint);
        let wanted = bundle.credential.chain_pem() + &bundle.credential.key().to_pem();
        assert_eq!(proxy.next(DEFAULT).await, wanted);
    }
}

#[tokio::test]
async fn the_roots_of_the_mesh_are_served() {
    let (serving, mint) = (Serving::start(), Mint::new("m"));
    let mut proxy = serving.proxy().await;
    proxy.ask(ROOT, None).await;
    let bundle = serving.renew(&mint);
    assert_eq!(proxy.next(ROOT).await, bundle.roots.pem());
}

#[tokio::test]
async fn files_are_served_and_served_again_when_they_change() {
    let (serving, mint) = (Serving::start(), Mint::new("m"));
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let name = format!("file-cert:{}~{}", path("c").display(), path("k").display());
    let mut proxy = serving.proxy().await;
    proxy.ask(&name, None).await;
    for _ in 0..2 {
        let (chain, key) = mint.leaf("a.test");
        // As a kubelet does it: the pair never fits half.
        std::fs::write(path("c.new"), &chain).unwrap();
        std::fs::write(path("k"), key).unwrap();
        std::fs::rename(path("c.new"), path("c")).unwrap();
        loop {
            if proxy.next(&name).await.starts_with(chain.trim_end()) {
                break;
            }
        }
    }
    let mut proxy = serving.proxy().await;
    std::fs::write(path("r"), mint.root()).unwrap();
    let name = format!("file-root:{}", path("r").display());
    proxy.ask(&name, None).await;
    assert_eq!(proxy.next(&name).await.trim_end(), mint.root().trim_end());
    std::fs::write(path("r"), Mint::new("other").root()).unwrap();
    assert_ne!(proxy.next(&name).await.trim_end(), mint.root().trim_end());
}

#[tokio::test]
async fn the_machines_roots_are_served_under_the_name_system() {
    let serving = Serving::start();
    let mut proxy = serving.proxy().await;
    proxy.ask("file-root:system", None).await;
    assert!(proxy.next("file-root:system").await.contains("BEGIN CERTIFICATE"));
}

#[tokio::test]
async fn the_list_of_revoked_certificates_goes_with_the_roots_and_is_followed() {
    let (serving, mint) = (Serving::start(), Mint::new("m"));
    let mut proxy = serving.proxy().await;
    proxy.ask(ROOT, None).await;
    let roots = serving.renew(&mint).roots.pem().to_owned();
    assert_eq!(proxy.next(ROOT).await, roots, "there is no list yet");
    let file = serving.folder.path().join("ca-crl.pem");
    let first = mint.crl(&[7]);
    std::fs::write(&file, &first).unwrap();
    assert_eq!(proxy.next(ROOT).await, format!("{roots}{first}"));
    let second = mint.crl(&[7, 8]);
    replace(&file, &second);
    assert_eq!(proxy.next(ROOT).await, format!("{roots}{second}"));
    // An empty file, which a control plane without a list writes, takes it away.
    replace(&file, "");
    assert_eq!(proxy.next(ROOT).await, roots);
}

/// As a kubelet does it: never half a file.
fn replace(file: &Path, text: &str) {
    let part = file.with_extension("part");
    std::fs::write(&part, text).unwrap();
    std::fs::rename(part, file).unwrap();
}

#[tokio::test]
async fn what_is_no_list_leaves_the_last_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca-crl.pem");
    let (mint, mut revoked) = (Mint::new("m"), Revoked::new(file.clone()));
    assert_eq!(revoked.read(), None);
    let good = mint.crl(&[1]);
    std::fs::write(&file, &good).unwrap();
    assert_eq!(revoked.read(), Some(good.as_str()));
    std::fs::write(&file, "nonsense").unwrap();
    assert_eq!(revoked.read(), Some(good.as_str()));
    std::fs::remove_file(&file).unwrap();
    assert_eq!(revoked.read(), None);
}

#[tokio::test]
async fn announced_roots_are_served_and_reported_once_the_proxy_took_them() {
    let (serving, mint, next) = (Serving::start(), Mint::new("m"), Mint::new("next"));
    let mut proxy = serving.proxy().await;
    proxy.ask(ROOT, None).await;
    serving.renew(&mint);
    assert_eq!(proxy.next(ROOT).await, mint.root());
    let both = mint.bundle().and(&next.bundle());
    let own = Anchors { domains: vec!["cluster.local".parse().unwrap()], roots: both.clone() };
    let signer = Some(mint.bundle().certificates()[0].fingerprint());
    let announcement = Announcement { anchors: vec![own], signer };
    let mut reports = serving.trust.reports();
    serving.trust.hear(&announcement.encode()).unwrap();
    assert_eq!(proxy.next(ROOT).await, both.pem());
    let root = next.bundle().certificates()[0].fingerprint();
    let told = reports.wait_for(|report| report.as_ref().is_some_and(|one| one.trusts(&root)));
    let told = tokio::time::timeout(PATIENCE, told).await.unwrap().unwrap().clone().unwrap();
    assert!(told.in_use && told.leaf.is_none(), "{told:?}");
}
