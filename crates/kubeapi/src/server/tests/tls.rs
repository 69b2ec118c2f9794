//! The listener: certificates, both versions of HTTP, and its end.

use std::net::{IpAddr, Ipv4Addr};

use ironsail_sys::clock::Clock;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::sync::CancellationToken;

use super::Bench;
use crate::auth::pki::Pki;

struct Listening {
    bench: Bench,
    kubeconfig: Kubeconfig,
    address: std::net::SocketAddr,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

async fn listen() -> Listening {
    let bench = Bench::new().await;
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let keys = bench.directory.path().join("pki");
    let pki = Pki::open(&keys, &[loopback], &Clock::system()).unwrap();
    let listener = tokio::net::TcpListener::bind((loopback, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let kubeconfig = Kubeconfig::from_yaml(&pki.kubeconfig(&format!("https://{address}"))).unwrap();
    let stop = CancellationToken::new();
    let (server, tls, ended) = (bench.server.clone(), pki.server_config().unwrap(), stop.clone());
    let task = tokio::spawn(async move { server.serve(listener, tls, ended).await });
    Listening { bench, kubeconfig, address, stop, task }
}

async fn client(kubeconfig: Kubeconfig) -> kube::Client {
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    kube::Client::try_from(config).unwrap()
}

#[tokio::test]
async fn a_client_certificate_makes_an_administrator_and_none_makes_nobody() {
    let listening = listen().await;
    let admin: Api<Namespace> = Api::all(client(listening.kubeconfig.clone()).await);
    assert_eq!(admin.list(&ListParams::default()).await.unwrap().items.len(), 4);
    let mut bare = listening.kubeconfig.clone();
    for user in &mut bare.auth_infos {
        user.auth_info = None;
    }
    let nobody: Api<Namespace> = Api::all(client(bare).await);
    let refused = nobody.list(&ListParams::default()).await.unwrap_err();
    let kube::Error::Api(status) = refused else { panic!("{refused}") };
    assert_eq!(status.code, 403);
    assert_eq!(
        status.message,
        "namespaces is forbidden: User \"system:anonymous\" cannot list resource \"namespaces\" in \
         API group \"\" at the cluster scope"
    );
    listening.bench.server.end_watches();
    listening.stop.cancel();
    listening.task.await.unwrap();
}

#[tokio::test]
async fn what_is_no_tls_is_dropped_and_others_are_still_served() {
    let listening = listen().await;
    let mut plain = tokio::net::TcpStream::connect(listening.address).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    // Either an alert or a reset; in any case the end.
    drop(plain.read_to_end(&mut answer).await);
    assert!(!answer.starts_with(b"HTTP"));
    let admin: Api<Namespace> = Api::all(client(listening.kubeconfig.clone()).await);
    admin.get("default").await.unwrap();
    listening.stop.cancel();
    listening.task.await.unwrap();
}
