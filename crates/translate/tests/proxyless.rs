//! A real gRPC client and server without a proxy take what we translate for them.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "golden/case.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod case;
#[path = "../../xds/tests/toy/source.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod toy;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use ironsail_api::ClusterId;
use ironsail_model::{Proxy, Scope};
use ironsail_proto::envoy::config::core::v3::Node;
use ironsail_proto::{Message, from_json};
use ironsail_sys::{env::Env, exec};
use ironsail_translate::{endpoint, grpc};
use ironsail_xds::server::Connections;
use ironsail_xds::{CDS, EDS, LDS, RDS, Resource};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};
use toy::{Server, Toy};

const HOST: &str = "httpbin.foo.svc.cluster.local";

/// `tests/proxyless/peer.py`, spoken to line by line.
struct Peer {
    _process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Peer {
    fn start(bootstrap: &Path) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/proxyless/peer.py");
        let mut process = exec::async_command(python())
            .arg(script)
            .env("GRPC_XDS_BOOTSTRAP", bootstrap)
            .env("PYTHONPATH", library())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("python3 is there, as scripts/setup sees to");
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { _process: process, input, output }
    }

    async fn ask(&mut self, request: &str) -> String {
        self.input.write_all(format!("{request}\n").as_bytes()).await.unwrap();
        let answer = tokio::time::timeout(Duration::from_secs(60), self.output.next_line()).await;
        answer.expect("the peer answers").unwrap().expect("the peer lives")
    }
}

fn python() -> PathBuf {
    Env::of_process().var("IRONSAIL_PYTHON").unwrap_or("python3").into()
}

/// Where scripts/setup puts grpcio.
fn library() -> PathBuf {
    let env = Env::of_process();
    let cache = match (env.var("IRONSAIL_CACHE"), env.var("HOME")) {
        (Some(cache), _) => PathBuf::from(cache),
        (None, home) => PathBuf::from(home.unwrap_or("/root")).join(".cache/ironsail"),
    };
    cache.join("tools/grpcio")
}

fn node() -> Value {
    json!({
        "id": "sidecar~10.0.0.1~httpbin-1.foo~foo.svc.cluster.local", "cluster": "httpbin.foo",
        "metadata": {"GENERATOR": "grpc", "NAMESPACE": "foo", "CLUSTER_ID": "Kubernetes",
            "LABELS": {"app": "httpbin"}}
    })
}

/// A service on port 9000, served on loopback at `port`.
fn service(name: &str, port: u16) -> [Value; 2] {
    [
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": name, "namespace": "foo"},
            "spec": {"clusterIP": "10.96.0.10", "selector": {"app": name},
                "ports": [{"name": "grpc", "port": 9000, "targetPort": port}]}
        }),
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": format!("{name}-x"), "namespace": "foo",
                "labels": {"kubernetes.io/service-name": name}},
            "ports": [{"name": "grpc", "port": port, "protocol": "TCP"}],
            "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": true}}]
        }),
    ]
}

/// Puts everything into `toy` that clients, and a server at `port`, may ask for.
fn serve(toy: &Toy, port: u16, objects: &[Value]) {
    let snapshot = case::snapshot(objects);
    let node: Node = from_json(&node()).unwrap();
    let proxy = Proxy::parse(&node, &ClusterId::from("Kubernetes")).unwrap();
    let class = snapshot.class_of(&proxy);
    let scope = Scope::of(&snapshot, &class);
    let resource = |name: &str, bytes: Vec<u8>| Resource::new(name, bytes);

    let server = format!("{}127.0.0.1:{port}", grpc::SERVER_PREFIX);
    for name in [format!("{HOST}:9000"), "httpbin:9000".into(), server] {
        let view = grpc::listener_view(&snapshot, &scope, &class, &name).unwrap();
        let listener = grpc::translate_listener(&view).value;
        toy.put(LDS, [resource(&name, listener.encode_to_vec())]);
    }
    for service in &scope.services {
        let name = format!("outbound|9000||{}", service.hostname());
        let view = grpc::route_view(&snapshot, &scope, &class, &name).unwrap();
        toy.put(RDS, [resource(&name, grpc::translate_route(&view).value.encode_to_vec())]);
        let view = grpc::cluster_view(&snapshot, &scope, &class, &name).unwrap();
        toy.put(CDS, [resource(&name, grpc::translate_cluster(&view).value.encode_to_vec())]);
        let view = endpoint::view(&snapshot, &scope, &class, &name.parse().unwrap()).unwrap();
        toy.put(EDS, [resource(&name, endpoint::translate(&view).value.encode_to_vec())]);
    }
}

fn bootstrap(server: &Server) -> Value {
    json!({
        "xds_servers": [{"server_uri": server.address.to_string(),
            "channel_creds": [{"type": "insecure"}], "server_features": ["xds_v3"]}],
        "node": node(),
        "server_listener_resource_name_template": "xds.istio.io/grpc/lds/inbound/%s",
    })
}

