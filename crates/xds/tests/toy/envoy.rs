//! A real Envoy, connected to a server, and plain HTTP to talk to it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use ironsail_proto::envoy::config::bootstrap::v3::Bootstrap;
use ironsail_sys::{env::Env, exec};
use ironsail_xds::Variant;
use serde_json::{Value, json};

/// Killed when it is dropped.
pub(crate) struct Envoy {
    _process: tokio::process::Child,
    _files: tempfile::TempDir,
    pub(crate) admin: SocketAddr,
}

impl Envoy {
    /// Starts Envoy with everything from `server`, and waits until it serves.
    pub(crate) async fn start(server: SocketAddr, variant: Variant) -> Self {
        let files = tempfile::tempdir().unwrap();
        let config = files.path().join("bootstrap.json");
        std::fs::write(&config, bootstrap(server, variant).to_string()).unwrap();
        let admin = files.path().join("admin");
        let log = std::fs::File::create(files.path().join("log")).unwrap();
        let process = exec::async_command(program())
            .arg("--config-path")
            .arg(&config)
            .arg("--admin-address-path")
            .arg(&admin)
            // Without these it would share memory with other Envoys and die with a thread of ours.
            .args(["--disable-hot-restart", "--use-dynamic-base-id", "--concurrency", "1"])
            .stderr(log)
            .spawn()
            .expect("envoy is on PATH or among the tools that scripts/setup installs");
        let log = || std::fs::read_to_string(files.path().join("log")).unwrap_or_default();
        let end = tokio::time::Instant::now() + Duration::from_secs(30);
        let admin = loop {
            let address = std::fs::read_to_string(&admin).ok().and_then(|text| text.parse().ok());
            if let Some(address) = address {
                break address;
            }
            assert!(tokio::time::Instant::now() < end, "envoy does not start: {}", log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        Self { _process: process, _files: files, admin }
    }

    /// The address that a listener got.
    pub(crate) async fn listener(&self, name: &str) -> Option<SocketAddr> {
        let (_, text) = get(self.admin, "/listeners?format=json").await.ok()?;
        let all: Value = serde_json::from_str(&text).ok()?;
        let found =
            all["listener_statuses"].as_array()?.iter().find(|l| l["name"] == name)?.clone();
        let socket = &found["local_address"]["socket_address"];
        let (ip, port) = (socket["address"].as_str()?, socket["port_value"].as_u64()?);
        format!("{ip}:{port}").parse().ok()
    }

    /// Clusters that take traffic, as the admin shows them.
    pub(crate) async fn active_cluster(&self, name: &str) -> Option<Value> {
        let path = "/config_dump?resource=dynamic_active_clusters";
        let (_, text) = get(self.admin, path).await.ok()?;
        let dump: Value = serde_json::from_str(&text).ok()?;
        let mut all = dump["configs"].as_array()?.iter().map(|c| c["cluster"].clone());
        all.find(|c| c["name"] == name)
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

fn bootstrap(server: SocketAddr, variant: Variant) -> Value {
    let api_type = match variant {
        Variant::Delta => "DELTA_GRPC",
        Variant::StateOfTheWorld => "GRPC",
    };
    let ads = json!({"ads": {}, "resource_api_version": "V3"});
    let text = json!({
        "node": {"id": "sidecar~127.0.0.1~toy.ns~ns.svc.cluster.local", "cluster": "toy.ns"},
        "admin": {"address": address("127.0.0.1:0".parse().unwrap())},
        "dynamic_resources": {
            "ads_config": {
                "api_type": api_type, "transport_api_version": "V3",
                "set_node_on_first_message_only": true,
                "grpc_services": [{"envoy_grpc": {"cluster_name": "xds-grpc"}}]
            },
            "cds_config": ads, "lds_config": ads
        },
        "static_resources": {"clusters": [{
            "name": "xds-grpc", "type": "STATIC", "connect_timeout": "1s",
            "load_assignment": {"cluster_name": "xds-grpc", "endpoints": [{"lb_endpoints": [
                {"endpoint": {"address": address(server)}}
            ]}]},
            "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                "explicit_http_config": {"http2_protocol_options": {}}
            }}
        }]}
    });
    // Through our own types, as the agent will write it.
    let bootstrap: Bootstrap = ironsail_proto::from_json(&text).unwrap();
    ironsail_proto::to_json(&bootstrap).unwrap()
}

pub(crate) fn address(address: SocketAddr) -> Value {
    let (ip, port) = (address.ip().to_string(), address.port());
    json!({"socket_address": {"address": ip, "port_value": port}})
}

/// One request over a connection of its own: status and body.
pub(crate) async fn get(to: SocketAddr, path: &str) -> Result<(u16, String), String> {
    let asked = async {
        let io = tokio::net::TcpStream::connect(to).await.map_err(|e| e.to_string())?;
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(io)).await;
        let (mut sender, connection) = handshake.map_err(|e| e.to_string())?;
        let connection = tokio::spawn(connection);
        let request =
            http::Request::get(path).header("host", "toy").body(Empty::<bytes::Bytes>::new());
        let response = sender.send_request(request.unwrap()).await.map_err(|e| e.to_string())?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.map_err(|e| e.to_string())?.to_bytes();
        connection.abort();
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    };
    tokio::time::timeout(Duration::from_secs(10), asked).await.map_err(|e| e.to_string())?
}
