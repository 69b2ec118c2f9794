//! Exec and port-forward through the whole server: TLS, certificates, tokens, RBAC, and a made-up
//! node behind it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use ironsail_kubeapi::admission::{Dial, Stream};
use ironsail_kubeapi::auth::pki::Pki;
use ironsail_kubeapi::{Config, Server};
use ironsail_kubestream::pod::{
    Duplex, Error, ExecIo, ExecOptions, Exit, LogOptions, PodRef, PodStreams,
};
use ironsail_sys::clock::Clock;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::{Api, AttachParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::sync::CancellationToken;

struct Nowhere;

impl Dial for Nowhere {
    fn connect(&self, _: SocketAddr) -> BoxFuture<'_, std::io::Result<Box<dyn Stream>>> {
        Box::pin(async { Err(std::io::ErrorKind::ConnectionRefused.into()) })
    }
}

/// Says which pod, container and command it was asked for; port 7 echoes.
struct Node;

impl PodStreams for Node {
    fn logs(
        &self,
        pod: PodRef,
        _: LogOptions,
    ) -> BoxFuture<'_, Result<BoxStream<'static, std::io::Result<Bytes>>, Error>> {
        Box::pin(async move { Err(Error::NotFound(format!("no logs of {}", pod.name))) })
    }

    fn exec(
        &self,
        pod: PodRef,
        options: ExecOptions,
        io: ExecIo,
    ) -> BoxFuture<'_, Result<Exit, Error>> {
        Box::pin(async move {
            let text = format!(
                "{}/{} {} {:?}",
                pod.namespace,
                pod.name,
                options.container.unwrap_or_default(),
                options.command
            );
            let mut stdout = io.stdout.ok_or_else(|| Error::BadRequest("no stdout".to_owned()))?;
            let written = stdout.write_all(text.as_bytes()).await;
            written.map_err(|error| Error::Internal(error.to_string()))?;
            Ok(Exit { code: 0 })
        })
    }

    fn connect(&self, _: PodRef, _: u16) -> BoxFuture<'_, Result<Box<dyn Duplex>, Error>> {
        Box::pin(async {
            let (near, far) = tokio::io::duplex(1 << 12);
            tokio::spawn(async move {
                let (mut reader, mut writer) = tokio::io::split(far);
                tokio::io::copy(&mut reader, &mut writer).await
            });
            Ok(Box::new(near) as Box<dyn Duplex>)
        })
    }
}

struct Running {
    _directory: tempfile::TempDir,
    config: kube::Config,
    stop: CancellationToken,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Running {
    fn admin(&self) -> kube::Client {
        kube::Client::try_from(self.config.clone()).expect("the kubeconfig is sound")
    }

    fn with_token(&self, token: &str) -> kube::Client {
        let mut config = self.config.clone();
        config.auth_info = kube::config::AuthInfo::default();
        config.auth_info.token = Some(token.to_owned().into());
        kube::Client::try_from(config).expect("the kubeconfig is sound")
    }
}

async fn start() -> Running {
    // Both this test's client and its server need a process-wide provider only once.
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let directory = tempfile::tempdir().expect("a directory");
    let clock = Clock::system();
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let pki = Pki::open(directory.path(), &[], &clock).expect("certificates");
    let config = Config {
        directory: directory.path().to_owned(),
        service_ranges: vec!["10.96.0.0/16".parse().expect("a range")],
        issuer: "https://kubernetes.default.svc.cluster.local".to_owned(),
        endpoint: None,
    };
    let server = Server::open(&config, Arc::new(Nowhere), clock).await.expect("a server");
    server.set_pod_streams(Arc::new(Node));
    let listener = tokio::net::TcpListener::bind((address, 0)).await.expect("a port");
    let url = format!("https://{}", listener.local_addr().expect("an address"));
    let kubeconfig = Kubeconfig::from_yaml(&pki.kubeconfig(&url)).expect("a kubeconfig");
    let stop = CancellationToken::new();
    let (tls, ended) = (pki.server_config().expect("TLS"), stop.clone());
    tokio::spawn(async move { server.serve(listener, tls, ended).await });
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
    Running { _directory: directory, config: config.expect("a client"), stop }
}

fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("a well-formed object")
}

/// A pod on a node, with its service account.
async fn pod(client: kube::Client) {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
    let account = json!({ "metadata": { "name": "runner" } });
    accounts.create(&PostParams::default(), &object(account)).await.expect("an account");
    let pods: Api<Pod> = Api::namespaced(client, "default");
    let pod = json!({ "metadata": { "name": "p" }, "spec": { "nodeName": "n1",
        "serviceAccountName": "runner", "containers": [{ "name": "main", "image": "x" }] } });
    pods.create(&PostParams::default(), &object(pod)).await.expect("a pod");
}