async fn started() -> (Toy, Server, Peer, tempfile::TempDir) {
    let toy = Toy::new();
    let server = Server::start(&toy, Connections::default()).await;
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("bootstrap.json");
    std::fs::write(&file, bootstrap(&server).to_string()).unwrap();
    let peer = Peer::start(&file);
    (toy, server, peer, files)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_calls_by_the_name_of_a_service() {
    let (toy, _server, mut peer, _files) = started().await;
    let port: u16 = peer.ask("serve plain").await.parse().unwrap();
    serve(&toy, port, &service("httpbin", port));
    for name in [HOST, "httpbin"] {
        assert_eq!(peer.ask(&format!("call xds:///{name}:9000")).await, "echo hello");
    }
    // It follows the endpoints.
    let other: u16 = peer.ask("serve plain").await.parse().unwrap();
    toy.clear();
    serve(&toy, other, &service("httpbin", other));
    toy.accepted(EDS, 1).await;
    assert_eq!(peer.ask("stop first").await, "stopped");
    assert_eq!(peer.ask(&format!("call xds:///{HOST}:9000")).await, "echo hello");
    assert!(
        toy.log().iter().all(|l| !matches!(l, toy::Logged::Rejected { .. })),
        "{:?}",
        toy.log()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_follows_a_virtual_service() {
    let (toy, _server, mut peer, _files) = started().await;
    let port: u16 = peer.ask("serve plain").await.parse().unwrap();
    let mut objects = service("httpbin", port).to_vec();
    objects.extend(service("other", port));
    objects.push(json!({
        "apiVersion": "networking.istio.io/v1", "kind": "VirtualService",
        "metadata": {"name": "httpbin", "namespace": "foo"},
        "spec": {"hosts": ["httpbin"], "http": [
            {"name": "far", "match": [{"headers": {"far": {"exact": "yes"}}}],
                "fault": {"abort": {"httpStatus": 403, "percentage": {"value": 100}}},
                "route": [{"destination": {"host": "httpbin"}}]},
            {"name": "near", "timeout": "20s", "retries": {"attempts": 2, "retryOn": "unavailable"},
                "route": [{"destination": {"host": "other"}, "weight": 50},
                    {"destination": {"host": "httpbin"}, "weight": 50}]}
        ]}
    }));
    serve(&toy, port, &objects);
    for _ in 0..4 {
        assert_eq!(peer.ask(&format!("call xds:///{HOST}:9000")).await, "echo hello");
    }
    let refused = peer.ask(&format!("call xds:///{HOST}:9000 far=yes")).await;
    assert!(refused.contains("PERMISSION_DENIED"), "{refused}");
    assert!(
        toy.log().iter().all(|l| !matches!(l, toy::Logged::Rejected { .. })),
        "{:?}",
        toy.log()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_takes_its_listener() {
    let (toy, _server, mut peer, _files) = started().await;
    let port: u16 = peer.ask("reserve").await.parse().unwrap();
    serve(&toy, port, &service("httpbin", port));
    assert_eq!(peer.ask(&format!("serve xds {port}")).await, port.to_string());
    assert_eq!(peer.ask(&format!("call 127.0.0.1:{port}")).await, "echo hello");
    assert!(
        toy.log().iter().all(|l| !matches!(l, toy::Logged::Rejected { .. })),
        "{:?}",
        toy.log()
    );
}

fn policy(name: &str, action: &str, rules: &Value) -> Value {
    json!({"apiVersion": "security.istio.io/v1", "kind": "AuthorizationPolicy",
        "metadata": {"name": name, "namespace": "foo"}, "spec": {"action": action, "rules": rules}})
}

/// What a server says under some policies to a call with `key=good`, and to one with `key=bad`.
async fn under(policies: &[Value]) -> [bool; 2] {
    let (toy, _server, mut peer, _files) = started().await;
    let port: u16 = peer.ask("reserve").await.parse().unwrap();
    let mut objects = service("httpbin", port).to_vec();
    objects.extend_from_slice(policies);
    serve(&toy, port, &objects);
    assert_eq!(peer.ask(&format!("serve xds {port}")).await, port.to_string());
    let mut answers = [false; 2];
    for (answer, key) in answers.iter_mut().zip(["good", "bad"]) {
        let said = peer.ask(&format!("call 127.0.0.1:{port} key={key}")).await;
        assert!(said == "echo hello" || said.contains("PERMISSION_DENIED"), "{said}");
        *answer = said == "echo hello";
    }
    let log = toy.log();
    assert!(log.iter().all(|l| !matches!(l, toy::Logged::Rejected { .. })), "{log:?}");
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_obeys_policies() {
    let key =
        |values: &[&str]| json!([{"when": [{"key": "request.headers[key]", "values": values}]}]);
    let path = json!([{"to": [{"operation": {"paths": ["/test.Echo/*"]}}]}]);
    assert_eq!(under(&[policy("a", "ALLOW", &key(&["good"]))]).await, [true, false]);
    assert_eq!(under(&[policy("a", "DENY", &key(&["bad"]))]).await, [true, false]);
    let both = [policy("a", "ALLOW", &path), policy("b", "DENY", &key(&["good"]))];
    assert_eq!(under(&both).await, [false, true]);
    // Nobody has proved an identity here, and no rule fits nobody.
    let account = json!([{"from": [{"source": {"principals": ["*"]}}]}]);
    assert_eq!(under(&[policy("a", "ALLOW", &account)]).await, [false, false]);
    assert_eq!(under(&[policy("a", "ALLOW", &json!([]))]).await, [false, false]);
    // What gRPC does not know closes the server.
    let claims = json!([{"when": [{"key": "request.auth.claims[a]", "values": ["b"]}]}]);
    let template = json!([{"to": [{"operation": {"paths": ["/test.Echo/{*}"]}}]}]);
    for rules in [claims, template] {
        assert_eq!(under(&[policy("a", "DENY", &rules)]).await, [false, false], "{rules}");
    }
}
