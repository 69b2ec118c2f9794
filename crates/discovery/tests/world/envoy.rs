//! A real Envoy in a network namespace of its own, with the bootstrap that the agent writes: discovery
//! and secrets come over Unix sockets, so nothing outside of the test's folder is touched.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

use futures::{Stream, StreamExt};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use ironsail_bootstrap::{Family, Node, Settings, Stats};
use ironsail_proto::Message;
use ironsail_proto::envoy::config::core::v3::{DataSource, data_source::Specifier};
use ironsail_proto::envoy::extensions::transport_sockets::tls::v3::{
    CertificateValidationContext, Secret, TlsCertificate, secret::Type,
};
use ironsail_proto::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use ironsail_proto::envoy::service::secret::v3::secret_discovery_service_server::{
    SecretDiscoveryService, SecretDiscoveryServiceServer,
};
use ironsail_proto::google::protobuf::Any;
use ironsail_sys::{env::Env, exec};
use ironsail_xds::SDS;
use serde_json::{Value, json};
use tonic::{Request, Response, Status, Streaming};

/// Killed when it is dropped.
pub(crate) struct Envoy {
    _process: tokio::process::Child,
    admin: PathBuf,
    log: PathBuf,
}

impl Envoy {
    /// Starts in `folder`, where the discovery socket `xds` is. Needs the right to make a namespace.
    pub(crate) async fn start(folder: &Path, node: Node) -> Self {
        let path = |name: &str| folder.join(name);
        serve_secrets(&path("sds"));
        let settings = Settings {
            node,
            family: Family::V4,
            admin_port: 15000,
            prometheus_port: 15090,
            prometheus_local_only: false,
            ready_port: 15021,
            agent_port: 15020,
            xds_socket: path("xds").display().to_string(),
            sds_socket: path("sds").display().to_string(),
            stats: Stats::default(),
            runtime: Default::default(),
            max_connections: None,
            outlier_log: None,
            log_as_json: false,
            load_stats: None,
            tracer: None,
            statsd: None,
            metrics_service: None,
            access_log_service: None,
        };
        let mut bootstrap = ironsail_bootstrap::envoy(&settings);
        bootstrap["admin"]["address"] =
            json!({"pipe": {"path": path("admin").display().to_string()}});
        std::fs::write(path("bootstrap.json"), bootstrap.to_string()).unwrap();
        let log = std::fs::File::create(path("log")).unwrap();
        let process = exec::async_command("unshare")
            .args(["--net", "--"])
            .arg(program())
            .arg("--config-path")
            .arg(path("bootstrap.json"))
            .args(["--disable-hot-restart", "--concurrency", "1"])
            .stderr(log)
            .spawn()
            .expect("unshare and envoy are among the tools that scripts/setup installs");
        Self { _process: process, admin: path("admin"), log: path("log") }
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// One request to the admin port.
    pub(crate) async fn get(&self, path: &str) -> Result<String, String> {
        let asked = async {
            let io =
                tokio::net::UnixStream::connect(&self.admin).await.map_err(|e| e.to_string())?;
            let handshake = hyper::client::conn::http1::handshake(TokioIo::new(io)).await;
            let (mut sender, connection) = handshake.map_err(|e| e.to_string())?;
            let connection = tokio::spawn(connection);
            let request = http::Request::get(path).header("host", "admin");
            let request = request.body(Empty::<bytes::Bytes>::new()).unwrap();
            let response = sender.send_request(request).await.map_err(|e| e.to_string())?;
            let body = response.into_body().collect().await.map_err(|e| e.to_string())?;
            connection.abort();
            Ok(String::from_utf8_lossy(&body.to_bytes()).into_owned())
        };
        tokio::time::timeout(Duration::from_secs(30), asked).await.map_err(|e| e.to_string())?
    }

    /// Waits until a page has a text.
    pub(crate) async fn shows(&self, path: &str, text: &str) {
        let end = tokio::time::Instant::now() + Duration::from_secs(180);
        loop {
            let page = self.get(path).await;
            if page.as_ref().is_ok_and(|page| page.contains(text)) {
                return;
            }
            assert!(
                tokio::time::Instant::now() < end,
                "{path} never shows {text}\n{}\n{}",
                page.unwrap_or_else(|e| e).chars().take(4000).collect::<String>(),
                self.log()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// From PATH as the Makefile sets it, or from where scripts/setup puts it.
fn program() -> PathBuf {
    let env = Env::of_process();
    let cache = match (env.var("IRONSAIL_CACHE"), env.var("HOME")) {
        (Some(cache), _) => PathBuf::from(cache),
        (None, home) => PathBuf::from(home.unwrap_or("/root")).join(".cache/ironsail"),
    };
    let installed = cache.join("tools/bin/envoy");
    if installed.exists() { installed } else { "envoy".into() }
}

/// What the agent would serve: the workload's certificate and the roots.
struct Secrets {
    certificate: String,
    key: String,
}

fn serve_secrets(socket: &Path) {
    let made = rcgen::generate_simple_self_signed(["test".to_owned()]).unwrap();
    let secrets = Secrets { certificate: made.cert.pem(), key: made.signing_key.serialize_pem() };
    let listener = tokio::net::UnixListener::bind(socket).unwrap();
    let incoming = tokio_stream::wrappers::UnixListenerStream::new(listener);
    let server = tonic::transport::Server::builder()
        .add_service(SecretDiscoveryServiceServer::new(secrets))
        .serve_with_incoming(incoming);
    tokio::spawn(server);
}

impl Secrets {
    fn secret(&self, name: &str) -> Secret {
        let text = |pem: &str| {
            Some(DataSource {
                specifier: Some(Specifier::InlineString(pem.to_owned())),
                ..Default::default()
            })
        };
        let kind = match name {
            "ROOTCA" => Type::ValidationContext(CertificateValidationContext {
                trusted_ca: text(&self.certificate),
                ..Default::default()
            }),
            _ => Type::TlsCertificate(TlsCertificate {
                certificate_chain: text(&self.certificate),
                private_key: text(&self.key),
                ..Default::default()
            }),
        };
        Secret { name: name.to_owned(), r#type: Some(kind) }
    }

    fn answer(&self, request: &DiscoveryRequest) -> DiscoveryResponse {
        let one = |name: &String| Any {
            type_url: SDS.into(),
            value: self.secret(name).encode_to_vec().into(),
        };
        DiscoveryResponse {
            version_info: "1".into(),
            nonce: "1".into(),
            type_url: SDS.into(),
            resources: request.resource_names.iter().map(one).collect(),
            ..Default::default()
        }
    }
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl SecretDiscoveryService for Secrets {
    type StreamSecretsStream = Answers<DiscoveryResponse>;
    type DeltaSecretsStream = Answers<DeltaDiscoveryResponse>;

    async fn stream_secrets(
        &self,
        request: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamSecretsStream>, Status> {
        let own = Self { certificate: self.certificate.clone(), key: self.key.clone() };
        // A request with a nonce is an answer to ours.
        let asked = request
            .into_inner()
            .filter_map(|r| async { r.ok().filter(|r| r.response_nonce.is_empty()) });
        Ok(Response::new(Box::pin(asked.map(move |r| Ok(own.answer(&r))))))
    }

    async fn delta_secrets(
        &self,
        _: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Self::DeltaSecretsStream>, Status> {
        Err(Status::unimplemented("the state of the world is enough here"))
    }

    async fn fetch_secrets(
        &self,
        request: Request<DiscoveryRequest>,
    ) -> Result<Response<DiscoveryResponse>, Status> {
        Ok(Response::new(self.answer(request.get_ref())))
    }
}

/// The node of a sidecar, as the bootstrap writes it.
pub(crate) fn node(app: &str, namespace: &str) -> Node {
    let ip = "10.1.0.1";
    let metadata = json!({
        "NAME": app, "NAMESPACE": namespace, "SERVICE_ACCOUNT": app, "WORKLOAD_NAME": app,
        "CLUSTER_ID": "Kubernetes", "INSTANCE_IPS": ip, "ISTIO_VERSION": "1.30.0",
        "INTERCEPTION_MODE": "REDIRECT", "LABELS": {"app": app}, "PROXY_CONFIG": {}
    });
    let Value::Object(metadata) = metadata else { unreachable!("it is written as an object") };
    Node {
        id: format!("sidecar~{ip}~{app}.{namespace}~{namespace}.svc.cluster.local"),
        cluster: format!("{app}.{namespace}"),
        metadata,
        ..Node::default()
    }
}