#[tokio::test]
async fn an_administrator_runs_commands_and_reaches_ports() {
    let running = start().await;
    pod(running.admin()).await;
    let pods: Api<Pod> = Api::namespaced(running.admin(), "default");
    let params = AttachParams::default().stderr(false);
    let mut session = pods.exec("p", ["ls", "/"], &params).await.expect("a session");
    let mut text = String::new();
    let mut stdout = session.stdout().expect("it was asked for");
    stdout.read_to_string(&mut text).await.expect("text");
    assert_eq!(text, "default/p main [\"ls\", \"/\"]");
    let status = session.take_status().expect("once").await.expect("a status");
    assert_eq!(status.status.as_deref(), Some("Success"));

    let mut forward = pods.portforward("p", &[7]).await.expect("a port-forward");
    let mut stream = forward.take_stream(7).expect("once");
    stream.write_all(b"ping").await.expect("it is open");
    let mut back = [0; 4];
    stream.read_exact(&mut back).await.expect("an echo");
    assert_eq!(&back, b"ping");
}

#[tokio::test]
async fn a_service_account_needs_a_role_to_run_commands() {
    let running = start().await;
    pod(running.admin()).await;
    let accounts: Api<ServiceAccount> = Api::namespaced(running.admin(), "default");
    let request = object(json!({ "spec": { "audiences": [] } }));
    let answer = accounts
        .create_token_request("runner", &PostParams::default(), &request)
        .await
        .expect("a token");
    let token = answer.status.and_then(|status| status.token).expect("a token");
    let pods: Api<Pod> = Api::namespaced(running.with_token(&token), "default");
    let refused = pods.get("p").await.expect_err("nobody allowed it");
    let kube::Error::Api(refused) = refused else { panic!("{refused}") };
    assert_eq!(
        refused.message,
        "pods \"p\" is forbidden: User \"system:serviceaccount:default:runner\" cannot get \
         resource \"pods\" in API group \"\" in the namespace \"default\""
    );
    assert!(pods.exec("p", ["ls"], &AttachParams::default()).await.is_err());

    let binding = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": { "name": "editors" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit" },
        "subjects": [{ "kind": "ServiceAccount", "name": "runner", "namespace": "default" }] });
    let bindings: Api<k8s_openapi::api::rbac::v1::RoleBinding> =
        Api::namespaced(running.admin(), "default");
    bindings.create(&PostParams::default(), &object(binding)).await.expect("a binding");
    pods.get("p").await.expect("now it may");
    let params = AttachParams::default().stderr(false);
    pods.exec("p", ["ls"], &params).await.expect("and run commands");

    let all: Api<Pod> = Api::namespaced(running.admin(), "default");
    all.delete("p", &kube::api::DeleteParams::default().grace_period(0)).await.expect("deleted");
    accounts.delete("runner", &kube::api::DeleteParams::default()).await.expect("deleted");
    let kube::Error::Api(gone) = pods.get("p").await.expect_err("its account is gone") else {
        panic!("not an answer of the API")
    };
    assert_eq!(gone.code, 401);
}

/// Asks until the answer is there; a test that never gets it is ended by its time limit.
async fn becomes<T>(mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let wait = async {
        loop {
            if let Some(found) = ask().await {
                return found;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), wait).await.expect("it never came")
}

#[tokio::test]
async fn secrets_of_the_old_kind_get_a_token_and_roles_their_rules() {
    let running = start().await;
    let client = running.admin();
    let secrets: Api<k8s_openapi::api::core::v1::Secret> =
        Api::namespaced(client.clone(), "default");
    let secret = json!({ "metadata": { "name": "s",
        "annotations": { "kubernetes.io/service-account.name": "runner" } },
        "type": "kubernetes.io/service-account-token" });
    secrets.create(&PostParams::default(), &object(secret)).await.expect("a secret");
    pod(client.clone()).await;
    let token = becomes(async || {
        let secret = secrets.get("s").await.ok()?;
        secret.data?.remove("token").map(|bytes| String::from_utf8(bytes.0).expect("text"))
    })
    .await;
    let pods: Api<Pod> = Api::namespaced(running.with_token(&token), "default");
    let kube::Error::Api(refused) = pods.get("p").await.expect_err("no role yet") else {
        panic!("not an answer of the API")
    };
    assert_eq!(refused.code, 403, "it is known who asks");

    let roles: Api<k8s_openapi::api::rbac::v1::ClusterRole> = Api::all(client);
    let role = json!({ "metadata": { "name": "gateways",
        "labels": { "rbac.authorization.k8s.io/aggregate-to-view": "true" } },
        "rules": [{ "apiGroups": ["example.org"], "resources": ["gateways"], "verbs": ["get"] }] });
    roles.create(&PostParams::default(), &object(role)).await.expect("a role");
    becomes(async || {
        let view = roles.get("admin").await.ok()?;
        let mut rules = view.rules?.into_iter().filter_map(|rule| rule.resources).flatten();
        rules.find(|resource| resource == "gateways")
    })
    .await;
}
